"""Pairs of a class that are near in space and time and were not used before, with what each pair would cost.

Near is by the mean place and time of each active epoch, cells and steps alike; the cost of a pair is exact:
what the carrier's record costs with the carried in it, given whom it holds already.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numba import njit
from scipy.spatial import KDTree

from shoal.anonymise.epochs import EpochSamples, added_costs, features

NEIGHBOURS, KEPT, ENOUGH, MOST = 32, 8, 4, 512
FEW = 64  # members up to which all pairs are looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class Edges:
    """Pairs by position in the class, each once, and their costs."""

    carrier: np.ndarray = field(repr=False)
    carried: np.ndarray = field(repr=False)
    weight: np.ndarray = field(repr=False)

    def among(self, rank: np.ndarray) -> Edges:
        """The edges between those with a rank, numbered by it."""
        carrier, carried = rank[self.carrier], rank[self.carried]
        both = (carrier >= 0) & (carried >= 0)
        return Edges(carrier=carrier[both], carried=carried[both], weight=self.weight[both])


@dataclass(frozen=True, kw_only=True, eq=False)
class NearPairs:
    """A class: members, their active epochs, whom each carried before, whom its record holds already."""

    samples: EpochSamples = field(repr=False)
    members: np.ndarray = field(repr=False)
    epochs: np.ndarray
    used: np.ndarray = field(repr=False)  # int32 [users, ...], -1 for nobody
    group: np.ndarray = field(repr=False)  # int64 [members, epochs, ...], itself first, -1 ends
    cost: tuple[float, float, bool, int]
    again: tuple[np.ndarray, np.ndarray] | None = None  # pairs (carrier, carried) that may go on, by position

    def edges(self) -> Edges:
        """Near pairs in both directions: or people who are nobody's neighbour would stay alone."""
        size = len(self.members)
        if size <= FEW:
            carrier, carried = (each.ravel() for each in np.divmod(np.arange(size * size), size))
            fresh = self.allowed(carried, carrier)
            carrier, carried = carrier[fresh], carried[fresh]
        else:
            kept = self._search()
            room = 2 * kept.size
            carrier, carried = np.empty(room, np.int64), np.empty(room, np.int64)
            count = _both_ways(self.members, self.used, kept, carrier, carried)
            carrier, carried = carrier[:count], carried[:count]
        if self.again is not None:
            carrier, carried = (
                np.concatenate(each) for each in zip((carrier, carried), self.again, strict=True)
            )
        return Edges(carrier=carrier, carried=carried, weight=self.costs(carried, carrier))

    def costs(self, carried: np.ndarray, carrier: np.ndarray) -> np.ndarray:
        """What the carrier's record costs with the carried in it; with itself: what it costs now."""
        held, out = self.samples, np.empty(len(carried))
        where = (held.t, held.x, held.y, held.first, self.epochs, self.members, self.group)
        added_costs(*where, carried, carrier, int(held.most[self.epochs].max()), self.cost, out)
        return out

    def alone(self, price: float) -> np.ndarray:
        """The price of switching the newest epoch off: so much per sample lost, and what the record costs."""
        newest, everyone = int(self.epochs[-1]), np.arange(len(self.members))
        lost = self.samples.first[newest, self.members + 1] - self.samples.first[newest, self.members]
        return price * lost + self.costs(everyone, everyone)

    def recurring(self, carried: np.ndarray, carrier: np.ndarray) -> int:
        """How many of these pairs were used before, those that just go on left out."""
        size = len(self.members)
        used = ~self.allowed(carried, carrier)
        if self.again is not None:
            used &= ~np.isin(carrier * size + carried, self.again[0] * size + self.again[1])
        return int(used.sum())

    def allowed(self, carried: np.ndarray, carrier: np.ndarray) -> np.ndarray:
        """Whether these pairs are new, and not a pair with itself."""
        fresh = np.empty(len(carried), np.bool_)
        _fresh(self.members, self.used, carried, carrier, fresh)
        return fresh & (carried != carrier)

    def among(self, stay: np.ndarray) -> NearPairs:
        """The same class without those who left."""
        return replace(self, members=self.members[stay], group=self.group[stay], again=None)

    def nearest(self, one: int, count: int) -> np.ndarray:
        """The `count` members nearest to one."""
        apart = ((self._places - self._places[one]) ** 2).sum(axis=1)
        return np.argpartition(apart, count)[:count]

    @cached_property
    def _places(self) -> np.ndarray:
        """float64 [members, 3 per epoch]: mean place and time of each active epoch."""
        held, place = self.samples, np.empty((len(self.members), 3 * len(self.epochs)))
        features(held.t, held.x, held.y, held.first, self.epochs, self.members, place)
        return place

    def _search(self) -> np.ndarray:
        """int64 [members, KEPT]: near ones that a member never carried, looking further where few are new."""
        size, asked = len(self.members), NEIGHBOURS
        place = self._places
        tree = KDTree(place, balanced_tree=False)
        kept = np.full((size, KEPT), -1, np.int64)
        who = np.arange(size)
        while len(who):
            near = tree.query(place[who], k=min(asked + 1, size))[1]
            found = _first_fresh(self.members, self.used, who, near, kept)
            if asked >= min(MOST, size):
                break
            who, asked = who[found < ENOUGH], asked * 4
        return kept


@njit(cache=True, nogil=True)
def _first_fresh(members, used, who, near, kept):
    """Of each one's neighbours, nearest first, those it never carried, not itself; returns how many."""
    stamp = np.zeros(used.shape[0], np.int64)
    count = np.zeros(len(who), np.int64)
    for row in range(len(who)):
        me, mark = members[who[row]], row + 1
        stamp[me] = mark
        for each in used[me]:
            if each >= 0:
                stamp[each] = mark
        for other in near[row]:
            if count[row] == kept.shape[1]:
                break
            if stamp[members[other]] != mark:
                kept[who[row], count[row]] = other
                count[row] += 1
    return count


@njit(cache=True, nogil=True)
def _both_ways(members, used, kept, carrier, carried):
    """Each kept pair with both as the carrier, where new, each once; returns their number."""
    size, count = len(members), 0
    start = np.zeros(size + 1, np.int64)
    for row in range(size):
        for other in kept[row]:
            if other >= 0:
                start[other + 1] += 1
    start = np.cumsum(start)
    fill, backward = start[:-1].copy(), np.empty(start[-1], np.int64)
    for row in range(size):
        for other in kept[row]:
            if other >= 0:
                backward[fill[other]] = row
                fill[other] += 1
    stamp = np.zeros(used.shape[0], np.int64)
    for me in range(size):
        mark = me + 1
        for other in kept[me]:
            if other >= 0:
                carrier[count], carried[count] = me, other
                stamp[members[other]] = mark
                count += 1
        if start[me] == start[me + 1]:
            continue
        for each in used[members[me]]:
            if each >= 0:
                stamp[each] = mark
        for other in backward[start[me] : start[me + 1]]:
            if stamp[members[other]] != mark:
                carrier[count], carried[count] = me, other
                count += 1
    return count


@njit(cache=True, nogil=True)
def _fresh(members, used, carried, carrier, out):
    """Whether the carrier never carried the carried."""
    order = np.argsort(carrier)
    stamp = np.zeros(used.shape[0], np.int64)
    mark, now = 0, -1
    for place in order:
        if carrier[place] != now:
            now = carrier[place]
            mark += 1
            for each in used[members[now]]:
                if each >= 0:
                    stamp[each] = mark
        out[place] = stamp[members[carried[place]]] != mark
