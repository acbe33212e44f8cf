"""Files of synthetic trips: what is written is read again; names of columns; formats against plain loops."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import shapely
from tests.loops import for_each

from shoal.errors import SourceError
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
