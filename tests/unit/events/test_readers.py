"""Scans: every shape, format and way to write a time gives the same normalised events.
Offsets per local day against the standard library, moment by moment.
"""

import gzip
import random
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.loops import for_each, tiers

from shoal.errors import PlanError, SourceError
from shoal.events.normalise import DAY_US, zone_days
from shoal.events.readers import check_rows, scan
from shoal.events.schema import FIRST_US, LAST_US
from shoal.events.source import open_source
from shoal.space.clock import stretches

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=90)
NOON_US = 1_780_315_200_000_000
LATER_US = NOON_US + 90 * 60_000_000
SITES = ["gare", "port", "o'connor"]
DAY_FIRST = "%d/%m/%Y %H:%M:%S"


def rows(source, **options):
    """All scanned rows as sorted tuples, with the names of their columns."""
    batches = list(scan(source, **options))
    names = batches[0].schema.names if batches else []
    return names, sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def write(path, columns):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.output_stream(path) as file:  # packs by the ending
            pyarrow.csv.write_csv(table, file)
    return path


SITE = {"user": [7, 8], "time": [NOON, LATER], "site": ["o'connor", "gare"]}
POINT = {"user": ["a ", "b"], "time": [NOON, LATER], "lon": [2.25, -180.0], "lat": [48.5, 90.0]}
PLANAR = {"user": ["a ", "b"], "time": [NOON, LATER], "x": [600_000.5, -1e7], "y": [0.0, 1e7]}
TRIP = {**POINT, "trip": ["t1", "t2"]}
TRANSIT = {
    "user": ["a", "b"],
    "start_time": [NOON, NOON],
    "start_site": ["gare", "port"],
    "end_time": [LATER, NOON],
    "end_site": ["port", "gare"],
}
TWO_POINTS = [("a ", NOON_US, 2.25, 48.5), ("b", LATER_US, -180.0, 90.0)]


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".csv.gz", ".csv.zst"])
@pytest.mark.parametrize(
    ("columns", "names", "expected"),
    [
        (SITE, ["user", "time_us", "site"], [(7, NOON_US, 2), (8, LATER_US, 0)]),
        (POINT, ["user", "time_us", "x", "y"], TWO_POINTS),
        (
            PLANAR,
            ["user", "time_us", "x", "y"],
            [("a ", NOON_US, 600_000.5, 0.0), ("b", LATER_US, -1e7, 1e7)],
        ),
        (
            TRIP,
            ["user", "trip", "time_us", "x", "y"],
            [("a ", "t1", NOON_US, 2.25, 48.5), ("b", "t2", LATER_US, -180.0, 90.0)],
        ),
        (
            TRANSIT,
            ["user", "time_us", "site"],
            [("a", NOON_US, 0), ("a", LATER_US, 1), ("b", NOON_US, 0), ("b", NOON_US, 1)],
        ),
    ],
    ids=["site", "point", "planar", "trip", "transit"],
)
def test_every_shape_in_every_format(tmp_path, ending, columns, names, expected):
    source = open_source(write(tmp_path / f"events{ending}", columns))
    if source.format == "csv":  # a CSV has no integers: users are kept as written
        expected = [(str(row[0]), *row[1:]) for row in expected]
    assert rows(source, sites=SITES) == (names, expected)


def test_types_are_those_of_the_contract_from_any_number_of_files(tmp_path):
    small = {**SITE, "user": pa.array([7, 8], pa.uint32()), "site": [10, 20]}
    batch = next(scan(open_source(write(tmp_path / "a.parquet", small)), sites=["20", "10"]))
    assert [str(field.type) for field in batch.schema] == ["int64", "int64", "int32"]
    assert batch["site"].to_pylist() == [1, 0]
    assert rows(open_source(tmp_path / "a.parquet"))[1] == [(7, NOON_US, "10"), (8, LATER_US, "20")]
    expected = []
    for part in range(12):
        write(tmp_path / f"part{part}.csv.gz", {**SITE, "user": [part, part]})
        expected += [(str(part), LATER_US, 0), (str(part), NOON_US, 2)]
    assert rows(open_source(str(tmp_path / "part*.csv.gz")), sites=SITES)[1] == sorted(expected)


def test_windows_and_lists_of_sites_are_kept_to(tmp_path):
    source = open_source(write(tmp_path / "a.parquet", SITE))
    assert rows(source, sites=SITES, window_us=(NOON_US, LATER_US))[1] == [(7, NOON_US, 2)]
    assert rows(source, sites=SITES, window_us=(NOON_US + 1, LATER_US + 1))[1] == [(8, LATER_US, 0)]
    assert rows(source, sites=SITES, window_us=(0, 1))[1] == []
    transit = open_source(write(tmp_path / "b.parquet", TRANSIT))
    assert len(rows(transit, sites=SITES, window_us=(LATER_US, LATER_US + 1))[1]) == 1
    source = open_source(write(tmp_path / "a.parquet", SITE))
    for sites, code in (([], "no-sites"), (["a", "a"], "duplicate-site")):
        with pytest.raises(PlanError, match=code):
            list(scan(source, sites=sites))


def test_trip_lists_are_taken_apart_and_in_csv_written_in_brackets(tmp_path):
    lists = {
        "user": ["a", "b"],
        "trip": [1, 2],
        "time": [[NOON, LATER], [LATER]],
        "lon": [[1.0, 2.0], [3.0]],
        "lat": [[4.0, 5.0], [6.0]],
    }
    expected = [("a", 1, NOON_US, 1.0, 4.0), ("a", 1, LATER_US, 2.0, 5.0), ("b", 2, LATER_US, 3.0, 6.0)]
    assert rows(open_source(write(tmp_path / "a.parquet", lists)))[1] == expected
    started = {**lists, "time": [NOON, LATER]}
    source = open_source(write(tmp_path / "b.parquet", started), point_seconds=90.5)
    assert [row[2] for row in rows(source)[1]] == [NOON_US, NOON_US + 90_500_000, LATER_US]
    path = tmp_path / "a.csv"
    path.write_text(
        'user,trip,time,lon,lat\na,1,"[2026-06-01T12:00:00Z, 2026-06-01T13:30:00Z]","[1,2.5]","[4.0, 5]"\n'
    )
    source = open_source(path, shape="trip-list")
    assert rows(source)[1] == [("a", "1", NOON_US, 1.0, 4.0), ("a", "1", LATER_US, 2.5, 5.0)]
    path.write_text('user,trip,time,lon,lat\na,1,1780315200,"[1,2.5]","[4.0, 5]"\n')
    source = open_source(path, shape="trip-list", point_seconds=5400, time_unit="s")
    assert rows(source)[1] == [("a", "1", NOON_US, 1.0, 4.0), ("a", "1", LATER_US, 2.5, 5.0)]


def test_scaled_degrees_and_awkward_names_are_read(tmp_path):
    columns = {"user": [1], "time": [NOON], "lon_e5": pa.array([-12242786], pa.int32()), "lat_e5": [3778969]}
    assert rows(open_source(write(tmp_path / "a.parquet", columns)))[1] == [
        (1, NOON_US, -122.42786, 37.78969)
    ]
    source = open_source(tmp_path / "a.parquet", coordinate_scale=3e-7)
    assert rows(source)[1] == [(1, NOON_US, -12242786 * 3e-7, 3778969 * 3e-7)]
    path = tmp_path / "it's [a] file.csv"
    path.write_bytes(b'\xef\xbb\xbf"the ""user""";"sel,ect";site\r\n"a;b";2026-06-01T12:00Z;"o\'connor"\r\n')
    source = open_source(path, columns={"user": 'the "user"', "time": "sel,ect"})
    assert rows(source, sites=SITES)[1] == [("a;b", NOON_US, 2)]


PARIS_NOON = NOON.astimezone(timezone(timedelta(hours=2))).replace(tzinfo=None)  # the clock shows 14:00


@pytest.mark.parametrize(
    ("times", "settings"),
    [
        (pa.array([NOON], pa.timestamp("us", "UTC")), {}),
        (pa.array([NOON], pa.timestamp("ns", "Europe/Paris")), {}),
        (pa.array([NOON], pa.timestamp("ms", "UTC")), {"time_zone": "Asia/Tokyo"}),
        (pa.array([PARIS_NOON], pa.timestamp("us")), {"time_zone": "Europe/Paris"}),
        (pa.array([PARIS_NOON], pa.timestamp("ns")), {"time_zone": "Europe/Paris"}),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("s")), {"time_zone": "UTC"}),
        (pa.array(["2026-06-01T12:00:00Z"]), {}),
        (pa.array(["2026-06-01 12:00:00 UTC"]), {}),
        (pa.array(["2026-06-01 14:00:00.000+02"]), {}),
        (pa.array(["2026-06-01T14:00+02:00"]), {"time_zone": "Asia/Tokyo"}),
        (pa.array(["2026-06-01T06:30:00-0530"]), {}),
        (pa.array(["2026-06-01T14:00:00"]), {"time_zone": "Europe/Paris"}),
        (pa.array(["2026-06-01 12:00:00"]), {"time_zone": "UTC"}),
        (pa.array([" 01/06/2026 14:00:00 "]), {"time_format": DAY_FIRST, "time_zone": "Europe/Paris"}),
        (pa.array(["06-01-26 12:00 PM"]), {"time_format": "%m-%d-%y %I:%M %p", "time_zone": "UTC"}),
        (pa.array(["01/06/2026 14:00:00+0200"]), {"time_format": DAY_FIRST + "%z"}),
        (
            pa.array(["01/06/2026 06:30:00-05:30"]),
            {"time_format": DAY_FIRST + "%z", "time_zone": "Asia/Tokyo"},
        ),
        (pa.array(["le 1 Jun 2026 a 12h'00"]), {"time_format": "le %d %b %Y a %Hh'%M", "time_zone": "UTC"}),
        (pa.array([1_780_315_200], pa.int32()), {}),
        (pa.array([1_780_315_200], pa.uint64()), {"time_unit": "s"}),
        (pa.array([1_780_315_200_000]), {"time_unit": "ms"}),
        (pa.array([1_780_315_200_000_000]), {"time_unit": "us"}),
        (pa.array([1_780_315_200.0]), {"time_unit": "s"}),
        (pa.array(["1780315200"]), {"time_unit": "s"}),
        (pa.array(["1780315200000.0"]), {"time_unit": "ms"}),
    ],
)
def test_all_ways_to_write_one_moment(tmp_path, times, settings):
    source = open_source(
        write(tmp_path / "a.parquet", {"user": [1], "time": times, "site": ["port"]}), **settings
    )
    assert rows(source, sites=SITES)[1] == [(1, NOON_US, 1)]


def test_local_times_on_both_sides_of_both_clock_changes(tmp_path):
    """Paris 2026: clocks go from 2:00 to 3:00 on 29 March and from 3:00 to 2:00 on 25 October."""
    local = [
        "2026-03-29 01:59:59.999999",
        "2026-03-29 03:00:00",
        "2026-10-25 01:59:59.999999",
        "2026-10-25 03:00:00",
    ]
    utc = [
        "2026-03-29 00:59:59.999999",
        "2026-03-29 01:00:00",
        "2026-10-24 23:59:59.999999",
        "2026-10-25 02:00:00",
    ]
    expected = [
        (at.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        for at in map(datetime.fromisoformat, utc)
    ]
    day_first = [f"{datetime.fromisoformat(at):%d/%m/%Y %H:%M:%S.%f}" for at in local]
    for kind, times in (
        ("text", local),
        ("timestamp", [datetime.fromisoformat(at) for at in local]),
        ("formatted", day_first),
    ):
        path = write(
            tmp_path / f"{kind}.parquet", {"user": [1, 2, 3, 4], "time": times, "site": ["port"] * 4}
        )
        written = {"time_format": DAY_FIRST + ".%f"} if kind == "formatted" else {}
        source = open_source(path, time_zone="Europe/Paris", **written)
        assert [row[1] for row in rows(source, sites=SITES)[1]] == expected


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_bad_rows_stop_or_are_dropped(tmp_path, ending):
    columns = {**SITE, "site": ["elsewhere", "gare"]}
    path = write(tmp_path / f"a{ending}", columns)
    where = "line 2" if ending == ".csv" else "row 1"
    with pytest.raises(SourceError, match=rf"bad-row: 1 of 2 .* 1 unknown-site .* {where} of .*a{ending}"):
        list(scan(open_source(path), sites=SITES))
    assert [row[1:] for row in rows(open_source(path, on_bad_row="drop"), sites=SITES)[1]] == [(LATER_US, 0)]


def test_lines_that_cannot_be_parsed_stop_or_are_dropped_alone(tmp_path):
    path = tmp_path / "a.csv.gz"
    lines = [
        "user,time,site",
        "1,2026-06-01T12:00Z,gare",
        "2,2026-06-01T12:00Z,gare,more",
        "3,2026-06-01T12:00Z",
    ]
    lines += ["4,2026-06-01T12:00Z,gare", "5"]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines))
    with pytest.raises(
        SourceError, match=r"bad-row: 3 of 5 .* 3 unparsable-row .* line 3 .* line 4 .* line 6 "
    ):
        list(scan(open_source(path), sites=SITES))
    assert [row[0] for row in rows(open_source(path, on_bad_row="drop"), sites=SITES)[1]] == ["1", "4"]


@pytest.mark.parametrize(
    ("times", "zone", "code"),
    [
        (["2026-06-01T12:00:00Z", "2026-06-01T12:00:00"], None, "mixed-time-zones"),
        (["2026-06-01T12:00:00Z", "2026-06-01T12:00:00"], "Europe/Paris", "mixed-time-zones"),
        (["2026-06-01T12:00:00", "2026-06-01T12:00:00"], None, "naive-time"),
    ],
)
def test_times_whose_clock_is_unclear_stop(tmp_path, times, zone, code):
    path = write(tmp_path / "a.csv", {**SITE, "time": times})
    with pytest.raises(SourceError, match=code):
        list(scan(open_source(path, time_zone=zone), sites=SITES))
    with pytest.raises(SourceError, match=code):
        check_rows(open_source(path, time_zone=zone)).raise_if_bad()


def test_damage_inside_a_parquet_file_is_found_while_reading(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({**SITE, "user": ["x" * 400, "y" * 400]}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[10:60] = b"\xaa" * 50
    path.write_bytes(content)
    with pytest.raises(SourceError, match="corrupt-parquet"):
        list(scan(open_source(path), sites=SITES))


@pytest.mark.parametrize("on_bad_row", ["stop", "drop"])
@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        (".gz", lambda content: content[: len(content) // 2]),
        (".zst", lambda content: content[: len(content) // 2]),
        (".gz", lambda content: content[:-6] + bytes([content[-6] ^ 1]) + content[-5:]),
        (".gz", lambda content: content[:3000] + bytes(40) + content[3040:]),
    ],
    ids=["cut", "cut zstd", "wrong sum", "overwritten"],
)
def test_damaged_packed_files_are_not_read_as_shorter_ones(tmp_path, on_bad_row, ending, damage):
    chance = random.Random(3)
    path = tmp_path / f"a.csv{ending}"
    with pa.output_stream(path) as file:
        file.write(b"user,time,site\n")
        for _ in range(3000):
            file.write(f"{chance.random()},2026-06-01T12:00Z,gare\n".encode())
    assert len(rows(open_source(path))[1]) == 3000
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SourceError, match=r"corrupt-packed-file|unreadable-csv"):
        list(scan(open_source(path, on_bad_row=on_bad_row)))


def test_the_callers_connection_is_used_and_left_as_it_was(tmp_path):
    source = open_source(write(tmp_path / "a.parquet", SITE))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        before = connection.execute("SELECT count(*) FROM duckdb_types()").fetchone()
        assert len(rows(source, sites=SITES, connection=connection)[1]) == 2
        half_read = scan(source, sites=SITES, connection=connection, rows_per_batch=1)
        next(half_read)
        half_read.close()
        assert connection.execute("SELECT count(*) FROM duckdb_types()").fetchone() == before
        assert connection.execute("SELECT current_setting('TimeZone')").fetchone() == ("Asia/Tokyo",)


@pytest.mark.parametrize("ids", [[7, 8], ["ann", "bob"]])
def test_a_column_of_users_that_went_away_is_no_word_of_the_database(tmp_path, ids):
    """In SQL a bare "user" also means the database's own user, so all rows would be one person's."""
    columns = {"user": ids, "time": [NOON, LATER], "site": ["gare", "port"]}
    source = open_source(write(tmp_path / "a.parquet", columns))
    write(tmp_path / "a.parquet", {"person": columns.pop("user"), **columns})
    for read in (check_rows, lambda gone: list(scan(gone))):
        with pytest.raises(SourceError, match='column named "user"'):
            read(source)


EPOCH = datetime(1970, 1, 1)


def from_table(rows, local: datetime):
    """UTC by the table: a time, "fold" or "gap"."""
    at = (local - EPOCH) // timedelta(microseconds=1)
    row = rows[at // DAY_US]
    if row["lo_us"] <= at < row["hi_us"]:
        return "fold" if row["fold"] else "gap"
    offset = row["before_us"] if at < row["lo_us"] else row["after_us"]
    return EPOCH + timedelta(microseconds=at - offset)


def from_library(zone: ZoneInfo, local: datetime):
    """UTC by zoneinfo: both readings of the local time must agree and lead back to it."""
    readings = [local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    fitting = {each for each in readings if each.astimezone(zone).replace(tzinfo=None) == local}
    if len(fitting) == 1:
        return fitting.pop().replace(tzinfo=None)
    return "fold" if fitting else "gap"


ZONES = [
    *("Europe/Paris", "America/Los_Angeles", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata"),
    *("Pacific/Apia", "Africa/Casablanca", "Atlantic/Azores", "Africa/Monrovia", "Etc/GMT+12"),
]


@pytest.mark.parametrize("minutes_apart", tiers([25, 145], (145,)))
@for_each("name", ZONES)
def test_every_change_of_a_zone_agrees_with_the_standard_library(name, minutes_apart):
    zone = ZoneInfo(name)
    table = zone_days(name)
    rows = {row["day"]: row for row in table.to_pylist()}
    changes = [at for at, _, _ in stretches(FIRST_US, LAST_US, zone, DAY_US)[1:]]
    assert changes or name in ("Etc/GMT+12", "Asia/Kolkata")
    ordinary = [at * DAY_US for at in range(1, 47_000, 1997)]
    for at in [*changes[:40], *changes[-4:], *ordinary]:
        moment = EPOCH + timedelta(microseconds=at)
        for minutes in range(-36 * 60, 36 * 60, minutes_apart):
            local = moment + timedelta(minutes=minutes)
            if EPOCH <= local < datetime(2100, 1, 1):
                assert from_table(rows, local) == from_library(zone, local), local
