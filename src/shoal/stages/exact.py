"""What mechanisms of densities take: exact counts and clipped sums; all private.

ExactCounts, ScalableCounts    counts on a public lattice, and the two numbers they are scaled up by
UserSums                       users by the size of their part in each query, and sums of clipped parts
View, ClippedSum, UserVisits   sums over users clipped in a norm, where all visits count
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.sparse

from shoal.errors import GuaranteeError


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
    """Bounded counts and the numbers of sampled and of all visits; private and exact."""

    counts: ExactCounts
    sampled: int = field(repr=False)  # bounded visits, also those outside the zones: at most ell per user
    visits: int = field(repr=False)  # sum over users of min(all visits, cap); once per place and slot
    cap: int  # M (checked by the engine)


@dataclass(frozen=True, kw_only=True)
class UserSums:
    """Parts of users in queries, in lattice units; private and exact. Without a visit there, there is none.

    Class k holds the users whose part is above clip k - 1 and at most clip k, the last one all others.
    """

    sizes: np.ndarray = field(repr=False)  # int64 [queries, clips + 1]: users per class
    sums: np.ndarray = field(repr=False)  # int64 [queries, clips]: sum over users of min(part, clip)
    clips: np.ndarray = field(repr=False)  # int64 [queries, clips], public


WEIGHT = 2**12  # a user's weight is a whole number of 1 / WEIGHT
TIME_LATTICE = 2**20  # columns of a view are whole numbers of 1 / TIME_LATTICE
STEP = 2**20  # a clipped sum is rounded to whole numbers of 1 / STEP


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A linear measurement M x of users' visits x (places x slots): M = space x time, in integers.

    `clip` bounds the Euclidean norm of what one user adds, where a visit alone in its group and at a
    column of norm 1 has norm 1. A view is public, or comes from noisy answers: never from visits.
    """

    space: scipy.sparse.csr_array = field(repr=False)  # int64 [groups, places], in 1 / space_lattice
    space_lattice: int
    time: np.ndarray = field(repr=False)  # int64 [slots, columns], in 1 / TIME_LATTICE
    clip: float

    def __post_init__(self) -> None:
        space, lattice = self.space, self.space_lattice
        if (
            space.dtype != np.int64
            or self.time.dtype != np.int64
            or space.data.min(initial=0) < 0
            or np.asarray(space.sum(axis=0)).max(initial=0) > lattice
            or lattice < 1
            or lattice & (lattice - 1)
            or not 0 < self.clip < np.inf
        ):
            raise GuaranteeError(
                "view-shape",
                "a view needs whole weights, not negative, at most one visit per place, and a clip above 0.",
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Groups and columns."""
        return len(self.space.indptr) - 1, self.time.shape[1]


def on_lattice(columns: np.ndarray) -> np.ndarray:
    """Columns over slots in whole numbers of 1 / TIME_LATTICE."""
    if not np.isfinite(columns).all():
        raise GuaranteeError("view-shape", "a column of a view is not finite.")
    return np.rint(columns * TIME_LATTICE).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class ClippedSum:
    """Sum over users of their clipped measurement, rounded to steps; private and exact."""

    values: np.ndarray = field(repr=False)  # int64 [groups, columns], in 1 / STEP
    clip: float  # norm of one user's part before rounding


class UserVisits(Protocol):
    """All visits of all users, behind a query interface that returns only bounded sums."""

    @property
    def users(self) -> int:
        """Number of users with a visit: one user changes it by 1."""
        ...

    def clipped(self, *views: View) -> list[ClippedSum]:
        """One sum per view, all from the same visits."""
        ...

    def sizes(self, per_visit: np.ndarray, lattice: int) -> np.ndarray:
        """Users by half-octaves of the number of their visits, int64 [SIZE_BINS]: every user in one bin.

        A visit at a place counts `per_visit` of 1 / lattice, a user for at least 1 and at most MOST_VISITS.
        """
        ...
