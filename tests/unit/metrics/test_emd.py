"""Earth mover's distance: against linear programming, one-dimensional transport and counting by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import optimize, stats
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.metrics import emd
from shoal.metrics.emd import affordable_slots, emd_m, every_seventh


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


def test_agrees_with_linear_programming():
    exact, released, xy = maps(12, 3)
    want = [by_linear_programming(exact[:, t], released[:, t], xy) for t in range(3)]
    assert min(want) > 50
    assert emd_m(exact, released, xy) == pytest.approx(want, rel=1e-9)


def test_agrees_with_one_dimensional_transport():
    exact, released, xy = maps(60, 4, seed=2)
    xy[:, 1] = 7.0
    want = [stats.wasserstein_distance(xy[:, 0], xy[:, 0], exact[:, t], released[:, t]) for t in range(4)]
    assert emd_m(exact, released, xy) == pytest.approx(want, rel=1e-9)


def test_scale_does_not_matter_and_nothing_moved_costs_nothing():
    exact, released, xy = maps(30, 2)
    once = emd_m(exact, released, xy)
    assert emd_m(3 * exact, 0.1 * released, xy) == pytest.approx(once)
    assert emd_m(exact, 5 * exact, xy) == pytest.approx([0, 0], abs=1e-9)


def test_everyone_one_zone_further():
    exact, released = np.array([[7.0], [0.0], [0.0]]), np.array([[0.0], [0.0], [2.0]])
    assert emd_m(exact, released, np.array([[0.0, 0.0], [9.0, 9.0], [300.0, 400.0]])) == pytest.approx([500])


@pytest.mark.filterwarnings("error")
def test_slots_without_a_map_have_no_distance():
    exact, released, xy = maps(5, 3)
    exact[:, 0] = 0
    released[:, 2] = 0
    got = emd_m(exact, released, xy)
    assert list(np.isnan(got)) == [True, False, True]


def test_one_zone_and_zones_at_the_same_place():
    assert emd_m(np.ones((1, 2)), np.full((1, 2), 9.0), np.zeros((1, 2))) == pytest.approx([0, 0])
    exact, released, _ = maps(4, 1)
    assert emd_m(exact, released, np.full((4, 2), 3.0)) == pytest.approx([0])


def test_picked_slots_progress_and_threads():
    exact, released, xy = maps(40, 15)
    all_slots = emd_m(exact, released, xy, threads=1)
    done = []
    picked = emd_m(exact, released, xy, slots=every_seventh(15), progress=done.append, threads=3)
    assert list(picked) == list(all_slots[[0, 7, 14]])
    assert done == [1, 1, 1]


def test_large_maps_stay_exact():
    """Kantorovich: a function of slope at most 1 earns no more than the distance; a shift earns it all."""
    rng = np.random.default_rng(4)
    xy = np.column_stack([np.repeat(np.arange(20), 20), np.tile(np.arange(20), 20)]) * 100.0
    exact = np.zeros((20, 20))
    exact[:, :19] = rng.poisson(9, (20, 19))
    released = np.roll(exact, 1, axis=1)
    assert emd_m(exact.reshape(-1, 1), released.reshape(-1, 1), xy) == pytest.approx([100.0])


def test_affordable_slots_spread_over_the_day():
    for zones, slots in ((1000, 8760), (4000, 168), (7000, 168)):
        chosen = affordable_slots(zones, slots)
        assert 0 < len(chosen) < slots
        assert len(set(np.diff(chosen))) <= 1
        assert len(set(chosen % 24)) == min(24, len(chosen))
    assert list(affordable_slots(50, 3)) == [0, 1, 2]


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


def test_a_solver_that_stops_early_is_an_error(monkeypatch):
    exact, released, xy = maps(60, 1)
    monkeypatch.setattr(emd, "MAX_ITERATIONS", 3)
    with pytest.warns(UserWarning, match="numItermax"), pytest.raises(PlanError, match="emd-not-solved"):
        emd_m(exact, released, xy)


def test_a_flow_that_is_not_the_best_is_an_error(monkeypatch):
    class Wrong:
        @staticmethod
        def emd2(give, take, metres, **_):
            zero = np.zeros(len(give)), np.zeros(len(take))
            return give @ metres @ take, {"u": zero[0], "v": zero[1], "warning": None}

    monkeypatch.setattr(emd, "import_ot", lambda: Wrong)
    with pytest.raises(PlanError, match="emd-not-solved"):
        emd_m(*maps(6, 1))


def test_no_other_back_end_is_imported():
    code = (
        "import sys, numpy as np; from shoal.metrics.emd import emd_m; assert 'ot' not in sys.modules;"
        "emd_m(np.eye(2), np.ones((2, 2)), np.eye(2));"
        "print([m for m in ('torch', 'jax', 'cupy', 'tensorflow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
