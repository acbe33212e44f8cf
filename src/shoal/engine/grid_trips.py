"""Points of trips to paths of cells: pieces bounded per unit (trip_pieces), then traced; all in memory.

A step between two points is a straight line, traced in whole numbers. A line that goes exactly through a
corner enters the cell to its east or west first, so consecutive cells of a path share an edge. Beyond
`most_cells` cells of a unit its paths are cut off, trip by trip; a trip keeps its first cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.engine.trip_pieces import Encoded, PieceBound, cut_beyond
from shoal.engine.trip_queries import TripQueries
from shoal.errors import PlanError
from shoal.space.cells import STEPS
from shoal.stages.trips import GridTrips


@dataclass(frozen=True, kw_only=True)
class TripBound(PieceBound):
    """How points become bounded paths; public."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_unit > self.counted:
            raise PlanError(
                "trip-bound",
                f"trips per unit must be 1 or more, their cap not below; got {self.per_unit} and {self.cap}.",
                "Pass --trips-per-user 10 --trips-cap 100, say.",
            )

    def __call__(self, batch: pa.RecordBatch) -> Encoded:
        """Paths of one batch of user-complete points: user, trip, x, y, sorted by user, trip and time."""
        pieces = self.pieces(batch)
        size = crossed(pieces.u, pieces.v, pieces.first)
        cut_beyond(pieces.owners.unit, self.most_cells, size)
        first = np.cumsum(size)
        cells = trace(pieces.u, pieces.v, pieces.first, first, self.grid.columns)
        return Encoded(pieces.owners, first, {"cells": cells})

    def join(self, parts: Sequence[Encoded]) -> GridTrips:
        """Paths of many batches as one stage; every unit comes in one of them."""
        return GridTrips(per_unit=self.per_unit, **self.joined(parts, cells=np.int32)[1])

    def queries(self, stage: GridTrips) -> TripQueries:
        return TripQueries(stage)


def crossed(u: np.ndarray, v: np.ndarray, start: np.ndarray) -> np.ndarray:
    """int64 [trips + 1]: cells of trip i, whose points u, v (whole steps) begin at start[i], at i + 1."""
    size = np.zeros(start.size, np.int64)
    _count(u, v, start, size)
    return size


def trace(u: np.ndarray, v: np.ndarray, start: np.ndarray, first: np.ndarray, columns: int) -> np.ndarray:
    """Cells of all trips, those of trip i at first[i] to first[i + 1]; a path that is longer is cut off."""
    cells = np.empty(int(first[-1]), np.int32)
    _fill(u, v, start, first, cells, columns)
    return cells


@njit(cache=True, nogil=True)
def _count(u, v, start, size):
    """Cells of trip i in size[i + 1]."""
    for i in range(start.size - 1):
        total = 1
        for p in range(start[i] + 1, start[i + 1]):
            total += abs(u[p] // STEPS - u[p - 1] // STEPS) + abs(v[p] // STEPS - v[p - 1] // STEPS)
        size[i + 1] = total


@njit(cache=True, nogil=True)
def _fill(u, v, start, first, cells, columns):
    for i in range(start.size - 1):
        at = first[i]
        p = start[i]
        x, y = u[p] // STEPS, v[p] // STEPS
        cells[at] = y * columns + x
        for p in range(start[i] + 1, start[i + 1]):
            if at + 1 == first[i + 1]:
                break
            at = _line(u[p - 1], v[p - 1], u[p], v[p], cells, at, first[i + 1], columns)


@njit(cache=True, nogil=True)
def _line(u0, v0, u1, v1, cells, at, end, columns):
    """Append the cells after the first of one straight step, up to `end`; returns the index of the last."""
    x, y = u0 // STEPS, v0 // STEPS
    left_x, left_y = abs(u1 // STEPS - x), abs(v1 // STEPS - y)
    du, dv = abs(u1 - u0), abs(v1 - v0)
    step_x, step_y = (1 if u1 > u0 else -1), (1 if v1 > v0 else -1)
    # Way to the next border, in steps. How many borders are crossed is settled by the cells of both ends.
    to_x = (x + 1) * STEPS - u0 if step_x > 0 else u0 - x * STEPS
    to_y = (y + 1) * STEPS - v0 if step_y > 0 else v0 - y * STEPS
    while left_x + left_y > 0 and at + 1 < end:
        # The border of x is met first iff to_x / du <= to_y / dv; a corner counts as x.
        if left_y == 0 or (left_x > 0 and to_x * dv <= to_y * du):
            x += step_x
            to_x += STEPS
            left_x -= 1
        else:
            y += step_y
            to_y += STEPS
            left_y -= 1
        at += 1
        cells[at] = y * columns + x
    return at
