"""Paths of audit tables are what they should be, and neighbours cannot be told apart by any generator."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.loops import for_each

from shoal.auditing.pairs import NEW, Pair, at, event_table, read_table
from shoal.auditing.pipelines.trips import PLACES, SAMPLE, drawn_numbers
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.replay import audit_pairs, findings, replay_pair, sources
from shoal.engine.path_trips import PathBound
from shoal.mechanisms.registry import taking
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.postprocess.synthetic.bridge_tables import ALL_PARTS
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise

PATH_ENTRIES = taking("paths")
SYNTHETIC = taking("paths", "commutes")

TRUE = {name: pipeline_of(name, 1.0, None if entry.pure else 1e-6) for name, entry in SYNTHETIC.items()}
KEY = bytes(16)


def paths_of(rows, name="synthetic-markov"):
    return TRUE[name].counted(event_table(rows), KEY).paths


def cells(paths):
    return [paths.cells[a:b].tolist() for a, b in zip(paths.first[:-1], paths.first[1:], strict=True)]


def test_sites_of_a_slot_make_a_trip_and_slots_are_trips():
    (path,) = cells(paths_of([(1, at(0), 0), (1, at(0), 1)]))
    assert path == [0, 5, 10]  # cells (0, 0), (1, 1), (2, 2) of 4 x 4
    two = paths_of([(1, at(0), 0), (1, at(1), 0)])
    assert cells(two) == [[0], [0]]
    assert two.unit.tolist() == [0, 0]


def test_two_sites_in_a_cell_are_a_stay():
    paths = paths_of([(1, at(0), 2), (1, at(0), 7)])
    assert (paths.cells.tolist(), paths.stay.tolist()) == ([12], [5])  # five minutes, steps of one


def test_kept_and_counted_trips_stay_within_their_bounds():
    paths = paths_of([(1, at(slot), 0) for slot in range(6)])
    assert (paths.count, paths.all_trips, paths.cap) == (2, 4, 4)


def test_all_that_a_user_does_is_one_trip_where_that_is_the_unit():
    rows = [(1, at(0, k), k % len(PLACES)) for k in range(40)] + [(1, at(1, -1), 3), (2, at(0), 0)]
    paths = paths_of(rows, "synthetic-bridges-trip")
    assert (paths.count, paths.all_trips, paths.unit.tolist()) == (2, 2, [0, 1])


def test_rows_out_of_the_window_are_not_read():
    far = 2**63 - 1
    assert paths_of([(1, -far, 0), (1, far, 0), (1, at(-1), 0), (1, at(6), 0)]).count == 0


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


sites = st.integers(-1, len(PLACES) - 1)


@st.composite
def pairs(draw, slots):
    """Some users and one more, their points in any order."""
    times = st.builds(at, st.integers(0, slots - 1), st.integers(0, 9))
    rows = draw(st.lists(st.tuples(st.integers(0, 4), times, sites), max_size=25))
    added = draw(st.lists(st.tuples(times, sites), min_size=1, max_size=20))
    return Pair("generated", tuple(rows), tuple((NEW, time, site) for time, site in added))


@pytest.mark.parametrize("name", sorted(SYNTHETIC))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data(), key=st.binary(min_size=16, max_size=16), swap=st.booleans(), which=st.integers(0, 4))
def test_neighbours_cannot_be_told_apart(name, data, key, swap, which):
    true = TRUE[name]
    pair = data.draw(pairs(true.world.slots))
    verdict = replay_pair(true, pair, true.mechanism.loss(), sources()[which][1](), key, swap=swap)
    assert verdict.problems == verdict.raised == ()


@pytest.mark.parametrize("name", ["synthetic-ngram", "synthetic-prefix-zcdp", "synthetic-commute"])
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
