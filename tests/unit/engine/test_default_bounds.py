"""One very active user under the bounds that releases use by default, not the small ones of other tests."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import scipy.sparse

from shoal.engine.engine import DuckEngine, encode_trips
from shoal.engine.trip_pieces import TripBound
from shoal.engine.trip_queries import exact_euler
from shoal.kinds.density.build import Counting
from shoal.kinds.run import Silent
from shoal.space.cells import CellGrid
from shoal.space.geography import LATTICE, AreaWeights
from shoal.space.setting import Question, Questions
from shoal.stages.exact import STEP, View, on_lattice

HOUR = 3_600_000_000
SLOTS, PLACES = 168, 3


def counting():
    """A user with one visit, and one at every place in every slot of a week: 504 visits."""
    user = np.array([0] + [1] * (SLOTS * PLACES), np.int64)
    slot = np.concatenate([[0], np.repeat(np.arange(SLOTS), PLACES)])
    site = np.concatenate([[0], np.tile(np.arange(PLACES), SLOTS)]).astype(np.int32)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(user), pa.array(slot * HOUR), pa.array(site)], names=["user", "time_us", "site"]
    )
    clock = SimpleNamespace(edges_us=np.arange(SLOTS + 1, dtype=np.int64) * HOUR)
    setting = SimpleNamespace(clock=clock, places=PLACES)
    engine = DuckEngine(threads=1)
    return Counting(engine, lambda: [batch], setting, run_key=bytes(16), progress=Silent())


def test_visits_under_an_ell_of_30_and_a_cap_of_250():
    bounded = counting().bounded(30, 250)
    assert (bounded.counts.sum(), bounded.visits_capped) == (31, 251)


def test_hundreds_of_visits_are_clipped_as_a_whole():
    space = scipy.sparse.csr_array(np.full((1, PLACES), LATTICE, np.int64))
    view = View(space=space, space_lattice=LATTICE, time=on_lattice(np.eye(SLOTS)), clip=4.0)
    (both,) = counting().visits(250).clipped(view)
    assert np.linalg.norm(both.values / STEP) <= 4.0 + 1.0 + 1e-3


def trips_of_one_user(trips, points):
    """Trips of a user to and fro over a row of eight cells."""
    grid = CellGrid(box=(0.0, 0.0, 8.0, 8.0), columns=8, rows=8, planar=True)
    x = np.tile(np.where(np.arange(points) % 2, 7.5, 0.5), trips)
    columns = [np.zeros(trips * points, np.int64), np.repeat(np.arange(trips), points), x, 0 * x + 0.5]
    batch = pa.RecordBatch.from_arrays([pa.array(each) for each in columns], names=["user", "trip", "x", "y"])
    return encode_trips([batch], TripBound(grid=grid, per_unit=10, cap=20, run_key=bytes(16)))


def test_trips_under_the_usual_cap():
    kept = trips_of_one_user(60, 3)
    assert (kept.count, kept.all_trips) == (10, 20)


def test_a_long_trip_counts_a_cell_once():
    euler = exact_euler(trips_of_one_user(1, 101))  # some 700 cells
    assert euler.faces.max() == 1


def test_weights_of_many_sites_are_bounded_by_the_largest():
    """One site lies wholly in one zone, 1,999 others in halves."""
    matrix = np.full((2, 2000), LATTICE // 2, np.int64)
    matrix[:, 0] = LATTICE, 0
    weights = AreaWeights(matrix=scipy.sparse.csr_array(matrix), lattice=LATTICE, lost=np.zeros(2000))
    assert (weights.column_l1, weights.column_l2_squared) == (LATTICE, LATTICE**2)


def test_a_query_over_a_week_pays_for_ell_visits():
    weights = AreaWeights(
        matrix=scipy.sparse.csr_array(np.array([[LATTICE]])), lattice=LATTICE, lost=np.zeros(1)
    )
    asked = Question(name="week", zones=(0,), slots=tuple(range(SLOTS)))
    assert Questions.of([asked], weights, slots=SLOTS, ell=30).sensitivity == (30 * LATTICE,)
