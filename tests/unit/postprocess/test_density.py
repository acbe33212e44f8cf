"""Non-negative counts with their totals, scaled to all visits, and intervals that cover what they promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.loops import for_each

from shoal.postprocess.density.numbers import (
    LearnedTable,
    estimate_density,
    half_width,
    keep_totals,
    per_sampled_visit,
    plain_density,
    scaled_density,
    total_deviation,
)
from shoal.privacy.noise import SeededNoise
from shoal.space.geography import AreaWeights
from shoal.space.setting import Question, Questions
from shoal.stages.noisy import NoisyCounts, NoisyScaled

COLUMN = st.lists(st.floats(-100, 100), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(COLUMN)
def test_totals_are_kept_and_nothing_is_negative(column):
    noisy = np.array(column)[:, None]
    kept = keep_totals(noisy)
    assert (kept >= 0).all()
    assert kept.sum() == pytest.approx(max(noisy.sum(), 0.0), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=5))
def test_it_is_the_nearest_such_vector(column):
    """Against a general optimiser."""
    noisy = np.array(column)
    total = max(noisy.sum(), 0.0)
    kept = keep_totals(noisy[:, None]).ravel()
    if noisy.sum() <= 0:
        assert not kept.any()
        return
    start = np.full(len(noisy), total / len(noisy))
    best = minimize(
        lambda x: ((x - noisy) ** 2).sum(),
        start,
        bounds=[(0, None)] * len(noisy),
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
    )
    assert ((kept - noisy) ** 2).sum() <= best.fun + 1e-4


@for_each("family", ["gaussian", "laplace"])
@for_each("level", [0, 3, 100])
def test_intervals_cover_the_bounded_counts(family, level):
    """95 % or more of 40,000 cells; below 94.5 % would be eight standard errors off."""
    lattice, scale = 2**20, 12.0
    exact = np.full((200, 200), level * lattice, np.int64)
    drawn = getattr(SeededNoise(11), family)("counts", exact, scale * lattice)
    noisy = NoisyCounts(values=drawn / lattice, family=f"discrete {family}", scale=scale)
    estimate = estimate_density(noisy)
    covered = ((estimate.low <= level) & (level <= estimate.high)).mean()
    assert covered >= 0.945
    if level == 100:
        assert covered <= 0.96
    assert (estimate.low <= estimate.people).all()
    assert (estimate.people <= estimate.high).all()
    assert (estimate.low >= 0).all()


def test_city_total_is_not_biased_by_removing_negatives():
    lattice = 2**20
    exact = np.full((300, 200), 2 * lattice, np.int64)
    drawn = SeededNoise(3).gaussian("counts", exact, 20.0 * lattice) / lattice
    estimate = estimate_density(NoisyCounts(values=drawn, family="discrete gaussian", scale=20.0))
    bias = estimate.people.sum() / (2 * 300 * 200) - 1
    clipped = np.maximum(drawn, 0).sum() / (2 * 300 * 200) - 1
    assert abs(bias) < 0.25
    assert clipped > 3  # what plain clipping would have done


def test_half_width_and_decimals():
    assert half_width(NoisyCounts(values=np.zeros((1, 1)), family="discrete gaussian", scale=1.0)) == (
        pytest.approx(1.959964)
    )
    # P(|Laplace| > b ln 20) = 1/20
    assert half_width(NoisyCounts(values=np.zeros((1, 1)), family="discrete laplace", scale=2.0)) == (
        pytest.approx(2 * np.log(20))
    )
    noisy = NoisyCounts(values=np.array([[1.23456]]), family="discrete gaussian", scale=0.1)
    assert estimate_density(noisy, 2).people.tolist() == [[1.23]]
    assert estimate_density(noisy, 0).people.tolist() == [[1.0]]
    noisy = np.array([[5.0, -1.0, 4.0], [-2.0, -3.0, 4.0]])
    assert keep_totals(noisy).tolist() == [[3.0, 0.0, 4.0], [0.0, 0.0, 4.0]]


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
        "sampled": values.sum(),
        "sampled_deviation": 1.0,
        "most": 250.0,
        "inside": (1.0, 1.0),
    }
    return NoisyScaled(counts=counts, **{**given, **changes})


VALUES = np.array([[500.0, 300.0], [200.0, 100.0], [60.0, 40.0]])


def test_the_total_is_the_number_of_visits_inside_the_zones():
    made = scaled_density(noisy_of(VALUES, visits=2345.0))
    assert made.people.sum() == pytest.approx(2345.0)
    assert made.people / made.people.sum() == pytest.approx(VALUES / VALUES.sum())
    # A fifth of the kept visits lies outside: a fifth of all visits does.
    made = scaled_density(noisy_of(VALUES, sampled=1500.0, visits=3000.0, inside=(0.0, 1.0)))
    assert made.people.sum() == pytest.approx(3000.0 * 1200 / 1500)
    bounded = scaled_density(noisy_of(VALUES, sampled=1500.0, visits=3000.0, inside=(0.9, 1.0)))
    assert bounded.people.sum() == pytest.approx(0.9 * 3000.0)


@pytest.mark.parametrize(
    "hopeless",
    [
        {"sampled": 30.0, "sampled_deviation": 10.0},
        {"sampled": -5.0},
        {"sampled": 0.0, "sampled_deviation": 0.0},
    ],
)
def test_no_scaling_where_the_divisor_is_noise(hopeless):
    noisy = noisy_of(VALUES, **{"visits": 1e9, **hopeless})
    assert per_sampled_visit(noisy) == 1.0
    assert scaled_density(noisy).people == pytest.approx(plain_density(noisy.counts).people)


@for_each(("visits", "ratio"), [(-50.0, 1.0), (600.0, 1.0), (2400.0, 2.0), (1e9, 250.0)])
def test_a_sampled_visit_stands_for_one_at_least_and_for_the_cap_at_most(visits, ratio):
    assert per_sampled_visit(noisy_of(VALUES, visits=visits)) == ratio


def test_people_are_finite_and_never_negative_whatever_was_drawn():
    rng = np.random.default_rng(4)
    for _ in range(300):
        size = 10.0 ** rng.uniform(-3, 6, 5)
        noisy = noisy_of(
            rng.normal(0, size[0], (3, 4)),
            scale=size[1],
            visits=rng.normal(0, size[2]),
            sampled=rng.normal(0, size[3]),
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
    down = scaled_density(noisy_of(values, scale=1000.0, visits=5000.0, sampled=4000.0))
    assert down.people.sum() == pytest.approx(5000.0)
    up = scaled_density(noisy_of(values, scale=1000.0, visits=1e9, sampled=1e9 / 1.5))
    plain = plain_density(noisy_of(values, scale=1000.0).counts)
    assert up.people == pytest.approx(1.5 * plain.people)


@pytest.mark.parametrize("family", ["discrete gaussian", "discrete laplace", "gaussian Fourier components"])
def test_noise_of_the_total_against_draws(family):
    rng = np.random.default_rng(2)
    scale, shape, runs = 3.0, (4, 6), 20_000
    if family == "discrete laplace":
        draws = rng.laplace(0, scale, (runs, *shape))
    elif family == "discrete gaussian":
        draws = rng.normal(0, scale, (runs, *shape))
    else:  # the first three of six orthonormal components, with noise on each
        import scipy.fft

        coefficients = np.zeros((runs, *shape))
        coefficients[:, :, :3] = rng.normal(0, scale, (runs, 4, 3))
        draws = scipy.fft.idct(coefficients, norm="ortho", axis=2)
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
        sampled=kept.sum() + rng.normal(0, 500.0),
        sampled_deviation=500.0,
    )
    made = scaled_density(noisy)
    covered = ((made.low <= true) & (true <= made.high)).mean()
    assert 0.93 < covered < 0.975
    plain = plain_density(noisy.counts)
    assert ((plain.low <= true) & (true <= plain.high)).mean() < 0.5  # what scaling is for
    assert made.people.sum() == pytest.approx(true.sum(), rel=0.02)


ASKED = Questions.of(
    [
        Question(zones=(0,), slots=(0, 1)),
        Question(zones=(0, 1), slots=(1,)),
        Question(zones=(0, 1, 2), slots=(0, 1, 2, 3)),
    ],
    AreaWeights.identity(3),
    slots=4,
    ell=2,
)


def start(total=120.0):
    return LearnedTable.start(ASKED, np.ones((3, 4)), total)


def test_answers_move_the_table_to_the_edge_of_their_noise():
    assert start().values() == pytest.approx([20.0, 20.0, 120.0])
    learned = start().after(0, 60.0, 0.0).after(1, 10.0, 0.0)
    assert learned.values() == pytest.approx([60.0, 10.0, 120.0], rel=0.01)
    assert (learned.table > 0).all()
    assert np.array_equal(start().after(0, 24.0, 5.0).table, start().table)
    assert start().after(0, 40.0, 5.0).values()[0] == pytest.approx(35.0, rel=1e-6)
    table = start().after(0, 60.0, 0.0).table
    assert np.unique(table.round(9)).size == 2


@for_each("total", [-50.0, 0.0, 1e-9, 1e18])
@for_each("answer", [-1e18, 0.0, 1e18])
def test_any_answer_leaves_a_table(total, answer):
    learned = start(total)
    for question in range(3):
        learned = learned.after(question, answer, 1.0)
    assert np.isfinite(learned.table).all()
    assert (learned.table >= 0).all()
    assert learned.table.sum() == pytest.approx(learned.total)
