"""Places of each person in each slot: the ground truth of attacks, and the knowledge of adversaries.

Private and exact, held in memory: 12 bytes for each user, slot and place with a visit, however many events.
`Rows` is one slot of all users: for each user the places, in order, with a probability each, never a table of
users x places. The place after the last is `null`, not observed: every user has at least one place in every
slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from shoal.errors import PlanError


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownVisits:
    """Distinct (user, slot, place), sorted by user, then slot, then place."""

    user: np.ndarray = field(repr=False)  # int32, 0 .. users - 1
    slot: np.ndarray = field(repr=False)  # int32
    place: np.ndarray = field(repr=False)  # int32
    users: int
    slots: int
    places: int

    @classmethod
    def of(
        cls, user: np.ndarray, slot: np.ndarray, place: np.ndarray, *, users: int, slots: int, places: int
    ) -> KnownVisits:
        """Sorted and freed of repetitions; numbers out of range are refused.

        >>> KnownVisits.of([1, 0, 1], [0, 2, 0], [1, 0, 1], users=2, slots=3, places=2).user.tolist()
        [0, 1]
        """
        columns = [np.asarray(values, np.int64).ravel() for values in (user, slot, place)]
        if len({len(values) for values in columns}) != 1:
            raise PlanError("visits-shape", "users, slots and places of visits must be equally many.")
        for values, most, name in zip(
            columns, (users, slots, places), ("user", "slot", "place"), strict=True
        ):
            if values.size and (values.min() < 0 or values.max() >= most):
                raise PlanError(
                    "visits-range",
                    f"a {name} number of a visit is not in 0 to {most - 1}.",
                    "Number users, slots and places from 0, and say how many there are.",
                )
        key = np.unique((columns[0] * slots + columns[1]) * places + columns[2])
        rest, place = np.divmod(key, max(places, 1))
        user, slot = np.divmod(rest, max(slots, 1))
        return cls(
            user=user.astype(np.int32),
            slot=slot.astype(np.int32),
            place=place.astype(np.int32),
            users=users,
            slots=slots,
            places=places,
        )

    def between(self, first: int, end: int) -> KnownVisits:
        """Visits of slots first to end - 1, renumbered from 0."""
        inside = (self.slot >= first) & (self.slot < end)
        return replace(
            self,
            user=self.user[inside],
            slot=self.slot[inside] - np.int32(first),
            place=self.place[inside],
            slots=end - first,
        )

    def counts(self) -> np.ndarray:
        """int64 [places, slots]: users at a place in a slot, the raw aggregate."""
        cell = self.place.astype(np.int64) * self.slots + self.slot
        return np.bincount(cell, minlength=self.places * self.slots).reshape(self.places, self.slots)

    def per_user(self) -> np.ndarray:
        """int64 [users]: visits of each."""
        return np.bincount(self.user, minlength=self.users)


@dataclass(frozen=True, eq=False)
class Rows:
    """Sparse rows, one per user: places `roi[first[u] : first[u + 1]]` with probabilities that sum to 1."""

    first: np.ndarray  # int64 [users + 1]
    roi: np.ndarray  # int32
    share: np.ndarray  # float64


class TruthRows:
    """The ground truth slot by slot, with `null` where a user was not observed."""

    def __init__(self, visits: KnownVisits) -> None:
        order = np.argsort(visits.slot, kind="stable")  # users and places stay in order
        self.users, self.slots, self.null = visits.users, visits.slots, visits.places
        self._user, self._place = visits.user[order], visits.place[order]
        self._first = np.searchsorted(visits.slot[order], np.arange(visits.slots + 1))

    @property
    def rois(self) -> int:
        """Places and null."""
        return self.null + 1

    def rows(self, slot: int) -> Rows:
        """Equal shares of the places a user was seen at; null alone where there were none."""
        here = slice(self._first[slot], self._first[slot + 1])
        visits = np.bincount(self._user[here], minlength=self.users)
        size = np.maximum(visits, 1)
        first = np.concatenate([[0], np.cumsum(size)])
        roi = np.full(first[-1], self.null, np.int32)
        roi[np.repeat(visits > 0, size)] = self._place[here]
        return Rows(first, roi, np.repeat(1.0 / size, size))

    def counts(self, first: int, end: int) -> np.ndarray:
        """float64 [rois, slots]: users at each place, null last: the raw aggregate of the framework."""
        table = np.zeros((self.rois, end - first))
        for slot in range(first, end):
            table[:, slot - first] = np.bincount(self.rows(slot).roi, minlength=self.rois)
        return table
