"""What the adversary knows of each user before the counts: the eight priors of Pyrgelis et al. 2017, table 2.

freq_roi        how often a user is at each place, over the observed time
roi_day         the same for each slot of a day; roi_day_week: of a week
time_day        in which slots of a day a user is seen, not where; time_day_week: of a week
last_hour       where the user was an hour, a day, a week before: a sliding window, up to just before the slot
last_day
last_week
"Not observed" is a place, `null`: how often a user is not seen is part of what is known. Where a time prior
says that a user is not seen, the user is at null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shoal.attacks.models.rows import Rows, TruthRows
from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError

PROBABILISTIC = ("freq_roi", "roi_day", "roi_day_week", "time_day", "time_day_week")
ASSIGNMENT = ("last_hour", "last_day", "last_week")
PRIORS = (*PROBABILISTIC, *ASSIGNMENT)


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Slots 0 to split - 1 were observed, split to slots - 1 are inferred; seasons begin with slot 0."""

    slots: int
    split: int
    slots_per_day: int

    def __post_init__(self) -> None:
        if self.slots_per_day < 1:
            raise PlanError(
                "attack-season",
                "slots must divide a day.",
                "Use 60, 30, 20, 15 or 10 minutes, or whole hours.",
            )
        if not 0 < self.split < self.slots:
            raise PlanError(
                "attack-periods",
                f"the observed time has {self.split} slots and the inferred {self.slots - self.split}; "
                "both need at least one.",
                "Move --split into the window, or take a longer window.",
            )

    @property
    def inferred(self) -> int:
        return self.slots - self.split


class Prior(Protocol):
    """Rows of an inferred slot; slots with the same `key` have the same rows."""

    name: str

    def key(self, slot: int) -> int: ...

    def rows(self, slot: int) -> Rows: ...


def prior_named(name: str, visits: KnownVisits, periods: Periods) -> Prior:
    """The prior of that name, from the observed time (assignment priors: up to the slot itself)."""
    if name not in PRIORS:
        raise PlanError("attack-prior", f"there is no prior {name!r}.", f"Choose from {', '.join(PRIORS)}.")
    day = periods.slots_per_day
    cycle = {"hour": max(day // 24, 1), "day": day, "week": 7 * day}.get(name.split("_")[-1], 1)
    if periods.split < cycle:
        raise PlanError(
            "attack-observed",
            f"{name} needs {cycle} observed slots; there are {periods.split}.",
            "Observe longer, or leave this prior out with --prior.",
        )
    if name in ASSIGNMENT:
        return LastSeason(name, TruthRows(visits), periods, cycle)
    seen = visits.between(0, periods.split)
    if name.startswith("time"):
        return TimeSeason(name, seen, periods, cycle)
    return PlaceSeason(name, seen, periods, cycle)


class PlaceSeason:
    """How often each user is at each place, null included, in each slot of the cycle (eqs. 7 to 9)."""

    def __init__(self, name: str, seen: KnownVisits, periods: Periods, cycle: int) -> None:
        self.name, self._cycle, self._split = name, cycle, periods.split
        self._users, self._null = seen.users, seen.places
        season = seen.slot.astype(np.int64) % cycle
        rois = seen.places + 1
        cells, times = np.unique((season * seen.users + seen.user) * rois + seen.place, return_counts=True)
        active = np.unique((season * seen.users + seen.user) * seen.slots + seen.slot) // seen.slots
        observed = np.bincount(np.arange(periods.split) % cycle, minlength=cycle)
        away = np.repeat(observed, seen.users) - np.bincount(active, minlength=cycle * seen.users)
        unseen = np.flatnonzero(away)
        cells = np.concatenate([cells, unseen * rois + seen.places])
        times = np.concatenate([times, away[unseen]])
        order = np.argsort(cells)
        row, self._roi = np.divmod(cells[order], rois)
        self._times = times[order].astype(np.float64)
        self._first = np.searchsorted(row, np.arange(cycle * seen.users + 1))

    def key(self, slot: int) -> int:
        return (self._split + slot) % self._cycle

    def rows(self, slot: int) -> Rows:
        at = self.key(slot) * self._users
        first = self._first[at : at + self._users + 1]
        here = slice(first[0], first[-1])
        total = np.add.reduceat(self._times[here], first[:-1] - first[0])
        share = self._times[here] / np.repeat(total, np.diff(first))
        return Rows(first - first[0], self._roi[here].astype(np.int32), share)


class TimeSeason:
    """Any place, null included, alike in the slots of the cycle in which a user is seen (eqs. 10 and 11)."""

    def __init__(self, name: str, seen: KnownVisits, periods: Periods, cycle: int) -> None:
        self.name, self._cycle, self._split = name, cycle, periods.split
        self._rois = seen.places + 1
        self._active = np.zeros((cycle, seen.users), bool)
        self._active[seen.slot % cycle, seen.user] = True

    def key(self, slot: int) -> int:
        return (self._split + slot) % self._cycle

    def rows(self, slot: int) -> Rows:
        active = self._active[self.key(slot)]
        count = np.where(active, self._rois, 1)
        first = np.concatenate([[0], np.cumsum(count)])
        roi = np.arange(first[-1]) - np.repeat(first[:-1], count)
        roi[first[:-1][~active]] = self._rois - 1
        return Rows(first, roi.astype(np.int32), np.repeat(1.0 / count, count))


class LastSeason:
    """Where the user was a cycle before (eq. 14)."""

    def __init__(self, name: str, truth: TruthRows, periods: Periods, cycle: int) -> None:
        self.name, self._truth, self._offset = name, truth, periods.split - cycle

    def key(self, slot: int) -> int:
        return slot

    def rows(self, slot: int) -> Rows:
        return self._truth.rows(self._offset + slot)
