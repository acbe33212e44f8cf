"""Sizes of zones from area weights: small cases worked by hand."""

import numpy as np
import pytest
import scipy.sparse

from shoal.mechanisms.audit_size import ONE_ZONE, SHARED, AuditSize
from shoal.mechanisms.density.best import _weighted
from shoal.space.geography import LATTICE, AreaWeights
from shoal.space.setting import LEAST_SIZE, MOST_WEIGHT, zone_overlap, zone_sizes, zone_weights


def weights_of(rows):
    matrix = scipy.sparse.csr_array(np.array(rows, float) * LATTICE).astype(np.int64)
    return AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(matrix.shape[1]))


def test_sizes_go_with_the_sites_in_a_zone_and_have_mean_square_one():
    sizes = zone_sizes(weights_of([[1, 1, 0.5], [0, 0, 0.5], [0, 0, 0]]))
    assert sizes[0] / sizes[1] == pytest.approx(5)
    assert np.mean(sizes**2) == pytest.approx(1)
    assert 0 < sizes[2] == pytest.approx(LEAST_SIZE * sizes.sum() / (3 + LEAST_SIZE), rel=1e-3)


def test_without_any_site_in_any_zone_all_are_alike():
    nothing = weights_of([[0.0], [0.0]])
    assert zone_sizes(nothing).tolist() == [1, 1]
    assert zone_weights(nothing).tolist() == [1, 1]
    assert zone_overlap(nothing).toarray().tolist() == [[0, 0], [0, 0]]


def test_overlap_is_the_covariance_of_zones_with_independent_sites():
    rows = np.array([[0.5, 0.25], [0.5, 0.75]])
    found = zone_overlap(weights_of(rows)).toarray()
    expected = rows @ rows.T
    np.testing.assert_allclose(found, expected / np.diag(expected).mean())


def test_small_zones_count_more_and_never_more_than_fourfold():
    weight = zone_weights(weights_of([[1, 1, 1, 0.96], [0, 0, 0, 0.04], [0, 0, 0, 0]]))
    assert weight[0] < weight[1] <= weight[2] == MOST_WEIGHT
    assert zone_weights(AreaWeights.identity(4)).tolist() == [1] * 4


@pytest.mark.parametrize("layout", [SHARED, ONE_ZONE])
def test_what_is_measured_of_zones_counts_no_place_more_than_once(layout):
    setting = AuditSize(layout=layout).setting
    space, counts, unit = _weighted(setting)
    assert np.asarray(space.sum(axis=0)).max() <= LATTICE
    assert unit <= 1
    np.testing.assert_allclose(counts, zone_weights(setting.weights) * unit)
    back = space.toarray() / counts[:, None]
    np.testing.assert_allclose(back, setting.weights.matrix.toarray(), atol=2 * MOST_WEIGHT / unit)
