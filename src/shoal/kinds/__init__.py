"""Kinds of release: one folder per kind, and what all of them share."""

from shoal.kinds.kind import KINDS, Kind

__all__ = ["KINDS", "Kind"]
