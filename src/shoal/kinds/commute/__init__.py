"""Synthetic events at sites, from homes, work places and commutes."""
