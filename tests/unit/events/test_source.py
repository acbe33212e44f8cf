"""Opening a source: what is guessed, and one clear error for every kind of file that cannot be used.

A file is read under the name it has, also where DuckDB would take the name for a pattern.
"""

import gzip
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import PlanError, ShoalError, SourceError
from shoal.events.readers import check_rows, scan
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


def test_what_is_told_wins_and_lists_or_e5_names_mean_more(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,who,time,site,lon,lat\n1,2,3,4,5,6\n")
    source = open_source(path, columns={"user": "who", "lon": "lon"})
    assert source.shape is Shape.POINT
    assert source.columns["user"] == "who"
    assert not any("who" in note for note in source.guessed)
    assert open_source(path, shape="site", columns={"site": "user", "user": "who"}).columns["site"] == "user"
    number = pa.array([5], pa.int32())
    lists = {"taxi_id": [1], "trip_id": ["a"], "timestamp": number, "lon": [[1.0]], "lat": [[2.0]]}
    source = open_source(write(tmp_path / "a.parquet", lists), point_seconds=15)
    assert (source.shape, source.time_unit) == (Shape.TRIP_LIST, "s")
    scaled = {"user": [1], "time": [NOON], "lat_e5": number, "lon_e5": number}
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
    columns = [pa.array([1]), pa.array([2]), pa.array([NOON]), pa.array(["a"])]
    pq.write_table(pa.table(columns, ["user", "user", "time", "site"]), path)


def without_a_user(path):
    write(path, {"usr": [1], "time": [NOON], "site": ["a"]})


def column(**columns):
    return lambda path: write(path, {**GOOD, **columns})


def text(content):
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode())


def case(code, words, make, name="a.parquet", **settings):
    """The code, words that the message or the remedy must hold, how the file is made, its name, settings."""
    return code, words, make, name, settings


LISTED = {"lon": [[1.0], [2.0]], "lat": [[1.0], [2.0]]}
NUMBERS = {"lon": [1.0, 2.0], "lat": [1.0, 2.0]}
BROKEN = {
    "nothing there": case("missing-file", "a.parquet", lambda path: None),
    "no match": case("missing-file", "quote the glob", lambda path: None, "*.csv"),
    "folder without files": case("empty-folder", ".parquet", lambda path: path.mkdir(), "folder"),
    "unknown ending": case("unknown-format", ".csv.gz", text("x"), "a.xlsx"),
    "empty parquet": case("empty-file", "no bytes", text("")),
    "empty csv": case("empty-file", "no bytes", text(""), "a.csv"),
    "truncated parquet": case("corrupt-parquet", "truncated", truncated),
    "text called parquet": case("corrupt-parquet", "whole Parquet", text("user,time\n1,2\n")),
    "one corrupt part": case("corrupt-parquet", "b.parquet", one_corrupt_part, "parts"),
    "gzip that is none": case("corrupt-packed-file", "", text("user,time,site\n1,2,3\n"), "a.csv.gz"),
    "csv not utf-8": case("unreadable-csv", "UTF-8", text("us\xe9r,time\n1,2\n".encode("latin-1")), "a.csv"),
    "unnamed column": case("bad-header", "header", text("user,,site\n1,2,3\n"), "a.csv"),
    "two schemas": case("different-schemas", '"user"', two_schemas, "parts"),
    "two formats": case("mixed-formats", "one format", two_formats, "parts"),
    "two columns of a name": case("duplicate-column", '"user"', twice),
    "two columns but for case": case(
        "duplicate-column", "user", text("user,User,time,site\n1,1,2,3\n"), "a.csv"
    ),
    "no such column": case("missing-column", 'mean "site"?', column(), columns={"user": "sit"}),
    "no column for a role": case("missing-column", 'Did you mean "usr"?', without_a_user),
    "no column for the shape": case("missing-column", "lon, lat", column(), shape="point"),
    "user is a float": case("user-type", "CAST", column(user=[1.0, 2.0])),
    "user too wide": case("user-type", "UBIGINT", column(user=pa.array([1, 2], pa.uint64()))),
    "user is a decimal": case("user-type", "DECIMAL", column(user=[Decimal(1), Decimal(2)])),
    "user is a list": case("wrong-type", "user column", column(user=[[1], [2]])),
    "time is true": case("wrong-type", "BOOLEAN", column(time=[True, False])),
    "time is a date": case("wrong-type", "DATE", column(time=[date(2026, 1, 1)] * 2)),
    "naive time": case("naive-time", "--time-zone", column(time=[NOON.replace(tzinfo=None)] * 2)),
    "number without unit": case("missing-time-unit", "--time-unit", column(time=[1, 2])),
    "site is a float": case("wrong-type", "site column", column(site=[1.5, 2.5])),
    "coordinate is text": case(
        "wrong-type", "lon column", column(**NUMBERS | {"lon": ["1", "2"]}), shape="point"
    ),
    "list wanted": case("wrong-type", "list of numbers", column(trip=[1, 2], **NUMBERS), shape="trip-list"),
    "flag is a float": case("wrong-type", "flag column", column(flag=[0.5, 1.5])),
    "trip list, one time": case(
        "missing-point-seconds", "--point-seconds", column(trip=[1, 2], **LISTED), shape="trip-list"
    ),
}


@pytest.mark.parametrize("name_of_case", BROKEN)
def test_every_source_that_cannot_be_used_has_its_own_error(tmp_path, name_of_case):
    code, words, make, name, settings = BROKEN[name_of_case]
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


def test_paths_that_are_none_or_may_not_be_read_are_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", GOOD)
    monkeypatch.setattr("os.access", lambda *_: False)  # the superuser may read all
    with pytest.raises(SourceError, match="unreadable-file"):
        open_source(path)
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


TIME = 1_772_406_000_000_000


def write_named(path, users):
    path.parent.mkdir(exist_ok=True)
    time = pa.array([TIME] * len(users), pa.timestamp("us", "UTC"))
    table = pa.table({"user": users, "time": time, "lon": [2.3] * len(users), "lat": [48.8] * len(users)})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        lines = [f"{user},2026-03-02T00:00:00Z,2.3,48.8" for user in users]
        path.write_text("\n".join(["user,time,lon,lat", *lines, ""]))
    return path


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize(
    ("folder", "name", "other"),
    [("w[1]", "a", "w1/a"), ("w", "a[1]", "w/a1"), ("w", "a*b", "w/axb"), ("w", "a?b", "w/axb")],
)
def test_rows_come_from_the_file_that_was_named(tmp_path, folder, name, other, ending):
    mine = write_named(tmp_path / folder / f"{name}{ending}", [1, 2, 3])
    write_named((tmp_path / other).with_suffix(ending), [7])
    source = open_source(str(mine))
    assert source.paths == (str(mine),)
    users = [user for batch in scan(source) for user in batch.column("user").to_pylist()]
    assert sorted(map(int, users)) == [1, 2, 3]
    assert check_rows(source).rows == 3
