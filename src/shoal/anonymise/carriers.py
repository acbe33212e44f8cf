"""The carriers of one class in one window: k - 1 permutations without fixed points, all different.

"j carries i" means that record j holds i's samples too. Every member is carried by k - 1 others and carries
k - 1 others, so that a complete second assignment of people to records exists.

Each permutation is a sparse assignment of least cost (Jonker and Volgenant, scipy) over near neighbours. A
member may stay alone at a price: in the first round of a class that may shrink it is then `left`, and its
newest epoch switched off; everywhere else it is put between two others.

A pair of members has an edge if both are near in space and time and were not used before. Near is by the mean
place and time of each active epoch, cells and steps alike; the cost of a pair is exact: what the carrier's
record costs with the carried in it, given whom it holds already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import KDTree

from shoal.anonymise.kmerge import EpochSamples, added_costs, features

AROUND = (64, 512)  # neighbours among whom a place is looked for before looking everywhere


@dataclass(frozen=True, kw_only=True, eq=False)
class Carried:
    """Members that stay and whom each carries: carries[row, round] is a position in `members`."""

    members: np.ndarray
    carries: np.ndarray  # int64 [members, k - 1]
    left: np.ndarray  # positions in the members given: whose newest epoch is to be switched off
    reused: int  # pairs that were used in an earlier window


def choose_carriers(near: NearPairs, *, k: int, alone: np.ndarray | None) -> Carried:
    """Permutations for a class of k members or more; `alone` is the price of staying alone, None: nobody may.

    Where fewer than k stay, none stays.
    """
    edges, size = near.edges(), len(near.members)
    taken = np.empty((0, size), np.int64)  # taken[round, i]: the carrier of i
    left = np.empty(0, np.int64)
    if alone is not None:
        carrier = _assign(edges, size, alone, taken)
        left = np.flatnonzero(carrier == np.arange(size))
        if size - len(left) < k:
            nobody = np.empty((0, k - 1), np.int64)
            return Carried(members=near.members[:0], carries=nobody, left=np.arange(size), reused=0)
        if len(left):
            stay = np.flatnonzero(carrier != np.arange(size))
            rank = np.full(size, -1, np.int64)
            rank[stay] = np.arange(len(stay))
            near, edges, carrier, size = near.among(stay), edges.among(rank), rank[carrier[stay]], len(stay)
        taken = carrier[None, :]
    while len(taken) < k - 1:
        carrier = _insert_all(near, edges, _assign(edges, size, None, taken), taken)
        if carrier is None:
            taken = _shifts(size, k)
            break
        taken = np.vstack([taken, carrier[None, :]])
    carries = np.empty((size, k - 1), np.int64)
    for each in range(k - 1):
        carries[taken[each], each] = np.arange(size)
    carried = np.tile(np.arange(size), len(taken))
    reused = near.recurring(carried, taken.ravel())
    return Carried(members=near.members, carries=carries, left=left, reused=reused)


def _assign(edges: Edges, size: int, alone: np.ndarray | None, taken: np.ndarray) -> np.ndarray:
    """The carrier of each; oneself where no pair was worth the price of staying alone."""
    carrier, carried, weight = edges.carrier, edges.carried, edges.weight
    if len(taken):
        free = (taken[:, carried] != carrier).all(axis=0)
        carrier, carried, weight = carrier[free], carried[free], weight[free]
    if alone is None:  # only where nothing else fits
        alone = np.full(size, float(weight.max(initial=1.0)) * 4 + 1)
    # Multiples of 1/64 add up without rounding; on other fractions the assignment may never end.
    weight, alone = np.rint(weight * 64) / 64, np.rint(alone * 64) / 64
    everyone = np.arange(size)
    columns, rows = np.concatenate([carrier, everyone]), np.concatenate([carried, everyone])
    graph = csr_matrix((np.concatenate([weight, alone]), (rows, columns)), shape=(size, size))
    return min_weight_full_bipartite_matching(graph)[1].astype(np.int64)


def _insert_all(near: NearPairs, edges: Edges, carrier: np.ndarray, taken: np.ndarray) -> np.ndarray | None:
    """Those who stayed alone are put between two others, a -> z -> b, where it costs least: beside near ones
    first, beside anyone else.

    None where there is no place for one of them without using a pair twice.
    """
    carrier = carrier.copy()
    everyone = np.arange(len(carrier))
    beside_of = _beside(near, edges)
    for z in np.flatnonzero(carrier == everyone).tolist():
        if carrier[z] != z:
            continue  # paired with one before
        carried_by = np.empty(len(carrier), np.int64)
        carried_by[carrier] = everyone
        places = beside_of(z, carried_by)
        slots = next((at for at in (_between(near, carrier, taken, z, b) for b in places) if at), None)
        if slots is not None:
            a, b = slots
            carrier[z], carrier[b] = a, z
            continue
        others = [o for o in np.flatnonzero(carrier == everyone).tolist() if o != z]
        others = [o for o in others if _may_swap(near, taken, z, o)]
        if not others:
            return None
        carrier[z], carrier[others[0]] = others[0], z
    return carrier


def _beside(near: NearPairs, edges: Edges) -> Callable[[int, np.ndarray], Iterator[np.ndarray]]:
    """Where to look for a place for z: at its near pairs, then at more of those around, then anywhere."""
    orders = [(ends, np.argsort(ends, kind="stable")) for ends in (edges.carrier, edges.carried)]

    def places(z: int, carried_by: np.ndarray) -> Iterator[np.ndarray]:
        out, back = (order[slice(*np.searchsorted(ends, (z, z + 1), sorter=order))] for ends, order in orders)
        yield np.unique(np.concatenate([edges.carried[out], carried_by[edges.carrier[back]]]))
        for many in AROUND:
            if many < len(carried_by):
                yield near.nearest(z, many)
        yield np.arange(len(carried_by))

    return places


def _between(near: NearPairs, carrier, taken, z: int, beside: np.ndarray) -> tuple[int, int] | None:
    """The cheapest b of `beside`, and its carrier a, that z may stand between."""
    b = beside[carrier[beside] != beside]
    a, same = carrier[b], np.full(len(b), z)
    fits = near.allowed(same, a) & near.allowed(b, same)
    for earlier in taken:
        fits &= (earlier[z] != a) & (earlier[b] != z)
    a, b, same = a[fits], b[fits], same[fits]
    if not len(b):
        return None
    more = near.costs(same, a) + near.costs(b, same) - near.costs(b, a)
    best = int(np.argmin(more))
    return int(a[best]), int(b[best])


def _may_swap(near: NearPairs, taken: np.ndarray, one: int, other: int) -> bool:
    pair = np.array([one, other])
    fresh = near.allowed(pair, pair[::-1]).all()
    return bool(fresh and all(earlier[one] != other and earlier[other] != one for earlier in taken))


def _shifts(size: int, k: int) -> np.ndarray:
    """The last resort, there for any k members: the next one carries, then the one after; pairs recur."""
    return (np.arange(size)[None, :] + np.arange(1, k)[:, None]) % size


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
    longer: int  # steps by which every box counts longer than it is
    again: tuple[np.ndarray, np.ndarray] | None = None  # pairs (carrier, carried) that may go on, by position

    def edges(self) -> Edges:
        """Near pairs in both directions: or people who are nobody's neighbour would stay alone."""
        size = len(self.members)
        if size <= FEW:
            carrier, carried = np.divmod(np.arange(size * size), size)
        else:
            candidates = self._search()
            one, other = np.nonzero(candidates >= 0)[0], candidates[candidates >= 0]
            carrier, carried = np.divmod(np.unique(np.append(one * size + other, other * size + one)), size)
        fresh = self.allowed(carried, carrier)
        carrier, carried = carrier[fresh], carried[fresh]
        if self.again is not None:
            carrier, carried = (
                np.concatenate(each) for each in zip((carrier, carried), self.again, strict=True)
            )
        return Edges(carrier=carrier, carried=carried, weight=self.costs(carried, carrier))

    def costs(self, carried: np.ndarray, carrier: np.ndarray) -> np.ndarray:
        """What the carrier's record costs with the carried in it; with itself: what it costs now."""
        samples, out = self.samples, np.empty(len(carried))
        where = (samples.t, samples.x, samples.y, samples.first, self.epochs, self.members, self.group)
        added_costs(*where, carried, carrier, int(samples.most[self.epochs].max()), self.longer, out)
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
        samples, place = self.samples, np.empty((len(self.members), 3 * len(self.epochs)))
        features(samples.t, samples.x, samples.y, samples.first, self.epochs, self.members, place)
        return place

    def _search(self) -> np.ndarray:
        """int64 [members, KEPT]: near ones that a member never carried, looking further where few are new."""
        size, queried = len(self.members), NEIGHBOURS
        place = self._places
        tree = KDTree(place, balanced_tree=False)
        candidates = np.full((size, KEPT), -1, np.int64)
        who = np.arange(size)
        while len(who):
            near = np.asarray(tree.query(place[who], k=min(queried + 1, size))[1])
            carrier = np.repeat(who, near.shape[1])
            fresh = self.allowed(near.ravel(), carrier).reshape(near.shape)
            place_of = np.cumsum(fresh, axis=1)
            row, column = np.nonzero(fresh & (place_of <= KEPT))
            candidates[who[row], place_of[row, column] - 1] = near[row, column]
            if queried >= min(MOST, size):
                break
            who, queried = who[place_of[:, -1] < ENOUGH], queried * 4
        return candidates


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
