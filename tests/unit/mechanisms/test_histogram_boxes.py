"""What the method `boxes` asks, pays and publishes, at small size."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.engine.trip_pieces import GridTrips
from shoal.engine.trip_queries import TripQueries
from shoal.errors import PlanError
from shoal.mechanisms.histogram.boxes import ROWS, HistogramBoxes, even_cuts, row_for, warped_cuts
from shoal.metrics.histogram import violated_share
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cells import CellGrid, random_rectangles
from shoal.space.trip_setting import TripSetting

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
    path = np.array([(i + 1) // 2 + (i // 2) * SIDE for i in range(12)], np.int32)
    corner = (np.arange(count) ** 2) % 9 + (np.arange(count) % 5) * SIDE
    return GridTrips(
        grid=GRID,
        first=np.arange(0, 12 * count + 1, 12),
        cells=(corner[:, None] + path).astype(np.int32).ravel(),
        unit=np.arange(count),
        per_unit=1,
        all_trips=count,
        cap=1,
        each_trip=False,
    )


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
