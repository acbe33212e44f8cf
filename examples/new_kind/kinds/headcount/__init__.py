"""How many users have an event in a window, published: a toy kind of release, one number."""
