"""Sums of all visits of a user, each user clipped in the norm of what is measured.

A view M turns a user's visits x into groups x columns. The kernel gives each user the weight
  floor(WEIGHT min(1, clip / |M x|)) / WEIGHT
and sums integer-weighted visits per place and slot; the driver applies M to the sum, exactly, and rounds
once. So one user adds a vector of norm at most `clip` before rounding.
  |M x|^2 = sum over pairs of visits of G[place, place'] Q[slot, slot'],  G = A'A, Q = B B'.
It is computed in floating point and raised by a bound on the error: products of the Gram matrices are
below sqrt(G_ii Q_ii G_jj Q_jj) in size (Cauchy and Schwarz), so with n visits and q columns the error is
below (n^2 + q + 16) 2^-52 (sum_i sqrt(G_ii Q_ii))^2.
On the output it is checked that a user's rows are together, and the bound of every sixteenth user by another
way: the measured vector itself, without a Gram.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import scipy.sparse
from numba import njit, uint64

from shoal.engine.buckets import by_user, hash3, split_key
from shoal.engine.engine import Engine, Progress, Sums
from shoal.engine.visits import find_visits
from shoal.errors import GuaranteeError
from shoal.space.setting import MOST_VISITS, SIZE_BINS
from shoal.stages.exact import STEP, TIME_LATTICE, WEIGHT, ClippedSum, View

DENSE_PLACES = 4096  # up to here G is a table; beyond, places share few groups and lists are compared
LIMB = 24  # bits
THIN_PURPOSE = 5
CHECKED = 16  # one user in so many is measured again


@dataclass(frozen=True, eq=False)
class Measure:
    """A view as the kernel needs it: floating-point factors and their Gram matrices."""

    space: scipy.sparse.csc_array = field(repr=False)  # float64 [groups, places]
    time: np.ndarray = field(repr=False)  # float64 [slots, columns]
    gram: np.ndarray = field(repr=False)  # G, or an empty table where lists are compared
    quad: np.ndarray = field(repr=False)  # Q
    clip: float

    @classmethod
    def of(cls, view: View, places: int) -> Measure:
        space = scipy.sparse.csc_array(view.space / view.space_lattice)
        space.sort_indices()
        time = view.time / TIME_LATTICE
        dense = np.asarray((space.T @ space).todense()) if places <= DENSE_PLACES else np.empty((0, 0))
        return cls(space, time, np.ascontiguousarray(dense), time @ time.T, view.clip)

    @property
    def lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.space.indptr, self.space.indices, self.space.data

    def weights(self, user: np.ndarray, slot: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Each visit's user weight in 1 / WEIGHT, checked."""
        weight = user_weights(
            user, slot, place, self.gram, *self.lists, self.quad, self.time.shape[1], self.clip
        )
        if not clip_holds(user, slot, place, weight, *self.lists, self.time, self.clip, CHECKED):
            raise GuaranteeError("bound-not-held", "a user adds more than the clip allows.")
        return weight


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedKernel:
    """Integer-weighted visits per place and slot of user-complete batches, one table per measure."""

    edges_us: np.ndarray
    places: int
    measures: tuple[Measure, ...]
    run_key: bytes = field(repr=False)
    most: int = MOST_VISITS  # visits per user that enter at all

    def zero(self) -> Sums:
        cells = (self.places, self.edges_us.size - 1)
        return {f"units{i}": np.zeros(cells, np.int64) for i in range(len(self.measures))}

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        sums = self.zero()
        if batch.num_rows == 0:
            return sums
        users = by_user(batch.column("user"), self.run_key)
        visits = find_visits(batch, users, self.edges_us, self.places)
        user, slot, place = thin(*visits, users.digest, self.most, split_key(self.run_key, THIN_PURPOSE))
        for i, measure in enumerate(self.measures):
            _add(slot, place, measure.weights(user, slot, place), sums[f"units{i}"])
        return sums


@dataclass(frozen=True, kw_only=True, eq=False)
class SizeKernel:
    """Users of user-complete batches by half-octaves of the number of their visits."""

    edges_us: np.ndarray
    per_visit: np.ndarray = field(repr=False)  # int64 [places], in 1 / lattice: what a visit counts
    lattice: int
    run_key: bytes = field(repr=False)

    def zero(self) -> Sums:
        return {"sizes": np.zeros(SIZE_BINS, np.int64)}

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        sums = self.zero()
        if batch.num_rows == 0:
            return sums
        users = by_user(batch.column("user"), self.run_key)
        visits = find_visits(batch, users, self.edges_us, self.per_visit.size)
        user, _, place = thin(*visits, users.digest, MOST_VISITS, split_key(self.run_key, THIN_PURPOSE))
        count_sizes(user, place, self.per_visit, self.lattice, sums["sizes"])
        if sums["sizes"].sum() != np.unique(user).size:
            raise GuaranteeError("bound-not-held", "a user is counted in more than one bin of sizes.")
        return sums


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineVisits:
    """Query interface to all visits: an engine and the events; it returns sums of clipped users only."""

    engine: Engine
    events: Callable[[], Iterable[pa.RecordBatch]] = field(repr=False)
    edges_us: np.ndarray = field(repr=False)
    places: int
    run_key: bytes = field(repr=False)
    # users with a visit; called only where the number is paid for
    count_users: Callable[[], int] = field(repr=False)
    progress: Progress | None = field(default=None, repr=False)

    @property
    def users(self) -> int:
        return self.count_users()

    def clipped(self, *views: View) -> list[ClippedSum]:
        sums = self._sums(tuple(Measure.of(view, self.places) for view in views))
        return [
            ClippedSum(values=apply_view(sums[f"units{i}"], view), clip=view.clip)
            for i, view in enumerate(views)
        ]

    def sizes(self, per_visit: np.ndarray, lattice: int) -> np.ndarray:
        kernel = SizeKernel(
            edges_us=self.edges_us, per_visit=per_visit, lattice=lattice, run_key=self.run_key
        )
        return self.engine.sum_users(self.events(), kernel, self.progress)["sizes"]

    def _sums(self, measures: tuple[Measure, ...]) -> Sums:
        kernel = ClippedKernel(
            edges_us=self.edges_us, places=self.places, measures=measures, run_key=self.run_key
        )
        return self.engine.sum_users(self.events(), kernel, self.progress)


def apply_view(units: np.ndarray, view: View) -> np.ndarray:
    """round(STEP M units), int64 [groups, columns], with every product and sum exact.

    Units are taken apart into limbs so small that no sum of a public number of them can overflow: whether
    this works depends on the view alone, never on how many visits there are.
    """
    largest = int(np.max(np.asarray(view.space.sum(axis=1)), initial=0))
    if np.abs(view.time).max(initial=0) * max(len(view.time), 1) >= 2 ** (62 - LIMB):
        raise GuaranteeError("weights-overflow", "the columns of a view are too large for 64-bit integers.")
    total = np.zeros(view.shape, dtype=object)
    for part, shift in _limbs(units, 62 - largest.bit_length()):
        grouped = np.asarray(view.space @ part)  # int64, in 1 / (space_lattice WEIGHT)
        for inner, inner_shift in _limbs(grouped, LIMB):
            total = total + (inner @ view.time).astype(object) * 2 ** (shift + inner_shift)
    unit = view.space_lattice * WEIGHT * TIME_LATTICE // STEP
    rounded = (total + unit // 2) // unit
    return rounded.astype(np.int64)


def _limbs(values: np.ndarray, bits: int) -> Iterator[tuple[np.ndarray, int]]:
    """Parts below 2^bits of whole numbers that are not negative, with the powers of two they stand for."""
    for shift in range(0, 63, max(bits, 1)):
        part = (values >> shift) & (2 ** max(bits, 1) - 1)
        if part.any():
            yield part, shift


@njit(cache=True, nogil=True)
def thin(user, slot, place, digest, most, key):
    """At most `most` visits per user, those with the smallest keyed hashes: bounds the pairs looked at."""
    keep = np.ones(user.size, np.bool_)
    start = 0
    while start < user.size:
        stop = start
        while stop < user.size and user[stop] == user[start]:
            stop += 1
        if stop - start > most:
            ranks = np.empty(stop - start, np.uint64)
            for i in range(start, stop):
                ranks[i - start] = hash3(key[0], key[1], digest[user[i]], uint64(slot[i]), uint64(place[i]))
            keep[start:stop] = False
            keep[start + np.argsort(ranks, kind="mergesort")[:most]] = True
        start = stop
    return user[keep], slot[keep], place[keep]


@njit(cache=True, nogil=True)
def user_weights(user, slot, place, gram, indptr, indices, entries, quad, columns, clip):
    """Each visit's user weight, in 1 / WEIGHT."""
    weight = np.empty(user.size, np.int64)
    start = 0
    while start < user.size:
        stop = start
        while stop < user.size and user[stop] == user[start]:
            stop += 1
        norm2 = _norm2(slot[start:stop], place[start:stop], gram, indptr, indices, entries, quad, columns)
        share = 1.0
        if not norm2 <= clip * clip:
            share = clip / np.sqrt(norm2) * (1.0 - 2.0**-48)
        weight[start:stop] = int(share * WEIGHT)
        start = stop
    return weight


@njit(cache=True, nogil=True)
def _norm2(slot, place, gram, indptr, indices, entries, quad, columns):
    """An upper bound of |M x|^2, above it by far less than a thousandth."""
    if gram.size:
        total, sizes = _pairs_of_table(slot, place, gram, quad)
    else:
        total, sizes = _pairs_of_lists(slot, place, indptr, indices, entries, quad)
    error = (slot.size**2 + columns + 16) * 2.0**-52
    return max(total, 0.0) + error * sizes * sizes


@njit(cache=True, nogil=True)
def _pairs_of_table(slot, place, gram, quad):
    """|M x|^2 and the sum of the visits' own norms. A row is taken once per visit: six times as fast."""
    total = 0.0
    sizes = 0.0
    for i in range(slot.size):
        inner = gram[place[i]]
        over = quad[slot[i]]
        own = inner[place[i]] * over[slot[i]]
        total += own
        sizes += np.sqrt(own)
        for j in range(i + 1, slot.size):
            if inner[place[j]] != 0.0:
                total += 2.0 * inner[place[j]] * over[slot[j]]
    return total, sizes


@njit(cache=True, nogil=True)
def _pairs_of_lists(slot, place, indptr, indices, entries, quad):
    """The same where there is no table of all pairs of places."""
    total = 0.0
    sizes = 0.0
    for i in range(slot.size):
        s, t = place[i], slot[i]
        own = _inner(s, s, indptr, indices, entries) * quad[t, t]
        total += own
        sizes += np.sqrt(own)
        for j in range(i + 1, slot.size):
            inner = _inner(s, place[j], indptr, indices, entries)
            if inner != 0.0:
                total += 2.0 * inner * quad[t, slot[j]]
    return total, sizes


@njit(cache=True, nogil=True)
def _inner(s, other, indptr, indices, entries):
    i, j = indptr[s], indptr[other]
    total = 0.0
    while i < indptr[s + 1] and j < indptr[other + 1]:
        if indices[i] == indices[j]:
            total += entries[i] * entries[j]
            i += 1
            j += 1
        elif indices[i] < indices[j]:
            i += 1
        else:
            j += 1
    return total


@njit(cache=True, nogil=True)
def clip_holds(user, slot, place, weight, indptr, indices, entries, time, clip, every):
    """Each user's rows together, and one user in `every` measured: the weighted vector M x."""
    groups = 0
    for g in indices:
        groups = max(groups, g + 1)
    row_of = np.full(groups, -1, np.int64)
    users = 0
    for u in user:
        users = max(users, u + 1)
    closed = np.zeros(users, np.bool_)
    start = 0
    number = 0
    while start < user.size:
        stop = start
        while stop < user.size and user[stop] == user[start]:
            stop += 1
        if closed[user[start]]:
            return False
        closed[user[start]] = True
        if number % every == 0:
            touched = 0
            for i in range(start, stop):
                for k in range(indptr[place[i]], indptr[place[i] + 1]):
                    if row_of[indices[k]] < 0:
                        row_of[indices[k]] = touched
                        touched += 1
            vector = np.zeros((touched, time.shape[1]))
            for i in range(start, stop):
                for k in range(indptr[place[i]], indptr[place[i] + 1]):
                    row = row_of[indices[k]]
                    for c in range(time.shape[1]):
                        vector[row, c] += entries[k] * time[slot[i], c] * weight[i] / WEIGHT
            if not np.sqrt((vector * vector).sum()) <= clip * (1.0 + 1e-9):
                return False
            for i in range(start, stop):
                for k in range(indptr[place[i]], indptr[place[i] + 1]):
                    row_of[indices[k]] = -1
        number += 1
        start = stop
    return True


@njit(cache=True, nogil=True)
def _add(slot, place, weight, units):
    for i in range(slot.size):
        units[place[i], slot[i]] += weight[i]


@njit(cache=True, nogil=True)
def count_sizes(user, place, per_visit, lattice, sizes):
    """Adds each user to the bin of the half-octave of their visits n: the bits of n^2, less one."""
    start = 0
    while start < user.size:
        total = 0
        stop = start
        while stop < user.size and user[stop] == user[start]:
            total += per_visit[place[stop]]
            stop += 1
        square = (total // lattice) ** 2
        number = 0
        while square > 1 and number < sizes.size - 1:
            square >>= 1
            number += 1
        sizes[number] += 1
        start = stop
