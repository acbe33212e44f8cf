"""Points of trips to paths of visits: spatial and temporal aggregation, stays, gaps filled; all in memory.

Source  Ghane's thesis, section 5.3.2 and algorithm 8 (encoding).

Space   a point belongs to a cell of the public grid, whose side is about the way of one step at common speed.
Time    tick = whole steps of `step_s` since the trip's first point; of the points of one tick the first is
        kept. Where sampling is slower than the step, ticks are left out.
Stay    kept points in the same cell one after the other: one visit, that stays from the first to the last.
Gaps    between cells that do not touch, the cells of a straight line are filled in, so that every move goes
        to one of eight neighbours; their ticks are spread evenly over the time between the two points.
Bound   of a unit's visits, trip by trip, those beyond ten million are cut off; a trip keeps its first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.engine.path_door import PathDoor
from shoal.engine.trip_pieces import Owners, PieceBound, Progress, cut_beyond, in_threads, joined_first
from shoal.errors import PlanError
from shoal.space.cells import STEPS
from shoal.stages.trips import ExactPaths

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
        return Encoded(pieces.owners, first, cells, tick, stay, time_us[pieces.first[:-1]])

    def join(self, parts: Sequence[Encoded]) -> ExactPaths:
        """Paths of many batches as one stage; every unit comes in one of them."""
        owners = Owners.joined([part.owners for part in parts])
        owners.check_complete()

        def joined(name: str, kind: type) -> np.ndarray:
            return np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in parts)])

        return ExactPaths(
            grid=self.grid,
            step_s=self.step_s,
            first=joined_first([part.first for part in parts]),
            cells=joined("cells", np.int32),
            tick=joined("tick", np.int32),
            stay=joined("stay", np.int32),
            start_us=joined("start_us", np.int64),
            unit=owners.unit,
            units=owners.units,
            all_trips=owners.all_trips,
            cap=self.counted,
            each_trip=self.each_trip,
        )

    def door(self, stage: ExactPaths) -> PathDoor:
        return PathDoor(stage)


@dataclass(frozen=True)
class Encoded:
    """Paths of some users."""

    owners: Owners
    first: np.ndarray
    cells: np.ndarray
    tick: np.ndarray
    stay: np.ndarray
    start_us: np.ndarray


def encode_paths(
    batches: Iterable[pa.RecordBatch], bound: PathBound, progress: Progress | None = None
) -> ExactPaths:
    """All batches encoded, in threads; the batches are user-complete."""
    tell = progress or (lambda what, rows: None)
    parts: list[Encoded] = []
    for rows, part in in_threads(batches, bound):
        parts.append(part)
        tell("encode", rows)
    return bound.join(parts)


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
