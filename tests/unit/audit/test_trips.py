"""Trips and paths of audit tables are what they should be, and neighbours are indistinguishable by them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.loops import for_each

from shoal.auditing.pairs import NEW, Pair, at, event_table, read_table
from shoal.auditing.pipelines.trips import CELLS, PLACES, SAMPLE, drawn_numbers, model_row
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.trips import BACK_AND_FORTH
from shoal.auditing.replay import audit_pairs, findings, replay_pair, sources
from shoal.engine.path_trips import PathBound
from shoal.engine.trip_queries import distinct_counts, exact_euler
from shoal.mechanisms.methods import TWO_TRIPS
from shoal.mechanisms.registry import taking
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.postprocess.synthetic.bridge_tables import ALL_PARTS
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise

HISTOGRAMS, PATH_ENTRIES = taking("trips"), taking("paths")
TRUE = {
    name: pipeline_of(name, 1.0, None if entry.pure else 1e-6)
    for name, entry in taking("trips", "paths", "commutes").items()
}
WORLD = TRUE["histogram-laplace"].world
KEY = bytes(16)


def trips_of(rows, key=KEY, batch_rows=4):
    true = TRUE["histogram-laplace"]
    return true.counted(event_table(rows, batch_rows=batch_rows), key).trips


def paths_of(rows, name="synthetic-markov"):
    return TRUE[name].counted(event_table(rows), KEY).paths


def cells(trips):
    return [trips.cells[a:b].tolist() for a, b in zip(trips.first[:-1], trips.first[1:], strict=True)]


def test_rows_become_trips_by_hand():
    assert cells(trips_of([(1, at(0), 0), (1, at(1), 0)])) == [[8], [8]]  # column 0, row 1 of 8
    (path,) = cells(trips_of([(1, at(0), 0), (1, at(0, 60_000_000), 1)]))
    assert (path[0], path[-1]) == (8, 36)
    assert set(np.abs(np.diff(path)).tolist()) <= {1, 8}
    assert cells(trips_of([(1, at(0, 1), 0), (1, at(0, 2), -1), (1, at(0, 3), 0)])) == [[8], [8]]
    assert trips_of([(1, at(0), -1)]).count == 0
    trips = trips_of([(1, at(slot), 0) for slot in range(6)])
    assert (trips.count, trips.all_trips) == (TWO_TRIPS.ell, TWO_TRIPS.cap) == (2, 4)


def test_users_are_brought_together_and_places_make_trips_that_come_back():
    rows = [(user, at(slot, user), (user + slot) % len(CELLS)) for user in range(5) for slot in range(4)]
    mixed = [rows[7 * k % len(rows)] for k in range(len(rows))]
    one, other = trips_of(rows), trips_of(mixed, batch_rows=3)
    assert cells(one) == cells(other)
    assert (one.all_trips, one.count) == (other.all_trips, 10) == (20, 10)
    given = WORLD.size.trips().given
    through = trips_of([(1, at(0), 0), (1, at(0), 1)])
    assert distinct_counts(through, given).tolist() == [1] * given.count
    back = trips_of([(1, at(0, k), site) for k, site in enumerate(BACK_AND_FORTH)])
    assert distinct_counts(back, given).tolist() == [1] * given.count
    assert exact_euler(back).answers(given).tolist() == [1, 2, 2, 3, 2, 1]  # enters, never in circles
    assert exact_euler(through).answers(given).tolist() == [1] * given.count


@pytest.mark.parametrize("name", ["histogram-laplace", "histogram-dqam", "histogram-boxes"])
def test_every_number_of_the_model_is_released(name):
    true = TRUE[name]
    noisy = true.measure(true.counted(event_table([(1, at(0), 0)]), KEY), SeededNoise(3))
    row = model_row(noisy).high.ravel()
    cells = WORLD.size.trips().grid.count
    edges = 2 * 8 * 7 if noisy.euler.east is not None else 0
    pool = 6 * noisy.pool.weight.size if noisy.pool is not None else 0
    assert row.size == 3 + cells + edges + pool
    assert row[:2].tolist() == [noisy.trips, noisy.all_trips]
    assert noisy.euler.faces.ravel().tolist() == row[3 : 3 + cells].tolist()
    written = read_table(true.write(model_row(noisy), None))
    assert written.tolist() == row.tolist()


def test_rows_become_paths_by_hand():
    (path,) = cells(paths_of([(1, at(0), 0), (1, at(0), 1)]))
    assert path == [0, 5, 10]  # cells (0, 0), (1, 1), (2, 2) of 4 x 4
    two = paths_of([(1, at(0), 0), (1, at(1), 0)])
    assert cells(two) == [[0], [0]]
    assert two.unit.tolist() == [0, 0]
    paths = paths_of([(1, at(0), 2), (1, at(0), 7)])
    assert (paths.cells.tolist(), paths.stay.tolist()) == ([12], [5])  # five minutes, steps of one
    paths = paths_of([(1, at(slot), 0) for slot in range(6)])
    assert (paths.count, paths.all_trips, paths.cap) == (2, 4, 4)
    far = 2**63 - 1
    assert paths_of([(1, -far, 0), (1, far, 0), (1, at(-1), 0), (1, at(6), 0)]).count == 0
    rows = [(1, at(0, k), k % len(PLACES)) for k in range(40)] + [(1, at(1, -1), 3), (2, at(0), 0)]
    paths = paths_of(rows, "synthetic-bridges-trip")
    assert (paths.count, paths.all_trips, paths.unit.tolist()) == (2, 2, [0, 1])


@pytest.mark.parametrize("name", ["synthetic-bridges", "synthetic-prefix", "synthetic-dpt-zcdp"])
def test_every_number_of_the_model_and_of_some_trips_is_released(name):
    true = TRUE[name]
    events = event_table([(1, at(0), 0), (1, at(0), 1)])
    model = true.measure(true.counted(events, KEY), SeededNoise(3))
    drawn = model.generate(SAMPLE, 5)
    found = [*model.numbers().values(), *drawn_numbers(drawn)]
    numbers = np.concatenate([np.ravel(part) for part in found]).astype(float)
    released = read_table(true.release(true.counted(events, KEY), SeededNoise(3)))
    assert sorted(released.tolist()) == sorted(numbers.tolist())
    assert drawn.count == SAMPLE


def test_corners_are_asked_for_on_one_side_of_the_rule_only():
    """The entry meets both sides in small crowds; the default needs far more trips."""
    rule = TRUE["synthetic-bridges-2nd"].mechanism
    assert "corners" in rule.noises(60.0)
    assert "corners" not in rule.noises(2.0)
    assert "corners" not in TRUE["synthetic-bridges-trip"].mechanism.noises(60.0)


def test_replay_holds_with_calibration_too():
    """The audit leaves it out, since it is slow."""
    true = TRUE["synthetic-bridges-trip"]
    whole = SyntheticBridges.within(Budget.of(1.0, None), true.mechanism.setting, parts=ALL_PARTS)
    pipeline = replace(true, mechanism=whole)
    for pair in audit_pairs(pipeline)[:2]:
        verdict = replay_pair(pipeline, pair, whole.loss(), SeededNoise(3), KEY)
        assert verdict.problems == verdict.raised == ()
        assert verdict.pure_epsilon > 0


@st.composite
def pairs(draw, slots, sites, offsets):
    """Some users and one more, their points in any order."""
    times = st.builds(at, st.integers(0, slots - 1), st.integers(0, offsets))
    place = st.integers(-1, sites - 1)
    rows = draw(st.lists(st.tuples(st.integers(0, 4), times, place), max_size=25))
    added = draw(st.lists(st.tuples(times, place), min_size=1, max_size=20))
    return Pair("generated", tuple(rows), tuple((NEW, time, site) for time, site in added))


@pytest.mark.parametrize("name", sorted(TRUE))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data(), key=st.binary(min_size=16, max_size=16), swap=st.booleans(), which=st.integers(0, 4))
def test_neighbours_are_indistinguishable(name, data, key, swap, which):
    true = TRUE[name]
    trips = name in HISTOGRAMS
    size = (4, len(CELLS), 5) if trips else (true.world.slots, len(PLACES), 9)
    pair = data.draw(pairs(*size))
    verdict = replay_pair(true, pair, true.mechanism.loss(), sources()[which][1](), key, swap=swap)
    assert verdict.problems == verdict.raised == ()


@pytest.mark.parametrize(
    "name",
    [
        *("histogram-mwem", "histogram-boxes"),
        *("synthetic-ngram", "synthetic-prefix-zcdp", "synthetic-commute"),
    ],
)
def test_crowds_and_ties_hold(name):
    true = TRUE[name]
    several = [pair for pair in audit_pairs(true) if not pair.thorough][::3]
    assert list(findings(true, several, true.mechanism.loss(), quick=True)) == []


@for_each("name", sorted(PATH_ENTRIES))
def test_trips_a_user_has_do_not_change_what_the_tables_cost(name):
    """However long and many they are, each table of a user has norm 1."""
    true = TRUE[name]
    kept_all = replace(true, kernel=lambda **public: PathBound(**{**public, "per_unit": per_unit}))
    per_unit = 1 if true.world.size.each_trip else 100
    slots = true.world.slots
    rows = tuple((NEW, at(slot), site) for slot in range(slots) for site in range(len(PLACES)))
    verdict = replay_pair(kept_all, Pair("", (), rows), true.mechanism.loss(), SeededNoise(1), KEY)
    assert verdict.passed
    assert verdict.rho > 0
