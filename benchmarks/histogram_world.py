"""One world of the histogram benchmark: its trips, its truth, and a row for every release of it.

`seconds` and `peak_gb` are of the release alone: paths are traced and exact counts of the given rectangles
are at hand before the clock starts. Memory is the most that was resident meanwhile, the paths included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.density_code import code_of_modules
from benchmarks.histogram_cells import METHODS, NOISE_FREE, PUBLISHED, UNIFORM, Run, World
from benchmarks.histogram_data import load_trips
from benchmarks.histogram_rows import EXACT_MODULES, Row, code_of, settings_of, stamp_of
from benchmarks.memory import peak_gb, restart_peak
from benchmarks.table import OUT
from shoal.engine.trip_queries import TripQueries, distinct_counts, exact_euler, shared_faces, summaries
from shoal.kinds.histogram.plan import METHODS as MECHANISMS
from shoal.metrics.histogram import kld, mean_absolute_error, violated_share
from shoal.postprocess.histogram.box_model import BoxPool, pool_euler
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cells import Euler, Rectangles, random_rectangles
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import GridTrips
from shoal_baselines.comparators.published_histogram import (
    STEP,
    PublishedDqam,
    PublishedInput,
    PublishedPrish,
)
from shoal_baselines.postprocess.prish import uniform_model

GIVEN, UNSEEN = 16_000, 2_000
GIVEN_SEED, UNSEEN_SEED = 1, 2
ONE_BY_ONE = 1_000  # trips whose own Euler answers are looked at
LATTICE = 2**20


def rows_of(world: World, runs: list[Run]) -> Iterator[Row]:
    """A row for every run, in order."""
    opened = OpenWorld(world)
    for run in runs:
        yield {
            **settings_of(world, run),
            **opened.measured(run),
            "mean_true": round(float(opened.truth["unseen"].mean()), 2),
            "kept": opened.kept.count,
            "code": code_of(run.method),
            "stamp": stamp_of(world.data),
        }


@dataclass
class OpenWorld:
    """Paths in memory, exact answers kept on disk."""

    world: World
    kept: GridTrips = field(init=False)
    given: Rectangles = field(init=False)
    unseen: Rectangles = field(init=False)

    def __post_init__(self) -> None:
        w = self.world
        self.kept = load_trips(w.data, w.resolution, w.n, w.seed, w.unit, w.per_unit, w.cap)
        grid = self.kept.grid
        self.given = random_rectangles(grid, GIVEN, GIVEN_SEED)
        self.unseen = random_rectangles(grid, UNSEEN, UNSEEN_SEED)

    def measured(self, run: Run) -> Row:
        """Figures of one release against all trips."""
        make = self._maker(run)
        restart_peak()
        start = time.perf_counter()
        noisy = make()
        seconds, peak = time.perf_counter() - start, peak_gb()
        released = _scaled(noisy)
        more = self._one_by_one() if run.method == NOISE_FREE[0] and self.kept.count <= ONE_BY_ONE else {}
        return {
            "mae_given": mean_absolute_error(released.answers(self.given), self.truth["given"]),
            "mae_unseen": mean_absolute_error(released.answers(self.unseen), self.truth["unseen"]),
            "kld": self._kld(run.method, released.faces),
            "violations": violated_share(released),
            "violations_before": noisy.violated_before,
            "seconds": round(seconds, 3),
            "peak_gb": round(peak, 3),
            **more,
            **self._promise(run),
        }

    def _maker(self, run: Run) -> Callable[[], NoisyHistogram]:
        if run.method in METHODS:
            assert run.epsilon is not None
            mechanism = MECHANISMS[run.method].build(Budget.of(run.epsilon, run.delta), self._setting(run))
            self.queries.distinct(self.given)  # before the clock starts
            return lambda: mechanism(self.queries, SeededNoise(run.rep))
        if run.method in PUBLISHED:
            read, comparator = self._published_input, self._published(run)
            return lambda: comparator(read, SeededNoise(run.rep))
        return lambda: NoisyHistogram(euler=self._exact(run.method), trips=float(self.kept.count))

    def _exact(self, method: str) -> Euler:
        """No release: the public start, or numbers without noise."""
        rows, columns = self.kept.grid.rows, self.kept.grid.columns
        if method == UNIFORM:
            cells = self._setting(Run(method=method, rep=0)).expected_cells
            return uniform_model((rows, columns), float(self.kept.count), cells).euler()
        if method in NOISE_FREE[:2]:
            return exact_euler(self.kept, blocks=method == NOISE_FREE[1])
        x0, x1, y0, y1, shape = (side.astype(np.int64) for side in summaries(self.kept))
        pool = BoxPool(x0=x0, x1=x1, y0=y0, y1=y1, shape=shape)
        return pool_euler(pool, np.ones(pool.count), rows, columns)

    def _setting(self, run: Run) -> TripSetting:
        w, declared = self.world, self.kept.count if run.trips == "declared" else None
        return TripSetting(
            grid=self.kept.grid,
            given=self.given,
            each_trip=w.unit == "trip",
            per_unit=w.per_unit,
            cap=w.cap,
            trips=declared,
        )

    @cached_property
    def queries(self) -> TripQueries:
        """With the counts of the given rectangles from the disk, where they are there."""
        return _Queries(
            self.kept, self.given, exact_of(self.world, self.kept, self.given, self.unseen)["given"]
        )

    @cached_property
    def truth(self) -> dict[str, np.ndarray]:
        """Of all trips, also where the release keeps few of a user."""
        every = replace(
            self.world, unit="trip", per_unit=1, cap=None, seed=self.world.seed * bool(self.world.n)
        )
        kept = self.kept if every == self.world else None
        return exact_of(every, kept, self.given, self.unseen)

    @cached_property
    def _published_input(self) -> PublishedInput:
        shared = shared_faces(self.kept, STEP) / STEP
        return PublishedInput(euler=exact_euler(self.kept), shared=shared, trips=self.kept.count)

    def _published(self, run: Run) -> PublishedPrish:
        kind = PublishedPrish if run.method == PublishedPrish.name else PublishedDqam
        assert run.epsilon is not None
        return kind(epsilon=run.epsilon, setting=self._setting(run))

    def _promise(self, run: Run) -> Row:
        if run.method in PUBLISHED:
            comparator = self._published(run)
            return {"sound": False, "guarantee": comparator.true_guarantee()} | {
                "epsilon_if_fixed": comparator.epsilon_if_fixed()
            }
        return {"sound": run.method in METHODS}

    def _kld(self, method: str, faces: np.ndarray) -> float:
        """Relative entropy of the exact faces to the released ones, both as shares of their sum.

        Methods without edges release trips shared over their cells, and are compared with that.
        """
        shares = method in METHODS and not MECHANISMS[method].mechanism.edges
        exact = self.truth["shared"] if shares else self.truth["faces"]
        estimated = np.maximum(faces, 0.0)
        total = max(float(estimated.sum()), 1e-9)
        return kld(exact, estimated * (exact.sum() / total), float(exact.sum()))

    def _one_by_one(self) -> Row:
        """The least and most that one trip adds to an exact Euler answer, and the share that exceeds 1."""
        least, most, above = 1, 0, 0
        for i in range(self.kept.count):
            cells = self.kept.cells[self.kept.first[i] : self.kept.first[i + 1]]
            first, unit = np.array([0, cells.size]), np.zeros(1, np.int64)
            answers = exact_euler(replace(self.kept, first=first, cells=cells, unit=unit)).answers(self.given)
            least, most = min(least, int(answers.min())), max(most, int(answers.max()))
            above += bool(answers.max() > 1)
        return {"one_trip_least": least, "one_trip_most": most, "trips_above_1": above / self.kept.count}


@dataclass(frozen=True, eq=False)
class _Queries(TripQueries):
    """The same query interface; counts of the given rectangles were taken before."""

    given: Rectangles = field(repr=False)
    counted: np.ndarray = field(repr=False)

    def distinct(self, rectangles: Rectangles) -> np.ndarray:
        return self.counted.copy() if rectangles is self.given else super().distinct(rectangles)


def exact_of(
    world: World, kept: GridTrips | None, given: Rectangles, unseen: Rectangles
) -> dict[str, np.ndarray]:
    """Distinct trips in given and unseen rectangles, exact faces and shares; kept in benchmarks/out."""
    code = code_of_modules(EXACT_MODULES)
    parts = (
        world.data,
        world.n or "all",
        world.seed,
        world.resolution,
        world.unit,
        world.per_unit,
        world.cap,
    )
    name = "-".join(map(str, (*parts, stamp_of(world.data), code)))
    path = OUT / "histogram-exact" / f"{name}.npz"
    if not path.exists():
        w = world
        trips = kept or load_trips(w.data, w.resolution, w.n, w.seed, w.unit, w.per_unit, w.cap)
        made: dict[str, Any] = {
            "given": distinct_counts(trips, given),
            "unseen": distinct_counts(trips, unseen),
            "faces": exact_euler(trips).faces,
            "shared": shared_faces(trips, LATTICE) / LATTICE,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{time.time_ns()}.npz")
        np.savez(partial, **made)
        partial.replace(path)
    with np.load(path) as kept_before:
        return {key: kept_before[key] for key in kept_before}


def _scaled(noisy: NoisyHistogram) -> Euler:
    """As it would be published."""
    parts = {name: getattr(noisy.euler, name) for name in ("faces", "east", "north")}
    if noisy.scale == 1.0:
        return noisy.euler
    return replace(noisy.euler, **{k: v * noisy.scale for k, v in parts.items() if v is not None})
