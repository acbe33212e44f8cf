"""From noisy totals and shapes to zones: exact without noise, mass kept, non-negative, honest intervals.
Night fits: as good as scipy's least squares, only on whole nights of the local clock, non-negative.
"""

import numpy as np
import pytest
from scipy.optimize import least_squares
from tests import worlds
from tests.loops import for_each
from tests.worlds import weights_of

from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights
from shoal_baselines.postprocess.scheme import (
    NoisyScheme,
    NoisyTotals,
    cluster_shapes,
    finish_scheme,
    fit_exponential,
    nights_of,
    shape_variance,
    smooth_nights,
)
from shoal_baselines.space.cover import minimum_cover

DAY = Clock(start="2026-03-02T00:00", end="2026-03-03T00:00", time_zone="UTC")


def setting_of(weights, clock=DAY):
    return worlds.setting_of(weights, clock)


def random_weights(seed, zones=9, places=7):
    rng = np.random.default_rng(seed)
    shape = (zones, places)
    matrix = np.where(rng.random(shape) < 0.35, rng.integers(1, LATTICE // zones, shape), 0)
    return weights_of(matrix)


def noisy(visits, cluster_of, series, k=None, deviation=0.0, totals_deviation=0.0):
    series = np.asarray(series, float)
    return NoisyScheme(
        totals=NoisyTotals(
            visits=np.asarray(visits, float), deviation=totals_deviation, per_count=1.0, ratio_deviation=0.0
        ),
        cluster_of=np.asarray(cluster_of),
        series=series,
        k=np.full(len(series), series.shape[1]) if k is None else np.asarray(k),
        deviation=np.full(len(series), deviation),
    )


@for_each("seed", range(4))
def test_without_noise_and_merging_zones_come_back_exactly(seed):
    weights = random_weights(seed)
    setting = setting_of(weights)
    cover = minimum_cover(setting)
    counts = np.random.default_rng(seed).integers(1, 500, (weights.shape[1], DAY.slots))
    cells = cover.spread(counts) / LATTICE
    estimate = finish_scheme(noisy(cells.sum(1), np.arange(len(cells)), cells), setting, nights=False)
    np.testing.assert_allclose(estimate.people, weights.spread(counts) / LATTICE, rtol=1e-9)


@pytest.mark.parametrize("nights", [True, False])
def test_mass_is_kept_and_nothing_is_negative(nights):
    setting = setting_of(random_weights(5))
    cells = minimum_cover(setting).cells
    rng = np.random.default_rng(1)
    visits = rng.normal(40, 60, cells)
    scheme = noisy(visits, np.arange(cells) % 2, rng.normal(5, 20, (2, DAY.slots)), deviation=3.0)
    estimate = finish_scheme(scheme, setting, nights=nights)
    assert (estimate.people >= 0).all()
    assert estimate.people.sum() == pytest.approx(max(visits.sum(), 0))
    assert (estimate.low >= 0).all()
    assert ((estimate.low <= estimate.people) & (estimate.people <= estimate.high)).all()


def test_nights_are_smoothed_only_on_demand_and_a_shape_of_nothing_is_flat():
    setting = setting_of(AreaWeights.identity(3))
    series = np.random.default_rng(1).uniform(1, 9, (1, 24))
    scheme = noisy([9, 9, 9], [0, 0, 0], series)
    plain, smooth = (cluster_shapes(scheme, setting, nights) for nights in (False, True))
    np.testing.assert_allclose(plain, series / series.sum())
    assert (plain[:, :6] != smooth[:, :6]).all()
    assert smooth.sum() == pytest.approx(1)
    setting = setting_of(AreaWeights.identity(2))
    shapes = cluster_shapes(noisy([1, 1], [0, 1], [[-1.0] * 24, [0.0] * 24]), setting, nights=True)
    np.testing.assert_allclose(shapes, 1 / 24)


@for_each("cells", [1, 2])
@for_each("total", [-5.0, 0.0, 7.0])
def test_one_slot_and_few_cells(cells, total):
    clock = Clock(start="2026-03-02T00:00", end="2026-03-02T01:00", time_zone="UTC")
    setting = setting_of(AreaWeights.identity(cells), clock)
    estimate = finish_scheme(noisy([total] * cells, [0] * cells, [[4.0]]), setting)
    np.testing.assert_allclose(estimate.people, max(total, 0.0))
    assert np.isfinite(estimate.high).all()


def test_zones_that_no_site_reaches_are_certain_zeros():
    setting = setting_of(weights_of([[LATTICE], [0]]))
    estimate = finish_scheme(noisy([50.0], [0], np.ones((1, 24)), deviation=1.0), setting)
    assert (estimate.people[1] == 0).all()
    assert (estimate.high[1] == 0).all()
    nowhere = setting_of(weights_of([[0], [0]]))
    nobody = finish_scheme(noisy([], np.zeros(0, int), np.zeros((0, 24))), nowhere)
    assert nobody.people.shape == (2, 24)
    assert not nobody.high.any()


def test_shape_variance_is_that_of_simulated_noise():
    import scipy.fft

    rng = np.random.default_rng(0)
    coefficients = rng.normal(0, 3.0, (20_000, 24))
    coefficients[:, 5:] = 0
    seen = scipy.fft.idct(coefficients, type=2, norm="ortho", axis=1).var(axis=0)
    scheme = noisy([10.0], [0], np.full((1, 24), 100.0), k=[5], deviation=3.0)
    np.testing.assert_allclose(shape_variance(scheme)[0] * 2400.0**2, seen, rtol=0.1)


@pytest.mark.parametrize("mean", [3.0, 60.0])
def test_intervals_cover_the_truth_of_the_model(mean):
    """Poisson people around one shape, noisy totals and coefficients: 95 % of zone-hours lie inside."""
    import scipy.fft

    rng = np.random.default_rng(int(mean))
    cells, slots = 150, 24
    setting = setting_of(AreaWeights.identity(cells))
    shape = rng.uniform(0.5, 1.5, slots)
    differs = np.clip(rng.normal(1, 0.3, (cells, slots)), 0.1, None)  # what the misfit stands for
    truth = rng.poisson(mean * shape * differs)
    visits = truth.sum(axis=1) + rng.normal(0, 10.0, cells)
    noise = scipy.fft.idct(rng.normal(0, 50.0, (1, slots)), type=2, norm="ortho", axis=1)
    scheme = noisy(
        visits, np.zeros(cells, int), truth.sum(axis=0)[None] + noise, deviation=50.0, totals_deviation=10.0
    )
    estimate = finish_scheme(scheme, setting, nights=False)
    inside = (estimate.low <= truth) & (truth <= estimate.high)
    assert 0.93 < inside.mean() < 0.975


WEEK = Clock.week("2026-03-02", "Europe/Paris")


@for_each("seed", range(15))
def test_fit_is_the_least_squares_fit(seed):
    rng = np.random.default_rng(seed)
    x = np.arange(5.0)
    y = np.maximum(rng.uniform(5, 100) * np.exp(rng.uniform(-0.8, 0.8) * x) + rng.normal(0, 5, 5), 0)
    ours = ((fit_exponential(x, y[None])[0] - y) ** 2).sum()
    theirs = min(
        2 * least_squares(lambda p: p[0] * np.exp(p[1] * x) - y, [y.mean() + 0.1, b], max_nfev=2000).cost
        for b in (-0.5, 0.0, 0.5)
    )
    assert ours <= theirs * (1 + 1e-6) + 1e-9


def test_exponentials_zeros_and_spikes_are_fitted():
    x = np.arange(5.0)
    y = 40 * np.exp(-0.7 * x)
    np.testing.assert_allclose(fit_exponential(x, y[None])[0], y, rtol=1e-6)
    x = np.arange(5.0)
    rows = np.vstack([np.zeros(5), np.eye(5) * 7, [[1e12, 0, 0, 0, 0]]])
    fitted = fit_exponential(x, rows)
    assert np.isfinite(fitted).all()
    assert (fitted >= 0).all()
    assert (fitted[0] == 0).all()


def test_hours_of_day_are_left_alone_and_nights_are_smoothed():
    series = np.random.default_rng(1).uniform(1, 9, (4, 168))
    smooth = smooth_nights(series, WEEK)
    night = np.isin(WEEK.hours_local, range(6))
    assert (smooth[:, ~night] == series[:, ~night]).all()
    assert (smooth[:, night] != series[:, night]).all()
    assert len(nights_of(WEEK)) == 7


CLOCKS = {
    "two-hour slots": (Clock.week("2026-03-02", "UTC", slot_minutes=120), 0),
    "half hours": (Clock.week("2026-03-02", "UTC", slot_minutes=30), 7),
    "spring forward": (Clock.week("2026-03-23", "Europe/Paris"), 6),
    "autumn back": (Clock.week("2026-10-19", "Europe/Paris"), 6),
    "starts at 3 h": (Clock(start="2026-03-02T03:00", end="2026-03-04T05:00", time_zone="UTC"), 1),
    "one slot": (Clock(start="2026-03-02T00:00", end="2026-03-02T01:00", time_zone="UTC"), 0),
    "a noon": (Clock(start="2026-03-02T10:00", end="2026-03-02T14:00", time_zone="UTC"), 0),
}


@for_each("name", CLOCKS)
def test_only_whole_nights_of_the_clock_count(name):
    clock, nights = CLOCKS[name]
    assert len(nights_of(clock)) == nights
    series = np.random.default_rng(1).uniform(1, 9, (2, clock.slots))
    assert (smooth_nights(series, clock) == series).all() == (nights == 0)
