"""Exact counts of cover cells: the input of the scheme of Acs and Castelluccia 2014."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class CoverCounts:
    """Bounded visits per cover cell, in lattice units, and the sums the totals come from; private and exact.

    Every fragment of a place's cell belongs to exactly one cover cell, so one visit moves `units` by at most
    `lattice` in L1. The one-visit histogram with its bin `outside` holds `lattice` units per user.
    """

    units: np.ndarray = field(repr=False)  # int64 [cells, slots], at most ell visits per user
    one_visit: np.ndarray = field(repr=False)  # int64 [cells], one uniformly chosen visit per user
    outside: int = field(repr=False, default=0)  # units of the one visits that fall in no cell
    units_outside: int = field(repr=False, default=0)  # the same of the bounded visits, all slots together
    visits: int = field(repr=False)  # sum over users of min(visits, cap)
    lattice: int
    ell: int
    cap: int
