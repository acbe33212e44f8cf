"""Kinds of release: one folder per kind, and what all of them share."""
