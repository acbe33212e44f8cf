"""Sizes of zones from area weights: small cases worked by hand.

The public setting of commutes: parts of the day by the local clock, refused plans, the plane of sites.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import scipy.sparse
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.mechanisms.audit_size import ONE_ZONE, SHARED, AuditSize
from shoal.mechanisms.density.best import _weighted
from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights
from shoal.space.places import Sites
from shoal.space.setting import (
    LEAST_SIZE,
    MOST_WEIGHT,
    CommuteSetting,
    commute_setting,
    zone_overlap,
    zone_sizes,
    zone_weights,
)


def weights_of(rows):
    matrix = scipy.sparse.csr_array(np.array(rows, float) * LATTICE).astype(np.int64)
    return AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(matrix.shape[1]))


def test_sizes_and_weights_of_zones_by_hand():
    sizes = zone_sizes(weights_of([[1, 1, 0.5], [0, 0, 0.5], [0, 0, 0]]))
    assert sizes[0] / sizes[1] == pytest.approx(5)
    assert np.mean(sizes**2) == pytest.approx(1)
    assert 0 < sizes[2] == pytest.approx(LEAST_SIZE * sizes.sum() / (3 + LEAST_SIZE), rel=1e-3)
    nothing = weights_of([[0.0], [0.0]])
    assert zone_sizes(nothing).tolist() == [1, 1]
    assert zone_weights(nothing).tolist() == [1, 1]
    assert zone_overlap(nothing).toarray().tolist() == [[0, 0], [0, 0]]
    rows = np.array([[0.5, 0.25], [0.5, 0.75]])
    found = zone_overlap(weights_of(rows)).toarray()
    expected = rows @ rows.T
    np.testing.assert_allclose(found, expected / np.diag(expected).mean())
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


XY = np.array([[0.0, 0.0], [3000.0, 0.0], [0.0, 4000.0]])


def test_parts_follow_the_local_clock_where_it_changes():
    clock = Clock.week("2026-03-23", "Europe/Paris")  # Sunday the 29th has 23 hours
    setting = CommuteSetting(site_xy_m=XY, clock=clock)
    for slot, us in enumerate(clock.starts_utc_us):
        local = datetime.fromtimestamp(us / 1e6, ZoneInfo("Europe/Paris"))
        weekend, night = local.weekday() >= 5, local.hour in (19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6)
        part = 0 if night else 3 if weekend else 1 if local.hour in range(9, 17) else 2
        assert setting.part_of_slot[slot] == part
        assert setting.kind_of_slot[slot] == local.hour + 24 * weekend


def test_distances_on_the_plane_of_sites():
    setting = CommuteSetting(site_xy_m=XY, clock=Clock.week("2026-03-02", "UTC"), distances=4)
    assert setting.distance_ends_m.tolist() == [5000 / 16, 5000 / 4, 5000 * 9 / 16]
    sites = Sites(ids=("a", "b", "c"), x=np.array([5.0, 5.0, 5.01]), y=np.array([47.0, 47.01, 47.0]))
    xy = commute_setting(sites, Clock.week("2026-03-02", "UTC"), regions=2).site_xy_m
    degree_m = 2 * np.pi * 6_371_000 / 360
    assert np.hypot(*(xy[0] - xy[1])) == pytest.approx(0.01 * degree_m, rel=0.005)
    east = 0.01 * degree_m * np.cos(np.radians(47))
    assert np.hypot(*(xy[0] - xy[2])) == pytest.approx(east, rel=0.005)


@for_each(
    ("code", "changed"),
    [
        ("site-list", {"site_xy_m": np.zeros((0, 2))}),
        ("site-list", {"site_xy_m": np.array([[0.0, np.nan]])}),
        ("commute-classes", {"regions": 0}),
        ("commute-classes", {"distances": 1}),
        ("slot-minutes", {"clock": Clock.week("2026-03-02", "UTC", slot_minutes=120)}),
    ],
)
def test_what_cannot_be_is_refused(code, changed):
    with pytest.raises(PlanError, match=code):
        CommuteSetting(**{"site_xy_m": XY, "clock": Clock.week("2026-03-02", "UTC"), **changed})
