"""Share of people that a few of their own points single out, at a resolution of space and time.

A point is a (place, slot) a person visited. An adversary knows p of a person's points, drawn at random; the
person is unique if nobody else has all of them. Source: de Montjoye et al. 2013, "Unique in the crowd";
survey, section 1.1.1. People with fewer than p points are left out of the share for p.

The rarest of the p points has a short list of visitors, and only they are looked at, until a second match: an
inverted index, so 100,000 people take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError


@dataclass(frozen=True, kw_only=True)
class Unicity:
    """How many people p points make unique; `people` have at least p points."""

    points: int
    people: int
    unique: int

    @property
    def share(self) -> float | None:
        return self.unique / self.people if self.people else None


def coarser(
    visits: KnownVisits, *, place_group: np.ndarray | None = None, slots_merged: int = 1
) -> KnownVisits:
    """The same visits at a lower resolution: places by group, and several slots taken as one.

    >>> one = KnownVisits.of([0, 0], [0, 1], [3, 4], users=1, slots=2, places=5)
    >>> len(coarser(one, place_group=np.array([0, 0, 0, 1, 1]), slots_merged=2).user)
    1
    """
    if slots_merged < 1:
        raise PlanError("unicity-slots", f"slots merged must be 1 or more; got {slots_merged}.")
    groups = np.arange(visits.places) if place_group is None else np.asarray(place_group)
    if groups.shape != (visits.places,):
        raise PlanError("unicity-places", "each place needs a group.")
    return KnownVisits.of(
        visits.user,
        visits.slot // slots_merged,
        groups[visits.place],
        users=visits.users,
        slots=-(-visits.slots // slots_merged),
        places=int(groups.max(initial=0)) + 1,
    )


def square_groups(xy_m: np.ndarray, side_m: float) -> np.ndarray:
    """int64 [places]: places whose middles lie in the same square of side_m metres, numbered from 0."""
    if not side_m > 0:
        raise PlanError("unicity-side", f"the side of squares must be above 0 metres; got {side_m}.")
    square = np.floor((xy_m - xy_m.min(axis=0)) / side_m).astype(np.int64)
    _, group = np.unique(square, axis=0, return_inverse=True)
    return group.ravel()


def unicity(visits: KnownVisits, points: tuple[int, ...] = (1, 2, 3, 4), *, seed: int = 0) -> list[Unicity]:
    """For each p of `points`; draws are nested, so that a share never falls because of the draw."""
    if not points or min(points) < 1:
        raise PlanError("unicity-points", "the number of points must be 1 or more.", "Pass --points 1,2,3,4.")
    cell = visits.slot.astype(np.int64) * visits.places + visits.place  # ascending within a user
    start = np.searchsorted(visits.user, np.arange(visits.users + 1))
    by_cell = np.argsort(cell, kind="stable")
    _, number = np.unique(cell, return_inverse=True)
    number = number.ravel()
    visitor = visits.user[by_cell]
    cell_start = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=1))])
    keys = np.random.default_rng(seed).random(len(cell))
    shuffled = number[np.lexsort((keys, visits.user))]  # each user's points in random order
    results = []
    for p in points:
        enough = np.flatnonzero(np.diff(start) >= p)
        unique = _unique(enough, p, shuffled, start, number, visitor, cell_start)
        results.append(Unicity(points=p, people=len(enough), unique=int(unique.sum())))
    return results


@njit(cache=True)
def _unique(people, p, shuffled, start, number, visitor, cell_start):
    """Whether nobody else has the first p of a person's shuffled points."""
    unique = np.ones(len(people), np.bool_)
    for row in range(len(people)):
        me = people[row]
        known = shuffled[start[me] : start[me] + p]
        rarest = known[0]
        for cell in known:
            if cell_start[cell + 1] - cell_start[cell] < cell_start[rarest + 1] - cell_start[rarest]:
                rarest = cell
        for other in visitor[cell_start[rarest] : cell_start[rarest + 1]]:
            if other == me:
                continue
            theirs = number[start[other] : start[other + 1]]  # ascending
            every = True
            for cell in known:
                place = np.searchsorted(theirs, cell)
                if place == len(theirs) or theirs[place] != cell:
                    every = False
                    break
            if every:
                unique[row] = False
                break
    return unique
