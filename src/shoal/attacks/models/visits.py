"""Who was where and when: what attacks are scored against, and what an adversary may know of a person.

Private and exact, held in memory: 12 bytes for each user, slot and place with a visit, however many events.
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
