"""Records made alike: syntactic releases. Never an epsilon."""
