"""The pipeline of trips at audit size: events at places of a small grid, cut into trips, to released bytes.

The same tables of (user, time, site) as for visits: a site is a cell, a user is seen there at a time, and
half an hour without being seen ends a trip. Users who go from site to site and back enter rectangles again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pipelines.pipeline import Events, Pipeline, Step, World
from shoal.engine.euler import exact_euler
from shoal.engine.grid_trips import TripBound, bound_trips
from shoal.engine.trip_door import TripDoor
from shoal.events.schema import TripRule
from shoal.events.trip_reader import number_trips, starts, whole_users
from shoal.events.trips import in_order
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import DensityEstimate, NoisyHistogram
from shoal.stages.trips import ExactEuler, GridTrips

RULE = TripRule(gap_minutes=30.0)  # slots are an hour apart: a trip each
# Column and row of each site, of 8 x 8. From the first to the second a path crosses all given rectangles;
# through all of them, in most orders, it enters some again.
CELLS = ((0, 1), (4, 4), (1, 6), (7, 7), (3, 2), (6, 1), (0, 4), (0, 7))
SIDE = 8
OUTSIDE = (-5, -5)
BATCH_ROWS = 64


def freeze(stage: Any) -> None:
    """Arrays of a stage that nobody may change."""
    for part in vars(stage).values():
        if isinstance(part, np.ndarray):
            part.setflags(write=False)


@dataclass(frozen=True, eq=False)
class CountedTrips:
    """What there is before the noise: bounded paths; `counts` and `users` are for bugs that look back."""

    trips: GridTrips

    @property
    def bounded(self) -> CountedTrips:
        return self

    @property
    def users(self) -> int:
        return int(self.trips.unit.max(initial=-1)) + 1

    @property
    def counts(self) -> np.ndarray:
        return self.euler.faces

    @cached_property
    def euler(self) -> ExactEuler:
        return exact_euler(self.trips)

    @cached_property
    def door(self) -> TripDoor:
        return TripDoor(self.trips)

    def freeze(self) -> None:
        """Nobody changes what several mechanisms share."""
        freeze(self.trips)


@dataclass(frozen=True, kw_only=True, eq=False)
class TripWorld(World):
    """Sites are cells; a user has at most `ell` trips."""

    @property
    def trips(self) -> TripSetting:
        return self.size.trips()

    def count(self, kernel: Step, bound: Step, events: Events, run_key: bytes) -> CountedTrips:
        made = kernel(grid=self.trips.grid, per_unit=self.ell, cap=self.cap, run_key=run_key)
        return CountedTrips(bound(list(points(events, self.size.cells)), made))


def points(events: list[pa.RecordBatch], cells: int = SIDE) -> Iterator[pa.RecordBatch]:
    """User-complete batches of user, trip, x, y, as the reader of trips makes them from a source."""
    if events:
        table = pa.Table.from_batches(events).sort_by("user")
        yield from placed(table, table["time_us"], CELLS, cells, RULE)


def placed(
    table: pa.Table, time_us: Any, places: Sequence[tuple[int, int]], cells: int, rule: TripRule
) -> Iterator[pa.RecordBatch]:
    """Rows sorted by user, with their sites as points of a grid of `cells` a side, cut into trips."""
    xy = (np.array([*places, OUTSIDE])[table["site"].to_numpy()] + 0.5) * cells / SIDE  # site -1 is the last
    points = pa.table({"user": table["user"], "time_us": time_us, "x": xy[:, 0], "y": xy[:, 1]})
    for users in whole_users(iter(points.combine_chunks().to_batches(max_chunksize=BATCH_ROWS))):
        yield number_trips(in_order(users, starts(users["user"])), rule, planar=True)


def row_of(parts: list[np.ndarray]) -> DensityEstimate:
    """Numbers in a row."""
    row = np.concatenate([np.ravel(part).astype(np.float64) for part in parts])[None, :]
    return DensityEstimate(people=row, low=row, high=row)


def model_row(noisy: NoisyHistogram) -> DensityEstimate:
    """Every number of the model, in a row: the numbers of trips first."""
    numbers = [np.array([noisy.trips, noisy.all_trips or 0.0, noisy.violated_before or 0.0])]
    for part in (noisy.euler, noisy.pool):
        numbers += (
            [np.ravel(value) for value in vars(part).values() if isinstance(value, np.ndarray)]
            if part
            else []
        )
    return row_of(numbers)


@dataclass(frozen=True, kw_only=True, eq=False)
class TripPipeline(Pipeline):
    """Trips behind a door, asked for sums."""

    kernel: Callable[..., Any] = TripBound
    bound: Callable[..., GridTrips] = bound_trips
    spread: Callable[[CountedTrips, TripSetting], Any] = lambda counted, _: counted.door
    estimate: Callable[..., DensityEstimate] = lambda noisy, *_: model_row(noisy)

    worlds = TripWorld

    def exact(self, counted: CountedTrips) -> Any:
        return self.spread(counted, self.mechanism.setting)

    @property
    def seen(self) -> slice:
        return slice(2)  # the numbers of trips
