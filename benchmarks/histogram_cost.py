"""What histograms of trips cost: reading and tracing, exact answers, releases, the consistent estimate.

Simulated trips in Parquet files, made before the clock starts; system noise; two threads where the package
uses them, one process at a time. The consistent estimate stands beside HiGHS on the same linear program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.density_code import code_of_modules
from benchmarks.histogram_cells import RESOLUTION
from benchmarks.histogram_data import BOXES, scale_source
from benchmarks.histogram_rows import Row
from benchmarks.histogram_world import GIVEN, GIVEN_SEED
from benchmarks.memory import peak_gb, restart_peak

USERS = {1_000: 50, 10_000: 500, 100_000: 5_000, 1_000_000: 51_000}  # who make about so many trips in a week
COST_RESOLUTIONS = (32, 64, 128, 256, 512)
EPSILON = 0.1
READ, EXACT, DQAM, BOXES_RELEASE = (
    "read, trace, Euler",
    "16,000 exact answers",
    "dqam release",
    "boxes release",
)
OURS, HIGHS = "ours", "HiGHS"
HIGHS_SECONDS = 600  # then it is stopped
TRIP_MODULES = (
    "shoal.events.trips",
    "shoal.engine.trip_pieces",
    "shoal.engine.trip_queries",
    "shoal.engine.trip_queries",
    "shoal_baselines.mechanisms.histogram_dqam",
    "shoal.mechanisms.histogram.boxes",
)


@dataclass(frozen=True, kw_only=True)
class CostJob:
    """About so many trips on a grid, or a histogram to be made consistent (`grid` says which)."""

    trips: int = 0
    resolution: int = RESOLUTION
    grid: str = ""  # random, or scaled to 0.1
    solver: str = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """Methods of its rows."""
        return (f"consistent, {self.solver}",) if self.grid else (READ, EXACT, DQAM, BOXES_RELEASE)

    def key(self) -> Row:
        """What all rows of this job have."""
        if self.grid:
            return {"part": "consistent", "data": self.grid, "resolution": self.resolution}
        return {"part": "cost", "data": "town", "wanted_trips": self.trips, "resolution": self.resolution}

    def code(self) -> str:
        of_grid = ("shoal_baselines.postprocess.euler_consistent",)
        return code_of_modules(of_grid if self.grid else TRIP_MODULES)


def cost_jobs() -> list[CostJob]:
    """These run one at a time."""
    return [CostJob(trips=n) for n in USERS] + [
        CostJob(trips=100_000, resolution=r) for r in COST_RESOLUTIONS if r != RESOLUTION
    ]


def consistent_jobs() -> list[CostJob]:
    both = ("random", "scaled to 0.1")
    ours = [CostJob(grid=grid, solver=OURS) for grid in both]
    return ours + [CostJob(grid=grid, solver=HIGHS, resolution=r) for grid in both for r in (64, RESOLUTION)]


def cost_rows(job: CostJob) -> Iterator[Row]:
    yield from _consistent_rows(job) if job.grid else _trip_rows(job)


def _trip_rows(job: CostJob) -> Iterator[Row]:
    from shoal.engine.engine import encode_trips
    from shoal.engine.trip_pieces import TripBound
    from shoal.engine.trip_queries import TripQueries, distinct_counts, exact_euler
    from shoal.events.source import open_source
    from shoal.events.trips import read_trips
    from shoal.mechanisms.histogram.boxes import HistogramBoxes
    from shoal.privacy.accounting import Budget
    from shoal.privacy.noise import OsNoise
    from shoal.space.cells import CellGrid, random_rectangles
    from shoal.space.trip_setting import TripSetting
    from shoal_baselines.mechanisms.histogram_dqam import HistogramDqam

    grid = CellGrid(box=BOXES["town"], columns=job.resolution, rows=job.resolution)
    bound = TripBound(grid=grid, each_trip=True, run_key=bytes(16))
    source = open_source(str(scale_source(USERS[job.trips]) / "part-*.parquet"))
    given = random_rectangles(grid, GIVEN, GIVEN_SEED)
    warm = encode_trips(
        iter([next(read_trips(source, rows_per_batch=50_000))]), bound
    )  # compiles, if it must
    exact_euler(warm)
    distinct_counts(warm, given.take(np.arange(10)))

    clock = _Clock(job)
    trips = encode_trips(read_trips(source), bound)
    exact_euler(trips)
    yield clock.row(READ, trips.count)
    queries = TripQueries(trips)
    queries.distinct(given)
    yield clock.row(EXACT, trips.count)
    setting = TripSetting(grid=grid, given=given, each_trip=True)
    for name, kind in ((DQAM, HistogramDqam), (BOXES_RELEASE, HistogramBoxes)):
        kind.within(Budget.of(EPSILON, None), setting)(queries, OsNoise())
        yield clock.row(name, trips.count)


class _Clock:
    """Seconds and most memory since the last row."""

    def __init__(self, job: CostJob) -> None:
        self.job = job
        self._restart()

    def _restart(self) -> None:
        restart_peak()
        self.start = time.perf_counter()

    def row(self, step: str, count: int) -> Row:
        seconds, peak = time.perf_counter() - self.start, peak_gb()
        figures = {"seconds": round(seconds, 3), "peak_gb": round(peak, 3), "code": self.job.code()}
        self._restart()
        released = {"unit": "trip", "trips": "bought", "epsilon": EPSILON} if "release" in step else {}
        return {**self.job.key(), "method": step, "n": count, **released, **figures, "stamp": ""}


def _consistent_rows(job: CostJob) -> Iterator[Row]:
    from shoal_baselines.postprocess.euler_consistent import consistent, violations

    parts = _histogram(job)
    consistent(*_histogram(CostJob(grid=job.grid, resolution=8)))  # compiles, if it must
    clock = _Clock(job)
    if job.solver == OURS:
        made, solved = consistent(*parts), True
        row = clock.row(job.steps[0], 0)
        least = float(sum(np.abs(a - b).sum() for a, b in zip(made, parts, strict=True)))
    else:
        least, solved = _by_highs(parts)
        row = clock.row(job.steps[0], 0)
    broken = violations(*parts)
    yield row | {
        "n": None,
        "changed": least,
        "solved": solved,
        "violations_before": broken[0] / broken[1],
    }


def _histogram(job: CostJob) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent numbers; or a uniform model of a million trips with one rectangle scaled down."""
    from shoal_baselines.postprocess.prish import scale_inside, uniform_model

    side = job.resolution
    generator = np.random.default_rng(1)
    if job.grid == "random":
        shapes = (side, side), (side, side - 1), (side - 1, side)
        return generator.random(shapes[0]), generator.random(shapes[1]), generator.random(shapes[2])
    model = uniform_model((side, side), 1e6, side / 2)
    quarter = side // 4
    parts = model.faces, model.east, model.north
    scale_inside(*parts, quarter, 3 * quarter, quarter, 3 * quarter, 0.1)
    return parts


def _by_highs(parts: tuple[np.ndarray, np.ndarray, np.ndarray]) -> tuple[float | None, bool]:
    """The least change by the linear program: values = given + up - down; whether it was solved in time."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, eye_array, hstack, vstack

    faces = parts[0]
    given = np.concatenate([part.ravel() for part in parts])
    cell = np.arange(faces.size).reshape(faces.shape)
    edges = np.arange(faces.size, given.size)
    first = np.concatenate([cell[:, :-1].ravel(), cell[:-1].ravel()])
    second = np.concatenate([cell[:, 1:].ravel(), cell[1:].ravel()])
    lines, ones = np.arange(2 * edges.size), np.ones(2 * edges.size)
    at = np.append(np.tile(edges, 2), np.concatenate([first, second]))
    order = coo_array((np.append(ones, -ones), (np.tile(lines, 2), at)), shape=(lines.size, given.size))
    rules = vstack([order, -eye_array(given.size)]).tocsr()
    solved = linprog(
        np.ones(2 * given.size),
        A_ub=hstack([rules, -rules]).tocsr(),
        b_ub=-rules @ given,
        method="highs",
        options={"time_limit": HIGHS_SECONDS},
    )
    return (float(solved.fun), True) if solved.status == 0 else (None, False)
