"""One user's quotes cannot touch another user's rows."""

import csv
import gzip

import pytest

from shoal.errors import SourceError
from shoal.events.checks import check_rows
from shoal.events.quotes import check_quotes
from shoal.events.readers import scan
from shoal.events.source import open_source

HEADER = "user,time,site,note\n"
GOOD = "".join(f"{i},2026-06-01T12:00:00Z,gare,fine\n" for i in range(2000))

BROKEN = {
    "open quote": ('9,2026-06-01T12:00:00Z,gare,"open\n', 2),
    "closed lines later": ('9,2026-06-01T12:00:00Z,gare,"x\n8,2026-06-01T12:00:00Z,gare,y"\n', 2),
    "line break in a field": ('9,2026-06-01T12:00:00Z,gare,"two\nlines"\n', 2),
    "return in a field": ('9,2026-06-01T12:00:00Z,gare,"two\rlines"\n', 2),
    "text after the quote": ('9,2026-06-01T12:00:00Z,gare,"a"b\n', 2),
    "single quote character": ('9,2026-06-01T12:00:00Z,gare,"\n', 2),
    "odd number inside": ('9,2026-06-01T12:00:00Z,gare,"a""\n', 2),
}
FINE = {
    "quoted": '9,2026-06-01T12:00:00Z,"gare","a ""word"", quoted"\n',
    "empty quotes": '9,2026-06-01T12:00:00Z,gare,""\n',
    "inch mark in a plain field": '9,2026-06-01T12:00:00Z,gare,5" pipe\n',
    "no last line end": '9,2026-06-01T12:00:00Z,gare,"x"',
}


@pytest.mark.parametrize("on_bad_row", ["stop", "drop"])
@pytest.mark.parametrize("name", BROKEN)
def test_the_file_is_refused_whole(tmp_path, name, on_bad_row):
    text, line = BROKEN[name]
    path = tmp_path / "a.csv"
    path.write_text(HEADER + text + GOOD, newline="")
    source = open_source(path, on_bad_row=on_bad_row)
    for read in (lambda: check_rows(source), lambda: list(scan(source))):
        with pytest.raises(SourceError, match=rf"csv-quotes: .* line {line} of"):
            read()


@pytest.mark.parametrize("name", FINE)
def test_well_quoted_rows_are_read(tmp_path, name):
    path = tmp_path / "a.csv"
    path.write_text(HEADER + GOOD + FINE[name], newline="")
    report = check_rows(open_source(path))
    assert (report.rows, report.bad) == (2001, 0)


def test_one_long_field_full_of_rows_invents_nobody(tmp_path):
    """A correct writer quotes line breaks; a parallel reader would take what is inside for rows."""
    inside = "".join(f"fake{i},2026-06-01T12:00:00Z,gare,x\n" for i in range(40_000))
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "time", "site", "note"])
        writer.writerow(["bad", "2026-06-01T12:00:00Z", "gare", inside])
    with pytest.raises(SourceError, match="csv-quotes"):
        list(scan(open_source(path, on_bad_row="drop")))


def test_quotes_are_followed_across_pieces_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.events.quotes.CHUNK", 7)
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wt", newline="") as file:
        file.write(HEADER + FINE["quoted"] * 3 + BROKEN["line break in a field"][0])
    with pytest.raises(SourceError, match="line 5 of"):
        check_quotes([str(path)], ",")


def test_a_source_without_rows_is_a_source(tmp_path):
    (tmp_path / "a.csv").write_text(HEADER)
    source = open_source(tmp_path / "a.csv")
    assert check_rows(source).rows == 0
    assert list(scan(source)) == []
