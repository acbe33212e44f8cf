"""Records generalised until k people look alike."""
