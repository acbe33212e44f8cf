"""The local page: a server on this machine alone, and the page it serves; no release logic of its own."""
