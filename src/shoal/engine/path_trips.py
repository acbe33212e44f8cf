"""Points of trips to paths of visits: spatial and temporal aggregation, stays, gaps filled; all in memory.

Source  Ghane's thesis, section 5.3.2 and algorithm 8 (encoding).

Space   a point belongs to a cell of the public grid, whose side is about the way of one step at common speed.
Time    tick = whole steps of `step_s` since the trip's first point; of the points of one tick the first is
        kept. Where sampling is slower than the step, ticks are left out.
Stay    kept points in the same cell one after the other: one visit, that stays from the first to the last.
Gaps    between cells that do not touch, the cells of a straight line are filled in, so that every move goes
        to one of eight neighbours; their ticks are spread evenly over the time between the two points.
Bound   of a unit's visits, trip by trip, those beyond ten million are cut off; a trip keeps its first.

Query interface of mechanisms to encoded trips: `UserPaths` over paths in memory.

A table is a sum over units. The entries of all trips of a unit are added up, scaled to norm LATTICE and
rounded down, so that every place stays below its share: sums of absolute values (norm 1), or the root of the
sum of squares (norm 2), are at most LATTICE for every unit. The kernel checks this on what it adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.engine.engine import passed_on, sum_parts
from shoal.engine.trip_pieces import Encoded, PieceBound, cut_beyond
from shoal.errors import GuaranteeError, PlanError
from shoal.space.cell_paths import Entries, PathTable
from shoal.space.cells import STEPS
from shoal.stages.trips import LATTICE, ExactPaths

MOST_TICKS = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class PathBound(PieceBound):
    """How points become paths of visits; public."""

    step_s: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.step_s >= 1:
            raise PlanError("step-range", "the step of time must be at least a second.", "Pass --step-s 60.")

    def __call__(self, batch: pa.RecordBatch) -> Encoded:
        """Paths of one batch of user-complete points: user, trip, time_us, x, y, sorted in that order."""
        pieces = self.pieces(batch)
        time_us = batch["time_us"].to_numpy(zero_copy_only=False)[pieces.rows]
        column, row = (pieces.u // STEPS).astype(np.int32), (pieces.v // STEPS).astype(np.int32)
        step_us = round(self.step_s * 1_000_000)
        size = np.zeros(pieces.first.size, np.int64)
        _count(column, row, time_us, pieces.first, step_us, size)
        cut_beyond(pieces.owners.unit, self.most_cells, size)
        first = np.cumsum(size)
        cells, tick, stay = (np.empty(int(first[-1]), np.int32) for _ in range(3))
        _fill(column, row, time_us, pieces.first, step_us, self.grid.columns, first, cells, tick, stay)
        columns = {"cells": cells, "tick": tick, "stay": stay, "start_us": time_us[pieces.first[:-1]]}
        return Encoded(pieces.owners, first, columns)

    def join(self, parts: Sequence[Encoded]) -> ExactPaths:
        """Paths of many batches as one stage; every unit comes in one of them."""
        kinds = {"cells": np.int32, "tick": np.int32, "stay": np.int32, "start_us": np.int64}
        owners, common = self.joined(parts, **kinds)
        return ExactPaths(step_s=self.step_s, units=owners.units, **common)

    def queries(self, stage: ExactPaths) -> PathQueries:
        return PathQueries(stage)


@njit(cache=True, nogil=True)
def _count(column, row, time_us, points, step_us, size):
    """Visits of piece i in size[i + 1]."""
    for i in range(points.size - 1):
        visits = 1
        last = np.int64(0)
        at = points[i]
        for p in range(points[i] + 1, points[i + 1]):
            now = min((time_us[p] - time_us[points[i]]) // step_us, MOST_TICKS)
            if now == last:
                continue
            visits += max(abs(column[p] - column[at]), abs(row[p] - row[at]))
            at, last = p, now
        size[i + 1] = visits


@njit(cache=True, nogil=True)
def _fill(column, row, time_us, points, step_us, columns, first, cells, tick, stay):
    for i in range(points.size - 1):
        at, out = points[i], first[i]
        last = np.int64(0)
        cells[out] = row[at] * columns + column[at]
        tick[out], stay[out] = 0, 0
        full = False  # cut off here
        for p in range(points[i] + 1, points[i + 1]):
            now = min((time_us[p] - time_us[points[i]]) // step_us, MOST_TICKS)
            if now == last:
                continue
            if full:
                break
            dx, dy = column[p] - column[at], row[p] - row[at]
            far = max(abs(dx), abs(dy))
            if far == 0:
                stay[out] = now - tick[out]
            for j in range(1, far + 1):
                full = out + 1 == first[i + 1]
                if full:
                    break
                out += 1
                x = column[at] + (2 * dx * j + far) // (2 * far)  # to the nearest cell of the line
                y = row[at] + (2 * dy * j + far) // (2 * far)
                cells[out] = y * columns + x
                tick[out] = last + (now - last) * j // far
                stay[out] = 0
            at, last = p, now


# A sum of a million floats and its quotient are off by a part in 10^10 at most: lowered by this, a share is
# never above the true one.
LOWERED = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class PathQueries:
    """Bounded sums over units, nothing else."""

    paths: ExactPaths = field(repr=False)

    def __post_init__(self) -> None:
        unit = self.paths.unit
        if unit.size and (np.diff(unit) < 0).any():
            raise GuaranteeError("bound-not-held", "the trips of a unit do not come together.")
        if self.each_trip and unit.size and (np.diff(unit) == 0).any():
            raise GuaranteeError("bound-not-held", "a unit has more than one trip.")

    grid = passed_on("paths.grid")
    step_s = passed_on("paths.step_s")
    cap = passed_on("paths.cap")
    each_trip = passed_on("paths.each_trip")

    def all_trips(self) -> int:
        return self.paths.all_trips

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        entries = table.entries(self.paths)
        _check(entries, table, self.paths)
        return summed(entries, self.paths.unit, table.size, norm)


def summed(entries: Entries, unit: np.ndarray, size: int, norm: int) -> np.ndarray:
    """int64 [size]: entries of each unit scaled to `norm` and added up."""
    begin = np.flatnonzero(np.diff(unit, prepend=-1))
    borders = entries.first[np.append(begin, unit.size)]  # entries of unit i
    weight = entries.weight if entries.weight is not None else np.ones(1, np.int64)
    weighted = entries.weight is not None

    def part(low: int, high: int) -> np.ndarray:
        out = np.zeros(size, np.int64)
        if not _add(borders, entries.index, weight, weighted, low, high, norm == 2, out):
            raise GuaranteeError("bound-not-held", "a unit adds more than its bound allows.")
        return out

    return sum_parts(borders.size - 1, part)


def _check(entries: Entries, table: PathTable, paths: ExactPaths) -> None:
    """Entries of every trip, each at a place of the table."""
    index, first = entries.index, entries.first
    if first.size != paths.count + 1 or int(first[-1]) != index.size:
        raise GuaranteeError("bound-not-held", "a trip has no entries of its own.")
    if index.size and not 0 <= index.min() <= index.max() < table.size:
        raise GuaranteeError("bound-not-held", "an entry has no place in the table.")
    if entries.weight is not None and index.size and entries.weight.min() < 1:
        raise GuaranteeError("bound-not-held", "an entry has no weight.")


@njit(cache=True, nogil=True)
def _add(borders, index, weight, weighted, low, high, squares, out):
    """Adds units low to high; False if one of them breaks the bound."""
    mass = np.zeros(out.size, np.int64)  # of one unit; cleared after each
    distinct = np.empty(out.size, np.int64)
    for unit in range(low, high):
        places, total = 0, np.int64(0)
        for at in range(borders[unit], borders[unit + 1]):
            place = index[at]
            if mass[place] == 0:
                distinct[places] = place
                places += 1
            mass[place] += weight[at] if weighted else 1
            total += weight[at] if weighted else 1
        norm = np.float64(total)
        if squares:
            norm = 0.0
            for i in range(places):
                norm += np.float64(mass[distinct[i]]) * mass[distinct[i]]
            norm = np.sqrt(norm)
        added, added_squares = np.int64(0), np.int64(0)
        for i in range(places):
            place = distinct[i]
            share = np.int64(mass[place] * (LATTICE / norm) * LOWERED)
            added += share
            added_squares += share * share
            out[place] += share
            mass[place] = 0
        if squares and added_squares > LATTICE * LATTICE:
            return False
        if not squares and added > LATTICE:
            return False
    return True
