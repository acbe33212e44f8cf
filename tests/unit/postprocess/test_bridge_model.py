"""The model behind bridges: masses, probabilities and ends, from tables that are said."""

import itertools
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from shoal.postprocess.synthetic.bridge_model import BridgeModel, flow_mass, move_probabilities
from shoal.postprocess.synthetic.bridge_tables import Parts, inflow, on_grid
from shoal.space.cell_paths import DETOURS, Lengths, Stays
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.trip_setting import PathSetting
from shoal.stages.synthetic import NoisyMovement, NoisyTable

GRID = CellGrid(box=(0, 0, 6, 6), columns=6, rows=6, planar=True)
CLOCK = Clock(start=datetime(2026, 3, 2), end=datetime(2026, 3, 3), time_zone="UTC")
REGIONS = np.arange(4, 30)


def table(size, seed, mean=5.0, deviation=0.01):
    return NoisyTable(np.random.default_rng(seed).uniform(0, 2 * mean, size), deviation)


def movement(each_trip=True, norm=1, **more):
    """Tables of any numbers, no times and no flows."""
    made = {
        "setting": PathSetting(grid=GRID, step_s=60, clock=CLOCK, each_trip=each_trip),
        "trips": 400.0,
        "moves": table(GRID.count * 8, 1),
        "sides": (1,),
        "starts": (table(GRID.count, 2),),
        "ends": (table(GRID.count, 3),),
        "norm": norm,
        "region_of_cell": np.zeros(GRID.count, np.int64),
        "lengths": table(Lengths(GRID).size, 4),
        "stays": table(Stays().size, 5),
        "stay_places": table(GRID.count, 6),
        "tide_region_of_cell": np.zeros(GRID.count, np.int64),
        **dict.fromkeys(("flows", "turns", "corners", "days", "hours", "durations", "paces")),
        **dict.fromkeys(("start_tides", "end_tides")),
    }
    return NoisyMovement(**{**made, **more})


def fitted(noisy, **parts):
    return BridgeModel.fit(noisy, Parts(calibrate=False, **parts))


def test_the_mass_of_flows_is_finite_where_noise_leaves_no_ends():
    """One per trip; with norm 2 a user's k trips weigh the root of k, as far as places allow."""
    assert flow_mass(movement(), REGIONS).tolist() == [400.0] * REGIONS.size
    many = NoisyTable(np.full(GRID.count, 10 / 36), 0.01)
    users = movement(each_trip=False, norm=2, starts=(many,), ends=(many,))
    # Mass 10 of 400 trips: 36 even blocks hold at most the root of 36 of a user, so 10 / 6 users.
    expected = 10 / 6 * np.minimum(np.sqrt(400 * 6 / 10), 0.7 * REGIONS)
    assert flow_mass(users, REGIONS) == pytest.approx(expected)
    below = NoisyTable(np.full(GRID.count, -3.0), 5.0)
    found = flow_mass(movement(each_trip=False, norm=2, starts=(below,), ends=(below,)), REGIONS)
    assert np.isfinite(found).all()
    assert found.max() <= 400


@pytest.mark.parametrize("with_corners", [False, True])
def test_chances_fit_moves_in_and_out_of_every_cell(with_corners):
    noisy = movement(turns=table(64, 7), corners=table(GRID.count * 64, 8) if with_corners else None)
    inside = on_grid(GRID)
    moves = np.where(inside, noisy.moves.values.reshape(-1, 8), 0.0)
    probabilities, first = move_probabilities(noisy, moves)
    assert not probabilities[np.broadcast_to(~inside[:, None], probabilities.shape)].any()
    assert (probabilities[np.broadcast_to(inside[:, None], probabilities.shape)] > 0).all()
    assert probabilities.sum(axis=2) == pytest.approx(1.0)
    assert first == pytest.approx(moves / moves.sum(axis=1, keepdims=True), abs=1e-4)
    if not with_corners:
        out = np.einsum("ci,cio->co", inflow(GRID, moves), probabilities)
        assert out / out.sum(1, keepdims=True) == pytest.approx(first, abs=2e-3)


def test_turns_are_remembered():
    """Who comes eastwards goes on eastwards, if turns say so."""
    turns = np.full((8, 8), 1.0) + 500 * np.eye(8)
    probabilities, _ = move_probabilities(
        movement(turns=NoisyTable(turns.ravel(), 0.01)), np.ones((GRID.count, 8)) * on_grid(GRID)
    )
    blind, _ = move_probabilities(movement(), np.ones((GRID.count, 8)) * on_grid(GRID))
    middle = 14
    assert np.diag(probabilities[middle]).min() > 0.9
    assert blind[middle] == pytest.approx(np.full((8, 8), 1 / 8), abs=1e-3)


def test_trips_to_where_they_start_are_short_though_noise_says_one_move():
    """The table says that all of them return after one move, which none can."""
    lengths = np.zeros((Lengths(GRID).size // DETOURS, DETOURS))
    lengths[0, 1] = 1e6
    model = fitted(movement(lengths=NoisyTable(lengths.ravel(), 1.0)), by_distance=True)
    rows = model._detours
    assert rows.sum(axis=1) == pytest.approx(1.0)
    assert rows[0, 1] == 0
    assert rows[0] @ np.arange(DETOURS) < 6


def test_calibration_brings_drawn_moves_nearer_to_the_likely_ones():
    plain = fitted(movement())
    model, far = plain, []
    for turn in range(4):
        first, cells, _ = model._paths(20_000, 9)
        away = np.diff(cells)
        kept = np.ones(away.size, bool)
        kept[first[1:-1] - 1] = False
        drawn = np.bincount(cells[:-1][kept], minlength=GRID.count)
        likely = model.moves.sum(axis=1)
        far.append(np.abs(drawn / drawn.sum() - likely / likely.sum()).sum())
        model = model.calibrated(0.5, turn)
    assert far[-1] < 0.7 * far[0]
    assert (model.probabilities >= 0).all()
    assert not model.probabilities[np.broadcast_to(~on_grid(GRID)[:, None], model.probabilities.shape)].any()


def test_ends_follow_flows_between_regions():
    region = (np.arange(GRID.count) % 6 >= 3).astype(np.int64)
    flows = NoisyTable(np.array([0.0, 300.0, 100.0, 0.0]), 0.01)
    even = NoisyTable(np.ones(GRID.count), 0.01)
    starts = NoisyTable(np.where(region == 0, 300 / 18, 100 / 18), 0.01)
    ends = NoisyTable(np.where(region == 1, 300 / 18, 100 / 18), 0.01)
    noisy = movement(region_of_cell=region, flows=flows, starts=(starts,), ends=(ends,))
    begin, end = fitted(replace(noisy, stay_places=even), by_distance=False)._draw_ends(5000, 1)
    seen = np.bincount(region[begin] * 2 + region[end], minlength=4) / 5000
    assert seen == pytest.approx([0, 0.75, 0.25, 0], abs=0.03)


def test_numbers_are_all_that_was_bought():
    ways = {"starts": (table(36, 1), table(36, 2)), "ends": (table(36, 3), table(36, 4))}
    noisy = movement(turns=table(64, 7), sides=(1, 1), region_of_cell=np.arange(36), **ways)
    numbers = fitted(noisy).numbers()
    for name in ("moves", "lengths", "stays", "stay_places", "turns"):
        assert np.array_equal(numbers.pop(name), getattr(noisy, name).values), name
    for name, way in itertools.product(("starts", "ends"), (0, 1)):
        assert np.array_equal(numbers.pop(f"{name}_{way}"), getattr(noisy, name)[way].values), name
    for name in ("trips", "region_of_cell", "tide_region_of_cell"):
        assert np.array_equal(np.ravel(numbers.pop(name)), np.ravel(getattr(noisy, name))), name
    assert not numbers
