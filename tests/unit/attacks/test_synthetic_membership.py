"""Adversaries of synthetic trips on planted releases: copies give members away, independent trips do not."""

import numpy as np
import pytest

from shoal.attacks.models.known_trips import KnownTrips, run_keys
from shoal.attacks.models.membership import draw_worlds, roc
from shoal.attacks.models.synthetic_membership import (
    RUNS,
    STATISTICS,
    alone,
    auc_interval,
    counts_of,
    learn,
    rareness,
)
from shoal.errors import PlanError
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

GRID = CellGrid(box=(0.0, 0.0, 2000.0, 1500.0), columns=20, rows=15, planar=True)  # cells of 100 m

USERS, GROUP, WORLDS = 240, 60, 10


@pytest.fixture(scope="module")
def trips(walks):
    return KnownTrips.of(walks(2 * USERS, 21), np.arange(2 * USERS) // 2)  # two trips each


def attacked(trips, publish, seed=3):
    """Statistic -> scores [worlds, targets], and who is in."""
    worlds = draw_worlds(trips.units, group=GROUP, worlds=WORLDS, seed=seed)
    targets = np.arange(0, 2 * GROUP, 2)
    adversary = learn(trips, worlds, targets, publish, runs=6, seed=seed)
    scores = [
        adversary.scores(publish(trips.of_units(worlds.pool[inside]), 100 + world))
        for world, inside in enumerate(worlds.inside)
    ]
    return {name: np.array([each[name] for each in scores]) for name in STATISTICS}, worlds.inside[:, targets]


def auc_of(scores, inside):
    return roc(scores[inside], scores[~inside]).auc


def test_members_of_a_copied_release_are_found(trips):
    scores, inside = attacked(trips, lambda group, run: group.paths)
    assert auc_of(scores["nearest"], inside) > 0.99
    assert auc_of(scores["runs"], inside) > 0.9
    assert auc_of(scores["cells"], inside) > 0.6
    low, high = auc_interval(scores["nearest"], inside)
    assert low > 0.95
    assert low <= auc_of(scores["nearest"], inside) <= high


def test_trips_that_know_nobody_tell_nothing(trips, walks):
    scores, inside = attacked(trips, lambda group, run: walks(2 * GROUP, 1000 + run))
    for name in STATISTICS:
        low, high = auc_interval(scores[name], inside)
        assert low < 0.5 < high, name
        assert auc_of(scores[name], inside) == pytest.approx(0.5, abs=0.07)


def test_a_release_that_replays_one_trip_in_four_is_still_found(trips):
    def publish(group, run):
        kept = np.random.default_rng(run).random(group.units) < 0.25
        return group.of_units(np.flatnonzero(kept)).paths

    scores, inside = attacked(trips, publish)
    low, _ = auc_interval(scores["nearest"], inside)
    assert 0.5 < low < auc_of(scores["nearest"], inside) < 0.72  # about 0.625 can be found


def test_an_empty_release_tells_nothing_and_one_run_no_variance(trips):
    nothing = CellPaths.of(GRID, 60, [])
    scores, inside = attacked(trips, lambda group, run: nothing)
    assert all(auc_of(scores[name], inside) == 0.5 for name in STATISTICS)
    worlds = draw_worlds(trips.units, group=GROUP, worlds=2, seed=1)
    with pytest.raises(PlanError, match="variances cannot be learnt"):
        learn(trips, worlds, np.arange(4), lambda group, run: group.paths, runs=1)


def test_counts_are_those_of_plain_slices(walks):
    paths = walks(20, 5, least=1)
    for name, length in RUNS.items():
        key = paths.starts if name == "starts" else run_keys(paths, length)[0]
        keys = np.unique(run_keys(paths, length)[0])[::2]
        assert counts_of(name, paths, keys).tolist() == [int((key == each).sum()) for each in keys]


def test_a_generator_that_starts_only_where_somebody_was_gives_lone_people_away():
    """Everybody is in the south; one in three also visits a northern cell of their own."""
    generator = np.random.default_rng(7)
    lists = []
    for user in range(180):
        south = [(int(cell), tick, 0) for tick, cell in enumerate(generator.integers(0, 60, 4))]
        lists.append([*south, (100 + user, 4, 0)] if user % 3 == 0 else south)
    trips = KnownTrips.of(CellPaths.of(GRID, 60, lists), np.arange(180))

    def publish(group, run):
        visited = np.unique(group.paths.cells)
        starts = np.random.default_rng(run).choice(visited, 400)
        return CellPaths.of(GRID, 60, [[(int(start), 0, 0), (int(start) ^ 1, 1, 0)] for start in starts])

    worlds = draw_worlds(trips.units, group=60, worlds=8, seed=2)
    lone = alone(trips, worlds)
    assert lone[worlds.pool % 3 == 0].all()
    assert lone[worlds.pool % 3 > 0].mean() < 0.1  # a southern cell may happen to be empty
    targets = np.flatnonzero(worlds.pool % 3 == 0)
    adversary = learn(trips, worlds, targets, publish, runs=6, seed=1)
    scores = np.array(
        [
            adversary.scores(publish(trips.of_units(worlds.pool[inside]), 50 + world))["starts"]
            for world, inside in enumerate(worlds.inside)
        ]
    )
    assert auc_of(scores, worlds.inside[:, targets]) > 0.9


def test_a_person_who_goes_where_nobody_goes_is_rare():
    common = [[(cell, cell, 0) for cell in range(5)] for _ in range(59)]
    alone = [[(140 + i, i, 0) for i in range(5)]]
    trips = KnownTrips.of(CellPaths.of(GRID, 60, common + alone), np.arange(60))
    for seed in range(10):
        worlds = draw_worlds(60, group=20, worlds=2, seed=seed)
        if 59 in worlds.pool:
            assert worlds.pool[rareness(trips, worlds).argmax()] == 59
            return
    pytest.fail("no world had the rare trip in its pool")
