"""The pipeline of trips at audit size: events at places of a small grid, cut into trips, to released bytes.

The same tables of (user, time, site) as for visits: a site is a cell, a user is seen there at a time, and
half an hour without being seen ends a trip. Users who go from site to site and back enter rectangles again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.audit.pipeline import Pipeline, World
from shoal.audit.tables import read_table
from shoal.engine.euler import exact_euler
from shoal.engine.grid_trips import TripBound, bound_trips
from shoal.engine.trip_door import TripDoor
from shoal.events.trip_order import in_order
from shoal.events.trip_reader import number_trips, starts, whole_users
from shoal.events.trips import TripRule
from shoal.space.setting import Setting
from shoal.space.trip_setting import TripSetting
from shoal.stages.histogram import NoisyHistogram
from shoal.stages.noisy import DensityEstimate
from shoal.stages.trips import ExactEuler, GridTrips

RULE = TripRule(gap_minutes=30.0)  # slots are an hour apart: a trip each
# Column and row of each site, of 8 x 8. From the first to the second a path crosses all given rectangles;
# through all of them, in most orders, it enters some again.
CELLS = ((0, 1), (4, 4), (1, 6), (7, 7), (3, 2), (6, 1), (0, 4), (0, 7))
SIDE = 8
OUTSIDE = (-5, -5)
BATCH_ROWS = 64


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
        for part in (self.trips.first, self.trips.cells, self.trips.unit):
            part.setflags(write=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class TripWorld(World):
    """Sites are cells; a user has at most `ell` trips."""

    @property
    def trips(self) -> TripSetting:
        return self.size.trips()

    def count(
        self,
        kernel: Callable[..., Any],
        bound: Callable[..., Any],
        events: list[pa.RecordBatch],
        run_key: bytes,
    ) -> CountedTrips:
        made = kernel(grid=self.trips.grid, per_unit=self.ell, cap=self.cap, run_key=run_key)
        return CountedTrips(bound(list(points(events, self.size.cells)), made))


def points(events: list[pa.RecordBatch], cells: int = SIDE) -> Iterator[pa.RecordBatch]:
    """User-complete batches of user, trip, x, y, as the reader of trips makes them from a source."""
    if not events:
        return
    table = pa.Table.from_batches(events).sort_by("user")
    site = table["site"].to_numpy()
    place = (np.array([*CELLS, OUTSIDE])[site] + 0.5) * cells / SIDE  # site -1 is the last
    placed = pa.table(
        {"user": table["user"], "time_us": table["time_us"], "x": place[:, 0], "y": place[:, 1]}
    ).combine_chunks()
    for users in whole_users(iter(placed.to_batches(max_chunksize=BATCH_ROWS))):
        yield number_trips(in_order(users, starts(users["user"])), RULE, planar=True)


def model_row(noisy: NoisyHistogram) -> DensityEstimate:
    """Every number of the model, in a row: the numbers of trips first."""
    numbers = [np.array([noisy.trips, noisy.all_trips or 0.0, noisy.violated_before or 0.0])]
    for part in (noisy.euler, noisy.pool):
        numbers += (
            [np.ravel(value) for value in vars(part).values() if isinstance(value, np.ndarray)]
            if part
            else []
        )
    row = np.concatenate(numbers).astype(np.float64)[None, :]
    return DensityEstimate(people=row, low=row, high=row)


def _door(counted: CountedTrips, _setting: TripSetting) -> TripDoor:
    return counted.door


def _estimate(noisy: NoisyHistogram, _bounded: CountedTrips, _setting: Setting) -> DensityEstimate:
    return model_row(noisy)


@dataclass(frozen=True, kw_only=True, eq=False)
class TripPipeline(Pipeline):
    """Trips behind a door, asked for sums."""

    kernel: Callable[..., Any] = TripBound
    bound: Callable[..., GridTrips] = bound_trips
    spread: Callable[[CountedTrips, TripSetting], Any] = _door
    estimate: Callable[..., DensityEstimate] = _estimate

    worlds = TripWorld

    def exact(self, counted: CountedTrips) -> Any:
        return self.spread(counted, self.mechanism.setting)

    def told(self, released: bytes) -> np.ndarray:
        """The numbers of trips."""
        return read_table(released, "high")[:2]
