"""The parts of `best` after the noise: each against a formula, another library or a case worked by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from tests.loops import for_each

from shoal.postprocess.density import smoothing
from shoal.postprocess.density.best import (
    STAYS,
    USUAL,
    USUAL_UNEVEN,
    RegionGap,
    ResidualVariance,
    correct_regions,
    fit_residual_variance,
    profile_deviation,
    shrink_residuals,
    unevenness,
    wiener_share,
)
from shoal.postprocess.density.smoothing import (
    Layout,
    city_profile,
    complement,
    hour_weights,
    krige,
    orthonormal,
    probes,
    zone_columns,
)
from shoal.space.geography import LATTICE, AreaWeights
from shoal.space.setting import zone_overlap, zone_sizes
from shoal.stages.noisy import NoisyMeasurement

HOURS = np.arange(168)
DAY = 1.2 + np.sin(2 * np.pi * HOURS / 24)


@for_each("columns", [1, 5, 167, 168])
def test_probes_are_orthonormal_and_outside_the_basis(columns):
    basis = orthonormal(np.random.default_rng(1).normal(size=(columns, 168)))
    found = probes(basis, 6)
    assert found.shape == (168, min(6, 168 - columns))
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-9)
    np.testing.assert_allclose(basis.T @ found, 0, atol=1e-9)
    whole = np.column_stack([basis, complement(basis)])
    np.testing.assert_allclose(whole.T @ whole, np.eye(168), atol=1e-9)


@for_each(
    "course",
    [
        np.sin(2 * np.pi * HOURS / 24 * 3),
        (HOURS % 24 == 8) * 3.0,
        (HOURS == 50) * 9.0,
        np.sign(np.sin(HOURS)),
    ],
    ids=["a wave of eight hours", "every morning", "one hour", "on and off"],
)
def test_what_no_column_explains_shows_in_probes_as_much_as_anywhere(course):
    basis = orthonormal([DAY])
    outside = complement(basis).T @ course
    mean = np.mean(outside**2)
    seen = np.mean((probes(basis, 100).T @ course) ** 2)
    assert 0.6 * mean < seen < 1.6 * mean


def residuals(phi, kappa, noise, zones=900, seed=3):
    generator = np.random.default_rng(seed)
    counts = generator.uniform(2, 80, (zones, 6))
    squares = counts**2
    variance = noise**2 + phi * counts + kappa**2 * squares
    return generator.normal(0, np.sqrt(variance)), counts, squares


@for_each(("phi", "kappa"), [(1.6, 0.1), (2.0, 0.2), (1.4, 0.3), (1.5, 0.6)])
def test_residual_variance_is_fitted_where_residuals_show_it(phi, kappa):
    seen, counts, squares = residuals(phi, kappa, noise=5.0)
    found = fit_residual_variance(seen, 5.0, counts, squares)
    variance, expected = (s.phi * 40 + s.kappa**2 * 1600 for s in (found, ResidualVariance(phi, kappa)))
    assert variance == pytest.approx(expected, rel=0.2)


def test_residual_variance_is_the_prior_where_noise_hides_it_and_only_large_residuals_are_kept():
    seen, counts, squares = residuals(1.0, 0.0, noise=3000.0)
    found = fit_residual_variance(seen, 3000.0, counts, squares)
    assert found.phi == pytest.approx(USUAL[0], rel=0.05)
    assert found.kappa == pytest.approx(np.sqrt(USUAL[1]), rel=0.1)
    nothing = np.zeros((900, 0))
    told_nothing = fit_residual_variance(nothing, 1.0, nothing, nothing)
    assert (told_nothing.phi, told_nothing.kappa**2) == pytest.approx(USUAL)
    noise, signal = np.full(3, 2.0), np.full(3, 4.0)
    kept = shrink_residuals(np.array([1.0, -1.0, 40.0]), noise, signal)
    np.testing.assert_allclose(kept, [0.5, -0.5, 36.0])


GRID = np.column_stack([axis.ravel() for axis in np.meshgrid(np.arange(15.0), np.arange(15.0))]) * 400


def field(seed, reach=1600.0):
    distance = np.linalg.norm(GRID[:, None] - GRID[None], axis=-1)
    lower = np.linalg.cholesky(np.exp(-distance / reach) + 1e-9 * np.eye(len(GRID)))
    return 100 + 10 * lower @ np.random.default_rng(seed).normal(size=len(GRID))


@for_each("seed", range(4))
def test_kriging_smooths_a_field_and_knows_how_well(seed):
    truth = field(seed)
    noise = np.random.default_rng(seed + 50).normal(0, 8, len(truth))
    found = krige(Layout.of(GRID), truth + noise, np.full(len(truth), 64.0))
    error = found.mean - truth
    assert np.mean(error**2) < 0.5 * 64
    assert 0.6 < np.mean(error**2) / np.mean(found.variance) < 1.6


def test_kriging_of_noise_is_flat_of_values_exact_and_keeps_an_outlier():
    noise = np.random.default_rng(9).normal(0, 8, len(GRID))
    found = krige(Layout.of(GRID), 50 + noise, np.full(len(GRID), 64.0))
    assert np.ptp(found.mean) < 4
    assert (found.variance > 0).all()
    assert found.variance.mean() < 20
    truth = field(3)
    np.testing.assert_allclose(krige(Layout.of(GRID), truth, np.full(len(GRID), 1e-9)).mean, truth, atol=1e-3)
    values = np.full(len(GRID), 100.0) + np.random.default_rng(2).normal(0, 1, len(GRID))
    values[112] = 400.0
    found = krige(Layout.of(GRID), values, np.full(len(GRID), 1.0))
    assert found.mean[112] == pytest.approx(400, abs=5)
    assert np.abs(np.delete(found.mean, 112) - 100).max() < 6


def shared_sites(seed):
    """225 zones of very different size that share 300 sites: true totals, sizes, overlap."""
    generator = np.random.default_rng(seed)
    zone = generator.integers(0, len(GRID), (300, 3))
    share = generator.dirichlet([0.5, 0.5, 0.5], 300)
    matrix = scipy.sparse.coo_array(
        (share.ravel(), (zone.ravel(), np.repeat(np.arange(300), 3))), shape=(len(GRID), 300)
    ).tocsr()
    matrix.data = np.floor(matrix.data * LATTICE)
    weights = AreaWeights(matrix=matrix.astype(np.int64), lattice=LATTICE, lost=np.zeros(300))
    return weights, matrix @ generator.gamma(8.0, 100.0, 300) / LATTICE


@pytest.mark.parametrize("seed", range(3))
def test_totals_of_zones_that_share_sites_are_better_known_by_their_sizes(seed):
    weights, truth = shared_sites(seed)
    noise = 300.0
    seen = truth + np.random.default_rng(seed + 7).normal(0, noise, len(truth))
    plain = krige(Layout.of(GRID), seen, np.full(len(truth), noise**2))
    layout = Layout.of(GRID, zone_sizes(weights), zone_overlap(weights))
    sized = krige(layout, seen, np.full(len(truth), noise**2), sized=True)
    error = np.mean((sized.mean - truth) ** 2)
    assert error < 0.5 * np.mean((plain.mean - truth) ** 2)
    assert 0.5 < error / np.mean(sized.variance) < 2.0
    alone = krige(layout, seen, np.full(len(truth), noise**2))
    np.testing.assert_array_equal(alone.mean, plain.mean)


def test_sizes_that_tell_nothing_are_not_used_and_batches_change_nothing(monkeypatch):
    truth = field(5)
    sizes = np.random.default_rng(1).uniform(0.1, 2.0, len(GRID))
    layout = Layout.of(GRID, sizes / np.sqrt(np.mean(sizes**2)), scipy.sparse.eye_array(len(GRID)).tocsr())
    seen = truth + np.random.default_rng(6).normal(0, 3, len(GRID))
    found = krige(layout, seen, np.full(len(GRID), 9.0), sized=True)
    np.testing.assert_array_equal(found.mean, krige(layout, seen, np.full(len(GRID), 9.0)).mean)
    weights, truth = shared_sites(4)
    layout = Layout.of(GRID, zone_sizes(weights), zone_overlap(weights))
    whole = krige(layout, truth, np.full(len(truth), 1e4), sized=True)
    monkeypatch.setattr(smoothing, "AT_ONCE", 7)
    np.testing.assert_allclose(krige(layout, truth, np.full(len(truth), 1e4), sized=True).mean, whole.mean)


def test_the_profile_is_what_was_measured_and_without_signal_what_was_expected():
    weight, expected = hour_weights(DAY), np.full(168, 1.0)
    totals = 1e6 * (DAY + 0.4 * (HOURS // 24 >= 5))
    found, left = city_profile(totals * weight, weight, 1.0, expected, 24)
    assert 0.4 <= left <= 1.0
    np.testing.assert_allclose(found, totals / totals.sum(), rtol=1e-3)
    assert found.sum() == pytest.approx(1)
    for nothing in (np.zeros(168), np.full(168, -5.0), np.where(HOURS % 2, 1.0, -2.0)):
        flat, _ = city_profile(nothing * weight, weight, 10.0, expected, 24)
        np.testing.assert_allclose(flat, 1 / 168)


@for_each("clip", [1.0, 17.0])
def test_the_deviation_of_the_profile_is_that_of_repeated_measurements(clip):
    """The measurement is in clipped visits: their number is that of all visits over `clip`."""
    share, generator = DAY / DAY.sum(), np.random.default_rng(5)
    deviation = np.full(168, 30.0)
    drawn = share * 1e6 / clip + generator.normal(0, 30.0, (500, 168))
    noisy = SimpleNamespace(
        profile=share,
        profile_deviation=deviation,
        profile_total=float(drawn[0].sum()),
        profile_noise_left=1.0,
    )
    measured = (drawn / drawn.sum(axis=1, keepdims=True) / share).std(axis=0)
    np.testing.assert_allclose(profile_deviation(noisy, DAY), measured, rtol=0.15)
    drowned = SimpleNamespace(**vars(noisy) | {"profile_total": -5.0})
    assert np.isfinite(profile_deviation(drowned, DAY)).all()


def test_columns_of_zones_are_the_courses_of_regions():
    generator = np.random.default_rng(4)
    dictionary = orthonormal(
        [DAY, *(np.cos(2 * np.pi * HOURS * k / 24) for k in range(1, 6)), HOURS % 7 == 3]
    )
    course = dictionary[:, 1:] @ np.array([0.6, 0.0, -0.8, 0.0, 0.0, 0.0])
    values = np.outer(generator.uniform(50, 200, 30), dictionary.T @ DAY)
    values += np.outer(generator.normal(0, 20, 30), dictionary.T @ course)
    basis = zone_columns(dictionary, NoisyMeasurement(values=values, sigma=0.01), DAY, 2)
    assert basis.shape == (168, 2)
    np.testing.assert_allclose(basis[:, 0], DAY / np.linalg.norm(DAY))
    assert abs(basis[:, 1] @ course) == pytest.approx(1, abs=0.02)
    assert zone_columns(dictionary, NoisyMeasurement(values=values, sigma=0.01), DAY, 1).shape == (168, 1)


def regional(seed, sigma, uneven):
    """Counts of 40 regions of three zones, and what was measured of the regions after uneven clipping."""
    generator = np.random.default_rng(seed)
    truth = generator.uniform(50, 100, (120, 1)) * DAY
    region_of = np.repeat(np.arange(40), 3)
    taken = 1 + generator.normal(0, uneven, 40)
    sums = np.zeros((40, 168))
    np.add.at(sums, region_of, truth)
    dictionary = orthonormal([DAY, np.cos(2 * np.pi * HOURS / 24)])
    values = sums @ dictionary + generator.normal(0, sigma, (40, 2))
    noisy = SimpleNamespace(
        region_of=region_of,
        weight=np.ones(168),
        dictionary=dictionary,
        regions=NoisyMeasurement(values=values, sigma=sigma),
    )
    return truth, truth * taken[region_of][:, None], noisy


def test_regions_are_corrected_as_far_as_their_noise_allows():
    truth, clipped, noisy = regional(1, 1e-6, 0.1)
    found = correct_regions(clipped, noisy)
    np.testing.assert_allclose(found / found.sum(), truth / truth.sum(), rtol=1e-6)
    truth, clipped, noisy = regional(1, 1e6, 0.1)
    assert np.abs(correct_regions(clipped, noisy) / clipped - 1).max() <= 1.0  # never more than twofold
    generator = np.random.default_rng(3)
    level = np.repeat([1e4, 1e6], 2000)
    real = np.sqrt(level) * generator.normal(0, 3.0, 4000)
    gap = np.column_stack([real, np.zeros(4000)]) + generator.normal(0, 500.0, (4000, 2))
    gaps = RegionGap(sums=level[:, None], implied=level[:, None] * [1.0, 0.0], gap=gap, noise=500.0**2)
    share = wiener_share(gaps)
    expected = 9.0 * level / (9.0 * level + 500.0**2)
    np.testing.assert_allclose(share[:, 0], expected, atol=0.05)
    assert share[:, 1].max() < 0.15


@pytest.mark.parametrize("uneven", [0.0, 0.03, 0.1])
def test_unevenness_is_what_regions_show(uneven):
    _, clipped, noisy = regional(2, 1.0, uneven)
    assert np.sqrt(unevenness(clipped, noisy) / STAYS) == pytest.approx(uneven, abs=0.012, rel=0.25)


def test_unevenness_counts_where_it_clearly_shows():
    _, clipped, noisy = regional(2, 3e4, 0.1)
    assert unevenness(clipped, noisy) == pytest.approx(STAYS * USUAL_UNEVEN, rel=0.2)
    assert unevenness(clipped * 0, noisy) == STAYS * USUAL_UNEVEN
    np.testing.assert_array_equal(correct_regions(clipped * 0, noisy), clipped * 0)
