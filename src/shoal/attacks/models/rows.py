"""One slot of everybody: for each user the places, in order, with a probability each. Never users x places.

The place after the last is `null`: not observed. Every user has at least one place in every slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from shoal.attacks.models.visits import KnownVisits


@dataclass(frozen=True, eq=False)
class Rows:
    """Sparse rows, one per user: places `roi[first[u] : first[u + 1]]` with probabilities that sum to 1."""

    first: np.ndarray  # int64 [users + 1]
    roi: np.ndarray  # int32
    share: np.ndarray  # float64

    @property
    def users(self) -> int:
        return len(self.first) - 1

    def dense(self, rois: int) -> np.ndarray:
        """float64 [users, rois], for small cases."""
        table = np.zeros((self.users, rois))
        table[np.repeat(np.arange(self.users), np.diff(self.first)), self.roi] = self.share
        return table


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
        return Rows(*_with_null(self._user[here], self._place[here], self.users, self.null))

    def counts(self, first: int, end: int) -> np.ndarray:
        """float64 [rois, slots]: users at each place, null last: the raw aggregate of the framework."""
        table = np.zeros((self.rois, end - first))
        for slot in range(first, end):
            table[:, slot - first] = np.bincount(self.rows(slot).roi, minlength=self.rois)
        return table


@njit(cache=True, nogil=True)
def _with_null(user, place, users, null):
    first = np.zeros(users + 1, np.int64)
    for u in user:
        first[u + 1] += 1
    for u in range(users):
        first[u + 1] = first[u] + max(first[u + 1], 1)
    roi = np.full(first[users], null, np.int32)
    share = np.empty(first[users], np.float64)
    at = first[:-1].copy()
    for i in range(user.size):
        roi[at[user[i]]] = place[i]
        at[user[i]] += 1
    for u in range(users):
        for i in range(first[u], first[u + 1]):
            share[i] = 1.0 / (first[u + 1] - first[u])
    return first, roi, share
