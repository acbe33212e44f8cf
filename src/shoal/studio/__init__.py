"""The local page: a server on this machine alone, and the page it serves. It calls the flows; no logic is here."""
