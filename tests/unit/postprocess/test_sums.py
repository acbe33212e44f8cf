"""Variance of sums from the covariance by levels: against drawn errors, and one way against another."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from shoal.postprocess.density.numbers import Z95
from shoal.postprocess.density.sums import Covariance, ready, rounded, total_of, totals_by_zone

ZONES, SLOTS, COLUMNS, DRAWS = 7, 6, 2, 40_000


@pytest.fixture(scope="module")
def city():
    draw = np.random.default_rng(3)
    people = draw.gamma(2.0, 20.0, (ZONES, SLOTS))
    apart = np.abs(np.subtract.outer(np.arange(ZONES), np.arange(ZONES)))
    return people, Covariance(
        total=(1.0, 1.0),
        slots=draw.uniform(0, 0.02, SLOTS) ** 2,
        uneven=0.03**2,
        coefficients=draw.uniform(1, 4, (ZONES, COLUMNS)),
        columns=draw.normal(0, 1, (SLOTS, COLUMNS)),
        residual=draw.uniform(1, 9, (ZONES, SLOTS)),
        together=csr_array(np.exp(-apart / 2.0)),
    )


def drawn(people, covariance):
    """Errors of all counts: parts as the header of sums.py has them, then slots scaled to the profile."""
    draw = np.random.default_rng(4)
    root = np.linalg.cholesky(covariance.together.toarray())

    def of_zones(deviation):
        return np.einsum("zy,ny...->nz...", root, draw.normal(size=(DRAWS, *deviation.shape))) * deviation

    coefficients = of_zones(np.sqrt(covariance.coefficients)) @ covariance.columns.T
    errors = coefficients + of_zones(np.sqrt(covariance.residual))
    errors += draw.normal(size=(DRAWS, ZONES, 1)) * np.sqrt(covariance.uneven) * people
    share = people / people.sum(axis=0)
    errors -= share * errors.sum(axis=1, keepdims=True)
    slots = draw.normal(size=(DRAWS, SLOTS)) * np.sqrt(covariance.slots)
    slots -= (slots @ (people.sum(axis=0) / people.sum()))[:, None]
    return errors + people * slots[:, None, :]


def deviation_of(total):
    return (total.people - total.low) / Z95


@pytest.mark.parametrize(
    ("zones", "slots"),
    [([2], [0]), ([2], range(SLOTS)), ([0, 1, 5], [1, 2]), (range(ZONES), [3]), (range(6), range(SLOTS))],
)
def test_the_width_is_that_of_drawn_errors(city, zones, slots):
    people, covariance = city
    at = np.ix_(list(zones), list(slots))
    errors = drawn(people, covariance)[:, at[0], at[1]].sum(axis=(1, 2))
    total = total_of(people, covariance, np.array(zones), np.array(slots))
    assert total.people == pytest.approx(people[at].sum())
    assert deviation_of(total) == pytest.approx(errors.std(), rel=0.02)


def test_all_counts_have_the_error_of_the_total_alone(city):
    people, covariance = city
    everything = np.arange(ZONES), np.arange(SLOTS)
    assert deviation_of(total_of(people, covariance, *everything)) == pytest.approx(0, abs=1e-5)
    uncertain = Covariance(**(vars(covariance) | {"total": (0.5, 3.0)}))
    total = total_of(people, uncertain, *everything)
    assert (total.low, total.high) == pytest.approx((0.5 * people.sum(), 3.0 * people.sum()))


def test_ready_sums_are_those_of_any_set(city):
    people, covariance = city
    slots = np.array([1, 2, 4])
    for zone, total in enumerate(totals_by_zone(people, covariance, slots)):
        one = total_of(people, covariance, np.array([zone]), slots)
        assert (total.people, total.low) == pytest.approx((one.people, one.low), rel=5e-3)
    kinds = [kind for kind, *_ in ready(people, covariance, np.array([3, 3, 3, 4, 4, 4]))]
    counts = {kind: kinds.count(kind) for kind in kinds}
    assert counts == {"zone-day": 14, "zone-week": 7, "city-slot": 6, "city-day": 2, "city": 1}


def test_plain_noise_adds_up_around_the_noisy_sum():
    covariance = Covariance(
        total=(1.0, 1.0),
        slots=np.zeros(4),
        uneven=0.0,
        coefficients=np.zeros((2, 0)),
        columns=np.zeros((4, 0)),
        residual=np.full((2, 4), 9.0),
        together=csr_array(np.eye(2)),
        centre=np.full((2, 4), 10.0),
    )
    total = total_of(np.full((2, 4), 11.0), covariance, np.arange(2), np.arange(4))
    assert (total.people, total.low, total.high) == pytest.approx(
        (88.0, 80 - Z95 * 3 * np.sqrt(8), 80 + Z95 * 3 * np.sqrt(8))
    )


def test_published_variances_have_few_digits():
    values = np.array([123456.0, 0.0012345])
    assert rounded(values) == pytest.approx([123000.0, 0.00123], rel=1e-6)
