"""One world of the benchmark of synthetic trips: its paths, and a row for every release of it.

`seconds` is from points in memory to synthetic paths: encoding, noise, model, and as many trips as there are
real ones. `peak_gb` is the most memory of the process meanwhile, the points included. Two processes
run at a time, so that seconds are higher than of a run alone (synthetic_cost.py). Noise is seeded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.density_code import code_of_modules
from benchmarks.histogram_data import BOXES, TripPoints, sample_points, trip_points
from benchmarks.memory import peak_gb, restart_peak
from benchmarks.synthetic_cells import BRIDGES, NO_NOISE, REAL, SOUND, TGM, TGM_VARIANTS, Run, World
from shoal.engine.engine import encode_trips
from shoal.engine.path_trips import PathBound, PathQueries
from shoal.kinds.synthetic.plan import METHODS
from shoal.metrics.synthetic import synthetic_utility
from shoal.postprocess.synthetic.bridge_tables import Parts
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.trip_setting import PathSetting
from shoal.stages.trips import ExactPaths
from shoal_baselines.comparators.tgm import PublishedTgm

Row = dict[str, Any]
CELL_M, STEP_S = 420.0, 60.0
ALL_TRIPS = 10_000_000
CAP = 1_000  # trips of a cab in the number of trips
WINDOWS = {
    "sf": ("2008-05-17", "2008-06-11", "America/Los_Angeles"),
    "porto": ("2013-07-01", "2014-07-01", "Europe/Lisbon"),
    "tdrive": ("2008-02-02", "2008-02-03", "UTC"),
    "town": ("2026-03-02", "2026-03-09", "Europe/Paris"),
}
MEASURES = (
    *("distance_jsd", "pattern_f1", "pattern_f1_35", "stay_jsd", "length_jsd", "visit_error", "od_jsd"),
    *("range_error", "transition_jsd", "duration_jsd", "hour_jsd", "tide_jsd"),
)
ALWAYS_READ = ("shoal.engine.path_trips", "shoal.engine.path_trips", "shoal.metrics.synthetic")


def rows_of(world: World, runs: list[Run]) -> Iterator[Row]:
    """A row for every run, in order."""
    opened = OpenWorld(world)
    opened.warm(runs)
    for run in runs:
        yield {**settings_of(world, run), **opened.measured(run), "code": code_of(run.method)}


def settings_of(world: World, run: Run) -> Row:
    """What tells one row from another."""
    return {**asdict(world), "n": world.n or trips_of(world.data), **asdict(run)}


@cache
def trips_of(data: str) -> int:
    return trip_points(data).count


@cache
def code_of(method: str) -> str:
    """Changes when code changes that a row of this method depends on."""
    if method.startswith(TGM):
        return code_of_modules((*ALWAYS_READ, "shoal_baselines.comparators.tgm"))
    if method == REAL:
        return code_of_modules(ALWAYS_READ)
    name = method if method in SOUND else BRIDGES
    return code_of_modules((*ALWAYS_READ, f"shoal.mechanisms.synthetic_{name}"))


def grid_of(data: str) -> CellGrid:
    """Cells of at most 420 m."""
    west, south, east, north = BOXES[data]
    width, height = CellGrid(box=(west, south, east, north), columns=1, rows=1).cell_m
    columns, rows = math.ceil(width / CELL_M), math.ceil(height / CELL_M)
    return CellGrid(box=(west, south, east, north), columns=columns, rows=rows)


class OpenWorld:
    """Points and truth of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.each_trip = world.unit == "trip"
        start, end, zone = WINDOWS[world.data]
        self.setting = PathSetting(
            grid=grid_of(world.data),
            step_s=STEP_S,
            clock=Clock(start=start, end=end, time_zone=zone),  # type: ignore[arg-type]
            each_trip=self.each_trip,
            cap=1 if self.each_trip else CAP,
        )

    @cached_property
    def points(self) -> TripPoints:
        return sample_points(self.world.data, self.world.n)

    @cached_property
    def real(self) -> ExactPaths:
        return self.encoded(self.points)

    def encoded(self, points: TripPoints) -> ExactPaths:
        bound = PathBound(
            grid=self.setting.grid,
            step_s=STEP_S,
            each_trip=self.each_trip,
            per_unit=1 if self.each_trip else ALL_TRIPS,
            cap=self.setting.cap,
            run_key=bytes(16),
        )
        return encode_trips(points.batches(), bound)

    def warm(self, runs: list[Run]) -> None:
        """Compile before the clock starts, on a few trips."""
        few = self.points.take(np.arange(min(200, self.points.count)))
        for run in {run.method: run for run in runs}.values():
            self.generated(run, self.encoded(few))

    def measured(self, run: Run) -> Row:
        restart_peak()
        begin = time.perf_counter()
        synthetic = self.generated(run, self.encoded(self.points))
        seconds, peak = time.perf_counter() - begin, peak_gb()
        slots = tuple(
            self.setting.kind_of_slot[self.setting.clock.slot_of(paths.start_us)]
            for paths in (self.real, synthetic)
        )
        found = synthetic_utility(self.real, synthetic, start_slots=slots)  # type: ignore[arg-type]
        figures = {name: round(float(getattr(found, name)), 5) for name in MEASURES}
        return {**figures, "seconds": round(seconds, 2), "peak_gb": round(peak, 2)}

    def generated(self, run: Run, exact: ExactPaths) -> CellPaths:
        """As many trips as there are real ones."""
        noise = SeededNoise(run.rep)
        if run.method == REAL:
            return self._second_sample(run)
        if run.method.startswith(TGM):
            made = PublishedTgm(epsilon=run.epsilon, **TGM_VARIANTS.get(run.method, {}))
            return made(exact, noise, exact.count)
        model = self.mechanism(run)(PathQueries(exact), noise)
        return model.generate(exact.count, run.rep)

    def mechanism(self, run: Run) -> Any:
        budget = Budget.of(run.epsilon, run.delta)
        if run.method in SOUND:
            return METHODS[run.method].build(budget, self.setting)
        parts = Parts()
        if run.method != NO_NOISE:
            parts = replace(parts, **{run.method.removeprefix("without "): False})
        made = import_module("shoal.mechanisms.synthetic.bridges").SyntheticBridges
        return made.within(budget, self.setting, parts=parts)

    def _second_sample(self, run: Run) -> CellPaths:
        """Other trips of the same data set."""
        points = trip_points(self.world.data)
        generator = np.random.Generator(np.random.Philox(0))  # that of sample_points
        mine = generator.choice(points.count, self.world.n, replace=False)
        rest = np.setdiff1d(np.arange(points.count), mine)
        drawn = np.random.default_rng(run.rep).choice(rest, min(self.world.n or 0, rest.size), replace=False)
        return self.encoded(points.take(np.sort(drawn)))
