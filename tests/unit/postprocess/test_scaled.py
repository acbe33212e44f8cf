"""Scaling noisy counts to all visits: the ratio, the total, the intervals, and when nothing is divided by."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.density.numbers import per_kept_visit, plain_density, scaled_density, total_deviation
from shoal.stages.noisy import NoisyCounts, NoisyScaled


def noisy_of(values, **changes):
    values = np.asarray(values, float)
    counts = NoisyCounts(
        values=values,
        family=changes.pop("family", "discrete gaussian"),
        scale=changes.pop("scale", 1.0),
        gain=changes.pop("gain", 1.0),
    )
    given = {
        "visits": 2 * values.sum(),
        "visits_deviation": 1.0,
        "kept": values.sum(),
        "kept_deviation": 1.0,
        "most": 250.0,
        "inside": (1.0, 1.0),
    }
    return NoisyScaled(counts=counts, **{**given, **changes})


VALUES = np.array([[500.0, 300.0], [200.0, 100.0], [60.0, 40.0]])


def test_the_total_is_the_number_of_visits():
    made = scaled_density(noisy_of(VALUES, visits=2345.0))
    assert made.people.sum() == pytest.approx(2345.0)
    assert made.people / made.people.sum() == pytest.approx(VALUES / VALUES.sum())


def test_visits_outside_the_zones_do_not_come_in():
    """A fifth of the kept visits lies outside: a fifth of all visits does."""
    made = scaled_density(noisy_of(VALUES, kept=1500.0, visits=3000.0, inside=(0.0, 1.0)))
    assert made.people.sum() == pytest.approx(3000.0 * 1200 / 1500)
    bounded = scaled_density(noisy_of(VALUES, kept=1500.0, visits=3000.0, inside=(0.9, 1.0)))
    assert bounded.people.sum() == pytest.approx(0.9 * 3000.0)


@pytest.mark.parametrize(
    "hopeless",
    [
        {"kept": 30.0, "kept_deviation": 10.0},
        {"kept": -5.0},
        {"kept": 0.0, "kept_deviation": 0.0},
    ],
)
def test_no_scaling_where_the_divisor_is_noise(hopeless):
    noisy = noisy_of(VALUES, **{"visits": 1e9, **hopeless})
    assert per_kept_visit(noisy) == 1.0
    assert scaled_density(noisy).people == pytest.approx(plain_density(noisy.counts).people)


@for_each(("visits", "ratio"), [(-50.0, 1.0), (600.0, 1.0), (2400.0, 2.0), (1e9, 250.0)])
def test_a_kept_visit_stands_for_one_at_least_and_for_the_cap_at_most(visits, ratio):
    assert per_kept_visit(noisy_of(VALUES, visits=visits)) == ratio


def test_people_are_finite_and_never_negative_whatever_was_drawn():
    rng = np.random.default_rng(4)
    for _ in range(300):
        size = 10.0 ** rng.uniform(-3, 6, 5)
        noisy = noisy_of(
            rng.normal(0, size[0], (3, 4)),
            scale=size[1],
            visits=rng.normal(0, size[2]),
            kept=rng.normal(0, size[3]),
            visits_deviation=size[4],
            inside=(0.0, 1.0),
        )
        made = scaled_density(noisy)
        for each in (made.people, made.low, made.high):
            assert np.isfinite(each).all()
        assert (made.low >= 0).all()
        assert ((made.low <= made.people) & (made.people <= made.high)).all()
        assert made.people.sum() <= 251 * plain_density(noisy.counts).people.sum() + 1e-6


def test_where_counts_are_noise_they_are_scaled_down_to_the_visits_but_not_up():
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1000.0, (50, 20))
    down = scaled_density(noisy_of(values, scale=1000.0, visits=5000.0, kept=4000.0))
    assert down.people.sum() == pytest.approx(5000.0)
    up = scaled_density(noisy_of(values, scale=1000.0, visits=1e9, kept=1e9 / 1.5))
    plain = plain_density(noisy_of(values, scale=1000.0).counts)
    assert up.people == pytest.approx(1.5 * plain.people)


@pytest.mark.parametrize("family", ["discrete gaussian", "discrete laplace", "gaussian waves"])
def test_noise_of_the_total_against_draws(family):
    rng = np.random.default_rng(2)
    scale, shape, runs = 3.0, (4, 6), 20_000
    if family == "discrete laplace":
        draws = rng.laplace(0, scale, (runs, *shape))
    elif family == "discrete gaussian":
        draws = rng.normal(0, scale, (runs, *shape))
    else:  # the first three of six orthonormal waves, with noise on each
        import scipy.fft

        waves = np.zeros((runs, *shape))
        waves[:, :, :3] = rng.normal(0, scale, (runs, 4, 3))
        draws = scipy.fft.idct(waves, norm="ortho", axis=2)
    counts = NoisyCounts(values=np.zeros(shape), family=family, scale=scale)
    assert total_deviation(counts) == pytest.approx(draws.sum(axis=(1, 2)).std(), rel=0.03)


@pytest.mark.parametrize("family", ["discrete gaussian", "discrete laplace"])
def test_intervals_cover_a_thinned_city(family):
    """True counts, of which each visit was kept with probability 1 / 2, then noise on everything."""
    rng = np.random.default_rng(3)
    true = rng.poisson(rng.gamma(2.0, 40.0, (200, 1)) * np.linspace(0.3, 1.7, 30))
    kept = rng.binomial(true, 0.5)
    draw = rng.normal if family == "discrete gaussian" else rng.laplace
    noisy = noisy_of(
        kept + draw(0, 4.0, kept.shape),
        family=family,
        scale=4.0,
        visits=true.sum() + rng.normal(0, 2000.0),
        visits_deviation=2000.0,
        kept=kept.sum() + rng.normal(0, 500.0),
        kept_deviation=500.0,
    )
    made = scaled_density(noisy)
    covered = ((made.low <= true) & (true <= made.high)).mean()
    assert 0.93 < covered < 0.975
    plain = plain_density(noisy.counts)
    assert ((plain.low <= true) & (true <= plain.high)).mean() < 0.5  # what scaling is for
    assert made.people.sum() == pytest.approx(true.sum(), rel=0.02)
