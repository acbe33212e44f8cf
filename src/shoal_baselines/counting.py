"""Bounded visits to counts of cover cells: the input of the scheme of Acs and Castelluccia 2014."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.errors import GuaranteeError
from shoal.stages.bounded import BoundedVisits
from shoal_baselines.space.cover import Cover


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


def cover_counts(bounded: BoundedVisits, cover: Cover) -> CoverCounts:
    """Site counts put together by cover cell; one visits outside every cell have a bin of their own."""
    units = cover.spread(bounded.counts)
    one_visit = cover.spread(bounded.one_visit[:, None])[:, 0]
    return CoverCounts(
        units=units,
        one_visit=one_visit,
        outside=_outside(bounded.one_visit, one_visit, cover),
        units_outside=_outside(bounded.counts, units, cover),
        visits=bounded.visits_capped,
        lattice=cover.lattice,
        ell=bounded.ell,
        cap=bounded.cap,
    )


def _outside(visits: np.ndarray, units: np.ndarray, cover: Cover) -> int:
    """Units of visits that are in no cell: of sites, or parts of sites, outside the zones."""
    whole, inside = int(visits.sum()) * cover.lattice, int(units.sum(dtype=np.float64))
    if whole >= 2**62 or inside >= 2**62:
        raise GuaranteeError("cover-overflow", "the counts are too large for 64-bit integer sums.")
    return whole - int(units.sum())


def _cover(mechanism: Any, counting: Any, bounds: tuple[int, int]) -> CoverCounts:
    return cover_counts(counting.bounded(*bounds), mechanism.cover)


STAGES = {"cover": _cover}  # what a release counts for a mechanism that takes a stage
