"""Find the files of a source and read their names and types: Parquet footers, CSV header lines."""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import SourceError
from shoal.events.schema import Format, elsewhere

PARQUET_ENDINGS = (".parquet", ".pq")
CSV_ENDINGS = tuple(kind + packed for kind in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".zst"))
ENDINGS = PARQUET_ENDINGS + CSV_ENDINGS


@dataclass(frozen=True)
class Header:
    names: tuple[str, ...]
    types: dict[str, str]  # column name -> DuckDB type
    delimiter: str = ","


def find_files(paths: str | Path | Sequence[str | Path]) -> tuple[tuple[str, ...], Format]:
    """The files meant by paths, globs and folders, sorted, and their one format."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files = [path for each in given for path in expand(str(each))]
    files = list(dict.fromkeys(files))
    if not files:
        raise SourceError("missing-file", "no file was named.", "Name a file, a folder or a glob.")
    formats = {"parquet" if path.lower().endswith(PARQUET_ENDINGS) else "csv" for path in files}
    if len(formats) > 1:
        raise SourceError(
            "mixed-formats",
            "a source is either CSV or Parquet; these files are both.",
            "Name the files of one format only.",
        )
    for path in files:
        check_readable(path)
    return tuple(files), cast(Format, formats.pop())


def expand(path: str) -> list[str]:
    """The files one path, glob or folder stands for."""
    if elsewhere(path):
        raise SourceError(
            "needs-spark",
            f'"{path}" is a table, or has a scheme; only Spark reads these.',
            "Pass --engine spark, or name files on this machine without a scheme.",
        )
    if os.path.isdir(path):
        found = sorted(str(each) for each in Path(path).rglob("*") if is_part(each, Path(path)))
        if not found:
            raise SourceError(
                "empty-folder",
                f'folder "{path}" has no CSV or Parquet file in it.',
                f"Known endings: {listed_endings()}.",
            )
        return found
    if os.path.exists(path):
        if not path.lower().endswith(ENDINGS):
            raise SourceError(
                "unknown-format",
                f'cannot tell the format of "{path}".',
                f"Known endings: {listed_endings()}.",
            )
        return [path]
    found = sorted(each for each in glob.glob(path, recursive=True) if each.lower().endswith(ENDINGS))
    if not found:
        raise SourceError("missing-file", f'no file matches "{path}".', "Check the path, or quote the glob.")
    return found


def is_part(path: Path, folder: Path) -> bool:
    """Files of a known ending, leaving out what tools hide behind a dot or an underscore."""
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return not hidden and path.name.lower().endswith(ENDINGS) and path.is_file()


def listed_endings() -> str:
    return ", ".join(ENDINGS)


def check_readable(path: str) -> None:
    if not os.access(path, os.R_OK):
        raise SourceError("unreadable-file", f'no permission to read "{path}".', "Change its permissions.")
    if os.path.getsize(path) == 0:
        raise SourceError("empty-file", f'file "{path}" has no bytes.', "Write it again, or leave it out.")


def read_header(files: Sequence[str], file_format: Format, delimiter: str | None) -> Header:
    """Names and types shared by all files; their rows are not read."""
    headers = [
        parquet_header(path) if file_format == "parquet" else csv_header(path, delimiter) for path in files
    ]
    header = headers[0]
    for path, found in zip(files, headers, strict=True):
        if found != header:
            raise different_schemas(files[0], header, path, found)
    if file_format == "parquet":
        types = duckdb_types(files[0])
        header = Header(tuple(types), types)
    return header


def parquet_header(path: str) -> Header:
    try:
        schema = pq.read_metadata(path).schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise corrupt_parquet(path, error) from None
    check_names(path, schema.names)
    names = tuple(sorted(schema.names))  # parts may order columns differently: they are read by name
    return Header(names, {name: str(schema.field(name).type) for name in names})


def one_file(path: str) -> str:
    """A file's name for DuckDB, which takes *, ? and [ in it for a pattern and may read another file.

    >>> one_file("calls[1].parquet")
    'calls[[]1].parquet'
    """
    return re.sub(r"[*?[]", r"[\g<0>]", path)


def duckdb_types(path: str) -> dict[str, str]:
    with duckdb.connect() as connection:
        try:
            relation = connection.execute(
                "SELECT * FROM read_parquet(?, hive_partitioning = false) LIMIT 0", [one_file(path)]
            )
            return {name: str(kind) for name, kind, *_ in relation.description or ()}
        except duckdb.Error as error:
            raise corrupt_parquet(path, error) from None


def corrupt_parquet(path: str, error: Exception) -> SourceError:
    return SourceError(
        "corrupt-parquet",
        f'"{path}" is not a whole Parquet file ({str(error).splitlines()[0][:120]}).',
        "Copy or write it again; a truncated copy is the usual cause.",
    )


def csv_header(path: str, delimiter: str | None) -> Header:
    """The names in the first line."""
    try:
        with open_text(path, errors="surrogateescape") as lines:
            first = lines.readline()
            first.encode()  # bytes that are not UTF-8 further down are a matter of rows
    except (UnicodeError, pa.ArrowException, OSError, EOFError) as error:
        raise SourceError(
            "unreadable-csv",
            f'the header of "{path}" cannot be read ({str(error)[:120]}).',
            "CSV must be UTF-8 text, plain or packed as .gz or .zst.",
        ) from None
    delimiter = delimiter or max(",;\t|", key=first.count)
    names = next(csv.reader([first.rstrip("\r\n")], delimiter=delimiter), [])
    if not names or not all(name.strip() for name in names):
        raise SourceError(
            "bad-header",
            f'the first line of "{path}" must name every column.',
            "Add a header line to the file.",
        )
    check_names(path, names)
    return Header(tuple(names), dict.fromkeys(names, "VARCHAR"), delimiter)


def open_packed(path: str) -> Any:
    lowered = path.lower()
    packed = "gzip" if lowered.endswith(".gz") else "zstd" if lowered.endswith(".zst") else None
    return pa.input_stream(path, compression=packed)


def open_text(path: str, errors: str = "strict") -> io.TextIOWrapper:
    """A CSV file as text, unpacked by its ending; a byte-order mark is skipped."""
    return io.TextIOWrapper(open_packed(path), encoding="utf-8-sig", errors=errors, newline="")


def check_names(path: str, names: Sequence[str]) -> None:
    # DuckDB compares names without case, so "User" and "user" are duplicates too.
    twice = [name for name, count in Counter(name.casefold() for name in names).items() if count > 1]
    if twice:
        raise SourceError(
            "duplicate-column", f'"{path}" has two columns called "{twice[0]}".', "Rename one of them."
        )


def different_schemas(first: str, header: Header, path: str, found: Header) -> SourceError:
    odd = sorted(set(header.types.items()) ^ set(found.types.items()))
    what = f'column "{odd[0][0]}"' if odd else "the order or delimiter of columns"
    return SourceError(
        "different-schemas",
        f'all files of a source must have the same columns; "{path}" differs from "{first}" in {what}.',
        "Write the parts again with one schema, or read them one by one.",
    )
