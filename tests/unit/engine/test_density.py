"""Bounded visits to cover counts: integer sums over disjoint fragments, and what lies outside."""

import numpy as np
import scipy.sparse

from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights
from shoal.space.setting import Setting
from shoal.stages.bounded import BoundedVisits
from shoal_baselines.counting import cover_counts
from shoal_baselines.space.cover import minimum_cover

HALF = LATTICE // 2


def cover_of(matrix):
    matrix = scipy.sparse.csr_array(np.asarray(matrix, np.int64))
    zones, places = matrix.shape
    setting = Setting(
        weights=AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(places)),
        zone_xy_m=np.arange(2 * zones).reshape(zones, 2) * 1.0,
        place_xy_m=np.arange(2 * places).reshape(places, 2) * 1.0,
        zone_area_km2=np.ones(zones),
        clock=Clock(start="2026-03-02T00:00", end="2026-03-02T02:00", time_zone="UTC"),
    )
    return minimum_cover(setting)


def bounded(counts, one_visit):
    counts, one_visit = np.array(counts, np.int64), np.array(one_visit, np.int64)
    return BoundedVisits(
        counts=counts, one_visit=one_visit, users=int(one_visit.sum()), visits_capped=44, ell=3, cap=9
    )


def test_cells_hold_their_fragments_and_the_rest_is_outside():
    cover = cover_of([[LATTICE, HALF, 0], [0, 0, 0]])  # the second site loses half, the third all
    exact = cover_counts(bounded([[1, 2], [4, 0], [9, 9]], [5, 2, 7]), cover)
    assert (exact.units == [[3 * LATTICE, 2 * LATTICE]]).all()
    assert exact.one_visit.tolist() == [6 * LATTICE]
    assert exact.outside == 8 * LATTICE
    assert (exact.visits, exact.ell, exact.cap, exact.lattice) == (44, 3, 9, LATTICE)
    assert exact.units.dtype == exact.one_visit.dtype == np.int64


def test_one_visit_moves_the_histogram_by_one_visit_in_all():
    cover = cover_of([[HALF, LATTICE, 7], [100, 0, 0], [3, 0, 0]])
    nobody = cover_counts(bounded(np.zeros((3, 2)), [0, 0, 0]), cover)
    for place in range(3):
        one = np.eye(3, dtype=int)[place]
        somebody = cover_counts(bounded(np.column_stack([one, one * 0]), one), cover)
        assert somebody.one_visit.sum() + somebody.outside == LATTICE
        assert (somebody.one_visit >= nobody.one_visit).all()
        assert somebody.outside >= 0
        assert np.abs(somebody.units - nobody.units).sum() <= LATTICE


def test_nobody_gives_zeros():
    exact = cover_counts(bounded(np.zeros((2, 2)), [0, 0]), cover_of([[5, 0], [0, 5]]))
    assert not exact.units.any()
    assert (exact.one_visit.tolist(), exact.outside) == ([0, 0], 0)
