"""Plain tables without geometry: the columns of a CSV or Parquet file of sites."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from shoal.errors import GeometryError
from shoal.space.formats.parquet import DAMAGE, read_parquet
from shoal.space.formats.rows import check_size, read_bounded, unreadable
from shoal.space.layers import check_file

_CSV_NAMES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")
_SEPARATORS = ",;\t|"


def plain_columns(path: Path) -> dict[str, list] | None:
    """Columns by name, or None where the file holds geometry. All of a CSV is text: ids keep their zeros."""
    check_file(path)
    columns = None
    if path.name.lower().endswith(_CSV_NAMES):
        columns = _csv_columns(path)
    elif path.suffix.lower() == ".parquet":
        columns = _parquet_columns(path)
    if columns is not None and not any(columns.values()):
        raise GeometryError("empty-file", f"{path} has no rows.", "Check how the file was written.")
    return columns


def _csv_columns(path: Path) -> dict[str, list]:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rb") as file:
            text = read_bounded(path, file.read).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        raise _mismatch(path, "CSV in UTF-8") from None
    if "\x00" in text:
        raise _mismatch(path, "CSV in UTF-8")
    lines = text.splitlines()
    if not lines:
        raise GeometryError("empty-file", f"{path} is empty.", "Check how the file was written.")
    separator = max(_SEPARATORS, key=lines[0].count)
    check_size(path, cells=sum(line.count(separator) + 1 for line in lines))
    try:
        header, *rows = [row for row in csv.reader(lines, delimiter=separator) if row] or [[]]
    except csv.Error as error:  # a field of more than 128 KiB
        raise unreadable(path, error) from None
    header = [name.strip() for name in header]
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise unreadable(path, f"two columns are called {twice[0]!r}.")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise GeometryError(
                "file-unreadable",
                f"{path} has {len(header)} columns, but row {number} has {len(row)}.",
                "Quote values that contain the separator, or complete the row.",
            )
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def _parquet_columns(path: Path) -> dict[str, list] | None:
    with path.open("rb") as file:
        head = file.read(4)
    if not head:
        raise GeometryError("empty-file", f"{path} is empty.", "Check how the file was written.")
    if head != b"PAR1":
        raise _mismatch(path, "Parquet")
    try:
        if b"geo" in (pq.read_schema(path).metadata or {}):
            return None
    except DAMAGE as error:
        raise unreadable(path, error) from None
    return read_parquet(path)[0]


def _mismatch(path: Path, kind: str) -> GeometryError:
    return GeometryError(
        "format-mismatch",
        f"{path} is named like {kind} but holds something else.",
        "Rename it, or write it again.",
    )
