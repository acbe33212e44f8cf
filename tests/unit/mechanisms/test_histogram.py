"""Histogram mechanisms of the sources, made sound: what they cost, what they touch, what they publish.
What the method `boxes` asks, pays and publishes, at small size.
Deviation costs against fractions, and what one unit can change them by.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.loops import for_each
from tests.worlds import grid_trips

from shoal.engine.trip_queries import TripQueries
from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.audit_size import trip_setting
from shoal.mechanisms.histogram.boxes import ROWS, HistogramBoxes, even_cuts, row_for, warped_cuts
from shoal.metrics.histogram import violated_share
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cells import CellGrid, Rectangles, random_rectangles
from shoal.space.trip_setting import TripSetting
from shoal_baselines.mechanisms.histogram_dawa import Groups, HistogramDawa, NoisyCosts, deviation_costs
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
    queries = Watched(TripQueries(grid_trips(grid, [walk(generator, grid) for _ in range(20)], range(20), 1)))
    kind.within(Budget.of(1.0, None), setting_of(grid, 1))(queries, SeededNoise(1))
    assert set(queries.calls) == asks


@for_each("kind", [*MECHANISMS, HistogramBoxes])
def test_units_with_more_trips_than_the_noise_is_for_are_refused(kind):
    """The bound of the trips and that of the mechanism come from different places."""
    grid = grid_of(8, 8)
    setting = trip_setting(per_unit=2, cap=4)

    def queries(per_unit, cap):
        return TripQueries(replace(grid_trips(grid, [[(0, 0)]], [0], per_unit), cap=cap))

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
    queries = TripQueries(grid_trips(grid, [walk(generator, grid) for _ in range(60)], range(60), 1))
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
    queries = TripQueries(grid_trips(grid, paths, range(320), 1))
    out = kind.within(Budget.of(200.0, None), setting)(queries, SeededNoise(4))
    found = out.euler.answers(given)
    assert found[:4] == pytest.approx([320, 0, 160, 160], abs=20)


@pytest.mark.parametrize("kind", EULER)
def test_with_little_noise_distinct_counts_are_approached(kind):
    """Everything in one quarter: a uniform start says the same of all quarters, what is learned does not."""
    grid = grid_of(16, 16)
    generator = np.random.default_rng(6)
    small = grid_of(8, 8)
    queries = TripQueries(grid_trips(grid, [walk(generator, small) for _ in range(400)], range(400), 1))
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


SIDE = 16
GRID = CellGrid(box=(0, 0, SIDE, SIDE), columns=SIDE, rows=SIDE, planar=True)
GIVEN = random_rectangles(GRID, 300, 5)


def boxes_within(budget, setting):
    """With a small pool, so that it is quick."""
    return HistogramBoxes.within(budget, setting, boxes=3000)


def setting(**more):
    return TripSetting(grid=GRID, given=GIVEN, **more)


def diagonal_trips(count):
    """Staircases of 12 cells, more of them in the south-west."""
    corners = [(k**2 % 9, k % 5) for k in range(count)]
    return grid_trips(GRID, [[(x + (i + 1) // 2, y + i // 2) for i in range(12)] for x, y in corners])


class Asked:
    """Noise that adds nothing and remembers what was asked at what scale."""

    publishable = False

    def __init__(self):
        self.calls = []

    def laplace(self, name, exact, scale):
        self.calls.append((name, "laplace", scale))
        return exact

    def choose(self, name, scores, scale):
        self.calls.append((name, "choose", scale))
        return int(np.argmax(scores))


@for_each("row", ROWS, ids=lambda row: f"s below {row.below}")
def test_shares_of_every_row_add_up_to_one(row):
    bought = [count.share for count in (*row.first, *row.second)]
    assert sum(bought) + row.rectangles == pytest.approx(1.0)


@for_each("per_unit", [1, 3])
@for_each("trips", [10, 150, 2000, 20_000, 10**6])
def test_what_is_asked_costs_what_is_claimed(trips, per_unit):
    mechanism = boxes_within(Budget.of(1.0, None), setting(trips=trips, per_unit=per_unit))
    noise = Asked()
    mechanism(TripQueries(diagonal_trips(50)), noise)
    spent = sum((per_unit if kind == "laplace" else 2 * per_unit) / scale for _, kind, scale in noise.calls)
    assert {name for name, _, _ in noise.calls} == {"boxes"}
    assert mechanism.loss().pure_epsilon_nano == 10**9
    assert 0.999 < spent < 1 + 1e-9


def test_the_number_of_trips_is_measured_unless_declared():
    bought = boxes_within(Budget.of(1.0, None), setting(per_unit=2, cap=10))
    assert [name for name, _ in bought.spends()] == ["trips", "all_trips", "boxes"]
    assert bought.loss().pure_epsilon_nano == 10**9
    declared = boxes_within(Budget.of(1.0, None), setting(trips=500))
    assert [name for name, _ in declared.spends()] == ["boxes"]
    with pytest.raises(PlanError, match="pure"):
        boxes_within(Budget.of(1.0, 1e-6), setting())


def test_answers_come_close_where_there_is_much_signal():
    queries = TripQueries(diagonal_trips(4000))
    made = boxes_within(Budget.of(5.0, None), setting())(queries, SeededNoise(1))
    some = random_rectangles(GRID, 200, 9)
    error = np.abs(made.euler.answers(some) - queries.distinct(some)).mean()
    assert error < 0.03 * 4000
    assert made.trips == pytest.approx(4000, abs=30)
    assert made.pool is not None
    assert made.pool.weight.sum() == pytest.approx(made.trips)


def test_the_model_is_consistent_where_there_is_noise_alone_or_nobody():
    made = boxes_within(Budget.of(0.001, None), setting())(TripQueries(diagonal_trips(5)), SeededNoise(2))
    assert violated_share(made.euler) == 0
    some = random_rectangles(GRID, 300, 3)
    answers = made.euler.answers(some)
    whole = made.euler.answers(random_rectangles(GRID, 1, 1).of([(0, SIDE, 0, SIDE)]))
    assert answers.min() >= -1e-9
    assert answers.max() <= whole[0] * (1 + 1e-9)
    empty = diagonal_trips(0)
    made = boxes_within(Budget.of(1.0, None), setting())(TripQueries(empty), SeededNoise(3))
    assert np.isfinite(made.euler.faces).all()


def test_rows_and_cuts_follow_the_signal():
    assert row_for(0) is ROWS[0]
    assert row_for(-5) is ROWS[0]
    assert row_for(1e9) is ROWS[-1]
    assert [row.below for row in ROWS] == sorted(row.below for row in ROWS)
    assert even_cuts(4, 16).tolist() == [4, 8, 12]
    assert even_cuts(99, 4).tolist() == [1, 2, 3]
    low = high = np.array([3, 3, 12])
    cuts = warped_cuts(4, 16, low, high, np.array([5.0, 5.0, 1.0]))
    assert cuts[0] == 3  # most paths end there
    assert (np.diff(cuts) > 0).all()


def in_fractions(cells, group, groups):
    costs = []
    for number in range(groups):
        own = [int(c) for c, g in zip(cells, group, strict=True) if g == number]
        mean = Fraction(sum(own), max(len(own), 1))
        costs.append(math.floor(sum((abs(c - mean) for c in own), Fraction(0))))
    return costs


@for_each("seed", range(20))
def test_costs_are_exact(seed):
    generator = np.random.default_rng(seed)
    groups = int(generator.integers(1, 6))
    cells = generator.integers(0, 10 ** int(generator.integers(1, 13)), 40)
    group = generator.integers(0, groups, 40)
    assert deviation_costs(cells, group, groups).tolist() == in_fractions(cells, group, groups)


def test_large_sums_do_not_overflow():
    cells = np.zeros(2**16, np.int64)
    cells[0] = 2**52
    cost = deviation_costs(cells, np.zeros(2**16, np.int64), 1)
    assert cost.tolist() == [2 * 2**52 - 2 * 2**52 // 2**16]


@pytest.mark.parametrize("lattice", [1, 12, 2**20])
def test_no_unit_moves_the_costs_of_a_partition_by_more_than_the_bound(lattice):
    """Trips of one to four cells on small maps, the first of them empty and in one group: the worst case."""
    generator = np.random.default_rng(lattice)
    reached = 0.0
    for turn in range(60):
        cells = generator.integers(0, 3 * lattice + 2, 16) * (generator.random(16) < 0.7) * (turn > 0)
        groups = int(generator.integers(1, 5)) if turn else 1
        group = generator.integers(0, groups, 16)
        bound = Groups(groups, int(np.bincount(group).max())).sensitivity(lattice)
        before = deviation_costs(cells, group, groups)
        for size in range(1, 5):
            after = cells.copy()
            after[generator.choice(16, size, replace=False)] += lattice // size
            change = np.abs(deviation_costs(after, group, groups) - before).sum()
            assert change <= bound
            reached = max(reached, change / bound)
    assert reached > (0.3 if lattice == 1 else 0.9)  # on a lattice of 1 most of it is rounding


def test_every_partition_is_charged_and_nothing_left_is_said():
    share, _ = Budget.of(1.0, None).take("costs", 1)
    costs = NoisyCosts.within(share, 2**20, [Groups(1, 64), Groups(4, 16), Groups(16, 4)])
    assert [name for name, _ in costs.spends()] == ["costs"]
    assert 0.999999 < costs.spends()[0][1].pure_epsilon_nano / 1e9 <= 1.0
    single = NoisyCosts.within(share, 2**20, [Groups(1, 64)])
    assert costs.adders[0].scale == pytest.approx(3 * single.adders[0].scale)
    share, _ = Budget.of(1e-9, None).take("costs", 1)
    with pytest.raises(PlanError, match="nothing is left"):
        NoisyCosts.within(share, 1, [Groups(1, 4), Groups(4, 1)])
