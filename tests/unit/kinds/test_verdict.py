"""Grades, advice, and what a density's intervals say of its correlation with the truth."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from shoal.kinds.density.verdict import SHRUNK, Case, correlation_of, error_of
from shoal.kinds.verdict import Change, advised, from_size, graded, least_size
from shoal.postprocess.density.numbers import keep_totals
from shoal.postprocess.density.sums import Covariance
from shoal.stages.noisy import DensityEstimate

LIMITS = (0.2, 0.4, 1.0)


def test_a_grade_changes_at_its_limits():
    assert [graded(error, LIMITS) for error in (0.2, 0.21, 0.41, 1.01)] == [
        "good",
        "usable",
        "rough",
        "mostly noise",
    ]


def test_advice_is_the_smallest_step_that_is_enough_and_two_levers_at_most():
    ways = [Change(lever="slots", what=f"{hours} hours", error=0.9 / hours) for hours in (2, 3, 6)]
    ways += [Change(lever="zones", what="half", error=0.6), Change(lever="epsilon", what="2", error=0.5)]
    ways.append(Change(lever="method", what="useless", error=0.99))
    assert advised(ways, 1.0, LIMITS) == (
        "3 hours: expected error 30 % instead of 100 %",
        "2: expected error 50 % instead of 100 %",
    )
    assert advised(ways[-1:], 1.0, LIMITS) == ()
    assert advised(ways, 0.2, LIMITS) == ()


def test_without_a_size_the_verdict_names_those_from_which_grades_hold():
    verdict = from_size("users", "--users", lambda users: 1000 / users, LIMITS)
    assert verdict.grade is None
    assert "from about 2,500 users" in verdict.summary
    assert "below about 1,000." in verdict.summary
    assert 1000 / least_size(lambda users: 1000 / users, 0.4) <= 0.4


def test_every_lever_lowers_the_error_of_a_sparse_density():
    case = Case(
        method="gaussian",
        epsilon=1.0,
        delta=1e-6,
        ell=30,
        zones=195,
        slots=168,
        slot_minutes=60,
        visits=13_590.0,
    )
    changed = {"method": "best"}, {"epsilon": 2.0}, {"zones": 20}, {"slots": 7, "slot_minutes": 1440}
    for change in changed:
        assert Case(**(vars(case) | change)).error() < 0.95 * case.error(), change


@pytest.mark.parametrize("noise", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("method", [SHRUNK[0], SHRUNK[1]])
def test_the_correlation_follows_from_the_intervals(method, noise):
    """An oracle with known truth: counts that are shrunk as a posterior mean is, or kept above zero."""
    draw = np.random.default_rng(5)
    truth = draw.gamma(2.0, 2.0, (100, 100))
    noisy = truth + draw.normal(0, noise, truth.shape)
    if method == "best":
        share = truth.var() / (truth.var() + noise**2)
        people = np.maximum(truth.mean() + share * (noisy - truth.mean()), 0)
        half = 1.96 * np.sqrt(share) * noise
    else:
        people, half = keep_totals(noisy), 1.96 * noise
    middle = people if method == "best" else noisy
    high = np.maximum(middle + half, people)
    estimate = DensityEstimate(people=people, low=np.maximum(middle - half, 0), high=high)
    true = np.corrcoef(people.ravel(), truth.ravel())[0, 1]
    assert abs(correlation_of(estimate, method) - true) < 0.1 + 0.02 * noise
    measured = np.abs(people - truth).mean() / truth.mean()
    assert 0.6 < error_of(estimate) / measured < 1.8


def test_a_release_of_nobody_is_noise_and_finite():
    nobody = DensityEstimate(people=np.zeros((3, 4)), low=np.zeros((3, 4)), high=np.ones((3, 4)))
    assert correlation_of(nobody, "best") == 0.0
    assert np.isfinite(error_of(nobody))


def test_the_error_of_the_total_makes_counts_uncertain_but_not_their_differences():
    draw = np.random.default_rng(6)
    truth = draw.gamma(2.0, 2.0, (100, 100))
    share = truth.var() / (truth.var() + 1.0)
    people = truth.mean() + share * (truth + draw.normal(0, 1.0, truth.shape) - truth.mean())
    low, high = np.maximum(0.3 * people, 0), 4 * people
    estimate = DensityEstimate(people=people, low=low, high=high)
    covariance = Covariance(
        total=(0.3, 4.0),
        slots=np.zeros(100),
        uneven=0.0,
        coefficients=np.zeros((100, 0)),
        columns=np.zeros((100, 0)),
        residual=np.full(truth.shape, share),
        together=csr_array(np.eye(100)),
    )
    true = np.corrcoef(people.ravel(), truth.ravel())[0, 1]
    assert correlation_of(estimate, "best", covariance) == pytest.approx(true, abs=0.02)
    assert correlation_of(estimate, "best") < 0.7 < true
    assert error_of(estimate, covariance) > 0.7
