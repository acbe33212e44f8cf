"""The pipelines of generators at audit size: events to paths, to a model, to its numbers and a few trips.

The same tables of (user, time, site) as for visits. A site is a cell; a microsecond between rows is a step
here, and so is the number of the site, so that a user who is seen at several sites in a slot goes from one to
the next. Half an hour without a row ends a trip; where the unit is a trip, the window is one slot, and all
that a user does in it is one trip. Rows out of the window are not read, as in the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pipelines.pipeline import Events, Pipeline, Step, WholeTable, World
from shoal.auditing.pipelines.trips import CELLS, RULE, SIDE, freeze, placed, row_of
from shoal.auditing.tables import HOUR_US, START_US
from shoal.engine.commute import CommuteKernel, sum_commutes
from shoal.engine.path_door import PathDoor
from shoal.engine.path_trips import PathBound, encode_paths
from shoal.events.schema import TripRule
from shoal.space.path_setting import PathSetting
from shoal.space.setting import Setting
from shoal.stages.commutes import ExactCommutes, SyntheticEvents
from shoal.stages.noisy import DensityEstimate
from shoal.stages.synthetic import MovementModel, SyntheticPaths
from shoal.stages.trips import ExactPaths

ONE_TRIP = TripRule(gap_minutes=600.0)  # no gap within a slot is as long
PLACES = (*CELLS[:7], CELLS[2])  # two sites in one cell: from one to the other is a stay
STEP_US = 60_000_000
NEAR_US = 60  # rows that are closer to the start of a slot are so many steps away from it
SAMPLE = 20  # trips, or people, that are generated and released
SEED = 5  # of what is generated; public


@dataclass(frozen=True, eq=False)
class CountedPaths:
    """What there is before the noise: bounded paths; `counts` and `users` are for bugs that look back."""

    paths: ExactPaths

    @property
    def bounded(self) -> CountedPaths:
        return self

    @property
    def users(self) -> int:
        return self.paths.units

    @cached_property
    def counts(self) -> np.ndarray:
        """Visits per cell."""
        return np.bincount(self.paths.cells, minlength=self.paths.grid.count)[:, None]

    @cached_property
    def door(self) -> PathDoor:
        return PathDoor(self.paths)

    def freeze(self) -> None:
        """Nobody changes what several mechanisms share."""
        freeze(self.paths)


@dataclass(frozen=True, kw_only=True, eq=False)
class PathWorld(World):
    """Sites are cells; `ell` trips of a user are kept, `cap` counted."""

    def count(self, kernel: Step, bound: Step, events: Events, run_key: bytes) -> CountedPaths:
        setting = self.size.paths()
        made = kernel(
            grid=setting.grid,
            per_unit=self.ell,
            cap=self.cap,
            each_trip=setting.each_trip,
            step_s=setting.step_s,
            run_key=run_key,
        )
        return CountedPaths(bound(list(points(events, self)), made))


def points(events: list[pa.RecordBatch], world: World) -> Iterator[pa.RecordBatch]:
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


def path_numbers(trips: SyntheticPaths) -> list[np.ndarray]:
    return [np.array([trips.count]), trips.first, trips.cells, trips.tick, trips.stay, trips.start_us]


def model_row(model: MovementModel, drawn: SyntheticPaths) -> DensityEstimate:
    """Every number of the model, starts first, and every number of some trips."""
    numbers = model.numbers()
    names = sorted(numbers, key=lambda name: not name.startswith("starts"))
    return row_of([*(numbers[name] for name in names), *path_numbers(drawn)])


def _estimate(model: MovementModel, *_: Any) -> DensityEstimate:
    return model_row(model, model.generate(SAMPLE, SEED))


@dataclass(frozen=True, kw_only=True, eq=False)
class PathPipeline(Pipeline):
    """Paths behind a door, asked for tables."""

    kernel: Callable[..., Any] = PathBound
    bound: Callable[..., ExactPaths] = encode_paths
    spread: Callable[[CountedPaths, PathSetting], Any] = lambda counted, _: counted.door
    estimate: Callable[..., DensityEstimate] = _estimate

    worlds = PathWorld

    def exact(self, counted: CountedPaths) -> Any:
        return self.spread(counted, self.mechanism.setting)

    @property
    def seen(self) -> slice:
        """Trips that start in the cell of the first site."""
        column, row = np.array(PLACES[0]) * self.world.size.cells // SIDE
        at = row * self.world.size.cells + column
        return slice(at, at + 1)


# --- site events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CountedCommutes:
    """Events at sites, summed for either norm when asked."""

    sum: Callable[[int], ExactCommutes]
    events: list[pa.RecordBatch]
    world: World
    kept: dict[int, ExactCommutes] = field(init=False, default_factory=dict)

    @property
    def bounded(self) -> CountedCommutes:
        return self

    def tables(self, norm: int) -> ExactCommutes:
        if norm not in self.kept:
            self.kept[norm] = self.sum(norm)
        return self.kept[norm]

    @cached_property
    def users(self) -> int:
        return len({user for batch in self.events for user in batch["user"].to_pylist()})

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows per site."""
        site = np.array([site for batch in self.events for site in batch["site"].to_pylist()], np.int64)
        return np.bincount(site[site >= 0], minlength=self.world.sites)[:, None]

    def freeze(self) -> None:
        """Sums are made once and handed out; nobody writes into them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CommuteWorld(World):
    """Sites on a plane."""

    def count(self, kernel: Step, bound: Step, events: Events, run_key: bytes) -> CountedCommutes:
        setting = self.size.commutes

        def summed(norm: int) -> ExactCommutes:
            return bound(WholeTable(), events, kernel(setting=setting, norm=norm, run_key=run_key))

        return CountedCommutes(summed, events, self)


def event_numbers(events: SyntheticEvents) -> list[np.ndarray]:
    return [np.array([events.people]), events.person, events.time_us, events.site]


def _estimate_events(model: Any, _bounded: CountedCommutes, _setting: Setting) -> DensityEstimate:
    return row_of([*model.numbers().values(), *event_numbers(model.generate(SAMPLE, SEED))])


@dataclass(frozen=True, kw_only=True, eq=False)
class CommutePipeline(Pipeline):
    """Tables of homes, work places and calls."""

    kernel: Callable[..., Any] = CommuteKernel
    bound: Callable[..., ExactCommutes] = sum_commutes
    spread: Callable[[CountedCommutes, int], ExactCommutes] = CountedCommutes.tables
    estimate: Callable[..., DensityEstimate] = _estimate_events

    worlds = CommuteWorld

    def exact(self, counted: CountedCommutes) -> Any:
        return self.spread(counted, self.mechanism.norm)

    @property
    def seen(self) -> slice:
        return slice(1)  # the number of users
