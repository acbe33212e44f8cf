"""What leaves the house: a folder with a manifest, committed to the ledger before it can be seen."""
