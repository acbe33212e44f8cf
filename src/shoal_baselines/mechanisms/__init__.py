"""Published mechanisms with sound accounting."""
