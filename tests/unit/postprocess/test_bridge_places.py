"""Blocks, places, regions and flows: sums that must hold, and exact tables where there is no noise."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.synthetic.bridge_tables import (
    Parts,
    block_sides,
    blocks_of,
    flows,
    per_cell,
    places,
    regions,
    shrunk_places,
)
from shoal.space.cells import CellGrid
from shoal.stages.synthetic import NoisyTable


def grid_of(columns, rows):
    return CellGrid(box=(0, 0, columns, rows), columns=columns, rows=rows, planar=True)


GRID = grid_of(20, 13)
SHAPES = [(1, 1), (1, 9), (3, 3), (20, 13), (7, 40)]


def levels(truth, grid, deviation, chance):
    """Noisy blocks of every size."""
    tables = []
    for side in block_sides(grid):
        block, count = blocks_of(grid, side)
        exact = np.bincount(block, truth, count)
        tables.append(NoisyTable(exact + chance.normal(0, deviation, count), deviation))
    return tuple(tables)


def busy(grid, chance):
    """A few places with much and many with nothing."""
    return chance.gamma(0.3, 30, grid.count) * (chance.random(grid.count) < 0.4)


@for_each(("side", "expected"), [(6, (1,)), (7, (1, 3)), (18, (1, 3)), (19, (1, 3, 9))])
def test_sides_of_blocks(side, expected):
    """Thrice the one before, while more than two blocks lie side by side."""
    assert block_sides(grid_of(side, 2)) == block_sides(grid_of(1, side)) == expected


@for_each("side", [1, 2, 3, 9, 30])
@for_each(("columns", "rows"), SHAPES)
def test_blocks_are_squares_in_order(columns, rows, side):
    block, count = blocks_of(grid_of(columns, rows), side)
    seen = {}
    for cell in range(columns * rows):
        seen.setdefault((cell // columns // side, cell % columns // side), set()).add(int(block[cell]))
    assert all(len(names) == 1 for names in seen.values())
    assert sorted(name for names in seen.values() for name in names) == list(range(count))


def test_values_of_blocks_are_shared_over_their_cells():
    chance = np.random.default_rng(1)
    truth = busy(GRID, chance)
    tables = levels(truth, GRID, 0.0, chance)
    found = per_cell(GRID, block_sides(GRID), tables)
    for level, side in enumerate(block_sides(GRID)):
        block, _ = blocks_of(GRID, side)
        for cell in (0, 19, 77, 259):
            assert found[cell, level] == pytest.approx(truth[block == block[cell]].mean())
    assert found.sum(axis=0) == pytest.approx(truth.sum())


@for_each("shrink", [True, False])
@for_each("deviation", [0.0, 0.1, 5.0, 1e4])
@for_each(("columns", "rows"), SHAPES)
def test_places_sum_to_the_total_whatever_the_noise_is(columns, rows, deviation, shrink):
    grid, chance = grid_of(columns, rows), np.random.default_rng(columns)
    truth = busy(grid, chance) + 0.01
    tables = levels(truth, grid, deviation, chance)
    expected = chance.uniform(0.1, 1, grid.count)
    found = places(grid, block_sides(grid), tables, expected, truth.sum(), Parts(shrink=shrink))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(truth.sum())
    if deviation == 0:
        assert found == pytest.approx(truth, abs=0.02 * truth.max())


def test_blocks_help_where_cells_are_hidden_by_noise():
    chance = np.random.default_rng(2)
    grid = grid_of(27, 27)
    truth = np.zeros((27, 27))
    truth[:9, :9], truth[18:, 9:18] = 4.0, 2.0
    truth = truth.ravel()
    tables = levels(truth, grid, 8.0, chance)
    even = np.ones(grid.count)
    found = places(grid, block_sides(grid), tables, even, truth.sum())
    alone = places(grid, (1,), tables[:1], even, truth.sum())
    assert ((found - truth) ** 2).sum() < 0.7 * ((alone - truth) ** 2).sum()


def test_starts_and_ends_are_expected_where_there_are_moves():
    chance = np.random.default_rng(3)
    grid = grid_of(20, 20)
    truth = np.zeros(400)
    truth[100:140] = 30.0
    moves = np.zeros((400, 8))
    moves[100:140, 0] = 100.0
    starts, ends = (levels(truth, grid, 20.0, chance) for _ in range(2))
    sides = block_sides(grid)
    for found, noisy in zip(
        shrunk_places(grid, sides, starts, ends, moves, 1200.0), (starts, ends), strict=True
    ):
        plain = places(grid, sides, noisy, np.ones(400), 1200.0)
        assert found.sum() == pytest.approx(1200.0)
        assert ((found - truth) ** 2).sum() < 0.7 * ((plain - truth) ** 2).sum()


@for_each("wanted", [1, 4, 17, 100])
def test_regions_are_boxes_of_like_mass(wanted):
    grid = grid_of(60, 40)
    chance = np.random.default_rng(wanted)
    mass = chance.uniform(0.5, 1.5, grid.count) * np.linspace(0.2, 3, grid.count)
    region = regions(grid, mass, wanted)
    assert sorted(set(region.tolist())) == list(range(wanted))
    for one in range(wanted):
        rows, columns = np.divmod(np.flatnonzero(region == one), 60)
        assert rows.size == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    weight = np.bincount(region, mass)
    assert weight.max() < 3 * weight.min()  # cuts halve, so about twice, and rows and columns are whole


def test_regions_of_small_and_empty_grids():
    assert regions(grid_of(1, 1), np.zeros(1), 4).tolist() == [0]
    assert sorted(regions(grid_of(2, 1), np.array([5.0, 0.0]), 4).tolist()) == [0, 1]
    point = np.zeros(GRID.count)
    point[77] = 1.0
    assert np.unique(regions(GRID, point, 50)).size == 50
    assert np.array_equal(regions(GRID, point, 9), regions(GRID, point.copy(), 9))


@for_each("count", [1, 4, 9])
@for_each("deviation", [0.01, 5.0, 1e4])
def test_flows_fit_their_margins(count, deviation):
    chance = np.random.default_rng(count)
    starts, ends = busy(GRID, chance) + 0.1, busy(GRID, chance) + 0.1
    region = regions(GRID, starts + ends, count)
    truth = chance.gamma(0.5, 10, (count, count))
    noisy = NoisyTable(truth.ravel() + chance.normal(0, deviation, count**2), deviation)
    found = flows(GRID, region, noisy, starts, ends)
    assert (found >= 0).all()
    begin, end = np.bincount(region, starts), np.bincount(region, ends)
    assert found.sum() == pytest.approx(begin.sum(), rel=1e-3)
    assert found.sum(axis=0) == pytest.approx(end * begin.sum() / end.sum(), rel=1e-3)
    assert found.sum(axis=1) == pytest.approx(begin, rel=0.1)


def test_flows_without_noise_are_what_is_counted():
    chance = np.random.default_rng(5)
    region = regions(GRID, np.ones(GRID.count), 6)
    begin, end = chance.integers(0, GRID.count, (2, 5000))
    truth = np.bincount(region[begin] * 6 + region[end], minlength=36).astype(float)
    truth[7] += 3000  # from region 1 to itself
    starts, ends = (np.bincount(cells, minlength=GRID.count).astype(float) for cells in (begin, end))
    inside = region == 1
    starts[inside] += 3000 / inside.sum()
    ends[inside] += 3000 / inside.sum()
    found = flows(GRID, region, NoisyTable(truth, 0.01), starts, ends)
    assert found.ravel() == pytest.approx(truth, abs=5)
