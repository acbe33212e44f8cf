"""Pipelines of trips at audit size: events at places of a small grid, cut into trips, to released bytes.

The tables of (user, time, site) are those of visits: a site is a cell, a user is seen there at a time, and
half an hour without being seen ends a trip. For histograms, users who go from site to site and back enter
rectangles again. For generators a microsecond between rows is a step, and so is the number of the site, so
that a user who is seen at several sites in a slot goes from one to the next; where the unit is a trip, the
window is one slot, and all that a user does in it is one trip. Rows out of the window are not read, as in a
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import HOUR_US, START_US
from shoal.auditing.pipelines.pipeline import Events, Pipeline, Step, WholeTable, World
from shoal.engine.commute import CommuteKernel, sum_commutes
from shoal.engine.engine import encode_trips
from shoal.engine.path_trips import PathBound, PathQueries
from shoal.engine.trip_pieces import TripBound
from shoal.engine.trip_queries import TripQueries, exact_euler
from shoal.events.schema import TripRule
from shoal.events.trips import in_order, number_trips, starts, whole_users
from shoal.space.trip_setting import PathSetting, TripSetting
from shoal.stages.commutes import ExactCommutes, SyntheticEvents
from shoal.stages.noisy import DensityEstimate, NoisyHistogram
from shoal.stages.synthetic import SyntheticPaths
from shoal.stages.trips import ExactEuler, ExactPaths, GridTrips

RULE = TripRule(gap_minutes=30.0)  # slots are an hour apart: a trip each
# Column and row of each site, of 8 x 8. From the first to the second a path crosses all given rectangles;
# through all of them, in most orders, it enters some again.
CELLS = ((0, 1), (4, 4), (1, 6), (7, 7), (3, 2), (6, 1), (0, 4), (0, 7))
SIDE = 8
OUTSIDE = (-5, -5)
BATCH_ROWS = 64
Parts = list[np.ndarray]


class Counted:
    """What there is before the noise, for itself; `counts` and `users` are for bugs that look back."""

    @property
    def bounded(self) -> Any:
        return self

    def freeze(self) -> None:
        """Nobody changes what several mechanisms share."""
        for stage in vars(self).values():
            for part in vars(stage).values() if isinstance(stage, GridTrips | ExactPaths) else ():
                if isinstance(part, np.ndarray):
                    part.setflags(write=False)


@dataclass(frozen=True, eq=False)
class CountedTrips(Counted):
    """Trips on the grid."""

    trips: GridTrips

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
    def queries(self) -> TripQueries:
        return TripQueries(self.trips)


def count_trips(world: World, kernel: Step, bound: Step, events: Events, run_key: bytes) -> CountedTrips:
    """Sites are cells; a user has at most `ell` trips."""
    size = world.size
    bound_trips = kernel(grid=size.trips().grid, per_unit=size.ell, cap=size.cap, run_key=run_key)
    return CountedTrips(bound(list(points(events, size.cells)), bound_trips))


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


def row_of(people: Parts, low: Parts | None = None, high: Parts | None = None) -> DensityEstimate:
    """Numbers in a row, with the ends of their intervals where there are any."""
    row, least, most = (
        np.concatenate([np.ravel(part).astype(np.float64) for part in parts or people])[None, :]
        for parts in (people, low, high)
    )
    return DensityEstimate(people=row, low=least, high=most)


def model_row(noisy: NoisyHistogram) -> DensityEstimate:
    """Every number of the model, in a row: the numbers of trips first."""
    numbers = [np.array([noisy.trips, noisy.all_trips or 0.0, noisy.violated_before or 0.0])]
    parts = [part for part in (noisy.euler, noisy.pool) if part]
    arrays = [value for part in parts for value in vars(part).values() if isinstance(value, np.ndarray)]
    return row_of([*numbers, *arrays])


@dataclass(frozen=True, kw_only=True, eq=False)
class TripPipeline(Pipeline):
    """Trips behind their query interface, measured in sums."""

    kernel: Callable[..., Any] = TripBound
    bound: Callable[..., GridTrips] = encode_trips
    spread: Callable[[CountedTrips, TripSetting], Any] = lambda counted, _: counted.queries
    estimate: Callable[..., DensityEstimate] = lambda noisy, *_: model_row(noisy)

    count = staticmethod(count_trips)

    @property
    def watched_cells(self) -> slice:
        return slice(2)  # the numbers of trips


ONE_TRIP = TripRule(gap_minutes=600.0)  # no gap within a slot is as long
PLACES = (*CELLS[:7], CELLS[2])  # two sites in one cell: from one to the other is a stay
STEP_US = 60_000_000
NEAR_US = 60  # rows that are closer to the start of a slot are so many steps away from it
SAMPLE = 20  # trips, or people, that are generated and released
SEED = 5  # of what is generated; public


@dataclass(frozen=True, eq=False)
class CountedPaths(Counted):
    """Paths with times."""

    paths: ExactPaths

    @property
    def users(self) -> int:
        return self.paths.units

    @property
    def drawn(self) -> int:
        """Number of trips that a bug generates which reveals it."""
        return max(self.paths.all_trips, 1)

    @cached_property
    def counts(self) -> np.ndarray:
        """Visits per cell."""
        return np.bincount(self.paths.cells, minlength=self.paths.grid.count)[:, None]

    @cached_property
    def queries(self) -> PathQueries:
        return PathQueries(self.paths)


def count_paths(world: World, kernel: Step, bound: Step, events: Events, run_key: bytes) -> CountedPaths:
    """Sites are cells; `ell` trips of a user are kept, `cap` counted."""
    setting = world.size.paths()
    bound_paths = kernel(
        grid=setting.grid,
        per_unit=world.size.ell,
        cap=world.size.cap,
        each_trip=setting.each_trip,
        step_s=setting.step_s,
        run_key=run_key,
    )
    return CountedPaths(bound(list(path_points(events, world)), bound_paths))


def path_points(events: list[pa.RecordBatch], world: World) -> Iterator[pa.RecordBatch]:
    """User-complete batches of user, trip, time_us, x, y, as the reader of trips makes them."""
    if not events:
        return
    table = pa.Table.from_batches(events)
    time_us = table["time_us"].to_numpy()
    table = table.filter(pa.array((time_us >= world.edges_us[0]) & (time_us < world.edges_us[-1])))
    table = table.sort_by("user")
    steps = np.maximum(table["site"].to_numpy(), 0)
    time_us = _stretched(table["time_us"].to_numpy()) + steps * STEP_US
    yield from placed(table, time_us, PLACES, world.size.cells, ONE_TRIP if world.size.each_trip else RULE)


def _stretched(time_us: np.ndarray) -> np.ndarray:
    """Microseconds around the start of a slot as steps."""
    slot = (time_us - START_US + HOUR_US // 2) // HOUR_US
    begin = START_US + slot * HOUR_US
    away = time_us - begin
    return begin + np.where(np.abs(away) <= NEAR_US, away * STEP_US, away)


def drawn_numbers(drawn: SyntheticPaths | SyntheticEvents) -> list[np.ndarray]:
    """Every number of trips, or of people's events, that were generated."""
    if isinstance(drawn, SyntheticEvents):
        return [np.array([drawn.people]), drawn.person, drawn.time_us, drawn.site]
    return [np.array([drawn.count]), drawn.first, drawn.cells, drawn.tick, drawn.stay, drawn.start_us]


def generated_row(model: Any, drawn: SyntheticPaths | SyntheticEvents) -> DensityEstimate:
    """Every number of the model, starts first, and every number of what was generated."""
    numbers = model.numbers()
    names = sorted(numbers, key=lambda name: not name.startswith("starts"))
    return row_of([*(numbers[name] for name in names), *drawn_numbers(drawn)])


def _estimate(model: Any, *_: Any) -> DensityEstimate:
    return generated_row(model, model.generate(SAMPLE, SEED))


@dataclass(frozen=True, kw_only=True, eq=False)
class PathPipeline(Pipeline):
    """Paths behind their query interface, measured in tables."""

    kernel: Callable[..., Any] = PathBound
    bound: Callable[..., ExactPaths] = encode_trips
    spread: Callable[[CountedPaths, PathSetting], Any] = lambda counted, _: counted.queries
    estimate: Callable[..., DensityEstimate] = _estimate

    count = staticmethod(count_paths)

    @property
    def watched_cells(self) -> slice:
        """Trips that start in the cell of the first site."""
        column, row = np.array(PLACES[0]) * self.world.size.cells // SIDE
        at = row * self.world.size.cells + column
        return slice(at, at + 1)


# --- site events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CountedCommutes(Counted):
    """Events at sites, summed for either norm on demand."""

    sum: Callable[[int], ExactCommutes]
    events: list[pa.RecordBatch]
    world: World
    by_norm: dict[int, ExactCommutes] = field(init=False, default_factory=dict)

    def tables(self, norm: int) -> ExactCommutes:
        if norm not in self.by_norm:
            self.by_norm[norm] = self.sum(norm)
        return self.by_norm[norm]

    @property
    def drawn(self) -> int:
        """Number of people that a bug generates which reveals it."""
        return self.users

    @cached_property
    def users(self) -> int:
        return len({user for batch in self.events for user in batch["user"].to_pylist()})

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows per site."""
        site = np.array([site for batch in self.events for site in batch["site"].to_pylist()], np.int64)
        return np.bincount(site[site >= 0], minlength=self.world.size.places)[:, None]


def count_commutes(
    world: World, kernel: Step, bound: Step, events: Events, run_key: bytes
) -> CountedCommutes:
    """Sites on a plane."""

    def summed(norm: int) -> ExactCommutes:
        return bound(WholeTable(), events, kernel(setting=world.size.commutes, norm=norm, run_key=run_key))

    return CountedCommutes(summed, events, world)


@dataclass(frozen=True, kw_only=True, eq=False)
class CommutePipeline(Pipeline):
    """Tables of homes, work places and calls."""

    kernel: Callable[..., Any] = CommuteKernel
    bound: Callable[..., ExactCommutes] = sum_commutes
    spread: Callable[[CountedCommutes, int], ExactCommutes] = CountedCommutes.tables
    estimate: Callable[..., DensityEstimate] = _estimate

    count = staticmethod(count_commutes)

    @property
    def public(self) -> int:
        return self.mechanism.norm

    @property
    def watched_cells(self) -> slice:
        return slice(1)  # the number of users
