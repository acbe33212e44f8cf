"""Exact counts on a public lattice: the input of a mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class ExactCounts:
    """Zone x slot counts in lattice units: a visit is `lattice` units, spread over zones by area.

    All integers, so sums do not depend on order and noise is drawn on the same lattice.
    """

    units: np.ndarray = field(repr=False)  # int64 [zones, slots]
    lattice: int  # units per visit (public)
    ell: int  # slots a user may touch (checked by the engine)
    column_l1: int  # largest L1 norm, in units, of one visit over the zones (public geometry)
    column_l2_squared: int  # the same for the squared L2 norm


@dataclass(frozen=True, kw_only=True)
class ScalableCounts:
    """Bounded counts and the two numbers that say how many visits the bound left out; private and exact."""

    counts: ExactCounts
    kept: int = field(repr=False)  # bounded visits, also those outside the zones: at most ell per user
    visits: int = field(repr=False)  # sum over users of min(all visits, cap); once per place and slot
    cap: int  # M (checked by the engine)
