"""The model of users by number of visits: totals and clips over repeated noise, and answers of any size."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.density.user_sizes import CLIPS, SECOND_BINS, SHAPES, NumberOfVisits, UserSizes
from shoal.space.setting import MOST_VISITS, SIZE_BINS
from shoal.stages.noisy import NoisyMeasurement


def residents(number, seed=1):
    return np.clip(np.random.default_rng(seed).lognormal(2.0, 1.0, number), 1, MOST_VISITS)


def fleet(number, seed=2):
    return np.random.default_rng(seed).normal(900, 150, number)


def histogram(sizes):
    return np.bincount((2 * np.log2(np.floor(sizes)) + 1e-9).astype(int), minlength=SIZE_BINS)


def estimated(sizes, sigma, per_clip, declared, seed):
    """The total and the clips of one or two numbers of visits."""
    rng = np.random.default_rng(seed)
    noisy = histogram(sizes) + rng.normal(0, sigma, SIZE_BINS)
    learned = UserSizes.learn(NoisyMeasurement(values=noisy, sigma=sigma), declared, None)
    numbers = ()
    for noise in per_clip:
        clip = learned.given(*numbers).best_clip(noise)
        value = np.minimum(sizes, clip).sum() + rng.normal(0, noise * clip)
        numbers += (NumberOfVisits(value=value, sigma=noise * clip, clip=clip),)
    return learned.total_given(*numbers), [number.clip for number in numbers]


def test_shapes_are_distributions_and_a_clip_keeps_at_most_everything():
    np.testing.assert_allclose(SHAPES.bins.sum(axis=1), 1)
    np.testing.assert_allclose(SECOND_BINS.sum(axis=1), 1)
    assert (np.diff(SHAPES.clipped, axis=1) >= 0).all()
    assert (SHAPES.clipped <= SHAPES.mean[:, None] * (1 + 1e-12)).all()


CITIES = {
    "residents": (residents(50_000), 50_000),
    "a fleet": (fleet(500), 500),
    "a fleet, declared three times as large": (fleet(500), 1_500),
    "residents and a fleet": (np.concatenate([residents(50_000), fleet(500)]), 50_000),
    "residents and a fleet, a third declared": (np.concatenate([residents(50_000), fleet(500)]), 17_000),
}


@for_each("name", CITIES)
def test_limits_of_the_total_cover_it(name):
    sizes, declared = CITIES[name]
    totals = [estimated(sizes, 35.0, (22.0, 14.0), declared, seed)[0] for seed in range(20)]
    covered = sum(total.low <= sizes.sum() <= total.high for total in totals)
    assert covered >= 15
    assert np.mean([total.visits for total in totals]) == pytest.approx(sizes.sum(), rel=0.05)
    assert np.mean([total.high / total.low for total in totals]) < 1.35


def test_the_clip_follows_the_population():
    few = estimated(residents(50_000), 35.0, (22.0,), 50_000, 1)[1][0]
    many = estimated(fleet(500), 35.0, (22.0,), 500, 1)[1][0]
    assert few <= 512 < many
    assert {few, many} <= set(CLIPS.tolist())


@for_each("answer", [-(2.0**50), -3.0, 0.0, 7.0, 2.0**50])
@for_each("number", [-(2.0**60), 0.0, 2.0**60])
@for_each("sigma", [1e-3, 1.0, 1e9])
def test_any_answers_give_a_positive_total_within_its_limits(answer, number, sigma):
    for values in (np.full(SIZE_BINS, answer), np.where(np.arange(SIZE_BINS) == 20, answer, 0.0)):
        for declared in ((1, None), (10**11, None), (-5.0, 30.0)):
            learned = UserSizes.learn(NoisyMeasurement(values=values, sigma=sigma), *declared)
            clip = learned.best_clip(sigma)
            total = learned.total_given(NumberOfVisits(value=number, sigma=sigma * clip, clip=clip))
            assert 0 < total.low <= total.visits <= total.high < np.inf
            assert 0 <= total.deviation <= total.visits * (1 + 1e-9)


@for_each("name", ["residents", "a fleet", "residents and a fleet"])
def test_the_share_of_a_second_group_is_that_of_a_fleet_among_residents(name):
    sizes, declared = CITIES[name]
    true = fleet(500).sum() / sizes.sum() if name == "residents and a fleet" else 0.0
    shares = [estimated(sizes, 35.0, (22.0, 14.0), declared, seed)[0].second for seed in range(5)]
    assert np.mean(shares) == pytest.approx(true, rel=0.3, abs=0.03)
