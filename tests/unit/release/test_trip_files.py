"""Files of synthetic trips: what is written is read again; names of columns; formats against plain loops.
Records and keys on disk: sorted by random ids, private, and each key found by its records.
"""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from xml.etree import ElementTree

import geopandas
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import shapely
from tests.loops import for_each

from shoal.errors import OutputError, SourceError
from shoal.kinds.trajectories.published import (
    KEY,
    find_key,
    misplaced,
    read_records,
    write_key,
    write_records,
)
from shoal.postprocess.synthetic.path_points import PathPoints
from shoal.release.trip_files import (
    TripChunk,
    TripColumns,
    TripsAbout,
    files_of,
    points_wkb,
    read_synthetic,
    write_trips,
)
from shoal.space.cells import CellGrid
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes

GRID = CellGrid(box=(5.0, 47.0, 5.1, 47.1), columns=4, rows=4)
SECOND = 1_000_000
START = 1_772_406_000 * SECOND


def points(low=0, seconds=60.0):
    """Trip `low` of two points, the next of one."""
    return PathPoints(
        trip=np.array([low, low, low + 1]),
        number=np.array([0, 1, 0], np.int32),
        time_us=START + (np.array([0, seconds, 7]) * SECOND).astype(np.int64),
        x=np.array([5.01, 5.02, 5.03]),
        y=np.array([47.01, 47.02, 47.03]),
    )


def written(folder, chunks, formats=("parquet",), columns=None, trips=4):
    about = TripsAbout(grid=GRID, step_s=60, trips=trips)
    write_trips(folder, chunks, about, columns or TripColumns(), formats)
    return folder


def test_chunks_are_row_groups_of_whole_trips_and_come_back(tmp_path):
    written(tmp_path, [points(0), points(2)])
    file = pq.ParquetFile(tmp_path / "trips.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [3, 3]
    names = file.read(["trip"])["trip"].to_pylist()
    assert names == ["s0000001"] * 2 + ["s0000002", "s0000003", "s0000003", "s0000004"]
    published = read_synthetic(tmp_path / "trips.parquet")
    assert (published.about.grid, published.about.step_s, published.about.trips) == (GRID, 60.0, 4)
    one, two = published.batches()
    assert [*one["user"].to_pylist(), *two["user"].to_pylist()] == [1, 1, 2, 3, 3, 4]
    np.testing.assert_array_equal(two["time_us"].to_numpy(), points().time_us)
    np.testing.assert_array_equal(two["x"].to_numpy(), points().x)


def test_every_file_says_its_columns_and_no_trip_at_all_is_a_file(tmp_path):
    formats = ("parquet", "csv", "gpx", "geojson")
    written(tmp_path, [], formats, trips=0)
    assert list(read_synthetic(tmp_path / "trips.parquet").batches()) == []
    assert json.loads((tmp_path / "trips.geojson").read_text())["features"] == []
    assert not ElementTree.parse(tmp_path / "trips.gpx").getroot().findall("{*}trk")
    told = files_of(TripColumns(), ("parquet", "csv", "gpx"))
    assert list(told) == ["trips.parquet", "trips.csv", "trips.gpx"]
    assert list(told["trips.parquet"]) == ["user", "trip", "point", "time", "lon", "lat", "geometry"]
    assert "geometry" not in told["trips.csv"]
    assert "synthetic" in told["trips.csv"]["user"]


def test_lines_points_and_tracks(tmp_path):
    written(tmp_path, [points(0), points(2)], ("gpx", "geojson"))
    features = json.loads((tmp_path / "trips.geojson").read_text())["features"]
    assert [feature["geometry"]["type"] for feature in features] == ["LineString", "Point"] * 2
    assert features[0]["geometry"]["coordinates"] == [[5.01, 47.01], [5.02, 47.02]]
    assert features[1]["properties"] == {
        "trip": "s0000002",
        "synthetic": True,
        "times": ["2026-03-01T23:00:07Z"],
    }
    tracks = ElementTree.parse(tmp_path / "trips.gpx").getroot().findall("{*}trk")
    assert [len(track.findall("{*}trkseg/{*}trkpt")) for track in tracks] == [2, 1, 2, 1]
    assert tracks[0].find("{*}trkseg/{*}trkpt/{*}time").text == "2026-03-01T23:00:00Z"
    x, y = np.array([5.0, -180.0]), np.array([47.0, 90.0])
    assert [(p.x, p.y) for p in shapely.from_wkb(points_wkb(x, y).to_pylist())] == [
        (5.0, 47.0),
        (-180.0, 90.0),
    ]
    written(tmp_path, [points(), points(2, seconds=7.5)], ("csv",))
    lines = (tmp_path / "trips.csv").read_text().splitlines()
    assert lines[2].split(",")[3] == "2026-03-01T23:01:00Z"
    assert lines[5].split(",")[3] == "2026-03-01T23:00:07.500000Z"
    assert pyarrow.csv.read_csv(tmp_path / "trips.csv").num_rows == 6


@for_each(
    ("columns", "planar", "names"),
    [
        ({"user": "cab", "time": "t", "lon": "X", "lat": "Y"}, False, ("cab", "trip", "t", "X", "Y")),
        ({"user": "u", "trip": "n", "time": "t", "x": "e", "y": "n2"}, True, ("u", "n", "t", "e", "n2")),
        ({"user": "u", "trip": "n", "time": "t", "lon": "line", "lat": "line"}, False, None),
        ({"user": "point", "time": "t", "x": "e", "y": "n"}, True, None),
        ({"user": "geometry", "time": "t", "x": "e", "y": "n"}, True, None),
    ],
)
def test_columns_are_called_as_in_the_input(columns, planar, names):
    usual = ("user", "trip", "time", "x" if planar else "lon", "y" if planar else "lat")
    found = TripColumns.like(columns, planar=planar)
    assert (found.user, found.trip, found.time, found.x, found.y) == (names or usual)


def test_other_files_are_refused(tmp_path):
    pq.write_table(
        pq.read_table(written(tmp_path, [points()]) / "trips.parquet").select(["lon"]), tmp_path / "a"
    )
    (tmp_path / "b").write_text("no parquet")
    pq.write_table(pq.read_table(tmp_path / "a").replace_schema_metadata(None), tmp_path / "a")
    for name in ("a", "b", "missing"):
        with pytest.raises(SourceError, match="not-synthetic"):
            read_synthetic(tmp_path / name)
    with pytest.raises(SourceError, match="not-synthetic"):
        read_synthetic(tmp_path)  # a folder without a manifest


@pytest.mark.parametrize("part", [0, 1, 250_000])
def test_times_are_written_as_iso_8601(part):
    moments = [datetime(1999, 12, 31, 23, 59, 59, part, UTC), datetime(2026, 3, 29, 2, 30, 0, part, UTC)]
    time_us = np.array([int(m.timestamp()) * 1_000_000 + m.microsecond for m in moments])
    chunk = TripChunk(SimpleNamespace(time_us=time_us), 7)
    end = f".{part:06d}Z" if part else "Z"
    assert chunk.iso_times.to_pylist() == [f"{m:%Y-%m-%dT%H:%M:%S}{end}" for m in moments]


LATTICE = Lattice(
    start=datetime(2026, 3, 2, tzinfo=UTC), steps=60, origin=(5.0, 47.0), minutes=10, metres=500.0
)


def test_records_are_written_in_the_order_of_their_ids(tmp_path):
    boxes = Boxes.of([0, 0, 2], [5, 9, 1], [6, 9, 4], [1] * 3, [2] * 3, [3] * 3, [4] * 3, records=3)
    write_records(tmp_path, boxes, np.array([7, 9, 3]), LATTICE)
    held = read_records(tmp_path)
    assert held["record"].tolist() == [3, 7, 7]
    assert held["t0"].tolist() == [1, 5, 9]
    assert held["record"].dtype == np.int64
    assert {held[name].dtype for name in ("t0", "t1", "x0", "x1", "y0", "y1")} == {np.dtype(np.int32)}


def test_records_have_times_and_polygons_that_others_can_read(tmp_path):
    boxes = Boxes.of([0, 1], [5, 9], [6, 9], [1, 0], [2, 0], [3, 0], [4, 0], records=2)
    write_records(tmp_path, boxes, np.array([2, 1]), LATTICE)
    frame = geopandas.read_parquet(tmp_path / "records.parquet")
    first, second = frame.geometry.to_crs(32631)  # UTM 31N, which knows nothing of our two constants
    assert abs(first.area / 500**2 - 1) < 0.01
    assert abs(second.area / 1000**2 - 1) < 0.01
    assert frame["start"].tolist()[1] == datetime(2026, 3, 2, 0, 50, tzinfo=UTC)
    assert frame["end"].tolist()[1] == datetime(2026, 3, 2, 1, 10, tzinfo=UTC)
    text = pandas.read_csv(tmp_path / "records.csv", parse_dates=["start", "end"])
    assert text.equals(pandas.DataFrame(frame.drop(columns="geometry")).astype(text.dtypes))
    assert not misplaced(tmp_path, read_records(tmp_path), LATTICE)


@pytest.mark.parametrize("column", ["start", "east", "geometry", "csv"])
def test_a_moved_box_is_noticed(tmp_path, column):
    boxes = Boxes.of([0, 1], [5, 9], [6, 9], [1, 0], [2, 0], [3, 0], [4, 0], records=2)
    write_records(tmp_path, boxes, np.array([2, 1]), LATTICE)
    if column == "csv":
        path = tmp_path / "records.csv"
        path.write_text(path.read_text().replace(",5,", ",6,", 1))
    else:
        table = pq.read_table(tmp_path / "records.parquet")
        at = table.schema.get_field_index(column)
        swapped = table[column].take(pa.array([1, 0]))
        pq.write_table(table.set_column(at, table.schema.field(at), swapped), tmp_path / "records.parquet")
    assert misplaced(tmp_path, read_records(tmp_path), LATTICE)


def test_a_key_is_private_and_found_by_its_records(tmp_path):
    ids = np.array([2, 1])
    path = write_key(tmp_path / KEY, pa.array(["a", "b"]), ids, records_sha256="one")
    assert path.stat().st_mode & 0o777 == 0o600
    assert pq.read_table(path).to_pylist() == [{"user": "a", "record": 2}, {"user": "b", "record": 1}]
    path.rename(tmp_path / "record_key-0123.parquet")
    write_key(tmp_path / KEY, pa.array([5, 6]), ids, records_sha256="two")
    (tmp_path / "record_key-broken.parquet").write_text("no")
    pq.write_table(pa.table({"user": [1]}), tmp_path / "record_key-other.parquet")
    assert find_key(tmp_path, "one") == tmp_path / "record_key-0123.parquet"
    assert find_key(tmp_path, "two") == tmp_path / KEY
    assert find_key(tmp_path, "three") is None
    assert find_key(tmp_path / "nowhere", "one") is None
    with pytest.raises(OutputError):
        write_key(tmp_path / "missing" / KEY, pa.array(["a"]), np.array([1]), records_sha256="one")
