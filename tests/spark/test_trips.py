"""Query interfaces over trips on Spark answer as that of one machine does."""

import numpy as np
import pytest
from tests.spark.conftest import HOUR, START

from shoal.engine.engine import DuckEngine
from shoal.engine.path_trips import PathBound
from shoal.engine.trip_pieces import PointWatch, TripBound
from shoal.events.schema import SourcePlan, TripRule
from shoal.events.source import open_source
from shoal.events.trips import TripPoints
from shoal.space.cell_paths import Lengths, Moves, Stays
from shoal.space.cells import CellGrid, random_rectangles
from shoal.space.trip_setting import TripBins

GRID = CellGrid(box=(0.0, 0.0, 2000.0, 2000.0), columns=20, rows=20, planar=True)
WATCH = PointWatch(grid=GRID, step_s=60)


@pytest.fixture
def held(engine, points):
    """held(encoder, partitions): the same trips here and on Spark."""

    def hold(encoder, partitions):
        spark = engine(partitions)
        rule = TripRule(gap_minutes=20, min_points=2)
        sources = open_source(points), spark.open_source(SourcePlan(paths=(str(points),)))
        return [
            each.hold(
                TripPoints(source=source, rule=rule, window_us=(START, START + 24 * HOUR)), encoder, WATCH
            )
            for each, source in zip((DuckEngine(), spark), sources, strict=True)
        ]

    return hold


@pytest.mark.parametrize(("partitions", "each_trip"), [(1, False), (5, True)])
def test_sums_over_grid_trips(held, partitions, each_trip):
    bounds = {"per_unit": 1, "each_trip": True} if each_trip else {"per_unit": 2, "cap": 3}
    here, there = held(TripBound(grid=GRID, run_key=bytes(range(16)), **bounds), partitions)
    assert {name: int(value) for name, value in here.watched.items()} == {
        name: int(value) for name, value in there.watched.items()
    }
    assert int(here.watched["outside"]) > 0
    one, other = here.queries(), there.queries()
    assert one.count() == other.count() > 100
    assert one.all_trips() == other.all_trips()
    assert (one.per_unit, one.cap, one.grid) == (other.per_unit, other.cap, other.grid)
    rectangles = random_rectangles(GRID, 50, seed=1)
    asks = {
        "distinct": lambda queries: queries.distinct(rectangles),
        "again": lambda queries: queries.distinct(rectangles),
        "faces": lambda queries: queries.shared_faces(2**20),
        "euler": lambda queries: queries.euler_counts(False),
        "blocks": lambda queries: queries.euler_counts(True),
    }
    for name, ask in asks.items():
        np.testing.assert_array_equal(ask(one), ask(other), err_msg=name)


def test_cuts_and_bins_travel_to_the_trips(held):
    whole, _ = held(TripBound(grid=GRID, per_unit=2, run_key=bytes(16)), 3)
    here, there = held(TripBound(grid=GRID, per_unit=2, run_key=bytes(16), most_cells=12), 3)
    one, other = (each.queries().euler_counts(False) for each in (here, there))
    np.testing.assert_array_equal(one, other)
    assert one[0].sum() < whole.queries().euler_counts(False)[0].sum()
    here, there = held(TripBound(grid=GRID, per_unit=2, run_key=bytes(16)), 3)
    cuts = np.array([5.0, 10.0])
    bins = TripBins(kind="centre", x_cuts=cuts, y_cuts=cuts, shapes=1)
    np.testing.assert_array_equal(here.queries().binned(bins), there.queries().binned(bins))


@pytest.mark.parametrize("each_trip", [False, True])
def test_tables_over_paths(held, each_trip):
    encoder = PathBound(
        grid=GRID, per_unit=1 if each_trip else 3, each_trip=each_trip, run_key=bytes(range(16)), step_s=60
    )
    here, there = held(encoder, 5)
    one, other = here.queries(), there.queries()
    assert one.all_trips() == other.all_trips() > 100
    assert (one.each_trip, one.cap, one.grid) == (other.each_trip, other.cap, other.grid)
    for table in (Moves(GRID), Lengths(GRID), Stays()):
        for norm in (1, 2):
            sums = one.table(table, norm)
            assert sums.any()
            np.testing.assert_array_equal(sums, other.table(table, norm))


def test_what_is_gathered_is_every_trip_once(held):
    here, there = held(PathBound(grid=GRID, per_unit=3, run_key=bytes(range(16)), step_s=60), 5)
    (one, whole), (other, share) = here.gather(), there.gather()
    assert whole == share == 1.0
    assert (one.count, one.units, one.all_trips) == (other.count, other.units, other.all_trips)

    def trips(stage):
        cells = np.split(stage.cells, stage.first[1:-1])
        return sorted(
            (int(start), *map(int, path)) for start, path in zip(stage.start_us, cells, strict=True)
        )

    assert trips(one) == trips(other)
    assert (np.diff(other.unit) >= 0).all()
    assert sorted(np.bincount(one.unit)) == sorted(np.bincount(other.unit))
