"""Bounded visits: sums over users, each user in at most `ell` slots and at most once per slot."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class BoundedVisits:
    """Output of an engine: integer sums over users of bounded vectors; private and exact.

    Only an engine makes one, after it has checked the bound on the kernel's own output.
    """

    counts: np.ndarray = field(repr=False)  # int64 [sites, slots], at most ell visits per user
    one_visit: np.ndarray = field(repr=False)  # int64 [sites], one uniformly chosen visit per user
    users: int = field(repr=False)
    visits_capped: int = field(repr=False)  # sum over users of min(all visits, cap); once per site and slot
    ell: int
    cap: int


@dataclass(frozen=True)
class ExactDensity:
    """Visits per site and slot with no cap per user: for the owner alone, never released."""

    counts: np.ndarray = field(repr=False)  # int64 [sites, slots], once per user, site and slot
    users: int = field(repr=False, default=0)
