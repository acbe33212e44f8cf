"""A histogram written and read back; answers of areas against paths counted one by one."""

import math
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from shoal.errors import GuaranteeError, PlanError, SourceError
from shoal.release.histogram_files import (
    PublishedHistogram,
    read_histogram,
    read_histogram_file,
    write_histogram,
)
from shoal.space.cells import CellGrid, Euler
from shoal.space.places import Zones
from shoal.stages.noisy import NoisyHistogram, TripPool

GRID = CellGrid(box=(0.0, 0.0, 12.0, 9.0), columns=12, rows=9, planar=True)


def walk(generator, steps=10):
    """Cells of a path that goes up and right: it never comes back."""
    x, y = int(generator.integers(0, 6)), int(generator.integers(0, 4))
    path = [(x, y)]
    for _ in range(steps):
        x, y = (x + 1, y) if generator.random() < 0.5 else (x, y + 1)
        if x >= GRID.columns or y >= GRID.rows:
            break
        path.append((x, y))
    return path


def euler_of(paths):
    faces = np.zeros((GRID.rows, GRID.columns))
    east, north = np.zeros((GRID.rows, GRID.columns - 1)), np.zeros((GRID.rows - 1, GRID.columns))
    for path in paths:
        for x, y in path:
            faces[y, x] += 1
        for (x, y), (x2, _) in pairwise(path):
            if x2 > x:
                east[y, x] += 1
            else:
                north[y, x] += 1
    return Euler(faces=faces, east=east, north=north)


@pytest.fixture
def paths():
    generator = np.random.default_rng(2)
    return [walk(generator) for _ in range(60)]


@pytest.fixture
def published(paths):
    return PublishedHistogram(GRID, euler_of(paths), {"trips": 60})


def test_boxes_and_their_cells(paths, published):
    boxes = [(2.0, 1.0, 7.0, 5.0), (0.0, 0.0, 12.0, 9.0), (2.6, 2.6, 2.9, 2.9), (11.0, -5.0, 40.0, 3.0)]
    cells = [((2, 7), (1, 5)), ((0, 12), (0, 9)), None, ((11, 12), (0, 3))]
    found = published.boxes(boxes)
    for answer, inside in zip(found, cells, strict=True):
        if inside is None:
            assert math.isnan(answer.trips)
            assert "no cell" in answer.notes[0]
            continue
        (x0, x1), (y0, y1) = inside
        assert answer.trips == sum(any(x0 <= x < x1 and y0 <= y < y1 for x, y in path) for path in paths)
    assert found[0].snapped == boxes[0]
    assert (found[0].missed, found[0].added) == (0, 0)
    assert found[3].outside == pytest.approx(1 - 3 / (29 * 8))
    assert "beyond the map" in found[3].notes[0]


def test_a_polygon_counts_each_piece_of_a_trip(paths, published):
    """A path that goes up and right may be in a slanted area several times: connected pieces are counted."""
    shape = shapely.Polygon([(0, 0), (7, 0), (12, 9), (5, 9)])
    mask = {
        (x, y)
        for x in range(GRID.columns)
        for y in range(GRID.rows)
        if shape.intersects(shapely.Point(x + 0.5, y + 0.5))
    }
    pieces = 0
    for path in paths:
        inside = [cell in mask for cell in path]
        pieces += sum(now and not before for now, before in zip(inside, [False, *inside[:-1]], strict=True))
    answer = published.polygon(shape)
    assert answer.trips == pieces
    assert answer.cells == len(mask)
    assert (answer.missed > 0, answer.added > 0, answer.notes) == (True, True, [])


def test_holes_parts_and_areas_beyond_the_map_are_noted(published):
    ring = shapely.box(0, 0, 6, 6).difference(shapely.box(2, 2, 4, 4))
    [note] = published.polygon(ring).notes
    assert "1 hole:" in note
    [note] = published.polygon(shapely.union(ring, shapely.box(8, 0, 9, 9))).notes
    assert "2 parts and 1 hole:" in note
    away = (20, 1, 22, 3)
    for answer in (published.polygon(shapely.box(*away)), *published.boxes([away])):
        [note] = answer.notes
        assert "map, which is 0 to 12, 0 to 9" in note
        assert "swapped" in note


def test_zones_by_name_or_id(published):
    geometry = np.array([shapely.box(0, 0, 3, 3), shapely.box(3, 3, 9, 9), shapely.box(9, 0, 12, 3)])
    zones = Zones(ids=("a", "b", "c"), names=("North", "South", "South"), geometry=geometry, crs=None)
    assert [answer.name for answer in published.zones(zones)] == ["North", "South", "South"]
    assert published.zones(zones, ["c"])[0].cells == 9
    assert [answer.name for answer in published.zones(zones, "North")] == ["North"]
    assert published.zones(zones, ["North"])[0].trips == published.answer((0, 0, 3, 3))[0]
    with pytest.raises(PlanError, match="several zones"):
        published.zones(zones, ["South"])
    with pytest.raises(PlanError, match="no zone is called"):
        published.zones(zones, ["East"])
    with pytest.raises(PlanError, match="no zones of its own"):
        published.zones()


def test_a_file_keeps_its_numbers_scaled_and_rounded_with_faces_alone_and_the_pool(tmp_path, paths):
    euler = euler_of(paths)
    noisy = NoisyHistogram(
        euler=Euler(faces=euler.faces / 3, east=euler.east / 3, north=euler.north / 3),
        trips=20.0,
        all_trips=50.0,
        violated_before=0.125,
    )
    write_histogram(tmp_path, noisy, GRID)
    grid, read, about = read_histogram_file(tmp_path / "histogram.parquet")
    assert grid == GRID
    for name in ("faces", "east", "north"):
        expected = np.round(getattr(euler, name) / 3 * 2.5, 3)
        assert np.array_equal(getattr(read, name), expected)
    assert about["trips"] == 50
    assert about["violated_before"] == 0.125
    table = pq.read_table(tmp_path / "histogram.parquet")
    assert table.column_names == ["kind", "column", "row", "trips"]
    assert table.num_rows == 12 * 9 + 11 * 9 + 12 * 8
    side = np.array([1.0, 2.0])
    pool = TripPool(x0=side, x1=side + 3, y0=side, y1=side, shape=np.array([0, 11], np.int8), weight=side)
    noisy = NoisyHistogram(euler=Euler(faces=np.full((9, 12), -0.0001)), trips=3.0, pool=pool)
    write_histogram(tmp_path, noisy, GRID)
    _, read, _ = read_histogram_file(tmp_path / "histogram.parquet")
    assert read.east is None
    assert read.north is None
    assert not np.signbit(read.faces).any()
    assert pq.read_table(tmp_path / "pool.parquet")["weight"].to_pylist() == [1.0, 2.0]


def test_what_is_not_a_histogram_is_said(tmp_path, paths):
    with pytest.raises(SourceError, match="not a published histogram"):
        read_histogram(tmp_path)
    noisy = NoisyHistogram(euler=euler_of(paths), trips=60.0)
    write_histogram(tmp_path, noisy, GRID)
    with pytest.raises(SourceError, match="no manifest"):
        read_histogram(tmp_path)
    table = pq.read_table(tmp_path / "histogram.parquet")
    for broken in (table.slice(1), table.drop_columns("trips"), table.replace_schema_metadata({})):
        pq.write_table(broken, tmp_path / "broken.parquet")
        with pytest.raises(SourceError, match="not a published histogram"):
            read_histogram(tmp_path / "broken.parquet")
    blocks = Euler(faces=np.ones((9, 12)), blocks=np.ones((8, 11)))
    with pytest.raises(GuaranteeError, match="faces and edges"):
        write_histogram(tmp_path, NoisyHistogram(euler=blocks, trips=1.0), GRID)
