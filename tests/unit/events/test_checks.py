"""Row checks: every reason for a bad row, with the exact row or line."""

import math
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import SourceError
from shoal.events.normalise import REASONS
from shoal.events.readers import check_rows, scan
from shoal.events.source import open_source

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
GOOD = {"user": "u", "time": NOON, "site": "gare"}
POINT = {"user": "u", "time": NOON, "lon": 2.0, "lat": 48.0}
LISTS = {"user": "u", "trip": "t", "time": [NOON, NOON], "lon": [2.0, 2.0], "lat": [48.0, 48.0]}
TRANSIT = {"user": "u", "start_time": NOON, "start_site": "gare", "end_time": NOON, "end_site": "port"}
TEXT_TIME = {"user": "u", "time": "2026-06-01T12:00:00Z", "site": "gare"}
LOCAL = {"user": "u", "time": "2026-06-01T12:00:00", "site": "gare"}
NUMBER = {"user": "u", "time": 1.0e9, "site": "gare"}
FLAG = {**POINT, "flag": True}
DAY_FIRST = {"user": "u", "time": "01/06/2026 12:00:00", "site": "gare"}
PARIS_FORMAT = {"time_format": "%d/%m/%Y %H:%M:%S", "time_zone": "Europe/Paris"}

# reason, a good row, what makes it bad, settings
BAD = [
    ("null-user", GOOD, {"user": None}, {}),
    ("null-user", GOOD, {"user": ""}, {}),
    ("null-trip", {**POINT, "trip": "t"}, {"trip": None}, {}),
    ("list-length-mismatch", LISTS, {"lon": [2.0]}, {}),
    ("list-length-mismatch", LISTS, {"time": [NOON]}, {}),
    ("list-length-mismatch", LISTS, {"lat": None}, {}),
    ("list-length-mismatch", LISTS, {"lon": [], "lat": [], "time": []}, {}),
    ("bad-time", GOOD, {"time": None}, {}),
    ("bad-time", TEXT_TIME, {"time": "noon"}, {}),
    ("bad-time", TEXT_TIME, {"time": "2026-02-30T12:00:00Z"}, {}),
    ("bad-time", TEXT_TIME, {"time": "infinity"}, {}),
    ("bad-time", TEXT_TIME, {"time": "2026-06-01T12:00:00 Mars/Olympus"}, {}),
    ("bad-time", NUMBER, {"time": math.nan}, {"time_unit": "s"}),
    ("bad-time", DAY_FIRST, {"time": "06/31/2026 12:00:00"}, PARIS_FORMAT),
    ("bad-time", DAY_FIRST, {"time": "2026-06-01 12:00:00"}, PARIS_FORMAT),
    ("bad-time", DAY_FIRST, {"time": "01/06/2026 12:00:00 and more"}, PARIS_FORMAT),
    ("bad-time", DAY_FIRST, {"time": None}, PARIS_FORMAT),
    ("out-of-range-time", DAY_FIRST, {"time": "01/06/1926 12:00:00"}, PARIS_FORMAT),
    ("ambiguous-time", DAY_FIRST, {"time": "25/10/2026 02:30:00"}, PARIS_FORMAT),
    ("nonexistent-time", DAY_FIRST, {"time": "29/03/2026 02:30:00"}, PARIS_FORMAT),
    ("no-time-unit", TEXT_TIME, {"time": "1589.5"}, {}),
    ("long-id", TEXT_TIME, {"user": "u" * 257}, {}),
    ("long-id", TEXT_TIME, {"site": "s" * 65_536}, {}),
    ("naive-time", TEXT_TIME, {"time": "2026-06-01T12:00:00"}, {}),
    ("out-of-range-time", GOOD, {"time": datetime(1969, 12, 31, tzinfo=UTC)}, {}),
    ("out-of-range-time", GOOD, {"time": datetime(2100, 1, 1, tzinfo=UTC)}, {}),
    ("out-of-range-time", NUMBER, {"time": 1.0e12}, {"time_unit": "s"}),
    ("out-of-range-time", NUMBER, {"time": 1.0e300}, {"time_unit": "s"}),
    ("out-of-range-time", NUMBER, {"time": -1.0}, {"time_unit": "us"}),
    ("ambiguous-time", LOCAL, {"time": "2026-10-25T02:30:00"}, {"time_zone": "Europe/Paris"}),
    ("ambiguous-time", LOCAL, {"time": "2026-10-25T02:00:00"}, {"time_zone": "Europe/Paris"}),
    ("nonexistent-time", LOCAL, {"time": "2026-03-29T02:00:00"}, {"time_zone": "Europe/Paris"}),
    ("nonexistent-time", LOCAL, {"time": "2026-03-29T02:59:59"}, {"time_zone": "Europe/Paris"}),
    ("unknown-site", GOOD, {"site": "elsewhere"}, {}),
    ("unknown-site", GOOD, {"site": None}, {}),
    ("unknown-site", TRANSIT, {"end_site": "elsewhere"}, {}),
    ("bad-coordinate", POINT, {"lon": math.nan}, {}),
    ("bad-coordinate", POINT, {"lat": math.inf}, {}),
    ("bad-coordinate", POINT, {"lat": 90.1}, {}),
    ("bad-coordinate", POINT, {"lon": -180.1}, {}),
    ("bad-coordinate", POINT, {"lon": None}, {}),
    ("bad-coordinate", {"user": "u", "time": NOON, "x": 1.0, "y": 1.0}, {"y": -math.inf}, {}),
    ("bad-coordinate", LISTS, {"lon": [2.0, math.nan]}, {}),
    ("null-flag", FLAG, {"flag": None}, {}),
    ("end-before-start", TRANSIT, {"end_time": NOON - timedelta(seconds=1)}, {}),
]


@pytest.mark.parametrize(("reason", "good", "bad", "settings"), BAD)
def test_every_reason_with_its_row(tmp_path, reason, good, bad, settings):
    table = [good, {**good, **bad}, good, good, {**good, **bad}]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", **settings)
    report = check_rows(source, sites=["gare", "port"], with_flag="flag" in good)
    assert report.by_reason == {reason: 2}
    assert [row for _, row in report.examples[reason]] == [2, 5]
    assert report.good == report.rows - 2
    with pytest.raises(SourceError):
        report.raise_if_bad()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_first_unreadable_time_is_shown_by_the_check_alone(tmp_path, ending):
    times = ["2026-06-01T12:00Z", "", "31 June\t2026", "never"]
    if ending == "csv":
        (tmp_path / "a.csv").write_text("user,time,site\n" + "".join(f"u,{time},gare\n" for time in times))
    else:
        table = [{**GOOD, "time": time or None} for time in times]
        pq.write_table(pa.Table.from_pylist(table), tmp_path / "a.parquet")
    source = open_source(tmp_path / f"a.{ending}")
    report = check_rows(source)
    assert report.unread_time == "31 June\t2026"
    with pytest.raises(SourceError, match=r'3 bad-time \(.*, such as "31 June\?2026"\)'):
        report.raise_if_bad()
    with pytest.raises(SourceError, match="3 bad-time") as caught:
        list(scan(source))
    assert "June" not in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"time": "01/06/2026 12:00:00"}, ["--time-format", "--time-unit"]),
        ({"time": "1780315200"}, ["--time-unit"]),
        ({"site": "elsewhere"}, ["--sites"]),
        ({"user": None}, ["--column"]),
    ],
)
def test_dropping_is_advised_only_while_most_rows_are_good(tmp_path, bad, words):
    for share, table in (("half", [TEXT_TIME, bad]), ("most", [TEXT_TIME, bad, bad])):
        path = tmp_path / f"{share}.parquet"
        pq.write_table(pa.Table.from_pylist([{**TEXT_TIME, **row} for row in table]), path)
        with pytest.raises(SourceError) as caught:
            check_rows(open_source(path), sites=["gare"]).raise_if_bad()
        assert ("--on-bad-row drop" in caught.value.remedy) == (share == "half")
        assert all(word in caught.value.remedy for word in words) == (share == "most")


def test_every_reason_has_a_test():
    assert {reason for reason, *_ in BAD} | {"good", "unparsable-row"} == set(REASONS)


def test_a_row_counts_once_and_a_clean_source_has_nothing_to_say(tmp_path):
    table = [
        {"user": None, "time": None, "site": "elsewhere"},
        {**GOOD, "time": None, "site": "elsewhere"},
        GOOD,
    ]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "a.parquet")
    report = check_rows(open_source(tmp_path / "a.parquet"), sites=["gare"])
    assert (report.rows, report.bad, report.by_reason) == (3, 2, {"null-user": 1, "bad-time": 1})
    pq.write_table(pa.Table.from_pylist([GOOD] * 3), tmp_path / "a.parquet")
    shares: list[float] = []
    report = check_rows(open_source(tmp_path / "a.parquet"), sites=["gare"], progress=shares.append)
    assert (report.rows, report.good, report.bad, dict(report.by_reason)) == (3, 3, 0, {})
    report.raise_if_bad()
    assert shares[-1] == 1.0


def test_examples_name_the_file_and_stop_at_the_limit(tmp_path):
    schema = pa.Table.from_pylist([GOOD]).schema
    for part in range(3):
        table = [GOOD] * part + [{**GOOD, "user": None}] * 2
        pq.write_table(pa.Table.from_pylist(table, schema), tmp_path / f"{part}.parquet")
    report = check_rows(open_source(tmp_path), limit=5)
    assert report.by_reason == {"null-user": 6}
    expected = [("0", 1), ("0", 2), ("1", 2), ("1", 3), ("2", 3)]
    assert report.examples["null-user"] == tuple(
        (str(tmp_path / f"{part}.parquet"), row) for part, row in expected
    )


def test_csv_lines_are_true_line_numbers_across_files(tmp_path):
    header = "user,time,site,note"
    first = [
        header,
        'a,2026-06-01T12:00Z,gare,"two, ""words"""',
        "",
        ",2026-06-01T12:00Z,gare,x",
        "",
        "b,then,gare,x",
    ]
    second = [
        header,
        "c,2026-06-01T12:00Z,gare,x",
        "d,2026-06-01T12:00Z",
        "e,2026-06-01T12:00Z,gare,x",
        ",,,",
    ]
    (tmp_path / "1.csv").write_text("\n".join(first) + "\n")
    (tmp_path / "2.csv").write_text("\r\n".join(second))
    report = check_rows(open_source(tmp_path), sites=["gare"])
    assert report.unit == "line"
    assert (report.rows, report.good) == (7, 3)
    assert report.by_reason == {"unparsable-row": 1, "null-user": 2, "bad-time": 1}
    one, two = str(tmp_path / "1.csv"), str(tmp_path / "2.csv")
    assert report.examples == {
        "unparsable-row": ((two, 3),),
        "null-user": ((one, 4), (two, 5)),
        "bad-time": ((one, 6),),
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_large_csv_full_of_damage_is_counted_line_by_line(tmp_path, seed):
    """The lines were written here, so what each of them is worth is known without a parser."""
    chance = random.Random(seed)
    lines, kinds, good = ["user,time,site"], {}, []
    at = 2
    for number in range(30_000):
        kind = chance.choices(["good", "many", "few", "null-user", "bad-time"], [96, 1, 1, 1, 1])[0]
        line = {
            "good": f"{number},2026-06-01T12:00:00Z,gare",
            "many": f'{number},2026-06-01T12:00:00Z,"ga""re",more',
            "few": f"{number},2026-06-01T12:00:00Z",
            "null-user": ",2026-06-01T12:00:00Z,gare",
            "bad-time": f'{number},"twelve, o\'clock",gare',
        }[kind]
        if kind == "good":
            good.append(str(number))
        kinds.setdefault("unparsable-row" if kind in ("many", "few") else kind, []).append(at)
        lines.append(line)
        at += 1
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    kinds.pop("good")
    report = check_rows(open_source(tmp_path / "a.csv"), limit=8)
    assert report.by_reason == {reason: len(found) for reason, found in kinds.items()}
    assert {reason: [line for _, line in found] for reason, found in report.examples.items()} == {
        reason: found[:8] for reason, found in kinds.items()
    }
    kept = [
        user
        for batch in scan(open_source(tmp_path / "a.csv", on_bad_row="drop"))
        for user in batch["user"].to_pylist()
    ]
    assert sorted(kept, key=int) == good


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_milliseconds_beyond_microseconds_are_bad_rows(tmp_path, zone, statistics):
    noon = int(NOON.timestamp() * 1000)
    times = pa.array([noon, 2**62, None, -(2**62), noon], pa.timestamp("ms", zone))
    table = pa.table({"user": pa.array(list("abcde")).dictionary_encode(), "time": times, "site": ["s"] * 5})
    pq.write_table(table, tmp_path / "e.parquet", write_statistics=statistics)
    source = open_source(tmp_path / "e.parquet", on_bad_row="drop", time_zone="UTC")
    report = check_rows(source)
    assert report.by_reason == {"bad-time": 1, "out-of-range-time": 2}
    assert [row for _, row in report.examples["out-of-range-time"]] == [2, 4]
    rows = pa.Table.from_batches(scan(source)).sort_by("user").to_pydict()
    assert rows == {"user": ["a", "e"], "time_us": [noon * 1000] * 2, "site": ["s"] * 2}


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("role", ["user", "time", "site"])
def test_values_above_64_kib_are_refused_before_duckdb_reads_them(tmp_path, role, dictionary):
    pq.write_table(pa.Table.from_pylist([TEXT_TIME] * 2), tmp_path / "a.parquet")
    rows = [{**TEXT_TIME, role: "x" * 65_600}] * 3
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet", use_dictionary=dictionary)
    source = open_source(tmp_path, on_bad_row="drop")
    for read in (check_rows, lambda source: list(scan(source))):
        with pytest.raises(SourceError, match=rf'oversized-value: .*b\.parquet.*column "{role}"'):
            read(source)
