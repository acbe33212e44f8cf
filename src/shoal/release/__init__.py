"""Releases: folders with a manifest, committed to the ledger before they become visible."""
