"""Opening a source: what is guessed, and one clear error for every kind of file that cannot be used."""

import gzip
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import PlanError, ShoalError, SourceError
from shoal.events.schema import Shape
from shoal.events.source import open_source

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
GOOD = {"user": pa.array([1, 2]), "time": pa.array([NOON, NOON]), "site": ["a", "b"]}


def write(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("names", "shape", "columns"),
    [
        (["imsi", "timestamp", "cell_id"], "site", {"user": "imsi", "time": "timestamp", "site": "cell_id"}),
        (
            ["User ID", "Time", "lng", "Latitude"],
            "point",
            {"lon": "lng", "lat": "Latitude", "user": "User ID"},
        ),
        (["uid", "ts", "x", "y"], "planar", {"user": "uid", "time": "ts", "x": "x", "y": "y"}),
        (["uid", "trip_id", "ts", "lon", "lat"], "trip-point", {"trip": "trip_id"}),
        (["uid", "trip_id", "ts", "x", "y"], "trip-point", {"x": "x", "y": "y"}),
        (["card", "start_time", "origin", "end_time", "destination"], "transit", {"end_site": "destination"}),
        (["user", "time", "site", "lon", "lat"], "site", {"site": "site"}),
    ],
)
def test_shape_and_columns_are_guessed_from_usual_names(tmp_path, names, shape, columns):
    path = tmp_path / "events.csv"
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    source = open_source(path)
    assert source.shape == shape
    assert columns.items() <= source.columns.items()
    assert any(f"shape {shape}" in note for note in source.guessed)
    assert pickle.loads(pickle.dumps(source)) == source


def test_what_is_told_wins_over_usual_names(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,who,time,site,lon,lat\n1,2,3,4,5,6\n")
    source = open_source(path, columns={"user": "who", "lon": "lon"})
    assert source.shape is Shape.POINT
    assert source.columns["user"] == "who"
    assert not any("who" in note for note in source.guessed)
    assert open_source(path, shape="site", columns={"site": "user", "user": "who"}).columns["site"] == "user"


def test_list_columns_mean_trip_lists_and_e5_names_a_scale(tmp_path):
    lists = {
        "taxi_id": [1],
        "trip_id": ["a"],
        "timestamp": pa.array([5], pa.int32()),
        "lon": [[1.0]],
        "lat": [[2.0]],
    }
    source = open_source(write(tmp_path / "a.parquet", lists), point_seconds=15)
    assert (source.shape, source.time_unit) == (Shape.TRIP_LIST, "s")
    scaled = {
        "user": [1],
        "time": [NOON],
        "lat_e5": pa.array([1], pa.int32()),
        "lon_e5": pa.array([1], pa.int32()),
    }
    assert open_source(write(tmp_path / "b.parquet", scaled)).coordinate_scale == 1e-5
    assert open_source(tmp_path / "b.parquet", coordinate_scale=1.0).coordinate_scale == 1.0


def test_files_globs_and_folders_name_the_same_parts(tmp_path):
    for name in ("p1.parquet", "deep/p2.parquet", "_hidden/p3.parquet", "notes.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        write(path, GOOD) if name.endswith("parquet") else path.write_text("x")
    expected = (str(tmp_path / "deep/p2.parquet"), str(tmp_path / "p1.parquet"))
    assert open_source(tmp_path).paths == expected
    assert set(open_source(str(tmp_path / "**/p[12].parquet")).paths) == set(expected)
    assert set(open_source([tmp_path / "p1.parquet", tmp_path / "deep"]).paths) == set(expected)


def test_parts_may_order_their_columns_differently(tmp_path):
    write(tmp_path / "a.parquet", GOOD)
    write(tmp_path / "b.parquet", dict(reversed(GOOD.items())))
    assert len(open_source(tmp_path).paths) == 2


def truncated(path):
    write(path, {**GOOD, "pad": ["x" * 5000] * 2})
    path.write_bytes(path.read_bytes()[:-200])


def one_corrupt_part(path):
    path.mkdir()
    write(path / "a.parquet", GOOD)
    (path / "b.parquet").write_bytes(b"PAR1 nothing of the kind PAR1")


def two_schemas(path):
    path.mkdir()
    write(path / "a.parquet", GOOD)
    write(path / "b.parquet", {**GOOD, "user": ["1", "2"]})


def two_formats(path):
    path.mkdir()
    write(path / "a.parquet", GOOD)
    (path / "b.csv").write_text("user,time,site\n1,2,3\n")


def twice(path):
    table = pa.table(
        [pa.array([1]), pa.array([2]), pa.array([NOON]), pa.array(["a"])], ["user", "user", "time", "site"]
    )
    pq.write_table(table, path)


def column(**columns):
    return lambda path: write(path, {**GOOD, **columns})


def text(content):
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode())


# (name of the file, how it is made, settings, code, words the message or the remedy must hold)
BROKEN = {
    "nothing there": ("a.parquet", lambda path: None, {}, "missing-file", "a.parquet"),
    "no match": ("*.csv", lambda path: None, {}, "missing-file", "quote the glob"),
    "folder without files": ("folder", lambda path: path.mkdir(), {}, "empty-folder", ".parquet"),
    "unknown ending": ("a.xlsx", text("x"), {}, "unknown-format", ".csv.gz"),
    "empty parquet": ("a.parquet", text(""), {}, "empty-file", "no bytes"),
    "empty csv": ("a.csv", text(""), {}, "empty-file", "no bytes"),
    "truncated parquet": ("a.parquet", truncated, {}, "corrupt-parquet", "truncated"),
    "text called parquet": ("a.parquet", text("user,time\n1,2\n"), {}, "corrupt-parquet", "whole Parquet"),
    "one corrupt part": ("parts", one_corrupt_part, {}, "corrupt-parquet", "b.parquet"),
    "gzip that is none": (
        "a.csv.gz",
        text("user,time,site\n1,2,3\n"),
        {},
        "corrupt-packed-file",
        "",
    ),
    "csv not utf-8": ("a.csv", text("us\xe9r,time\n1,2\n".encode("latin-1")), {}, "unreadable-csv", "UTF-8"),
    "unnamed column": ("a.csv", text("user,,site\n1,2,3\n"), {}, "bad-header", "header"),
    "two schemas": ("parts", two_schemas, {}, "different-schemas", '"user"'),
    "two formats": ("parts", two_formats, {}, "mixed-formats", "one format"),
    "two columns of a name": ("a.parquet", twice, {}, "duplicate-column", '"user"'),
    "two columns but for case": (
        "a.csv",
        text("user,User,time,site\n1,1,2,3\n"),
        {},
        "duplicate-column",
        "user",
    ),
    "no such column": ("a.parquet", column(), {"columns": {"user": "sit"}}, "missing-column", 'mean "site"?'),
    "no column for a role": (
        "a.parquet",
        lambda path: write(path, {"usr": [1], "time": [NOON], "site": ["a"]}),
        {},
        "missing-column",
        'Did you mean "usr"?',
    ),
    "no column for the shape": ("a.parquet", column(), {"shape": "point"}, "missing-column", "lon, lat"),
    "user is a float": ("a.parquet", column(user=[1.0, 2.0]), {}, "user-type", "CAST"),
    "user too wide": ("a.parquet", column(user=pa.array([1, 2], pa.uint64())), {}, "user-type", "UBIGINT"),
    "user is a decimal": ("a.parquet", column(user=[Decimal(1), Decimal(2)]), {}, "user-type", "DECIMAL"),
    "user is a list": ("a.parquet", column(user=[[1], [2]]), {}, "wrong-type", "user column"),
    "time is true": ("a.parquet", column(time=[True, False]), {}, "wrong-type", "BOOLEAN"),
    "time is a date": ("a.parquet", column(time=[date(2026, 1, 1)] * 2), {}, "wrong-type", "DATE"),
    "naive time": (
        "a.parquet",
        column(time=[NOON.replace(tzinfo=None)] * 2),
        {},
        "naive-time",
        "--time-zone",
    ),
    "number without unit": ("a.parquet", column(time=[1, 2]), {}, "missing-time-unit", "--time-unit"),
    "site is a float": ("a.parquet", column(site=[1.5, 2.5]), {}, "wrong-type", "site column"),
    "coordinate is text": (
        "a.parquet",
        column(lon=["1", "2"], lat=[1.0, 2.0]),
        {"shape": "point"},
        "wrong-type",
        "lon column",
    ),
    "list wanted": (
        "a.parquet",
        column(trip=[1, 2], lon=[1.0, 2.0], lat=[1.0, 2.0]),
        {"shape": "trip-list"},
        "wrong-type",
        "list of numbers",
    ),
    "flag is a float": ("a.parquet", column(flag=[0.5, 1.5]), {}, "wrong-type", "flag column"),
    "trip list, one time": (
        "a.parquet",
        column(trip=[1, 2], lon=[[1.0], [2.0]], lat=[[1.0], [2.0]]),
        {"shape": "trip-list"},
        "missing-point-seconds",
        "--point-seconds",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_every_source_that_cannot_be_used_has_its_own_error(tmp_path, case):
    name, make, settings, code, words = BROKEN[case]
    make(tmp_path / name)
    with pytest.raises(SourceError) as caught:
        open_source(tmp_path / name, **settings)
    assert caught.value.code == code
    assert words in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"shape": "circle"}, "unknown-shape"),
        ({"time_unit": "h"}, "unknown-time-unit"),
        ({"on_bad_row": "repair"}, "unknown-on-bad-row"),
        ({"time_zone": "Europe/Atlantis"}, "unknown-time-zone"),
        ({"time_zone": "../../etc/passwd"}, "unknown-time-zone"),
        ({"coordinate_scale": 0.0}, "coordinate-scale-range"),
        ({"coordinate_scale": float("nan")}, "coordinate-scale-range"),
        ({"point_seconds": -15.0}, "point-seconds-range"),
        ({"point_seconds": 15.0}, "point-seconds-shape"),
        ({"columns": {"usr": "user"}}, "unknown-role"),
        ({"time_format": "%d/%m/%Y"}, "time-format-type"),
        ({"time_format": "%d/%m/%Y", "time_unit": "s"}, "time-format-unit"),
        ({"time_format": "%d/%m/%Q"}, "bad-time-format"),
        ({"time_format": "%"}, "bad-time-format"),
        ({"time_format": ""}, "bad-time-format"),
        ({"time_format": "%H:%M"}, "bad-time-format"),
        ({"time_format": "%d/%m/%Y %I:%M"}, "bad-time-format"),
        ({"time_format": "%d/%m/%Y %H:%M %Z"}, "bad-time-format"),
    ],
)
def test_settings_that_make_no_sense_are_plan_errors(tmp_path, settings, code):
    write(tmp_path / "a.parquet", GOOD)
    with pytest.raises(PlanError, match=code):
        open_source(tmp_path / "a.parquet", **settings)


def test_a_file_without_permission_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", GOOD)
    monkeypatch.setattr("os.access", lambda *_: False)  # the superuser may read all
    with pytest.raises(SourceError, match="unreadable-file"):
        open_source(path)


def test_no_paths_at_all():
    with pytest.raises(ShoalError, match="missing-file"):
        open_source([])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_read_off_the_header(tmp_path, delimiter):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(delimiter.join(["user", "time", "site"]) + "\n" + delimiter.join("123") + "\n")
    assert open_source(path).delimiter == delimiter


def test_a_format_without_an_offset_needs_a_clock(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("user,time,site\na,01/06/2026,gare\n")
    with pytest.raises(SourceError, match=r"naive-time(.|\n)*--time-zone"):
        open_source(path, time_format="%d/%m/%Y")
    assert open_source(path, time_format="%d/%m/%Y", time_zone="UTC").time_format == "%d/%m/%Y"
    assert open_source(path, time_format="%d/%m/%Y %H:%M%z").time_zone is None
