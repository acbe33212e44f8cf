"""Multiplicative weights: what is asked of the noise and when, what it costs, what is learned."""

import numpy as np
import pytest
from tests.loops import for_each
from tests.worlds import exact_counts

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.query.weights import QueryWeights
from shoal.privacy.accounting import Budget, compose
from shoal.privacy.noise import SeededNoise
from shoal.space.geography import AreaWeights
from shoal.space.setting import Question, Questions

ZONES, SLOTS, ELL = 12, 24, 5
LATTICE = 2**20
PRIOR = np.ones((ZONES, SLOTS))


def ranges(count, seed=1):
    chance = np.random.default_rng(seed)
    each = []
    while len(each) < count:
        (a, b), (c, d) = np.sort(chance.integers(0, ZONES + 1, 2)), np.sort(chance.integers(0, SLOTS + 1, 2))
        if a < b and c < d:
            each.append(Question(zones=tuple(range(a, b)), slots=tuple(range(c, d))))
    return Questions.of(each, AreaWeights.identity(ZONES), slots=SLOTS, ell=ELL)


def mechanism(asked, epsilon=1.0, updates=5):
    return QueryWeights.within(Budget.of(epsilon, 1e-6), asked, PRIOR, updates=updates)


def table(visits):
    return exact_counts(np.rint(visits * LATTICE), ell=ELL)


SKEWED = table(np.outer(np.arange(ZONES) ** 2, 1 + np.arange(SLOTS) % 7))


class Scripted:
    """Exact answers, and tests that say what they are told; keeps the names of all calls."""

    publishable = False

    def __init__(self, found=()):
        self.found, self.calls, self.margins = list(found), [], []

    def run_key(self):
        return bytes(16)

    def gaussian(self, name, exact, sigma):
        self.calls.append(name)
        return exact.copy()

    def laplace(self, name, exact, scale):
        raise AssertionError("every draw but the test is Gaussian")

    def choose(self, name, scores, scale):
        raise AssertionError("nothing is chosen")

    def first_above(self, name, margins, scale):
        self.calls.append(name)
        self.margins.append(margins.copy())
        return self.found.pop(0) if self.found else margins.size


def test_the_prior_answers_where_nothing_is_above_the_threshold():
    asked = ranges(30)
    noise = Scripted()
    made = mechanism(asked)(SKEWED, noise)
    assert noise.calls == ["total", "test", "error"]
    total = SKEWED.units.sum() / LATTICE
    assert made.values == pytest.approx(asked.values(PRIOR) / PRIOR.sum() * total)
    assert set(made.how) == {"weights"}
    asked, noise = ranges(30), Scripted()
    made = mechanism(asked)
    made(SKEWED, noise)
    said = asked.values(PRIOR / PRIOR.sum() * SKEWED.units.sum() / LATTICE)
    errors = np.abs(asked.values(SKEWED.units) / LATTICE - said)
    assert (noise.margins[0] + made.threshold) / LATTICE == pytest.approx(errors, abs=1e-5)


def test_every_update_starts_a_new_test_of_the_questions_that_are_left():
    asked = ranges(30)
    noise = Scripted(found=[3, 0, 10])
    made = mechanism(asked)(SKEWED, noise)
    assert noise.calls == ["total", *["test", "answers"] * 3, "test", "error"]
    assert [each.size for each in noise.margins] == [30, 26, 25, 14]
    assert [number for number, how in enumerate(made.how) if how == "noise"] == [3, 4, 15]
    bought = asked.values(SKEWED.units)[[3, 4, 15]] / LATTICE
    assert made.values[[3, 4, 15]] == pytest.approx(bought)


def test_after_the_last_update_and_where_all_are_bought_nothing_is_tested():
    noise = Scripted(found=[0] * 30)
    made = mechanism(ranges(30), updates=4)(SKEWED, noise)
    assert noise.calls == ["total", *["test", "answers"] * 4, "error"]
    assert made.how == ("noise",) * 4 + ("weights",) * 26
    noise = Scripted(found=[0] * 3)
    made = mechanism(ranges(3), updates=9)(SKEWED, noise)
    assert noise.calls == ["total", *["test", "answers"] * 3]
    assert set(made.how) == {"noise"}


@for_each("epsilon", [0.05, 1.0, 5.0])
@for_each("updates", [1, 7, 40])
def test_named_spends_stay_within_the_budget_and_use_nearly_all_of_it(epsilon, updates):
    made = mechanism(ranges(100), epsilon, updates)
    budget = Budget.of(epsilon, 1e-6).left
    assert compose(loss for _, loss in made.spends()) == made.loss()
    # of the Gaussian budget: a share is divided by the ratio for small epsilon; one large test costs less
    assert (0.994 if updates == 1 else 0.999) * budget < made.loss().gdp_nano <= budget


def test_it_learns_at_a_charge_that_does_not_depend_on_what_is_found():
    asked = ranges(200)
    truth = asked.values(SKEWED.units) / LATTICE
    errors = []
    for updates in (1, 30):
        made = mechanism(asked, epsilon=2000.0, updates=updates)(SKEWED, SeededNoise(1))
        errors.append(np.abs(made.values - truth).mean())
    assert errors[1] < errors[0] / 3
    made = mechanism(ranges(50))
    before = made.loss()
    made(SKEWED, SeededNoise(3))
    assert made.loss() == before


def test_intervals_of_a_file_hold_for_95_of_100_answers():
    busy = table(np.outer(np.arange(ZONES) ** 2, 1 + np.arange(SLOTS) % 7) * 40.0)
    held = []
    for seed in range(20):
        asked = ranges(100, seed)
        made = mechanism(asked, updates=10)(busy, SeededNoise(seed))
        truth = asked.values(busy.units) / LATTICE
        held.append((made.low <= truth) & (truth <= made.high))
    assert np.mean(held) > 0.95


def test_bad_parameters_are_refused():
    asked = ranges(10)
    with pytest.raises(PlanError, match="not-pure"):
        QueryWeights.within(Budget.of(1.0, None), asked, PRIOR, updates=5)
    with pytest.raises(GuaranteeError, match="query-prior"):
        QueryWeights.within(Budget.of(1.0, 1e-6), asked, PRIOR[:, 1:], updates=5)
    with pytest.raises(GuaranteeError, match="query-prior"):
        QueryWeights.within(Budget.of(1.0, 1e-6), asked, -PRIOR, updates=5)
    with pytest.raises(PlanError, match="query-many"):
        QueryWeights.within(Budget(100, pure=False), ranges(300), PRIOR, updates=200)
