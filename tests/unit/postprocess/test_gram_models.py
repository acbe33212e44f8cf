"""Trips drawn from chains, grams, prefixes and grids by speed follow the tables they are drawn from."""

from datetime import datetime

import numpy as np
import pytest
from scipy.stats import chisquare

from shoal.space.cell_paths import MOVE_CLASSES, STAY_BINS
from shoal.space.cells import CellGrid
from shoal.space.clock import HOUR_KINDS, Clock
from shoal.space.trip_setting import PathSetting
from shoal.stages.synthetic import NoisyTable
from shoal_baselines.postprocess.grams import GramModel, Walks, draw_starts, slot_weights, suffixes, visits_of
from shoal_baselines.postprocess.prefix import PrefixModel, with_stays
from shoal_baselines.postprocess.speeds import SpeedModel
from shoal_baselines.space.gram_tables import END, STAY, CellSteps, MoveSteps, Trie
from shoal_baselines.space.speed_steps import STOP, UP, WITHIN, SpeedSteps

GRID = CellGrid(box=(0, 0, 3, 3), columns=3, rows=3, planar=True)
CLOCK = Clock(start=datetime(2026, 3, 6), end=datetime(2026, 3, 8), time_zone="UTC")  # Friday and Saturday
SETTING = PathSetting(grid=GRID, step_s=60.0, clock=CLOCK, each_trip=True)
SURE = 1e-9  # a deviation of next to nothing
NONE = NoisyTable(np.zeros(HOUR_KINDS), SURE)
EVEN = 0.001  # a chi-square test below this fails; seeds are fixed


def noisy(values):
    return NoisyTable(np.asarray(values, np.float64).ravel(), SURE)


def chain(counts, starts, trie=None, levels=()):
    trie = trie or Trie.of(CellSteps(GRID))
    levels = (noisy(counts), *(noisy(level) for level in levels))
    return GramModel(setting=SETTING, trips=1.0, hours=NONE, starts=noisy(starts), trie=trie, levels=levels)


def test_starts_and_next_steps_follow_their_tables():
    rng = np.random.default_rng(1)
    counts, starts = rng.integers(1, 20, (9, 10)).astype(float), np.arange(9.0) - 1
    counts[:, END] += 30
    paths = chain(counts, starts).generate(40_000, 5)
    kept = np.maximum(starts, 0.0)
    kept[2:] -= 1 / 7  # what is below 0 is taken from the others alike
    found = np.bincount(paths.starts, minlength=9)
    assert found[:2].sum() == 0
    assert chisquare(found[2:], kept[2:] / kept.sum() * 40_000).pvalue > EVEN
    told = CellSteps(GRID).sequences(paths)
    may = CellSteps(GRID).may()
    for cell in range(9):
        seen = np.bincount(told.symbol[told.state == cell], minlength=10)
        expected = counts[cell] * may[cell]
        assert seen[~may[cell]].sum() == 0
        wanted = expected / expected.sum() * seen.sum()
        assert chisquare(seen[may[cell]], wanted[may[cell]]).pvalue > EVEN


def test_a_longer_context_is_used_as_far_as_its_noise_allows():
    counts = np.zeros((9, 10))
    counts[4, 0], counts[5, [4, END]] = 10.0, 5.0  # from the middle east, then back or end
    trie = Trie.of(CellSteps(GRID)).grown(counts, 7.0)  # only 4 by east
    after = np.zeros((1, 10))
    after[0, END] = 10.0  # who came from 4 ends
    paths = chain(counts, np.eye(9)[4], trie, [after]).generate(2_000, 1)
    assert set(paths.moves.tolist()) == {1}
    plain = chain(counts, np.eye(9)[4]).generate(2_000, 1)
    assert plain.moves.max() > 2
    counts = np.zeros((9, 10))
    counts[4, 0], counts[5, [4, END]] = 10.0, 5.0
    trie = Trie.of(CellSteps(GRID)).grown(counts, 7.0)
    after = np.zeros((1, 10))
    after[0, END] = 10.0
    levels = noisy(counts), NoisyTable(after.ravel(), 1e6)
    model = GramModel(
        setting=SETTING, trips=1.0, hours=NONE, starts=noisy(np.ones(9)), trie=trie, levels=levels
    )
    probabilities = model.probabilities()
    assert probabilities[9] == pytest.approx(probabilities[5], abs=1e-3)
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    counts = np.zeros((9, 10))
    counts[:, STAY] = 50.0
    counts[0, 0] = 30.0
    model = GramModel(
        setting=SETTING,
        trips=1.0,
        hours=NONE,
        starts=noisy(np.ones(9)),
        trie=Trie.of(CellSteps(GRID)),
        levels=(NoisyTable(counts.ravel() - 20.0, 5.0),),
    )
    paths = model.generate(300, 2)
    assert paths.duration.max() <= 1000


def test_visits_of_walks():
    walks = Walks(
        start=np.array([0, 4, 8], np.int32),
        first=np.array([0, 4, 4, 6]),
        state=np.array([0, 1, 4, 4, 8, 8], np.int32),
        symbol=np.array([STAY, 0, 2, STAY, STAY, STAY], np.int8),
    )
    first, cells, tick, stay = visits_of(walks)
    assert first.tolist() == [0, 3, 4, 5]
    assert cells.tolist() == [0, 1, 4, 4, 8]
    assert tick.tolist() == [0, 2, 3, 0, 0]
    assert stay.tolist() == [1, 0, 1, 0, 2]


def test_suffixes_are_the_longest_that_there_are():
    rng = np.random.default_rng(2)
    trie = Trie.of(CellSteps(GRID))
    for _ in range(3):
        trie = trie.grown(rng.random(trie.size), 0.6)
    names = {i: (i,) for i in range(9)}
    for node in range(trie.nodes):
        names |= {int(c): (*names[node], s) for s, c in enumerate(trie.child[node]) if c >= 0}
    node_of = {name: node for node, name in names.items()}
    follow = CellSteps(GRID).follow()
    found = suffixes(trie.child, trie.state)
    assert (found[:9] == -1).all()
    for node in range(9, trie.nodes):
        state, *said = names[node]
        while True:
            state, said = int(follow[state, said[0]]), said[1:]
            if (state, *said) in node_of:
                break
        assert found[node] == node_of[state, *said]


def prefix_model(trips, starts, trie, levels, setting=SETTING):
    stays = np.zeros((MOVE_CLASSES.size + 1, STAY_BINS))
    stays[:, 0], stays[1, 3] = 3.0, 9.0
    return PrefixModel(
        setting=setting,
        trips=trips,
        hours=NONE,
        stays=noisy(stays),
        starts=noisy(starts),
        trie=trie,
        levels=tuple(noisy(level) for level in levels),
    )


def test_prefixes_are_consistent_and_drawn_in_proportion():
    level = np.full((9, 10), -1.0)
    level[0, [0, 2, END]] = 60.0, 30.0, 30.0
    trie = Trie.of(MoveSteps(GRID)).grown(level, 50.0)
    below = np.full((1, 10), -3.0)
    below[0, [4, END]] = 10.0, 30.0
    model = prefix_model(200.0, np.eye(9)[0] * 150, trie, [level, below])
    starts, counts = model.consistent()
    assert starts.sum() == pytest.approx(200)
    assert counts[0].sum() == pytest.approx(starts[0])
    assert counts[9].sum() == pytest.approx(counts[0, 0])
    assert counts.min() >= 0
    assert counts[0, 0] - counts[0, 2] == pytest.approx(30)
    paths = model.generate(20_000, 3)
    moves = np.bincount(paths.moves[paths.starts == 0], minlength=3)
    alone, two = counts[0, END], counts[9, :END].sum()
    expected = np.array([alone, starts[0] - alone - two, two])
    assert chisquare(moves, expected / expected.sum() * moves.sum()).pvalue > EVEN


def test_levels_of_users_are_scaled_to_the_trips_that_reach_them():
    users = PathSetting(grid=GRID, step_s=60.0, clock=CLOCK)
    level = np.zeros((9, 10))
    level[0, [0, END]] = 3.0, 1.0  # norms, not trips
    model = prefix_model(400.0, np.eye(9)[0], Trie.of(MoveSteps(GRID)), [level], users)
    _, counts = model.consistent()
    assert counts[0, 0] == pytest.approx(300)
    assert counts[0, END] == pytest.approx(100)


def test_stays_follow_their_class_of_moves_and_move_ticks():
    stays = np.zeros((MOVE_CLASSES.size + 1, STAY_BINS))
    stays[0, 2], stays[1, [0, 4]] = 5.0, (1.0, 3.0)
    first = np.concatenate([[0], np.cumsum(np.tile([1, 2], 6_000))])
    tick = np.tile([0, 0, 1], 6_000)
    visits = with_stays((first, np.tile([3, 0, 1], 6_000), tick, np.zeros(18_000)), noisy(stays), 9)
    stay = visits[3].reshape(-1, 3)
    assert (stay[:, 0] == 2).all()
    total = stay[:, 1:].sum(axis=1)
    assert set(total.tolist()) == {0, 4}
    assert chisquare(np.bincount(total, minlength=5)[[0, 4]], [1_500, 4_500]).pvalue > EVEN
    # each step falls to either visit alike
    ways = np.bincount(stay[total == 4, 1], minlength=5)
    assert chisquare(ways, np.array([1, 4, 6, 4, 1]) / 16 * ways.sum()).pvalue > EVEN
    assert (visits[2].reshape(-1, 3)[:, 2] == 1 + stay[:, 1]).all()


def test_start_hours_follow_the_noisy_table():
    hours = np.full(HOUR_KINDS, -1.0)
    hours[8], hours[24 + 20] = 205.0, 55.0  # Friday at 8, Saturday at 20
    weights = slot_weights(SETTING, hours)
    assert np.flatnonzero(weights).tolist() == [8, 24 + 20]
    begin = draw_starts(SETTING, weights, 10_000, 4)
    slots = np.bincount(CLOCK.slot_of(begin), minlength=48)
    assert slots[[8, 44]].sum() == 10_000
    assert chisquare(slots[[8, 44]], weights[[8, 44]] / weights.sum() * 10_000).pvalue > EVEN
    assert slot_weights(SETTING, -hours) == pytest.approx(slot_weights(SETTING))
    minute = (begin[slots.argmax() == CLOCK.slot_of(begin)] // 60_000_000) % 60
    assert chisquare(np.bincount(minute, minlength=60)).pvalue > EVEN


def speed_model(grid, counts, starts):
    setting = PathSetting(grid=grid, step_s=60.0, clock=CLOCK, each_trip=True)
    trie = Trie.of(SpeedSteps(grid))
    return SpeedModel(
        setting=setting, trips=1.0, hours=NONE, starts=noisy(starts), trie=trie, levels=(noisy(counts),)
    )


def test_fast_steps_cross_cells_within_a_tick_and_fine_cells_are_drawn_by_visits():
    grid = CellGrid(box=(0, 0, 8, 8), columns=8, rows=8, planar=True)
    steps = SpeedSteps(grid)
    counts = np.zeros((steps.states, 13))
    slow, fast = steps.grids[0][2], steps.grids[1][2]
    counts[slow : slow + 64, UP] = 0.001
    counts[fast : fast + 16, STOP] = 1.0
    counts[fast, 0], counts[fast, STOP] = 5.0, 0.0  # east, on the grid of two cells
    starts = np.zeros(steps.states)
    starts[fast] = 1.0
    paths = speed_model(grid, counts, starts).generate(3_000, 2)
    assert (paths.moves == 2).all()  # two cells are as fast as this grid says
    assert paths.tick.reshape(-1, 3)[:, 1:].tolist() == [[0, 1]] * 3_000
    assert set((paths.starts % 8 // 2).tolist()) == {0}
    assert set((paths.ends % 8 // 2).tolist()) == {1}
    grid = CellGrid(box=(0, 0, 8, 8), columns=8, rows=8, planar=True)
    steps = SpeedSteps(grid)
    counts = np.zeros((steps.states, 13))
    counts[[0, 1, 8, 9], STOP] = 1.0, 2.0, 3.0, 4.0
    fast = steps.grids[1][2]
    counts[fast, STOP] = 1.0
    starts = np.zeros(steps.states)
    starts[fast] = 1.0
    paths = speed_model(grid, counts, starts).generate(10_000, 2)
    found = np.bincount(paths.starts, minlength=64)[[0, 1, 8, 9]]
    assert chisquare(found, [1_000, 2_000, 3_000, 4_000]).pvalue > EVEN


def test_directions_go_on_more_often_than_the_table_alone_says():
    grid = CellGrid(box=(0, 0, 60, 60), columns=60, rows=60, planar=True)
    steps = SpeedSteps(grid)
    counts = np.zeros((steps.states, 13))
    counts[: grid.count, :8], counts[: grid.count, STOP] = 1.0, 0.5
    counts[grid.count :, WITHIN] = 0.0
    starts = np.zeros(steps.states)
    starts[30 * 60 + 30] = 1.0
    paths = speed_model(grid, counts, starts).generate(5_000, 2)
    long = np.flatnonzero(paths.moves >= 2)
    turn = (paths.directions[paths.move_first[long] + 1] - paths.directions[paths.move_first[long]]) % 8
    weight = np.array([1.4, 1.4, 1, 1 / 1.4, 1 / 1.4, 1 / 1.4, 1, 1.4])
    found = np.bincount(turn, minlength=8)
    # the probability to end falls as well, alike for all directions
    assert chisquare(found, weight / weight.sum() * found.sum()).pvalue > EVEN
