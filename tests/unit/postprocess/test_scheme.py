"""From noisy totals and shapes to zones: exact without noise, mass kept, non-negative, honest intervals."""

import numpy as np
import pytest
import scipy.sparse
from tests.loops import for_each

from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights, Setting
from shoal_baselines.postprocess.scheme import (
    NoisyScheme,
    NoisyTotals,
    cluster_shapes,
    finish_scheme,
    misfit_squared,
    shape_variance,
)
from shoal_baselines.space.cover import minimum_cover

DAY = Clock(start="2026-03-02T00:00", end="2026-03-03T00:00", time_zone="UTC")


def setting_of(weights, clock=DAY):
    zones, places = weights.shape
    rng = np.random.default_rng(0)
    return Setting(
        weights=weights,
        zone_xy_m=rng.uniform(0, 1000, (zones, 2)),
        place_xy_m=rng.uniform(0, 1000, (places, 2)),
        clock=clock,
    )


def random_weights(seed, zones=9, places=7):
    rng = np.random.default_rng(seed)
    shape = (zones, places)
    matrix = np.where(rng.random(shape) < 0.35, rng.integers(1, LATTICE // zones, shape), 0)
    return AreaWeights(matrix=scipy.sparse.csr_array(matrix), lattice=LATTICE, lost=np.zeros(places))


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
    matrix = scipy.sparse.csr_array(np.array([[LATTICE], [0]]))
    setting = setting_of(AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(1)))
    estimate = finish_scheme(noisy([50.0], [0], np.ones((1, 24)), deviation=1.0), setting)
    assert (estimate.people[1] == 0).all()
    assert (estimate.high[1] == 0).all()
    nowhere = setting_of(AreaWeights(matrix=matrix * 0, lattice=LATTICE, lost=np.zeros(1)))
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


def test_misfit_falls_with_clusters_and_is_nothing_where_none_were_merged():
    rng = np.random.default_rng(2)

    def misfit(clusters, cells=200):
        series = rng.uniform(10, 30, (clusters, 24))
        scheme = noisy(np.ones(cells), np.arange(cells) % clusters, series)
        return misfit_squared(scheme, series / series.sum(axis=1, keepdims=True))

    few, some, many, all_cells = (misfit(n) for n in (1, 20, 150, 200))
    assert few > 1.5 * some > 3 * many > all_cells == 0


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
