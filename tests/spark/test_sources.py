"""What Spark reads: files, folders, URIs, tables; the same rows are bad; damage is one clear error."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.conftest import HOUR, SITES, START

from shoal.errors import PlanError, SourceError
from shoal.events.readers import check_rows, scan
from shoal.events.schema import SourcePlan
from shoal.events.source import open_source

LINES = """user,time,site
1,2026-03-02T00:00:00Z,S1
2,2026-03-02 01:00:00+01:00,S2
,2026-03-02T00:00:00Z,S1
3,yesterday,S1
4,2026-03-02T00:00:00Z,elsewhere
5,2026-03-02T00:00:00Z
6,2026-03-02T00:00:00Z,S3,more
7,"2026-03-02T00:00:00Z","S3"
10,2026-03-02T00:00:00Z,S4
9,1969-03-02T00:00:00Z,S4
"""


def rows_of(batches):
    return sorted(row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))


def plan_of(path, **said):
    return SourcePlan(paths=(str(path),), **said)


def test_a_folder_is_read_as_it_is_here(engine, events):
    folder = events()
    window = (START, START + 10 * HOUR)
    source = engine(3).open_source(plan_of(folder))
    here = rows_of(scan(open_source(folder), sites=SITES, window_us=window))
    assert len(here) > 100
    assert rows_of(scan(source, sites=SITES, window_us=window)) == here
    assert source.contents() == [open_digest(path) for path in sorted(folder.iterdir())]


def open_digest(path):
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_brought_by_user_nobody_is_torn(engine, points):
    source = engine(3).open_source(plan_of(points))
    batches = list(
        source.batches(sites=None, window_us=(START, START + 24 * HOUR), with_flag=False, by_user=True)
    )
    users = [each for batch in batches for each in batch["user"].to_pylist()]
    changes = [one for one, other in zip(users, [None, *users], strict=False) if one != other]
    assert len(changes) == len(set(users)) == 120


def test_uris_and_tables_are_left_to_spark(engine, spark, events):
    folder = events()
    window = (START, START + 10 * HOUR)
    here = rows_of(scan(open_source(folder), sites=SITES, window_us=window))
    spark.read.parquet(str(folder)).createOrReplaceTempView("calls")
    named = [f"file://{folder}", "table:calls"]
    sources = [engine(3).open_source(plan_of(name)) for name in named]
    for source in sources:
        assert rows_of(scan(source, sites=SITES, window_us=window)) == here
    one, other = (source.contents() for source in sources)
    assert one == other  # of all rows, whatever their order
    shuffled = engine(3).open_source(plan_of(f"file://{events(True)}"))
    assert shuffled.contents() == one
    spark.read.parquet(str(folder)).limit(100).createOrReplaceTempView("calls")
    assert engine(3).open_source(plan_of("table:calls")).contents() != one


def test_the_same_rows_of_csv_are_bad(engine, tmp_path):
    for at in range(2):
        (tmp_path / f"part-{at}.csv").write_text(LINES)
    here = check_rows(open_source(tmp_path), sites=SITES)
    there = check_rows(engine(2).open_source(plan_of(tmp_path)), sites=SITES)
    assert dict(there.by_reason) == dict(here.by_reason)
    assert set(here.by_reason) == {
        *("unparsable-row", "null-user", "bad-time", "unknown-site", "out-of-range-time")
    }
    assert (there.rows, there.offset_times) == (here.rows, here.offset_times)
    with pytest.raises(SourceError, match=r"bad-row: .* in part-0.csv, in part-1.csv"):
        there.raise_if_bad()
    dropped = SourcePlan(paths=(str(tmp_path),), on_bad_row="drop")
    window = (START - 24 * HOUR, START + 24 * HOUR)
    good = rows_of(scan(engine(2).open_source(dropped), sites=SITES, window_us=window))
    assert good == rows_of(scan(open_source(tmp_path, on_bad_row="drop"), sites=SITES, window_us=window))
    assert len(good) == 8


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_bad_line_is_dropped_alone(engine, tmp_path, scheme):
    """One user's line neither swallows nor invents rows of others, whatever its quotes and returns."""
    bad = [
        b'8,2026-03-02T00:00:00Z,"S3',  # open at the end
        b'"8,2026-03-02T00:00:00Z,S3',  # open at the start
        b'"8"9,2026-03-02T00:00:00Z,S3',  # text after the closing quote
        b"8,2026-03-02T00:00:00Z,S3\r9,2026-03-02T00:00:00Z,S2",  # a lone carriage return
        b"\xff1,2026-03-02T00:00:00Z,S1",
    ]
    good = [b'"a""b",2026-03-02T00:00:00Z,S3\r', b"2,2026-03-02T00:00:00Z,S2", b"", b"user,time,site"]
    lines = [b"user,time,site", *(line for pair in zip(bad, [*good, good[0]], strict=True) for line in pair)]
    (tmp_path / "one.csv").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    plan = plan_of(f"{scheme}{tmp_path / 'one.csv'}", on_bad_row="drop")
    source, here = engine(2).open_source(plan), open_source(tmp_path / "one.csv", on_bad_row="drop")
    found = check_rows(source, sites=SITES)
    assert (dict(found.by_reason), found.rows) == ({"unparsable-row": 5}, 8)
    assert dict(check_rows(here, sites=SITES).by_reason) == dict(found.by_reason)
    read = rows_of(scan(source, sites=SITES))
    assert read == rows_of(scan(here, sites=SITES))
    assert len(read) == 3


def test_files_that_spark_would_read_otherwise_are_refused(engine, events, tmp_path):
    folder = events()
    (folder / "part-1.parquet").rename(folder / "_part.parquet")
    with pytest.raises(SourceError, match="hidden-file"):
        engine(1).open_source(plan_of(folder / "*.parquet"))
    (folder / "_part.parquet").rename(folder / "p[1].parquet")
    with pytest.raises(SourceError, match="file-name"):
        engine(1).open_source(plan_of(folder))
    time = pa.array([START], pa.timestamp("us"))
    table = pa.table({"user": [1], "time": time, "site": ["S1"]})
    pq.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(SourceError, match="int96-time"):
        engine(1).open_source(plan_of(tmp_path / "old.parquet", time_zone="Europe/Paris"))
    time = pa.array([START], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": [1.5], "time": time, "site": ["S1"]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="user-type"):
        engine(1).open_source(plan_of(tmp_path / "a.parquet"))
    for partitions in (0, -1, 200_000):
        with pytest.raises(PlanError, match="spark-partitions"):
            engine(partitions)


def test_text_that_is_not_utf_8_in_parquet_is_bad(engine, tmp_path):
    raw = pa.array([b"a", b"\xff\xfe"])
    names = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    time = pa.array([START, START], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": names, "time": time, "site": ["S1", "S1"]}), tmp_path / "a.parquet")
    found = check_rows(engine(1).open_source(plan_of(tmp_path / "a.parquet")), sites=SITES)
    assert (dict(found.by_reason), found.rows) == ({"unparsable-row": 1}, 2)


def test_local_times_and_units_are_read_by_the_same_rules(engine, tmp_path):
    table = pa.table(
        {
            "user": ["a", "b"],
            "time": pa.array([START, START + 7 * HOUR], pa.timestamp("us")),
            "site": ["S1", "S2"],
        }
    )
    pq.write_table(table, tmp_path / "naive.parquet")
    said = {"time_zone": "Europe/Paris"}
    here = rows_of(scan(open_source(tmp_path / "naive.parquet", **said), sites=SITES))
    source = engine(1).open_source(plan_of(tmp_path / "naive.parquet", **said))
    assert rows_of(scan(source, sites=SITES)) == here
    assert here[0][1] == START - HOUR
    counted = table.set_column(1, "time", pa.array([START // 1_000_000, START // 1_000_000 + 5]))
    pq.write_table(counted, tmp_path / "counted.parquet")
    source = engine(1).open_source(plan_of(tmp_path / "counted.parquet", time_unit="s"))
    assert [row[1] for row in rows_of(scan(source, sites=SITES))] == [START, START + 5_000_000]
    with pytest.raises(SourceError, match="missing-time-unit"):
        engine(1).open_source(plan_of(tmp_path / "counted.parquet"))


def test_damage_in_the_middle_of_a_file_is_one_error(engine, events):
    folder = events()
    path = folder / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[200:1_500] = bytes(1_300)  # the footer is whole, a page is not
    path.write_bytes(content)
    source = engine(2).open_source(plan_of(folder))
    with pytest.raises(SourceError, match=r'corrupt-file: Spark cannot read ".*part-1.parquet"') as caught:
        check_rows(source, sites=SITES)
    assert caught.value.__cause__ is None
    assert len(str(caught.value).splitlines()) == 2


def test_a_truncated_file_is_named_before_spark_starts_to_work(engine, events):
    folder = events()
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SourceError, match=r"corrupt-parquet: .*part-1.parquet"):
        engine(2).open_source(plan_of(folder))
    with pytest.raises(SourceError, match=r"corrupt-file|unreadable-source"):
        check_rows(engine(2).open_source(plan_of(f"file://{folder}")), sites=SITES)


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        (("/nowhere/events",), "missing-file"),
        (("file:///nowhere/events.parquet",), "missing-source"),
        (("table:nothing",), "missing-source"),
        (("table:one", "table:two"), "mixed-sources"),
        (("file:///a.parquet", "b.parquet"), "mixed-sources"),
        (("file:///a.parquet", "file:///b.csv"), "mixed-formats"),
    ],
)
def test_sources_that_are_none(engine, paths, code):
    with pytest.raises(SourceError, match=code):
        engine(1).open_source(SourcePlan(paths=paths))


def test_headers_of_csv_parts_are_compared(engine, tmp_path):
    (tmp_path / "a.csv").write_text("user,time,site\n1,2026-03-02T00:00:00Z,S1\n")
    (tmp_path / "b.csv").write_text("user,site,time\n1,S1,2026-03-02T00:00:00Z\n")
    with pytest.raises(SourceError, match="different-schemas"):
        engine(1).open_source(plan_of(tmp_path))
    with pytest.raises(SourceError, match="different-schemas"):
        engine(1).open_source(plan_of(f"file://{tmp_path}/*.csv"))
