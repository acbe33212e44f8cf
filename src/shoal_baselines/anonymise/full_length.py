"""k-anonymity by full-length merge: groups of k people or more whose records are one and the same.

Promise     every record is equal to k - 1 others, whatever and however long the adversary knows. What
            all members of a group have in common is not hidden.
Truthful    yes: every box holds a sample of each member.
Source      Gramaglia and Fiore 2015 (GLOVE), with the merge of Gramaglia et al. 2017.
Deviations  GLOVE tries all pairs; here candidates are the nearest in cheap features (places by part of the
            day, number of samples), and only those are merged exactly. Groups above a cost are not formed; a
            user without a group within the cost is suppressed as a whole.
Cost        users * candidates exact merges, plus as many again for each further doubling of k.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from scipy.spatial import KDTree

from shoal.anonymise.kmerge import k_merge, merge_sorted
from shoal.errors import PlanError
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.hulls import check_k

DAY_PARTS = 6
ACTIVITY_CELLS = 40.0  # twice as many samples count as so many cells away: 4 km at 100 m


@dataclass(frozen=True, kw_only=True)
class FullLength:
    """Groups of at least k with the same boxes.

    >>> from datetime import UTC, datetime
    >>> lattice = Lattice(start=datetime(2026, 1, 1, tzinfo=UTC), steps=60, origin=(0.0, 0.0))
    >>> samples = LatticeSamples.of([0, 1], [3, 7], [10, 12], [10, 10], users=2, steps=60)
    >>> boxes = FullLength(k=2)(samples, lattice)
    >>> boxes.t0.tolist(), boxes.t1.tolist(), boxes.x1.tolist()
    ([3, 3], [7, 7], [12, 12])
    """

    k: int
    candidates: int = 24
    most_span_m: float = 40_000.0  # mean over the window of a group's Dx + Dy

    truthful = True

    def __post_init__(self) -> None:
        check_k(self.k)
        if self.candidates < 1 or self.most_span_m <= 0:
            raise PlanError("merge-plan", "candidates must be 1 or more and the span above 0.")

    @property
    def promise(self) -> str:
        return f"whole records, {self.k} alike"

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes:
        limit = self.most_span_m / lattice.metres * samples.steps
        near = nearest_users(samples, lattice, max(self.candidates, 2 * self.k))
        groups = _Groups.of(samples, near, self.k, limit).finish()
        columns: list[np.ndarray] = []
        for members in groups:
            boxes = k_merge([_rows(samples, user) for user in members]).boxes
            for user in members:
                columns.append(np.column_stack([np.full(len(boxes), user), boxes]))
        rows = np.concatenate(columns) if columns else np.zeros((0, 7), np.int64)
        return Boxes.of(*rows.T, records=samples.users)

    def broken(self, boxes: Boxes, lattice: Lattice) -> int:
        return check_equal_records(boxes, self.k)


def _rows(samples: LatticeSamples, user: int) -> np.ndarray:
    first, last = np.searchsorted(samples.user, [user, user + 1])
    return np.stack([samples.t[first:last], samples.x[first:last], samples.y[first:last]], axis=1)


def nearest_users(samples: LatticeSamples, lattice: Lattice, count: int) -> dict[int, list[int]]:
    """For each user with samples, the nearest others by places in parts of the day and by activity."""
    users, count_of = np.unique(samples.user, return_counts=True)
    if len(users) < 2:
        return {int(user): [] for user in users}
    row = np.searchsorted(users, samples.user)
    part_steps = max(1440 // lattice.minutes // DAY_PARTS, 1)
    part = samples.t // part_steps % DAY_PARTS
    features = np.empty((len(users), 2 * DAY_PARTS + 1))
    for at, value in enumerate((samples.x, samples.y)):
        overall = np.bincount(row, weights=value) / count_of
        for which in range(DAY_PARTS):
            inside = part == which
            total = np.bincount(row[inside], weights=value[inside], minlength=len(users))
            here = np.bincount(row[inside], minlength=len(users))
            features[:, 2 * which + at] = np.where(here > 0, total / np.maximum(here, 1), overall)
    features[:, : 2 * DAY_PARTS] /= np.sqrt(DAY_PARTS)
    features[:, -1] = np.log2(count_of) * ACTIVITY_CELLS
    _, neighbours = KDTree(features).query(features, k=min(count + 1, len(users)))
    return {
        int(user): [int(users[other]) for other in row if users[other] != user]
        for user, row in zip(users, np.asarray(neighbours).tolist(), strict=True)
    }


@dataclass(kw_only=True, eq=False)
class _Groups:
    """Growing groups: the cheapest merge of two that are too small comes first."""

    k: int
    limit: float
    near: dict[int, list[int]] = field(repr=False)
    trajectories: tuple[np.ndarray, ...] = field(repr=False)  # start, t, x, y
    members: list[list[int]] = field(repr=False)  # by unit; empty once it is part of another
    unit_of: dict[int, int] = field(repr=False)
    queue: list[tuple[float, int, int]] = field(repr=False)

    @classmethod
    def of(cls, samples: LatticeSamples, near: dict[int, list[int]], k: int, limit: float) -> _Groups:
        users = list(near)
        columns = (samples.t, samples.x, samples.y)
        groups = cls(
            k=k,
            limit=limit,
            near=near,
            trajectories=(samples.start, *(column.astype(np.int64) for column in columns)),
            members=[[user] for user in users],
            unit_of={user: at for at, user in enumerate(users)},
            queue=[],
        )
        for user in users:
            for other in near[user]:
                if user < other or user not in near[other]:
                    groups._offer(groups.unit_of[user], groups.unit_of[other])
        return groups

    def cost(self, members: list[int]) -> float:
        return merge_cost(np.array(members, np.int64), *self.trajectories)

    def finish(self) -> list[list[int]]:
        """Merge while there is an offer, then let those left over join a group; groups of k or more."""
        while self.queue:
            _, first, second = heapq.heappop(self.queue)
            if self.members[first] and self.members[second]:
                self._merge(first, second)
        for unit in [at for at, group in enumerate(self.members) if 0 < len(group) < self.k]:
            for user in self.members[unit]:
                self._join(user)
        return [sorted(group) for group in self.members if len(group) >= self.k]

    def _offer(self, first: int, second: int) -> None:
        cost = self.cost(self.members[first] + self.members[second])
        if cost <= self.limit:
            heapq.heappush(self.queue, (cost, first, second))

    def _merge(self, first: int, second: int) -> None:
        group = self.members[first] + self.members[second]
        if len(self.members[first]) >= self.k or len(self.members[second]) >= self.k:
            return
        unit = len(self.members)
        self.members.append(group)
        self.members[first], self.members[second] = [], []
        for user in group:
            self.unit_of[user] = unit
        if len(group) >= self.k:
            return
        others = {self.unit_of[other] for user in group for other in self.near[user]} - {unit}
        for other in sorted(others):
            if 0 < len(self.members[other]) < self.k:
                self._offer(unit, other)

    def _join(self, user: int) -> None:
        """One who is left over joins the group it makes dearer by the least, within the limit."""
        best, least = None, np.inf
        for unit in sorted({self.unit_of[other] for other in self.near[user]}):
            group = self.members[unit]
            if len(group) < self.k:
                continue
            cost = self.cost([*group, user])
            more = cost - self.cost(group)
            if cost <= self.limit and more < least:
                best, least = unit, more
        if best is not None:
            self.members[best].append(user)


@njit(cache=True, nogil=True)
def merge_cost(members, start, t, x, y):
    """Cost of the best merge of whole trajectories."""
    count = 0
    for user in members:
        count += start[user + 1] - start[user]
    times = np.empty(count, np.int64)
    where = np.empty(count, np.int64)
    owner = np.empty(count, np.int64)
    at = 0
    for number in range(len(members)):
        for row in range(start[members[number]], start[members[number] + 1]):
            times[at], where[at], owner[at] = t[row], row, number
            at += 1
    order = np.argsort(times)
    rows = where[order]
    out = np.empty((count, 6), np.int64)
    k = len(members)
    return merge_sorted(times[order], x[rows], y[rows], owner[order], count, k, out)[0]


def check_equal_records(boxes: Boxes, k: int) -> int:
    """Records with a box that fewer than k records, itself included, are equal to, box by box."""
    start = boxes.start
    rows = np.stack([boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1], axis=1)
    records: dict[bytes, int] = {}
    for record in range(boxes.records):
        if start[record] < start[record + 1]:
            whole = rows[start[record] : start[record + 1]].tobytes()
            records[whole] = records.get(whole, 0) + 1
    return sum(count for count in records.values() if count < k)
