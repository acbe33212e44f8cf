"""Points of trips to paths on a grid: pieces bounded per unit (trip_pieces), traced; all in memory.

Beyond `most_cells` cells of a unit its paths are cut off, trip by trip; a trip keeps its first cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.engine.traverse import crossed, trace
from shoal.engine.trip_door import TripDoor
from shoal.engine.trip_pieces import Owners, PieceBound, Progress, cut_beyond, in_threads, joined_first
from shoal.errors import PlanError
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

    def __call__(self, batch: pa.RecordBatch) -> Traced:
        """Paths of one batch of user-complete points: user, trip, x, y, sorted by user, trip and time."""
        pieces = self.pieces(batch)
        size = crossed(pieces.u, pieces.v, pieces.first)
        cut_beyond(pieces.owners.unit, self.most_cells, size)
        first = np.cumsum(size)
        return Traced(pieces.owners, first, trace(pieces.u, pieces.v, pieces.first, first, self.grid.columns))

    def join(self, parts: Sequence[Traced]) -> GridTrips:
        """Paths of many batches as one stage; every unit comes in one of them."""
        owners = Owners.joined([part.owners for part in parts])
        owners.check_complete()
        return GridTrips(
            grid=self.grid,
            first=joined_first([part.first for part in parts]),
            cells=np.concatenate([np.empty(0, np.int32), *(part.cells for part in parts)]),
            unit=owners.unit,
            per_unit=self.per_unit,
            all_trips=owners.all_trips,
            cap=self.counted,
            each_trip=self.each_trip,
        )

    def door(self, stage: GridTrips) -> TripDoor:
        return TripDoor(stage)


@dataclass(frozen=True)
class Traced:
    """Paths of some users."""

    owners: Owners
    first: np.ndarray
    cells: np.ndarray


def bound_trips(
    batches: Iterable[pa.RecordBatch], bound: TripBound, progress: Progress | None = None
) -> GridTrips:
    """All batches traced, in threads; the batches are user-complete."""
    tell = progress or (lambda what, rows: None)
    parts: list[Traced] = []
    for rows, part in in_threads(batches, bound):
        parts.append(part)
        tell("trace", rows)
    return bound.join(parts)
