"""TGM as published: what it draws against the printed formulas, and that what it says of itself is true."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.loops import for_each
from tests.worlds import exact_paths

from shoal.errors import PlanError
from shoal.privacy.noise import SeededNoise
from shoal.space.cell_paths import CellPaths, direction_between
from shoal.space.cells import CellGrid
from shoal_baselines.comparators.tgm import PublishedTgm

GRID = CellGrid(box=(0, 0, 6, 5), columns=6, rows=5, planar=True)
EAST, NORTH_EAST, NORTH, WEST, STAY, END = 0, 1, 2, 4, 8, 9
PLAIN = PublishedTgm(epsilon=80, restoring=False, window=0)
# noise of choices as at a small epsilon, next to none on theta
SURE_THETA = PublishedTgm(epsilon=1e5, ratio=2e-6, eta=1e-5)


def exact_of(trips, grid=GRID):
    """Trips as lists of (column, row, stay); a step is a tick."""
    lists = []
    for trip in trips:
        now, visits = 0, []
        for x, y, stay in trip:
            visits.append((y * grid.columns + x, now, stay))
            now += stay + 1
        lists.append(visits)
    return exact_paths(grid, lists, each_trip=True)


def walks(seed, count=60, grid=GRID, moves=12, stays=3):
    generator = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y = int(generator.integers(grid.columns)), int(generator.integers(grid.rows))
        trip = [(x, y, int(generator.integers(stays)))]
        for _ in range(int(generator.integers(moves))):
            dx, dy = generator.integers(-1, 2, 2).tolist()
            if (dx or dy) and 0 <= x + dx < grid.columns and 0 <= y + dy < grid.rows:
                x, y = x + dx, y + dy
                trip.append((x, y, int(generator.integers(stays))))
        trips.append(trip)
    return exact_of(trips)


def options_of(paths, trip):
    """What was drawn, step by step."""
    begin, end = paths.first[trip], paths.first[trip + 1]
    found = [STAY] * int(paths.stay[begin])
    for visit in range(begin + 1, end):
        found += [int(paths.directions[visit - trip - 1])] + [STAY] * int(paths.stay[visit])
    return [*found, END]


def agrees(found, weights):
    """Counts against probabilities that are given by option; others must not occur."""
    total = sum(weights.values())
    assert set(found) <= set(weights)
    count = sum(found.values())
    expected = {option: count * weight / total for option, weight in weights.items()}
    return chisquare([found[option] for option in weights], list(expected.values())).pvalue


def exponential(utilities, budget):
    return {option: math.exp(budget * utility / 2) for option, utility in utilities.items()}


# Ten trips start at (2, 2). Five go east, of which three then north, one stays 4 steps and ends, one ends;
# three go north and end; two stay 2 and 3 steps and end. One more starts at (4, 4) and ends at (4, 3).
CROSSING = exact_of(
    [[(2, 2, 0), (3, 2, 0), (3, 3, 0)]] * 3
    + [[(2, 2, 0), (3, 2, 4)], [(2, 2, 0), (3, 2, 0)]]
    + [[(2, 2, 0), (2, 3, 0)]] * 3
    + [[(2, 2, 2)], [(2, 2, 3)], [(4, 4, 0), (4, 3, 0)]]
)
INNER = dict.fromkeys(range(10), 0.0)
FIRST_STEP = INNER | {EAST: 5, NORTH: 3, STAY: 5, END: 2}  # (2, 2): numerators; 10 came, 5 stayed, 2 ended
SECOND_STEP = INNER | {NORTH: 3, STAY: 4, END: 2}  # (2, 2), (3, 2): 5 came, 4 stayed, 2 ended


@pytest.mark.parametrize("utilities", ["probabilities", "counts"])
def test_the_first_cell_is_drawn_by_equation_5_1_among_visited_cells(utilities):
    epsilon = 80 if utilities == "probabilities" else 4
    tgm = replace(PLAIN, utilities=utilities, epsilon=epsilon)
    cells = Counter(tgm(CROSSING, SeededNoise(3), 20_000).starts.tolist())
    starts = {14: 10, 15: 0, 20: 0, 21: 0, 22: 0, 28: 1}  # 15, 20, 21, 22 are visited, never a start
    shares = {cell: count / (11 if utilities == "probabilities" else 1) for cell, count in starts.items()}
    weights = exponential(shares, epsilon / 4 / 3)
    assert agrees(cells, weights) > 1e-3
    assert agrees(cells, dict.fromkeys(weights, 1.0)) < 1e-9


def steps_after(synthetic, before):
    """What was drawn after trips from (2, 2) that went `before`."""
    found = Counter()
    for trip in np.flatnonzero(synthetic.starts == 14).tolist():
        options = options_of(synthetic, trip)
        if options[: len(before)] == before:
            found[options[len(before)]] += 1
    return found


def test_a_step_is_drawn_by_equations_5_2_to_5_4():
    synthetic = PLAIN(CROSSING, SeededNoise(5), 40_000)
    first = {option: count / (10 + 5 + 2) for option, count in FIRST_STEP.items()}
    second = {option: count / (5 + 4 + 2) for option, count in SECOND_STEP.items()}
    budget = 2 * 80 / 4 / 3
    assert agrees(steps_after(synthetic, []), exponential(first, budget / 3)) > 1e-3
    assert agrees(steps_after(synthetic, [EAST]), exponential(second, budget / 6)) > 1e-3
    assert agrees(steps_after(synthetic, [EAST]), exponential(second, budget / 3)) < 1e-6


def test_steps_by_counts_and_in_proportion_without_noise():
    synthetic = replace(PLAIN, utilities="counts", epsilon=4)(CROSSING, SeededNoise(5), 20_000)
    assert agrees(steps_after(synthetic, []), exponential(FIRST_STEP, 2 / 3 / 3)) > 1e-3
    tgm = replace(PLAIN, private=False)
    synthetic = tgm(CROSSING, SeededNoise(5), 20_000)
    assert agrees(Counter(synthetic.starts.tolist()), {14: 10, 28: 1}) > 1e-3
    drawn = {option: count for option, count in FIRST_STEP.items() if count}
    assert agrees(steps_after(synthetic, []), drawn) > 1e-3


def test_weights_of_the_last_moves_multiply_utilities():
    weighted = replace(PLAIN, window=10, alpha=3.0)(CROSSING, SeededNoise(5), 60_000)
    share = {option: count / 11 for option, count in SECOND_STEP.items()}
    budget = 2 * 80 / 4 / 3
    # north and the end are no way east, so after a move east their weight is 1; so is a stay's
    assert agrees(steps_after(weighted, [EAST]), exponential(share, budget / 6)) > 1e-3
    # after a stay, a stay weighs 3; the prefix is the same
    share = {option: count / 17 for option, count in FIRST_STEP.items()}
    assert agrees(steps_after(weighted, [STAY]), exponential(share | {STAY: 3 * 5 / 17}, budget / 6)) > 1e-3
    assert agrees(steps_after(weighted, [STAY]), exponential(share, budget / 6)) < 1e-6
    # two cells north east of (2, 2) nobody went this way, but at (3, 3) three trips ended
    ended = INNER | {END: 3 / 6}
    assert agrees(steps_after(weighted, [NORTH_EAST]), exponential(ended, budget / 6)) > 1e-3


@pytest.mark.parametrize(
    ("before", "ends"),
    [
        # north east, then east, north or west
        ([(1, 1, 0), (2, 2, 0)], {(3, 2): 2, (2, 3): 2, (1, 2): 1}),
        # east, then north east or north west
        ([(1, 1, 0), (2, 1, 0)], {(3, 2): 2, (1, 2): 1}),
    ],
)
def test_a_corner_counts_for_both_its_sides_and_has_the_better_ones_weight(before, ends):
    fork = exact_of([[*before, (x, y, 0)] for x, y in ends])
    synthetic = replace(PLAIN, private=False, window=5, alpha=2.0)(fork, SeededNoise(1), 9_000)
    found = Counter(synthetic.ends.tolist())
    assert agrees(found, {y * 6 + x: weight for (x, y), weight in ends.items()}) > 1e-3
    assert agrees(found, {y * 6 + x: 1 for x, y in ends}) < 1e-9


def test_an_unknown_prefix_has_what_all_trips_did_at_the_cell():
    synthetic = PLAIN(CROSSING, SeededNoise(5), 60_000)
    found = Counter(
        options_of(synthetic, trip)[0] for trip in np.flatnonzero(synthetic.starts == 15).tolist()
    )
    share = {option: count / 11 for option, count in SECOND_STEP.items()}  # no trip starts at (3, 2)
    assert agrees(found, exponential(share, 2 * 80 / 4 / 3 / 3)) > 1e-3
    found = steps_after(synthetic, [WEST])  # nobody was at (1, 2)
    assert agrees(found, dict.fromkeys(range(10), 1.0)) > 1e-3


def test_budgets_are_the_printed_series_and_add_up():
    tgm = PublishedTgm(epsilon=0.5)
    assert tgm.budget(0) == pytest.approx(0.125 / 3)
    series = [tgm.budget(step) / (2 * 0.125 / 3) for step in range(1, 5)]
    assert series == pytest.approx([1 / 3, 1 / 6, 1 / 10, 1 / 15])
    steps = 1_000
    left = 2 * 0.125 / 3 * 2 / (steps + 2)  # the series from step 1001 on
    assert sum(tgm.budget(step) for step in range(steps + 1)) + left == pytest.approx(0.125)
    assert tgm.budgets().size == 39
    assert tgm.budget(39) > 1e-4 >= tgm.budget(40)
    fixed = replace(tgm, adaptive=False)
    spent = np.cumsum([fixed.budget(step) for step in range(200)])
    assert fixed.budget(7) == pytest.approx(0.1 * (0.125 - spent[6]))
    assert spent[-1] == pytest.approx(0.125)


def turns_of(paths):
    """Turns in steps of 45 degrees, 0 to 4, of moves before which straight on stayed inside the grid."""
    found = []
    for trip in range(paths.count):
        cells = paths.cells[paths.first[trip] : paths.first[trip + 1]].astype(int)
        for a, b, c in zip(cells, cells[1:], cells[2:], strict=False):
            x, y = 2 * (b % 6) - a % 6, 2 * (b // 6) - a // 6
            if 0 <= x < 6 and 0 <= y < 5:
                one, other = direction_between(np.array([a, b]), np.array([b, c]), 6).tolist()
                found.append(min((one - other) % 8, (other - one) % 8))
    return Counter(found)


def test_line_13_as_printed_takes_sharp_turns_back_and_only_the_text_restores_a_budget():
    exact = walks(1)
    printed = SURE_THETA(exact, SeededNoise(1), 3_000)
    text = replace(SURE_THETA, line_13="text")(exact, SeededNoise(1), 3_000)
    none = replace(SURE_THETA, restoring=False)(exact, SeededNoise(1), 3_000)
    assert set(turns_of(printed)) == {0, 1}
    assert set(turns_of(text)) == {0, 2, 3, 4}
    assert set(turns_of(none)) == {0, 1, 2, 3, 4}
    exact = walks(1)
    short = replace(SURE_THETA, eta=0.01)
    steps = short.budgets().size
    assert 0 < steps < 4
    taken = {
        line: replace(short, line_13=line)(exact, SeededNoise(1), 3_000).duration.max()
        for line in ("printed", "text")
    }
    assert taken["printed"] == steps < taken["text"]
    assert replace(short, restoring=False)(exact, SeededNoise(1), 3_000).duration.max() == steps


SWITCHES = [
    {},
    {"line_13": "text"},
    {"adaptive": False},
    {"restoring": False},
    {"window": 0},
    {"utilities": "counts"},
    {"utilities": "counts", "line_13": "text"},
    {"private": False},
]


@for_each("switches", SWITCHES, ids=str)
@for_each("epsilon", [0.5, 1e3])
def test_trips_stay_in_the_grid_and_have_a_tick_for_each_step(switches, epsilon):
    tgm, exact = PublishedTgm(epsilon=epsilon, **switches), walks(2)
    paths = tgm(exact, SeededNoise(4), 500)
    assert paths.count == 500
    assert np.isin(paths.cells, np.arange(GRID.count)).all()
    assert np.all(paths.directions >= 0)  # -1: not to a neighbour, or around the edge
    at = paths.move_at
    assert np.array_equal(paths.tick[at + 1], paths.tick[at] + paths.stay[at] + 1)
    assert not paths.tick[paths.first[:-1]].any()
    assert not paths.start_us.any()
    again, other = tgm(exact, SeededNoise(4), 500), tgm(exact, SeededNoise(5), 500)
    assert np.array_equal(paths.cells, again.cells)
    assert not np.array_equal(paths.first, other.first)


def test_nothing_comes_of_nothing():
    for exact in (exact_of([]), replace(exact_of([]), units=4)):
        paths = PublishedTgm()(exact, SeededNoise(1), 100)
        assert (paths.count, paths.cells.size, paths.first.tolist()) == (0, 0, [0])
    assert PublishedTgm()(walks(1), SeededNoise(1), 0).count == 0
    points = exact_of([[(2, 2, 0)]])
    assert PublishedTgm(private=False)(points, SeededNoise(1), 5).cells.tolist() == [14] * 5


def test_the_true_guarantee_is_none_and_weights_cost_more():
    tgm = PublishedTgm(epsilon=0.5)
    assert not hasattr(tgm, "loss")
    said = tgm.true_guarantee(100_000)
    assert said.startswith("No guarantee")
    assert all(part in said for part in ("50,000 for 100,000", "visited cells", f"{tgm.paid_epsilon():.3g}"))
    assert "withdrawn" not in said
    assert "withdrawn" in replace(tgm, line_13="text").true_guarantee(10)
    assert "nothing bounds" in replace(tgm, utilities="counts").true_guarantee(10)
    assert "none is claimed" in replace(tgm, private=False).true_guarantee(10)
    plain = PublishedTgm(epsilon=0.5, window=0)
    assert 0.12 < plain.paid_epsilon() < 0.125
    weighted = 0.125 / 3 + sum(2 / ((i + 1) * (i + 2)) / 12 * 1.4 ** min(i - 1, 10) for i in range(1, 40))
    assert PublishedTgm(epsilon=0.5).paid_epsilon() == pytest.approx(weighted)
    assert weighted > 0.5
    assert PublishedTgm(epsilon=0.5, line_13="text").paid_epsilon() > weighted


@for_each(
    "wrong",
    [{"line_13": "none"}, {"utilities": "both"}, {"epsilon": 0}, {"ratio": 1}, {"alpha": 0.5}],
    ids=str,
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(PlanError):
        PublishedTgm(**wrong)


def test_noise_on_theta_is_one_for_a_trip_or_one_for_each_comparison():
    exact = walks(1)
    loud = replace(SURE_THETA, epsilon=0.2, ratio=0.99)  # a scale of 500: theta is beyond all cosines
    kinds = {}
    for once in (True, False):
        paths = replace(loud, theta_once=once)(exact, SeededNoise(1), 4_000)
        long = [trip for trip in range(paths.count) if paths.moves[trip] >= 4]
        kinds[once] = [turns_of(one_of(paths, trip)) for trip in long]
    bent = {once: np.mean([set(turns) not in ({0}, set()) for turns in kinds[once]]) for once in kinds}
    assert bent[True] < 0.55 < 0.6 < bent[False]


def one_of(paths, trip):
    rows = slice(paths.first[trip], paths.first[trip + 1])
    return CellPaths.of(
        paths.grid, 60, [np.stack([paths.cells[rows], paths.tick[rows], paths.stay[rows]], 1).tolist()]
    )
