"""Sizes of zones from area weights: small cases worked by hand.

The public setting of commutes: parts of the day by the local clock, refused plans, the plane of sites.
What a histogram mechanism may know: bounds that make sense, rectangles on the grid, bins of summaries.
"""

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests import worlds
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.mechanisms.audit_size import ONE_ZONE, SHARED, AuditSize
from shoal.mechanisms.density.best import _weighted
from shoal.space.cells import CellGrid, Rectangles
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
from shoal.space.trip_setting import TripBins, TripSetting


def weights_of(shares):
    return worlds.weights_of(np.array(shares) * LATTICE)


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


GRID = CellGrid(box=(0.0, 0.0, 8.0, 4.0), columns=8, rows=4, planar=True)
GIVEN = Rectangles.of([(0, 8, 0, 4)])


def setting(**more):
    return TripSetting(**{"grid": GRID, "given": GIVEN, **more})


def test_defaults_and_bounds_that_are_equal():
    plain = setting()
    assert (plain.per_unit, plain.cap, plain.trips) == (1, None, None)
    assert plain.expected_cells == 3.0  # a quarter of 8 + 4
    assert setting(mean_cells=40.0).expected_cells == 40.0
    assert setting(per_unit=5, cap=5, trips=1).cap == 5


@for_each(
    ("wrong", "code"),
    [
        ({"per_unit": 0}, "trip-bound"),
        ({"per_unit": 5, "cap": 4}, "trip-bound"),
        ({"trips": 0}, "trip-bound"),
        ({"trips": -3}, "trip-bound"),
        ({"given": Rectangles.of([(0, 9, 0, 4)])}, "rectangle-range"),
        ({"given": Rectangles.of([(0, 8, 3, 3)])}, "rectangle-range"),
    ],
)
def test_settings_that_make_no_sense(wrong, code):
    with pytest.raises(PlanError, match=code):
        setting(**wrong)


X, Y = np.array([2.0, 5.0]), np.array([3.0])


def bins(kind, shapes=1):
    return TripBins(kind=kind, x_cuts=X, y_cuts=Y, shapes=shapes)


def column(x):
    return sum(x + 0.5 >= cut for cut in X)


def row(y):
    return sum(y + 0.5 >= cut for cut in Y)


def everything(side=7):
    spans = [(a, b) for a in range(side) for b in range(a, side)]
    rows = [(*x, *y, s) for x, y in itertools.product(spans, spans) for s in (0, 5, 6, 11)]
    return np.array(rows).T


@for_each("shapes", [1, 2, 12])
@for_each("kind", ["box", "x", "y", "centre", "size"])
def test_bins_are_a_partition_by_the_named_coordinates(kind, shapes):
    x0, x1, y0, y1, shape = everything()
    made = bins(kind, shapes)
    index = made.index(x0, x1, y0, y1, shape)
    assert index.min() >= 0
    assert index.max() < made.count
    keys = {
        "box": lambda a, b, c, d: (column(a), column(b), row(c), row(d)),
        "x": lambda a, b, c, d: (column(a), column(b)),
        "y": lambda a, b, c, d: (row(c), row(d)),
        "centre": lambda a, b, c, d: (column((a + b) / 2), row((c + d) / 2)),
        "size": lambda a, b, c, d: column(b - a + d - c),
    }
    seen = {}
    for at, (a, b, c, d, s) in zip(index, zip(x0, x1, y0, y1, shape, strict=True), strict=True):
        key = (keys[kind](a, b, c, d), s // (12 // shapes))
        assert seen.setdefault(at, key) == key  # one key per bin
    assert len(set(seen.values())) == len(seen)  # one bin per key
