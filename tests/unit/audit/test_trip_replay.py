"""Trips of audit tables are what they should be, and neighbours cannot be told apart by any histogram."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.auditing.pairs import NEW, Pair, at, event_table, read_table
from shoal.auditing.pipelines.trips import CELLS, model_row
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.trips import BACK_AND_FORTH
from shoal.auditing.replay import audit_pairs, findings, replay_pair, sources
from shoal.engine.trip_queries import distinct_counts, exact_euler
from shoal.mechanisms.methods import TWO_TRIPS
from shoal.mechanisms.registry import taking
from shoal.privacy.noise import SeededNoise

HISTOGRAMS = taking("trips")

TRUE = {name: pipeline_of(name, 1.0, None if entry.pure else 1e-6) for name, entry in HISTOGRAMS.items()}
WORLD = TRUE["histogram-laplace"].world
KEY = bytes(16)


def trips_of(rows, key=KEY, batch_rows=4):
    true = TRUE["histogram-laplace"]
    return true.counted(event_table(rows, batch_rows=batch_rows), key).trips


def paths(trips):
    return [trips.cells[a:b].tolist() for a, b in zip(trips.first[:-1], trips.first[1:], strict=True)]


def test_an_hour_apart_are_two_trips_and_minutes_apart_one():
    assert paths(trips_of([(1, at(0), 0), (1, at(1), 0)])) == [[8], [8]]  # column 0, row 1 of 8
    (path,) = paths(trips_of([(1, at(0), 0), (1, at(0, 60_000_000), 1)]))
    assert (path[0], path[-1]) == (8, 36)
    assert set(np.abs(np.diff(path)).tolist()) <= {1, 8}


def test_users_are_brought_together_from_any_order_of_rows():
    rows = [(user, at(slot, user), (user + slot) % len(CELLS)) for user in range(5) for slot in range(4)]
    mixed = [rows[7 * k % len(rows)] for k in range(len(rows))]
    one, other = trips_of(rows), trips_of(mixed, batch_rows=3)
    assert paths(one) == paths(other)
    assert (one.all_trips, one.count) == (other.all_trips, 10) == (20, 10)


def test_kept_trips_and_all_trips_stay_within_their_bounds():
    trips = trips_of([(1, at(slot), 0) for slot in range(6)])
    assert (trips.count, trips.all_trips) == (TWO_TRIPS.ell, TWO_TRIPS.cap) == (2, 4)


def test_outside_a_site_cuts_a_trip_and_is_none():
    assert paths(trips_of([(1, at(0, 1), 0), (1, at(0, 2), -1), (1, at(0, 3), 0)])) == [[8], [8]]
    assert trips_of([(1, at(0), -1)]).count == 0


def test_places_make_trips_that_come_back_and_trips_through_every_rectangle():
    given = WORLD.trips.given
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
    cells = WORLD.trips.grid.count
    edges = 2 * 8 * 7 if noisy.euler.east is not None else 0
    pool = 6 * noisy.pool.weight.size if noisy.pool is not None else 0
    assert row.size == 3 + cells + edges + pool
    assert row[:2].tolist() == [noisy.trips, noisy.all_trips]
    assert noisy.euler.faces.ravel().tolist() == row[3 : 3 + cells].tolist()
    written = read_table(true.write(model_row(noisy), None))
    assert written.tolist() == row.tolist()


sites = st.integers(-1, len(CELLS) - 1)
times = st.builds(at, st.integers(0, 3), st.integers(0, 5))


@st.composite
def pairs(draw):
    """Some users and one more, their points in any order."""
    rows = draw(st.lists(st.tuples(st.integers(0, 4), times, sites), max_size=25))
    added = draw(st.lists(st.tuples(times, sites), min_size=1, max_size=20))
    return Pair("generated", tuple(rows), tuple((NEW, time, site) for time, site in added))


@pytest.mark.parametrize("name", sorted(HISTOGRAMS))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(pair=pairs(), key=st.binary(min_size=16, max_size=16), swap=st.booleans(), which=st.integers(0, 4))
def test_neighbours_cannot_be_told_apart(name, pair, key, swap, which):
    true = TRUE[name]
    verdict = replay_pair(true, pair, true.mechanism.loss(), sources()[which][1](), key, swap=swap)
    assert verdict.problems == verdict.raised == ()


@pytest.mark.parametrize("name", ["histogram-mwem", "histogram-boxes"])
def test_crowds_and_ties_hold(name):
    true = TRUE[name]
    several = [pair for pair in audit_pairs(true) if not pair.thorough][::3]
    assert list(findings(true, several, true.mechanism.loss(), quick=True)) == []
