"""Histogram mechanisms of the sources, made sound: what they cost, what they touch, what they publish."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.loops import for_each

from shoal.engine.trip_queries import TripQueries
from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.audit_size import trip_setting
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cells import CellGrid, Rectangles, random_rectangles
from shoal.space.trip_setting import TripSetting
from shoal.stages.trips import GridTrips
from shoal_baselines.mechanisms.histogram_dawa import HistogramDawa
from shoal_baselines.mechanisms.histogram_dqam import HistogramDqam
from shoal_baselines.mechanisms.histogram_laplace import HistogramLaplace
from shoal_baselines.mechanisms.histogram_mwem import HistogramMwem
from shoal_baselines.mechanisms.histogram_prish import HistogramPrish
from shoal_baselines.postprocess.euler_consistent import violations

MECHANISMS = [HistogramLaplace, HistogramMwem, HistogramDawa, HistogramPrish, HistogramDqam]
EULER = [HistogramPrish, HistogramDqam]
DELTAS = [None, 1e-6]


def grid_of(columns, rows):
    return CellGrid(box=(0.0, 0.0, float(columns), float(rows)), columns=columns, rows=rows, planar=True)


def trips_on(grid, paths, unit, per_unit):
    return GridTrips(
        grid=grid,
        first=np.cumsum([0, *(len(path) for path in paths)]).astype(np.int64),
        cells=np.array([y * grid.columns + x for path in paths for x, y in path], np.int32),
        unit=np.array(unit, np.int64),
        per_unit=per_unit,
        all_trips=len(paths),
        cap=per_unit,
        each_trip=False,
    )


def walk(generator, grid):
    """A path that turns, comes back and loops."""
    x, y = int(generator.integers(grid.columns)), int(generator.integers(grid.rows))
    path = [(x, y)]
    for _ in range(int(generator.integers(0, 30))):
        dx, dy = [(1, 0), (-1, 0), (0, 1), (0, -1)][generator.integers(4)]
        if 0 <= x + dx < grid.columns and 0 <= y + dy < grid.rows:
            x, y = x + dx, y + dy
            path.append((x, y))
    return path


def setting_of(grid, per_unit, seed=3, trips=None):
    return TripSetting(grid=grid, given=random_rectangles(grid, 30, seed), per_unit=per_unit, trips=trips)


@for_each("kind", MECHANISMS)
@for_each("delta", DELTAS)
@for_each("trips", [None, 50])
def test_loss_is_the_epsilon_asked_for(kind, delta, trips):
    mechanism = kind.within(Budget.of(0.7, delta), trip_setting(per_unit=3, cap=9, trips=trips))
    loss = mechanism.loss()
    assert 0.999 * 0.7 < loss.epsilon(delta or 1e-6) <= 0.7
    assert (loss.pure_epsilon_nano is None) == (delta is not None)
    bought = [name for name, _ in mechanism.spends()]
    assert ("trips" in bought) == (trips is None)
    assert "all_trips" in bought
    assert mechanism.describe()["name"] == mechanism.name


class Watched:
    """Query interface that records which sums were asked for."""

    def __init__(self, queries):
        self._queries, self.calls = queries, []

    def __getattr__(self, name):
        if name in {"per_unit", "cap", "each_trip", "grid"}:  # public
            return getattr(self._queries, name)
        if name not in {"count", "all_trips", "distinct", "shared_faces"}:
            raise AssertionError(f"{name} is no business of these mechanisms")
        self.calls.append(name)
        return getattr(self._queries, name)


@for_each(
    ("kind", "asks"),
    [
        (HistogramLaplace, {"count", "shared_faces"}),
        (HistogramMwem, {"count", "shared_faces"}),
        (HistogramDawa, {"count", "shared_faces"}),
        (HistogramPrish, {"count", "distinct"}),
        (HistogramDqam, {"count", "distinct", "shared_faces"}),
    ],
)
def test_only_these_sums_leave_the_query_interface(kind, asks):
    grid = grid_of(8, 8)
    generator = np.random.default_rng(5)
    queries = Watched(TripQueries(trips_on(grid, [walk(generator, grid) for _ in range(20)], range(20), 1)))
    kind.within(Budget.of(1.0, None), setting_of(grid, 1))(queries, SeededNoise(1))
    assert set(queries.calls) == asks


@for_each("kind", [*MECHANISMS, HistogramBoxes])
def test_units_with_more_trips_than_the_noise_is_for_are_refused(kind):
    """The bound of the trips and that of the mechanism come from different places."""
    grid = grid_of(8, 8)
    setting = trip_setting(per_unit=2, cap=4)

    def queries(per_unit, cap):
        return TripQueries(replace(trips_on(grid, [[(0, 0)]], [0], per_unit), cap=cap))

    mechanism = kind.within(Budget.of(1.0, None), setting)
    assert mechanism(queries(1, 4), SeededNoise(1)).trips >= 1
    for per_unit, cap in ((3, 4), (2, 5)):
        with pytest.raises(GuaranteeError, match="bound-not-held"):
            mechanism(queries(per_unit, cap), SeededNoise(1))


@for_each("kind", MECHANISMS)
@for_each("epsilon", [0.05, 2.0, 1000.0])
@for_each(("columns", "rows"), [(16, 16), (9, 5), (1, 7), (1, 1)])
def test_what_is_published_is_finite_and_consistent(kind, epsilon, columns, rows):
    grid = grid_of(columns, rows)
    generator = np.random.default_rng(8)
    queries = TripQueries(trips_on(grid, [walk(generator, grid) for _ in range(60)], range(60), 1))
    out = kind.within(Budget.of(epsilon, None), setting_of(grid, 1))(queries, SeededNoise(2))
    assert out.euler.shape == (rows, columns)
    assert np.isfinite(out.euler.faces).all()
    if kind in EULER:
        assert violations(out.euler.faces, out.euler.east, out.euler.north)[0] == 0
        assert 0 <= out.violated_before <= 1
    else:
        assert out.euler.east is None


@pytest.mark.parametrize("kind", [HistogramLaplace, HistogramMwem, HistogramDawa])
def test_with_little_noise_the_weight_of_trips_is_found(kind):
    """Trips on the left half only: the halves' weights are n and 0."""
    grid = grid_of(16, 16)
    paths = [[(x, y) for x in range(8)] for y in range(16)] * 20
    given = Rectangles.of([(0, 8, 0, 16), (8, 16, 0, 16), (0, 16, 0, 8), (0, 4, 0, 16), (2, 6, 3, 9)])
    setting = TripSetting(grid=grid, given=given, trips=320)
    queries = TripQueries(trips_on(grid, paths, range(320), 1))
    out = kind.within(Budget.of(200.0, None), setting)(queries, SeededNoise(4))
    found = out.euler.answers(given)
    assert found[:4] == pytest.approx([320, 0, 160, 160], abs=20)


@pytest.mark.parametrize("kind", EULER)
def test_with_little_noise_distinct_counts_are_approached(kind):
    """Everything in one quarter: a uniform start says the same of all quarters, what is learned does not."""
    grid = grid_of(16, 16)
    generator = np.random.default_rng(6)
    small = grid_of(8, 8)
    queries = TripQueries(trips_on(grid, [walk(generator, small) for _ in range(400)], range(400), 1))
    given = Rectangles.of([(0, 8, 0, 8), (8, 16, 0, 8), (0, 8, 8, 16), (8, 16, 8, 16), (0, 8, 0, 16)])
    setting = TripSetting(grid=grid, given=given, trips=400)
    mechanism = kind.within(Budget.of(500.0, None), setting)
    found = mechanism(queries, SeededNoise(4)).euler.answers(given)
    start = HistogramPrish.within(Budget.of(500.0, None), setting).start(400.0).answers(given)
    truth = queries.distinct(given)
    assert np.abs(found - truth).mean() < 0.6 * np.abs(start - truth).mean()
    assert found[0] > 1.5 * found[1:4].max()


@pytest.mark.parametrize("kind", [HistogramMwem, HistogramPrish, HistogramDqam])
def test_rounds_need_rectangles_and_budget(kind):
    grid = grid_of(4, 4)
    empty = TripSetting(grid=grid, given=Rectangles.of([]))
    with pytest.raises(PlanError, match="rectangle"):
        kind.within(Budget.of(1.0, None), empty)
    with pytest.raises(PlanError, match="too small"):
        kind.within(Budget.of(1e-8, None), setting_of(grid, 1, trips=9), rounds=30)


def test_rounds_and_levels_are_limited():
    mechanism = HistogramPrish.within(Budget.of(1.0, None), trip_setting(), rounds=40)
    assert mechanism.rounds.count == trip_setting().given.count
    with pytest.raises(PlanError, match="first <= last"):
        HistogramDqam.within(Budget.of(1.0, None), trip_setting(), first=4, last=2)
