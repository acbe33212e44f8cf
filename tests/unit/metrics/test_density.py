"""Utility figures against numbers by hand and scipy, earth mover's distance against linear programming."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import optimize, stats
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.metrics import box_figures, density, density_utility
from shoal.metrics.density import affordable_slots, emd_m, every_seventh


def random_pair(zones: int = 7, slots: int = 50) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    exact = rng.gamma(1.0, 40.0, (zones, slots))
    return exact, np.maximum(exact + rng.normal(0, 9, exact.shape), 0)


def test_relative_error_by_hand():
    # Zone 0: total 2000, gamma 2: 100/1500, 10/500 and (3 - 0)/2. Zone 1: total 10, gamma 0.01: 1/4, 0, 3/6.
    exact = np.array([[1500.0, 500.0, 0.0], [4.0, 0.0, 6.0]])
    released = np.array([[1600.0, 490.0, 3.0], [5.0, 0.0, 3.0]])
    got = density_utility(exact, released)
    zone_0 = (100 / 1500 + 10 / 500 + 3 / 2) / 3
    zone_1 = (1 / 4 + 0 + 3 / 6) / 3
    assert got.mre_by_zone == pytest.approx([zone_0, zone_1])
    assert got.mean_relative_error == pytest.approx((zone_0 + zone_1) / 2)
    assert got.mean_absolute_error == pytest.approx((100 + 10 + 3 + 1 + 0 + 3) / 6)
    assert got.total_bias == pytest.approx(100 - 10 + 3 + 1 - 3)
    assert got.total_bias_share == pytest.approx(91 / 2010)
    assert got.slot_total_bias_share_mean == pytest.approx((101 / 1504 + 10 / 500 + 0) / 3)
    assert got.boxes["bias"].mean == pytest.approx((93 / 2000 - 2 / 10) / 2)


def test_pearson_agrees_with_scipy_and_flat_series_have_none():
    exact, released = random_pair()
    want = [stats.pearsonr(x, y).statistic for x, y in zip(exact, released, strict=True)]
    got = density_utility(exact, released)
    assert got.pearson_by_zone == pytest.approx(want)
    assert got.pearson == pytest.approx(np.mean(want))
    exact = np.array([[5.0, 5.0, 5.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    released = np.array([[4.0, 6.0, 5.0], [0.1, 0.1, 0.1], [2.0, 4.0, 6.0]])
    got = density_utility(exact, released)
    assert np.isnan(got.pearson_by_zone[0])
    assert got.pearson_by_zone[1:] == pytest.approx([0.0, 1.0])
    assert got.pearson == pytest.approx(0.5)
    assert got.zones_flat == 1


@pytest.mark.filterwarnings("error")
def test_zones_and_slots_without_people_are_left_out_and_counted():
    exact = np.array([[0.0, 0.0], [10.0, 30.0]])
    released = np.array([[2.0, 4.0], [10.0, 33.0]])
    got = density_utility(exact, released)
    assert np.isnan(got.mre_by_zone[0])
    assert got.mean_relative_error == pytest.approx(0.05)
    assert got.zones_without_people == 1
    assert got.released_in_empty_zones == pytest.approx(3.0)
    assert got.boxes["mre"].count == 1
    got = density_utility(np.zeros((2, 1)), np.ones((2, 1)), np.zeros((2, 1)), np.ones((2, 1)))
    assert np.isnan([got.mean_relative_error, got.pearson, got.total_bias_share]).all()
    assert got.boxes["mre"].count == 0
    assert got.total_bias == 2.0
    assert got.coverage == 1.0
    exact, released = np.array([[0.0, 4.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 1.0]])
    got = density_utility(exact, released, zone_xy_m=np.array([[0.0, 0.0], [60.0, 0.0]]))
    assert got.emd_m == pytest.approx(30)
    assert got.emd_slots == 1
    assert got.by_slot.total_bias_share[1] == pytest.approx(-0.5)
    assert np.isnan(got.by_slot.total_bias_share[0])
    exact, released, xy = maps(5, 3)
    exact[:, 0] = 0
    released[:, 2] = 0
    got = emd_m(exact, released, xy)
    assert list(np.isnan(got)) == [True, False, True]


def test_profiles_by_slot_and_by_hour_of_day():
    exact, released = random_pair(zones=3, slots=48)
    got = density_utility(exact, released, hour_of_day=np.arange(48) % 24)
    absolute = abs(released - exact)
    relative = absolute / np.maximum(exact.sum(axis=1, keepdims=True) / 1000, exact)
    assert got.by_slot.mean_absolute_error == pytest.approx(absolute.mean(axis=0))
    assert got.by_slot.mean_relative_error == pytest.approx(relative.mean(axis=0))
    assert got.by_hour_of_day is not None
    assert list(got.by_hour_of_day.hours) == list(range(24))
    five = [(relative[z, 5] + relative[z, 29]) / 2 for z in range(3)]
    assert got.by_hour_of_day.mean_relative_error[5] == pytest.approx(sum(five) / 3)
    assert got.by_hour_of_day.mean_absolute_error[23] == pytest.approx(absolute[:, [23, 47]].mean())
    exact, released = random_pair(zones=2, slots=3)
    got = density_utility(exact, released, hour_of_day=np.array([23, 0, 1]))
    assert got.by_hour_of_day is not None
    assert list(got.by_hour_of_day.hours) == [0, 1, 23]
    assert got.by_hour_of_day.mean_absolute_error[2] == pytest.approx(abs(released - exact)[:, 0].mean())
    exact, released = random_pair(zones=4, slots=48)
    got = density_utility(exact, released, hour_of_day=np.arange(48) % 24)
    assert got.by_hour_of_day is not None
    seven = released[:, [7, 31]].sum() / exact[:, [7, 31]].sum() - 1
    assert got.by_hour_of_day.total_bias_share[7] == pytest.approx(seven)
    assert got.exact_total_by_zone == pytest.approx([sum(row) for row in exact])
    assert got.released_total_by_zone == pytest.approx([sum(row) for row in released])


def test_coverage_counts_the_ends_as_inside_and_counts_clear_of_the_noise():
    exact = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    low = np.array([[1.0, 2.5, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]])
    high = np.array([[2.0, 3.0, 3.0, 3.9], [1.0, 1.0, 5.0, 5.0]])
    got = density_utility(exact, exact, low, high)
    assert got.coverage == pytest.approx(5 / 8)
    assert got.coverage_by_zone == pytest.approx([2 / 4, 3 / 4])
    assert got.interval_width_mean == pytest.approx((high - low).mean())
    assert density_utility(exact, exact).coverage is None
    exact = np.array([[10.0, 0.0], [5.0, 1.0]])
    low = np.array([[7.0, 0.0], [0.0, 0.0]])
    assert density_utility(exact, exact, low, exact + 3).clear_share == 0.25
    assert density_utility(exact, exact).clear_share is None


def test_box_figures_agree_with_scipy_and_by_hand():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 100.0, np.nan])
    box = box_figures(values)
    assert (box.count, box.whisker_low, box.whisker_high, box.outliers) == (8, 1.0, 7.0, (100.0,))
    quartiles = stats.mstats.mquantiles(values[:8], [0.25, 0.5, 0.75], alphap=1, betap=1)
    assert [box.q1, box.median, box.q3] == pytest.approx(quartiles)
    assert box.mean == pytest.approx(16.0)


@for_each(
    ("code", "arguments"),
    [
        ("utility-shape", (np.ones((2, 3)), np.ones((3, 2)))),
        ("utility-shape", (np.ones((0, 3)), np.ones((0, 3)))),
        ("utility-values", (np.full((1, 2), np.nan), np.ones((1, 2)))),
        ("utility-values", (-np.ones((1, 2)), np.ones((1, 2)))),
        ("utility-interval", (np.ones((1, 2)), np.ones((1, 2)), np.ones((1, 2)))),
        ("utility-shape", (np.ones((1, 2)), np.ones((1, 2)), np.ones((1, 2)), np.ones((1, 3)))),
    ],
)
def test_bad_arrays_are_refused(code, arguments):
    with pytest.raises(PlanError) as caught:
        density_utility(*arguments)
    assert caught.value.code == code


def test_one_hour_per_slot_is_required_and_no_centres_have_no_distance():
    with pytest.raises(PlanError, match="utility-hours"):
        density_utility(np.ones((1, 2)), np.ones((1, 2)), hour_of_day=np.array([1]))
    got = density_utility(np.ones((2, 3)), np.ones((2, 3)))
    assert (got.emd_m, got.emd_slots, got.by_slot.mean_emd_m) == (None, None, None)


def test_distance_between_maps_by_slot_and_by_hour():
    exact, released = random_pair(zones=6, slots=48)
    released = np.maximum(released, 0)
    xy = np.random.default_rng(8).uniform(0, 3000, (6, 2))
    by_slot = emd_m(exact, released, xy)
    got = density_utility(exact, released, hour_of_day=np.arange(48) % 24, zone_xy_m=xy)
    assert got.emd_m == pytest.approx(by_slot.mean())
    assert got.emd_slots == 48
    assert got.by_slot.mean_emd_m == pytest.approx(by_slot)
    assert got.by_hour_of_day is not None
    assert got.by_hour_of_day.mean_emd_m == pytest.approx((by_slot[:24] + by_slot[24:]) / 2)
    part = density_utility(exact, released, zone_xy_m=xy, emd_slots=np.array([3, 10]))
    assert part.emd_m == pytest.approx(by_slot[[3, 10]].mean())
    assert part.emd_slots == 2
    assert part.by_slot.mean_emd_m is not None
    assert np.isnan(part.by_slot.mean_emd_m).sum() == 46


def maps(zones: int, slots: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    exact = rng.poisson(20, (zones, slots)).astype(float)
    released = np.maximum(exact + rng.normal(0, 8, exact.shape), 0)
    return exact, released, rng.uniform(0, 5000, (zones, 2))


def by_linear_programming(x: np.ndarray, y: np.ndarray, xy: np.ndarray) -> float:
    """The definition itself: all flows between all zones, nothing taken out before."""
    n = len(x)
    cost = np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(-1))
    rows = np.kron(np.eye(n), np.ones(n))
    columns = np.kron(np.ones(n), np.eye(n))
    solved = optimize.linprog(
        cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.r_[x / x.sum(), y / y.sum()], method="highs"
    )
    assert solved.success
    return solved.fun


def test_agrees_with_linear_programming_and_one_dimensional_transport():
    exact, released, xy = maps(12, 3)
    want = [by_linear_programming(exact[:, t], released[:, t], xy) for t in range(3)]
    assert min(want) > 50
    assert emd_m(exact, released, xy) == pytest.approx(want, rel=1e-9)
    exact, released, xy = maps(60, 4, seed=2)
    xy[:, 1] = 7.0
    want = [stats.wasserstein_distance(xy[:, 0], xy[:, 0], exact[:, t], released[:, t]) for t in range(4)]
    assert emd_m(exact, released, xy) == pytest.approx(want, rel=1e-9)


def test_scale_does_not_matter_and_one_place_costs_nothing():
    exact, released, xy = maps(30, 2)
    once = emd_m(exact, released, xy)
    assert emd_m(3 * exact, 0.1 * released, xy) == pytest.approx(once)
    assert emd_m(exact, 5 * exact, xy) == pytest.approx([0, 0], abs=1e-9)
    assert emd_m(np.ones((1, 2)), np.full((1, 2), 9.0), np.zeros((1, 2))) == pytest.approx([0, 0])
    exact, released, _ = maps(4, 1)
    assert emd_m(exact, released, np.full((4, 2), 3.0)) == pytest.approx([0])


def test_picked_and_affordable_slots():
    exact, released, xy = maps(40, 15)
    all_slots = emd_m(exact, released, xy, threads=1)
    done = []
    picked = emd_m(exact, released, xy, slots=every_seventh(15), progress=done.append, threads=3)
    assert list(picked) == list(all_slots[[0, 7, 14]])
    assert done == [1, 1, 1]
    for zones, slots in ((1000, 8760), (4000, 168), (7000, 168)):
        chosen = affordable_slots(zones, slots)
        assert 0 < len(chosen) < slots
        assert len(set(np.diff(chosen))) <= 1
        assert len(set(chosen % 24)) == min(24, len(chosen))
    assert list(affordable_slots(50, 3)) == [0, 1, 2]


def test_large_maps_stay_exact():
    """Kantorovich: a function of slope at most 1 earns no more than the distance; a shift earns it all."""
    rng = np.random.default_rng(4)
    xy = np.column_stack([np.repeat(np.arange(20), 20), np.tile(np.arange(20), 20)]) * 100.0
    exact = np.zeros((20, 20))
    exact[:, :19] = rng.poisson(9, (20, 19))
    released = np.roll(exact, 1, axis=1)
    assert emd_m(exact.reshape(-1, 1), released.reshape(-1, 1), xy) == pytest.approx([100.0])


@for_each(
    ("code", "arguments"),
    [
        ("emd-shape", (np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 2)))),
        ("emd-shape", (np.ones((2, 3)), np.ones((2, 3)), np.ones((3, 2)))),
        ("emd-values", (np.ones((2, 1)), -np.ones((2, 1)), np.ones((2, 2)))),
        ("emd-values", (np.ones((2, 1)), np.ones((2, 1)), np.full((2, 2), np.nan))),
    ],
)
def test_maps_that_make_no_sense_are_refused(code, arguments):
    with pytest.raises(PlanError) as caught:
        emd_m(*arguments)
    assert caught.value.code == code


def test_a_solver_that_stops_early_or_a_flow_that_is_not_the_best_is_an_error(monkeypatch):
    exact, released, xy = maps(60, 1)
    monkeypatch.setattr(density, "MAX_ITERATIONS", 3)
    with pytest.warns(UserWarning, match="numItermax"), pytest.raises(PlanError, match="emd-not-solved"):
        emd_m(exact, released, xy)

    class Wrong:
        @staticmethod
        def emd2(give, take, metres, **_):
            zero = np.zeros(len(give)), np.zeros(len(take))
            return give @ metres @ take, {"u": zero[0], "v": zero[1], "warning": None}

    monkeypatch.setattr(density, "import_ot", lambda: Wrong)
    with pytest.raises(PlanError, match="emd-not-solved"):
        emd_m(*maps(6, 1))


def test_no_other_back_end_is_imported():
    code = (
        "import sys, numpy as np; from shoal.metrics.density import emd_m; assert 'ot' not in sys.modules;"
        "emd_m(np.eye(2), np.ones((2, 2)), np.eye(2));"
        "print([m for m in ('torch', 'jax', 'cupy', 'tensorflow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
