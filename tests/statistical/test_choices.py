"""The kernel's random choices are uniform and independent of each other.

False-alarm probability of each test: 1e-6 (chi-square), over the fixed run keys used here none.
"""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from shoal.engine.visits import VisitKernel

HOUR = 3_600_000_000
USERS = 12_000
ALPHA = 1e-6


def visits(rows_of_user, ell, slots, sites, seed):
    """Choices for many users with the same rows; the user id is all that differs."""
    kernel = VisitKernel(
        edges_us=np.arange(slots + 1, dtype=np.int64) * HOUR,
        sites=sites,
        ell=ell,
        cap=9,
        run_key=np.random.default_rng(seed).bytes(16),
    )
    times, places = zip(*rows_of_user, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(np.repeat(np.arange(USERS), len(times))),
            pa.array(np.tile(times, USERS).astype(np.int64)),
            pa.array(np.tile(places, USERS).astype(np.int32)),
        ],
        names=["user", "time_us", "site"],
    )
    return kernel.choose(batch)


def p_value(observed):
    observed = np.asarray(observed)
    return stats.chisquare(observed.ravel()).pvalue


@pytest.mark.parametrize("seed", [1, 2])
def test_one_event_of_a_slot_is_uniform(seed):
    chosen = visits([(5, 0), (6, 1), (7, 2), (8, 3)], ell=1, slots=1, sites=4, seed=seed)
    assert p_value(np.bincount(chosen.site, minlength=4)) > ALPHA


def test_events_at_one_place_count_by_event():
    """Three events at site 0 and one at site 1: the slot's visit is at site 0 in three of four cases."""
    chosen = visits([(5, 0), (6, 0), (7, 0), (8, 1)], ell=1, slots=1, sites=2, seed=3)
    at_one = int((chosen.site == 1).sum())
    assert stats.binomtest(at_one, USERS, 0.25).pvalue > ALPHA


@pytest.mark.parametrize("seed", [1, 2])
def test_kept_visits_are_a_uniform_subset(seed):
    rows = [(slot * HOUR, 0) for slot in range(5)]
    chosen = visits(rows, ell=2, slots=5, sites=1, seed=seed)
    kept = chosen.sampled.reshape(USERS, 5)
    assert (kept.sum(axis=1) == 2).all()
    pairs = [int((kept[:, a] & kept[:, b]).sum()) for a, b in combinations(range(5), 2)]
    assert p_value(pairs) > ALPHA


def test_the_single_visit_is_uniform_and_independent_of_the_kept_ones():
    rows = [(slot * HOUR, 0) for slot in range(4)]
    chosen = visits(rows, ell=1, slots=4, sites=1, seed=4)
    kept = chosen.sampled.reshape(USERS, 4).argmax(axis=1)
    one = chosen.one.reshape(USERS, 4).argmax(axis=1)
    table = np.zeros((4, 4), int)
    np.add.at(table, (kept, one), 1)
    assert p_value(table) > ALPHA


def test_the_choice_in_a_slot_is_independent_of_the_choice_of_slots():
    rows = [(slot * HOUR + i, i) for slot in range(3) for i in range(3)]
    chosen = visits(rows, ell=1, slots=3, sites=3, seed=5)
    kept = chosen.sampled.reshape(USERS, 3).argmax(axis=1)
    site = chosen.site.reshape(USERS, 3)
    table = np.zeros((3, 27), int)
    np.add.at(table, (kept, site @ [9, 3, 1]), 1)
    assert p_value(table) > ALPHA


def test_a_skewed_choice_is_noticed():
    """The same test rejects probabilities that are off by 20 %."""
    rng = np.random.default_rng(6)
    skewed = rng.choice(4, USERS, p=np.array([1.2, 1, 1, 0.8]) / 4)
    assert p_value(np.bincount(skewed)) < ALPHA
