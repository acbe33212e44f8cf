"""Whole runs of the adversaries, from the owner's data to figures."""
