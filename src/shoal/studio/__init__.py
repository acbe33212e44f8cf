"""The local page: a server on this machine alone, and the page it serves. Both only call the flows."""
