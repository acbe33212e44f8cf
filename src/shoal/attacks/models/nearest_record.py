"""Distances of synthetic trips to real ones, to detect generators that copy trips.

Distance    of two trips: their cells, walked in order, pair up at the least sum of distances between cell
            centres (dynamic time warping), divided by the number of cells of the longer. 0: the same cells
            in the same order, a copy. Times are not looked at.
Trips       of 5 cells or more; shorter ones are often equal without being copied.
Held out    the real trips are split at random by person; the generator was given one half. If the release
            did not depend on the split, each half would hold the nearest trip of half of the synthetic ones,
            and the share of the given half would have the standard error sqrt(sum w^2) / (2 sum w), where w
            is how many synthetic trips a person's trips are nearest to: many are nearest to one.
Others      where no trip was held out: a synthetic trip's nearest real one, against a real trip's nearest one
            of somebody else. Copies beyond those that people make of each other are replay.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.attacks.models.known_trips import KnownTrips, evenly, taken
from shoal.space.cell_paths import CellPaths

LEAST_CELLS = 5
MOST_QUERIES, MOST_RECORDS = 300, 50_000
NOBODY = -1
NEAR_M = 50.0  # of ends, per cell of the longer trip: looked at first
CLOSE_M = 1e-6  # the same distance, but for rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Nearest:
    """Metres from each queried trip to the nearest record and to the second; inf where there is none."""

    distance_m: np.ndarray = field(repr=False)
    second_m: np.ndarray = field(repr=False)

    @property
    def copies(self) -> float:
        """Share of trips that are a record, cell by cell."""
        return float((self.distance_m == 0).mean()) if self.distance_m.size else float("nan")

    @property
    def median_m(self) -> float:
        return float(np.median(self.distance_m)) if self.distance_m.size else float("nan")

    @property
    def ratio(self) -> float:
        """Median of nearest / second nearest: near 0 where one record stands out, as a replayed one does."""
        known = np.isfinite(self.second_m)
        if not known.any():
            return float("nan")
        first, second = self.distance_m[known], self.second_m[known]
        return float(np.median(np.divide(first, second, out=np.ones_like(first), where=second > 0)))


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitRecords:
    """A release against the half of the trips it was made from and the half it was not."""

    source: Nearest
    held_out: Nearest
    nearer_source: float  # share of synthetic trips whose nearest real one is of the source; ties are shared
    standard_error: float  # of that share around 1/2, under a random split


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnRecords:
    """A release against all trips, and real trips against those of others."""

    synthetic: Nearest
    real: Nearest


def split_records(release: CellPaths, source: KnownTrips, held_out: KnownTrips) -> SplitRecords:
    """`source` and `held_out` are random halves of one set of people."""
    trips = _queries(release)
    (one, one_unit), (two, two_unit) = (_records(each) for each in (source, held_out))
    near_source, near_held_out = nearest(trips, one), nearest(trips, two)
    limit = np.minimum(near_source.distance_m, near_held_out.distance_m)
    both = np.concatenate([one.first, two.first[1:] + one.first[-1]])
    x, y = (np.concatenate([a, b]) for a, b in zip(_metres(one), _metres(two), strict=True))
    unit = np.concatenate([one_unit, two_unit + source.units])
    weight = np.zeros(source.units + held_out.units)
    _share_out(trips.first, *_metres(trips), both, x, y, unit, limit, weight)
    total = weight.sum()
    return SplitRecords(
        source=near_source,
        held_out=near_held_out,
        nearer_source=float(weight[: source.units].sum() / total) if total else float("nan"),
        standard_error=float(np.sqrt((weight**2).sum()) / (2 * total)) if total else float("nan"),
    )


def own_records(release: CellPaths, real: KnownTrips) -> OwnRecords:
    """Where nothing was held out: synthetic trips against real ones, real ones against those of others."""
    records, unit = _records(real)
    some = evenly(records.count, MOST_QUERIES)
    return OwnRecords(
        synthetic=nearest(_queries(release), records),
        real=nearest(taken(records, some), records, units=(unit[some], unit)),
    )


def nearest(
    queries: CellPaths, records: CellPaths, *, units: tuple[np.ndarray, np.ndarray] | None = None
) -> Nearest:
    """Nearest record of every query; with `units`, of queries and records, among those of other units."""
    distance, second = np.full(queries.count, np.inf), np.full(queries.count, np.inf)
    if units is None:
        units = np.full(queries.count, NOBODY), np.zeros(records.count, np.int64)
    mine, theirs = _metres(queries), _metres(records)
    (unit, record_unit), parts = units, os.cpu_count() or 1

    def one(part: int) -> None:
        own = slice(queries.count * part // parts, queries.count * (part + 1) // parts)
        first, both = queries.first[own.start : own.stop + 1], (distance[own], second[own])
        _nearest(first, *mine, unit[own], records.first, *theirs, record_unit, *both)

    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(one, range(parts)))
    return Nearest(distance_m=distance, second_m=second)


def _queries(release: CellPaths) -> CellPaths:
    """Trips of the release that are long enough, at most so many of them."""
    long = np.flatnonzero(np.diff(release.first) >= LEAST_CELLS)
    return taken(release, long[evenly(long.size, MOST_QUERIES)])


def _records(trips: KnownTrips) -> tuple[CellPaths, np.ndarray]:
    long = np.flatnonzero(np.diff(trips.paths.first) >= LEAST_CELLS)
    chosen = long[evenly(long.size, MOST_RECORDS)]
    return taken(trips.paths, chosen), trips.unit[chosen]


def _metres(paths: CellPaths) -> tuple[np.ndarray, np.ndarray]:
    """Where visits are, from the grid's corner."""
    width_m, height_m = paths.grid.cell_m
    return paths.cells % paths.grid.columns * width_m, paths.cells // paths.grid.columns * height_m


@njit(cache=True, nogil=True)
def _nearest(first, x, y, unit, record_first, rx, ry, record_unit, distance, second):
    row = np.empty(_longest(record_first))
    order = np.empty(record_first.size - 1)
    for q in range(first.size - 1):
        a, b = first[q], first[q + 1]
        for r in range(record_first.size - 1):
            c, d = record_first[r], record_first[r + 1]
            order[r] = np.inf if record_unit[r] == unit[q] else _ends(x[a:b], y[a:b], rx[c:d], ry[c:d])
        for near in (True, False):  # records with near ends first: what they reach rules most others out
            for r in range(record_first.size - 1):
                if (order[r] <= NEAR_M) != near or order[r] > second[q] or order[r] == np.inf:
                    continue
                c, d = record_first[r], record_first[r + 1]
                reached = _apart(x[a:b], y[a:b], rx[c:d], ry[c:d], second[q], row)
                if reached < distance[q]:
                    distance[q], second[q] = reached, distance[q]
                elif reached < second[q]:
                    second[q] = reached


@njit(cache=True, nogil=True)
def _share_out(first, x, y, record_first, rx, ry, record_unit, limit, weight):
    """Each query gives a weight of 1 to the units of its nearest records, in equal parts."""
    row = np.empty(_longest(record_first))
    tied = np.empty(record_first.size, np.int64)
    for q in range(first.size - 1):
        a, b = first[q], first[q + 1]
        count = 0
        for r in range(record_first.size - 1):
            c, d = record_first[r], record_first[r + 1]
            if _ends(x[a:b], y[a:b], rx[c:d], ry[c:d]) > limit[q] + CLOSE_M:
                continue
            if _apart(x[a:b], y[a:b], rx[c:d], ry[c:d], limit[q] + CLOSE_M, row) <= limit[q] + CLOSE_M:
                tied[count] = record_unit[r]
                count += 1
        for i in range(count):
            weight[tied[i]] += 1.0 / count


@njit(cache=True, nogil=True)
def _longest(first):
    most = 1
    for i in range(first.size - 1):
        most = max(most, first[i + 1] - first[i])
    return most


@njit(cache=True, inline="always")
def _between(x, y, rx, ry):
    return np.sqrt((x - rx) * (x - rx) + (y - ry) * (y - ry))


@njit(cache=True, nogil=True)
def _ends(x, y, rx, ry):
    """At most the distance of two trips: first and last cells are paired on every way."""
    n, m = x.size, rx.size
    ends = _between(x[0], y[0], rx[0], ry[0])
    if n > 1 or m > 1:
        ends += _between(x[n - 1], y[n - 1], rx[m - 1], ry[m - 1])
    return ends / max(n, m)


@njit(cache=True, nogil=True)
def _apart(x, y, rx, ry, limit, row):
    """Mean distance of paired cells; inf where it is above the limit, as soon as that is known."""
    n, m = x.size, rx.size
    most = limit * max(n, m)
    for i in range(n):
        least = np.inf
        corner = np.inf  # cost of the pair before in both
        for j in range(m):
            before = 0.0 if i == 0 and j == 0 else np.inf
            if i > 0:
                before = min(row[j], corner)
                corner = row[j]
            if j > 0:
                before = min(before, row[j - 1])
            row[j] = before + _between(x[i], y[i], rx[j], ry[j])
            least = min(least, row[j])
        if least > most:
            return np.inf
    return row[m - 1] / max(n, m)
