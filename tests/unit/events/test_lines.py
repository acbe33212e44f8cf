"""Every line of CSV is read on its own: one user's line never changes how another's is read."""

import csv
import gzip
import random
from collections import Counter

import pyarrow as pa
import pytest

from shoal.errors import SourceError
from shoal.events.lines import lines_of
from shoal.events.readers import check_rows, scan
from shoal.events.source import open_source

HEADER = b"user,time,site,note\n"
ROW = b"%d,2026-06-01T12:00:00Z,gare,fine\n"
GOOD = b"".join(ROW % i for i in range(100))

BROKEN = {
    "open quote": b'9,2026-06-01T12:00:00Z,gare,"open\n',
    "return in a field": b'9,2026-06-01T12:00:00Z,gare,"two\rlines"\n',
    "lone return": b"9,2026-06-01T12:00:00Z,gare,two\rlines\n",
    "returns instead of line feeds": b"9,2026-06-01T12:00:00Z,gare,a\r8,2026-06-01T12:00:00Z,gare,b\n",
    "text after the quote": b'9,2026-06-01T12:00:00Z,gare,"a"b\n',
    "single quote character": b'9,2026-06-01T12:00:00Z,gare,"\n',
    "odd number inside": b'9,2026-06-01T12:00:00Z,gare,"a""\n',
    "too few fields": b"9,2026-06-01T12:00:00Z,gare\n",
    "too many fields": b"9,2026-06-01T12:00:00Z,gare,a,b\n",
    "NUL": b"9,2026-06-01T12:00:00Z,ga\0re,a\n",
    "not UTF-8": b"9,2026-06-01T12:00:00Z,\xff,a\n",
    "overlong UTF-8": b"9,2026-06-01T12:00:00Z,\xc0\xaf,a\n",
    "surrogate in UTF-8": b"9,2026-06-01T12:00:00Z,\xed\xa0\x80,a\n",
    "above U+10FFFF": b"9,2026-06-01T12:00:00Z,\xf4\x90\x80\x80,a\n",
    "cut letter": b"9,2026-06-01T12:00:00Z,\xe2\x82,a\n",
    "very long": b"9,2026-06-01T12:00:00Z,gare," + b"x" * (1 << 21) + b"\n",
}
FINE = {
    "quoted": b'9,2026-06-01T12:00:00Z,"gare","a ""word"", quoted"\n',
    "empty quotes": b'9,2026-06-01T12:00:00Z,gare,""\n',
    "inch mark in a plain field": b'9,2026-06-01T12:00:00Z,gare,5" pipe\n',
    "no last line end": b'9,2026-06-01T12:00:00Z,gare,"x"',
    "return before the line feed": b"9,2026-06-01T12:00:00Z,gare,x\r\n",
    "unused bytes": b"9,2026-06-01T12:00:00Z,gare,\xff\n",
    "letters": "9,2026-06-01T12:00:00Z,Gr\u00e4be \u20ac \U0001d11e,\n".encode(),
    "blank and repeated header": b"\n\r\nuser,time,site,note\n9,2026-06-01T12:00:00Z,gare,x\n",
}


def write(folder, content: bytes):
    path = folder / "a.csv"
    path.write_bytes(content)
    return path


def rows_of(path, **settings) -> Counter:
    source = open_source(path, on_bad_row="drop", **settings)
    return Counter(tuple(row.values()) for batch in scan(source) for row in batch.to_pylist())


@pytest.mark.parametrize("name", BROKEN)
def test_one_bad_line_is_dropped_or_stops(tmp_path, name):
    path = write(tmp_path, HEADER + GOOD + BROKEN[name] + GOOD)
    assert rows_of(path) == rows_of(write(tmp_path, HEADER + GOOD + GOOD))
    source = open_source(write(tmp_path, HEADER + GOOD + BROKEN[name] + GOOD))
    report = check_rows(source)
    assert report.by_reason == {"unparsable-row": 1}
    assert report.examples["unparsable-row"] == ((str(path), 102),)
    with pytest.raises(SourceError, match=r"bad-row: .*line 102 of"):
        list(scan(source))


@pytest.mark.parametrize("name", FINE)
def test_well_written_lines_are_read(tmp_path, name):
    source = open_source(write(tmp_path, HEADER + GOOD + FINE[name]))
    report = check_rows(source)
    assert (report.rows, report.bad) == (101, 0)
    assert sum(batch.num_rows for batch in scan(source)) == 101


def test_fields_are_those_of_the_csv_module(tmp_path):
    """An independent oracle for lines without line breaks."""
    rng = random.Random(1)
    records = [["".join(rng.choices('ab" ,;\u00e9', k=5)) for _ in range(4)] for _ in range(500)]
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
        writer.writerows([["user", "time", "site", "note"], *records])
    source = open_source(path, columns={"user": "user", "site": "site"})
    lines = path.read_bytes().split(b"\n")[1:-1]
    columns, which = lines_of(pa.array(lines), source)
    assert which.tolist() == list(range(500))
    assert columns["r_user"].to_pylist() == [record[0] for record in records]
    assert columns["r_site"].to_pylist() == [record[2] for record in records]
    assert not any(columns["unparsable"].to_pylist())


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 22])
def test_lines_of_one_user_never_change_how_another_line_is_read(tmp_path, monkeypatch, chunk):
    """Rows of a file are the rows of its parts, whatever bytes the lines hold, on either engine's path."""
    monkeypatch.setattr("shoal.events.files.CHUNK", chunk)
    rng = random.Random(chunk)
    pieces = [b'"', b'""', b",", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf", b"gare", b";", b"\t", b"'", b"\\"]
    pieces += [b"2026-06-01T12:00:00Z", b"2026-06-01T12:00:00", b"2026-06-01T12:00:00+02:00", b"1780000000"]
    pieces += [b"user,time,site,note", b"7,2026-06-01T12:00:00Z,gare,"]

    def line() -> bytes:
        if rng.random() < 0.5:
            return b"%d,%s,gare,%s" % (rng.randrange(9), rng.choice(pieces[12:15]), rng.choice(pieces))
        return b"".join(rng.choices(pieces, k=rng.randrange(1, 9)))

    for zone in (None, "Europe/Paris"):
        mine, others = [line() for _ in range(40)], [line() for _ in range(40)]
        both = [*mine, *others]
        rng.shuffle(both)
        read = [
            rows_of(write(tmp_path, HEADER + b"".join(each + b"\n" for each in lines)), time_zone=zone)
            for lines in (both, mine, others)
        ]
        assert read[0] == read[1] + read[2]
        assert read[1]
        source = open_source(tmp_path / "a.csv", time_zone=zone)
        alone = [lines_of(pa.array([each]), source)[0] for each in others]
        together = lines_of(pa.array(others), source)[0]
        for name, column in together.items():
            assert column.to_pylist() == [value for each in alone for value in each[name].to_pylist()]


def test_line_breaks_in_quotes_and_sources_without_rows(tmp_path):
    path = write(tmp_path, HEADER + b'9,2026-06-01T12:00:00Z,gare,"two\n' + ROW % 1 + b'x"\n')
    assert sum(rows_of(path).values()) == 1
    assert check_rows(open_source(path)).by_reason == {"unparsable-row": 2}
    source = open_source(write(tmp_path, HEADER))
    assert check_rows(source).rows == 0
    assert list(scan(source)) == []


def test_times_stand_for_themselves_where_bad_rows_are_dropped(tmp_path):
    path = write(
        tmp_path, HEADER + b"1,2026-06-01T12:00:00Z,gare,\n2,2026-06-01T12:00:00,gare,\n3,1780000000,gare,\n"
    )
    assert [row[0] for row in rows_of(path)] == ["1"]
    assert sorted(row[:2] for row in rows_of(path, time_zone="Europe/Paris")) == [
        ("1", 1780315200000000),
        ("2", 1780308000000000),
    ]
    with pytest.raises(SourceError, match="mixed-time-zones"):
        list(scan(open_source(path)))


def test_packed_files_are_read_to_their_end_or_refused(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(HEADER + GOOD))
    assert sum(rows_of(path).values()) == 100
    path.write_bytes(gzip.compress(HEADER + GOOD * 100)[:-20])
    with pytest.raises(SourceError, match="corrupt-packed-file"):
        check_rows(open_source(path, on_bad_row="drop"))
    path.write_bytes(gzip.compress(HEADER + bytes(200_000_000)))
    with pytest.raises(SourceError, match="packed-too-tightly"):
        check_rows(open_source(path))
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"user," * 10_000_000))
    with pytest.raises(SourceError, match=r"bad-header|packed-too-tightly"):
        open_source(path)


@pytest.mark.parametrize("delimiter", ["ab", "", '"', "\n", "\r", "\0", "\u00a7"])
def test_a_delimiter_is_one_character(tmp_path, delimiter):
    from shoal.errors import PlanError

    with pytest.raises(PlanError, match="delimiter"):
        open_source(write(tmp_path, HEADER + GOOD), delimiter=delimiter)


def test_connections_are_locked_and_load_no_extension(tmp_path):
    import duckdb

    from shoal.events.source import limited_connection

    with limited_connection() as connection:
        for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
            assert connection.execute(f"SELECT current_setting('{name}')").fetchall() == [(False,)]
        with pytest.raises(duckdb.Error, match="locked"):
            connection.cursor().execute("SET memory_limit = '9GB'")
