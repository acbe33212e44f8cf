"""Never Walk Alone: clusters of k people are moved until they walk together.

Promise     (k, delta)-anonymity over each period: every released record has k - 1 others within delta of
            it, at all its times. It holds for what is released, not for where people were.
Truthful    NO. Positions between samples are interpolated, and points are moved towards the centre of their
            cluster, by kilometres where people differ. A box need not hold any sample of its user.
Source      Abul, Bonchi and Nanni 2008.
Deviations  the paper needs trajectories with a position at every time: here one per slot (the mean of the
            slot's samples, a straight line in between, standing still before the first and after the last).
            Pivots are taken farthest from the previous one, from the centre on, not at random. A box is the
            square of side delta around the moved point: the paper's uncertainty about a position.
Cost        distances of all pairs of users: quadratic, refused above `most_users`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.errors import PlanError
from shoal.space.lattice import Lattice, steps_of
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.hulls import cells_of, check_k


@dataclass(frozen=True, kw_only=True)
class NeverWalkAlone:
    """Records that walk with k - 1 others; a record of fewer than k neighbours within reach is suppressed.

    >>> from datetime import UTC, datetime
    >>> lattice = Lattice(start=datetime(2026, 1, 1, tzinfo=UTC), steps=60, origin=(0.0, 0.0))
    >>> samples = LatticeSamples.of([0, 1], [3, 7], [10, 90], [10, 10], users=2, steps=60)
    >>> boxes = NeverWalkAlone(k=2, delta_m=2000)(samples, lattice)
    >>> ((boxes.x0 + boxes.x1 + 1) // 2).tolist()  # from 10 and 90 to within 10 cells of 50
    [40, 60]
    """

    k: int
    delta_m: float = 2000.0
    slot_minutes: int = 60
    period_minutes: int | None = None  # None: the whole window; else promised period by period only
    most_trash: float = 0.1  # of the people of a period; the clusters' radius grows until this holds
    first_radius_m: float = 1000.0
    most_users: int = 20_000

    truthful = False

    def __post_init__(self) -> None:
        check_k(self.k)
        if not 0 <= self.most_trash < 1 or self.first_radius_m <= 0:
            raise PlanError("nwa-plan", "most_trash must be from 0 to below 1 and the radius above 0.")

    @property
    def promise(self) -> str:
        words = "at all its times" if self.period_minutes is None else "within each period"
        return f"{self.k} within {self.delta_m / 1000:g} km, {words}; points are moved"

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes:
        if samples.users > self.most_users:
            raise PlanError(
                "nwa-users",
                f"the distances of more than {self.most_users:,} people do not fit.",
                "Take a sample of the people.",
            )
        delta = cells_of(self.delta_m, lattice)
        slot = steps_of(self.slot_minutes, lattice)
        minutes = self.period_minutes or samples.steps * lattice.minutes
        period = max(steps_of(minutes, lattice) // slot, 1)
        slots = -(-samples.steps // slot)
        parts = []
        for first in range(0, slots, period):
            last = min(first + period, slots)
            parts.append(self._period(samples, slot, first, last, delta, lattice))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return Boxes.of(*columns, records=samples.users)

    def broken(self, boxes: Boxes, lattice: Lattice) -> int:
        period = self.period_minutes and steps_of(self.period_minutes, lattice)
        return check_nwa(boxes, self.k, cells_of(self.delta_m, lattice), period=period)

    def _period(
        self, samples: LatticeSamples, slot: int, first: int, last: int, delta: int, lattice: Lattice
    ):
        """Boxes of the slots first .. last - 1, as columns."""
        users, places = hourly_places(samples, slot, first, last)
        radius = self.first_radius_m / lattice.metres
        cluster = clusters_of(places, self.k, radius, self.most_trash)
        users, places, cluster = users[cluster >= 0], places[cluster >= 0], cluster[cluster >= 0]
        moved = walk_together(places, cluster, delta / 2)
        count = last - first
        t0 = np.tile(np.arange(first, last) * slot, len(users))
        t1 = np.minimum(t0 + slot, samples.steps) - 1
        x, y = moved[:, :count].ravel(), moved[:, count:].ravel()
        low, high = delta // 2, (delta - 1) // 2
        return np.repeat(users, count), t0, t1, x - low, x + high, y - low, y + high


def hourly_places(samples: LatticeSamples, slot: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Users with a sample in the slots first .. last - 1, and their places [users, 2 * slots]: x, then y.

    Places in slots without a sample are interpolated.
    """
    at = samples.t // slot
    inside = (at >= first) & (at < last)
    user, at = samples.user[inside], at[inside] - first
    users, row = np.unique(user, return_inverse=True)
    count = last - first
    key = row * count + at
    samples_in = np.bincount(key, minlength=len(users) * count)
    out = np.empty((len(users), 2 * count))
    every = np.arange(count)
    for column, value in enumerate((samples.x[inside], samples.y[inside])):
        total = np.bincount(key, weights=value, minlength=len(users) * count)
        mean = (total / np.maximum(samples_in, 1)).reshape(-1, count)
        known = samples_in.reshape(-1, count) > 0
        for who in range(len(users)):
            slots = np.flatnonzero(known[who])
            out[who, column * count : (column + 1) * count] = np.interp(every, slots, mean[who, slots])
    return users, out


def clusters_of(places: np.ndarray, k: int, radius: float, most_trash: float) -> np.ndarray:
    """The cluster of each row, -1 for trash; each has k rows or more. `radius` is a root mean square."""
    if len(places) < k:
        return np.full(len(places), -1)
    distance = _distances(places)
    while True:
        cluster = _greedy(distance, places, k, radius)
        if (cluster < 0).mean() <= most_trash:
            return cluster
        radius *= 1.5


def _distances(places: np.ndarray) -> np.ndarray:
    """Root mean square over the slots of the distance of two rows, float32."""
    centred = (places - places.mean(axis=0)).astype(np.float32)
    norm = (centred * centred).sum(axis=1)
    squared = norm[:, None] + norm[None, :] - 2 * centred @ centred.T
    np.maximum(squared, 0, out=squared)
    squared /= places.shape[1] / 2
    return np.sqrt(squared, out=squared)


def _greedy(distance: np.ndarray, places: np.ndarray, k: int, radius: float) -> np.ndarray:
    """Pivots far from the last one take their k - 1 nearest; the rest joins the nearest pivot in reach."""
    cluster = np.full(len(places), -1)
    free = np.ones(len(places), np.bool_)  # in no cluster
    pivot_may = np.ones(len(places), np.bool_)
    far = ((places - places.mean(axis=0)) ** 2).sum(axis=1)
    pivots: list[int] = []
    while (pivot_may & free).any() and free.sum() >= k:
        pivot = int(np.argmax(np.where(pivot_may & free, far, -1)))
        near = np.where(free, distance[pivot], np.inf)
        near[pivot] = -1  # itself first, whatever rounding says
        members = np.argpartition(near, k - 1)[:k]
        if near[members].max() <= radius:
            cluster[members] = len(pivots)
            free[members] = False
            pivots.append(pivot)
            far = distance[pivot]
        else:
            pivot_may[pivot] = False
    if pivots:
        rest = np.flatnonzero(free)
        nearest = distance[np.ix_(rest, np.array(pivots))]
        joins = nearest.min(axis=1, initial=np.inf) <= radius
        cluster[rest[joins]] = nearest[joins].argmin(axis=1)
    return cluster


def walk_together(places: np.ndarray, cluster: np.ndarray, reach: float) -> np.ndarray:
    """int64 places, each moved as little as needed to lie within `reach` of its cluster's centre."""
    count = places.shape[1] // 2
    groups = int(cluster.max(initial=-1)) + 1
    total = np.zeros((groups, places.shape[1]))
    np.add.at(total, cluster, places)
    centre = np.rint(total / np.bincount(cluster, minlength=groups)[:, None])[cluster]
    off = places - centre
    length = np.hypot(off[:, :count], off[:, count:])
    scale = np.minimum(1.0, reach / np.maximum(length, 1e-9))
    # cut towards the centre, so that rounding never leaves the reach
    return (centre + np.trunc(off * np.tile(scale, 2))).astype(np.int64)


def check_nwa(boxes: Boxes, k: int, delta: int, *, period: int | None = None) -> int:
    """Records (of a period of so many steps) without k - 1 others within `delta` cells at all their times.

    Another record counts if it has a box of the very same time for each box, centres at most delta apart.
    """
    bad = 0
    which = boxes.t0 // period if period else np.zeros_like(boxes.t0)
    for part in np.unique(which):
        rows = np.flatnonzero(which == part)
        rows_of: dict[int, list[int]] = {}
        for row in rows.tolist():
            rows_of.setdefault(int(boxes.record[row]), []).append(row)
        by_times: dict[bytes, list[list[int]]] = {}
        for own in rows_of.values():
            times = np.stack([boxes.t0[own], boxes.t1[own]])
            by_times.setdefault(times.tobytes(), []).append(own)
        for alike in by_times.values():
            bad += _alone(boxes, np.array(alike), k, delta)
    return bad


def _alone(boxes: Boxes, rows: np.ndarray, k: int, delta: int) -> int:
    """Records of the same times (rows of boxes [records, times]) that stay with fewer than k."""
    x = (boxes.x0[rows].astype(np.int64) + boxes.x1[rows]) / 2
    y = (boxes.y0[rows].astype(np.int64) + boxes.y1[rows]) / 2
    bad = 0
    for own in range(len(rows)):
        near = np.arange(len(rows))
        for at in range(rows.shape[1]):  # fewer and fewer are left, so this stays cheap
            apart = (x[near, at] - x[own, at]) ** 2 + (y[near, at] - y[own, at]) ** 2
            near = near[apart <= delta * delta]
            if len(near) < k:
                break
        bad += len(near) < k
    return bad
