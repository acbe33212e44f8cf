"""Tables of the bridge generator: places and flows of given sums, moves near a truth, lengths by class."""

import numpy as np
import pytest
from scipy import stats
from tests.loops import for_each

from shoal.postprocess.synthetic.bridge_tables import (
    MOST_TAIL,
    Parts,
    block_sides,
    blocks_of,
    boxes,
    by_class,
    drawn,
    fall_of,
    falling,
    flows,
    inflow,
    move_features,
    on_grid,
    per_cell,
    places,
    regions,
    shrunk_moves,
    shrunk_places,
    visits_of,
)
from shoal.postprocess.synthetic.numbers import onto_own_total
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


def test_blocks_and_moves_help_where_cells_are_hidden_by_noise():
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


WAYS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]


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


def test_features_of_moves_by_hand():
    values = np.zeros((SMALL.count, 8))
    values[16, 0] = 5.0  # eastwards from column 2, row 2
    features = move_features(SMALL, values)
    assert features[15, 0, 0] == features[17, 0, 0] == 5.0
    assert features[17, 4, 2] == 5.0  # the same way back
    assert features[16, 0, :18].tolist() == [0.0] * 18
    expected = [
        [0 <= cell % 7 + dx < 7 and 0 <= cell // 7 + dy < 5 for dx, dy in WAYS] for cell in range(SMALL.count)
    ]
    assert on_grid(SMALL).tolist() == expected
    assert not on_grid(grid_of(1, 1)).any()
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


ALARM = 1e-6
BINS, CLASSES = 20, 12
GUESS = falling(BINS, 0.7)


def rows_of(seed):
    """Any distribution in every class, alike in classes that are near."""
    chance = np.random.default_rng(seed)
    fall = np.linspace(0.5, 0.9, CLASSES)[:, None]
    rows = fall ** np.arange(BINS) * chance.uniform(0.8, 1.2, (CLASSES, BINS))
    return rows / rows.sum(axis=1, keepdims=True)


def noisy_of(rows, trips, deviation, seed=1):
    noise = np.random.default_rng(seed).normal(0, deviation, rows.shape)
    return NoisyTable((rows * trips + noise).ravel(), deviation)


@for_each("alike", [False, True])
@for_each("deviation", [1e-6, 1.0, 50.0, 1e7])
@for_each("trips", [0.0, 3.0, 1000.0])
def test_rows_are_distributions(trips, deviation, alike):
    found = by_class(noisy_of(rows_of(1), trips, deviation), GUESS, alike=alike)
    assert found.shape == (CLASSES, BINS)
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_noise_are_exact(seed):
    rows = rows_of(seed)
    trips = np.random.default_rng(seed).integers(1000, 90_000, (CLASSES, 1))
    assert by_class(noisy_of(rows, trips, 1e-3), GUESS) == pytest.approx(rows, abs=1e-3)


def test_rows_of_classes_without_noise_and_with_noise_alone():
    rows = rows_of(4)
    trips = np.linspace(1000, 50_000, CLASSES)[:, None]
    found = by_class(noisy_of(rows, trips, 1e-3), GUESS, alike=True)
    whole = (rows * trips).sum(axis=0)
    assert found == pytest.approx(np.tile(whole / whole.sum(), (CLASSES, 1)), abs=1e-3)
    far = [
        np.abs(by_class(noisy_of(rows_of(1), 5.0, 200.0, seed), GUESS, alike=True)[0] - GUESS).sum()
        for seed in range(20)
    ]
    close = np.abs(
        by_class(noisy_of(rows_of(1), 1e6, 200.0), GUESS, alike=True)[0] - rows_of(1).mean(0)
    ).sum()
    assert close < 0.01
    assert np.mean(far) < 1.5
    rows, error, plain = rows_of(5), [], []
    for seed in range(10):
        noisy = noisy_of(rows, 300.0, 15.0, seed)
        cut = np.maximum(noisy.values.reshape(rows.shape), 0)
        error.append(np.abs(by_class(noisy, GUESS) - rows).sum())
        plain.append(np.abs(cut / cut.sum(axis=1, keepdims=True) - rows).sum())
    assert np.mean(error) < 0.7 * np.mean(plain)


def test_the_last_bin_goes_on_with_its_fall():
    assert falling(5, 0.5) == pytest.approx([0.5, 0.25, 0.125, 0.0625, 0.0625])
    assert falling(20, 0.9)[-1] == pytest.approx(0.9**19)
    rows = np.zeros((1, BINS))
    rows[0, [0, -1]] = 0.7, 0.3  # how far it goes on does not depend on how the bin was drawn
    found = drawn(rows, np.zeros(90_000, np.int64), 0.6, seed=1, purpose=31)
    more = found[found > 0] - (BINS - 1)
    assert more.min() == 0
    seen = np.bincount(np.minimum(more, 12))
    assert stats.chisquare(seen, more.size * np.append(0.4 * 0.6 ** np.arange(12), 0.6**12)).pvalue > ALARM
    long = drawn(rows, np.zeros(50_000, np.int64), 0.9999, seed=1, purpose=31)
    assert long.max() == BINS - 1 + MOST_TAIL


@pytest.mark.parametrize("fall", [0.4, 0.7, 0.9])
def test_the_fall_is_found_and_guessed_where_noise_hides_it(fall):
    rows = np.tile(fall ** np.arange(BINS), (CLASSES, 1))
    assert fall_of(noisy_of(rows, 1e9, 1e-6), BINS) == pytest.approx(fall, rel=1e-3)
    assert fall_of(noisy_of(rows, 1.0, 100.0), BINS) == 0.8


def test_bins_are_drawn_as_their_row_says_and_follow_from_the_seed():
    rows = rows_of(6) * np.linspace(0.2, 3, CLASSES)[:, None]  # rows need not sum to 1
    rows[:, 3] = 0.0
    which = np.repeat([0, 5, 11], 40_000)
    found = drawn(rows, which, 0.5, seed=3, purpose=21)
    for one in (0, 5, 11):
        seen = np.bincount(np.minimum(found[which == one], BINS - 1), minlength=BINS)
        assert seen[3] == 0
        share = rows[one] / rows[one].sum() * 40_000
        kept = share > 5
        rest = [seen[~kept].sum()], [share[~kept].sum()]
        seen, share = np.append(seen[kept], rest[0]), np.append(share[kept], rest[1])
        assert stats.chisquare(seen[share > 0], share[share > 0]).pvalue > ALARM
    which = np.zeros(500, np.int64)
    one, again, other = (drawn(rows_of(1), which, 0.7, seed, 21) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
