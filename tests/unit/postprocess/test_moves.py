"""Likely moves: features without a value's own noise, sums by brute force, nearer to a truth of roads."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.synthetic.bridge_tables import (
    Parts,
    boxes,
    inflow,
    move_features,
    on_grid,
    shrunk_moves,
    visits_of,
)
from shoal.postprocess.synthetic.numbers import onto_own_total
from shoal.space.cells import CellGrid
from shoal.stages.synthetic import NoisyTable

WAYS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]


def grid_of(columns, rows):
    return CellGrid(box=(0, 0, columns, rows), columns=columns, rows=rows, planar=True)


SMALL = grid_of(7, 5)


def whole_numbers(grid, seed):
    """Sums of whole numbers are exact, so features that do not change do not change at all."""
    return np.random.default_rng(seed).integers(-9, 30, (grid.count, 8)).astype(float)


def test_no_feature_has_the_noise_of_its_own_value():
    grid = grid_of(20, 6)
    values = whole_numbers(grid, 1)
    before = move_features(grid, values)
    for cell, way in [(0, 0), (9, 3), (47, 1), *((63, way) for way in range(8)), (119, 5)]:
        changed = values.copy()
        changed[cell, way] += 1000.0
        after = move_features(grid, changed)
        assert np.array_equal(after[cell, way], before[cell, way])
        assert (after != before).any(axis=-1).sum() > 20  # others are told of it


def test_a_way_that_goes_on_is_a_feature():
    values = np.zeros((SMALL.count, 8))
    values[16, 0] = 5.0  # eastwards from column 2, row 2
    features = move_features(SMALL, values)
    assert features[15, 0, 0] == features[17, 0, 0] == 5.0
    assert features[17, 4, 2] == 5.0  # the same way back
    assert features[16, 0, :18].tolist() == [0.0] * 18


def test_moves_that_stay_on_the_grid():
    expected = [
        [0 <= cell % 7 + dx < 7 and 0 <= cell // 7 + dy < 5 for dx, dy in WAYS] for cell in range(SMALL.count)
    ]
    assert on_grid(SMALL).tolist() == expected
    assert not on_grid(grid_of(1, 1)).any()


def test_moves_into_a_cell_and_visits():
    inside = on_grid(SMALL)
    moves = np.where(inside, whole_numbers(SMALL, 2), 0.0)
    into, visits = np.zeros((SMALL.count, 8)), moves.sum(axis=1)
    for cell in range(SMALL.count):
        for way, (dx, dy) in enumerate(WAYS):
            if inside[cell, way]:
                there = cell + 7 * dy + dx
                into[there, way] += moves[cell, way]
                visits[there] += moves[cell, way]
    assert np.array_equal(inflow(SMALL, moves), into)
    assert np.array_equal(visits_of(SMALL, moves), visits)


@for_each("reach", [0, 1, 2, 9])
def test_sums_around_a_cell(reach):
    values = whole_numbers(SMALL, 3)[:, 0].reshape(5, 7)
    found = boxes(values, reach)
    for y in range(5):
        for x in range(7):
            near = values[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1]
            assert found[y, x] == near.sum()


def roads(grid, seed):
    """Moves along a few busy rows and columns, both ways; little elsewhere."""
    chance = np.random.default_rng(seed)
    truth = np.zeros((grid.rows, grid.columns, 8))
    for row in (4, 11, 17):
        truth[row, :, 0] += 80 * chance.uniform(0.5, 1.5)
        truth[row, :, 4] += 80 * chance.uniform(0.5, 1.5)
    for column in (3, 9, 16):
        truth[:, column, 2] += 60
        truth[:, column, 6] += 60
    truth *= chance.uniform(0.6, 1.4, truth.shape)
    return truth.reshape(-1, 8) * on_grid(grid)


@pytest.mark.parametrize("deviation", [5.0, 60.0])
def test_likely_moves_are_nearer_to_the_truth_than_noisy_ones(deviation):
    grid = grid_of(20, 20)
    truth = roads(grid, 1)
    chance = np.random.default_rng(4)
    noisy = NoisyTable(truth.ravel() + chance.normal(0, deviation, truth.size), deviation)
    beside = chance.normal(0, 1, (grid.count, 2))
    found = shrunk_moves(grid, noisy, truth.sum(), beside)
    inside = on_grid(grid)
    assert found.sum() == pytest.approx(truth.sum())
    assert (found >= 0).all()
    assert not found[~inside].any()
    plain = shrunk_moves(grid, noisy, truth.sum(), beside, Parts(shrink=False))
    cut = onto_own_total(noisy.values.reshape(-1, 8)[inside], truth.sum())
    assert plain[inside] == pytest.approx(cut)
    assert ((found - truth) ** 2).sum() < 0.8 * ((plain - truth) ** 2).sum()


@for_each(("columns", "rows"), [(1, 1), (1, 2), (2, 2), (1, 30), (5, 3)])
def test_small_grids_and_nothing_but_noise(columns, rows):
    grid = grid_of(columns, rows)
    noisy = NoisyTable(np.random.default_rng(5).normal(0, 50, grid.count * 8), 50.0)
    found = shrunk_moves(grid, noisy, 10.0, np.zeros((grid.count, 2)))
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(10.0 if grid.count > 1 else 0.0)
