"""Find the files of a source and read their names and types: Parquet footers, CSV header lines."""

from __future__ import annotations

import csv
import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.errors import PlanError, SourceError, printable
from shoal.events.schema import Format, elsewhere

PARQUET_ENDINGS = (".parquet", ".pq")
CSV_ENDINGS = tuple(kind + packed for kind in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".zst"))
ENDINGS = PARQUET_ENDINGS + CSV_ENDINGS
CHUNK = 1 << 22
MOST_MS = (1 << 63) // 1000 - 1  # milliseconds that fit into microseconds of 64 bits
MAX_LINE = 1 << 21  # bytes; a longer line is a bad row
FREE_BYTES = 1 << 26  # up to here a file may be packed as tightly as it likes
MOST_UNPACKED = 200  # times the packed bytes; tables of events reach about 30
LONGEST_TEXT = 1 << 16  # bytes of a value in Parquet, of any column that is read
DAMAGE = (pa.ArrowException, duckdb.Error, OSError, ValueError, LookupError, MemoryError)


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
        files = sorted(str(each) for each in Path(path).rglob("*") if is_part(each, Path(path)))
        if not files:
            raise SourceError(
                "empty-folder",
                f'folder "{path}" has no CSV or Parquet file in it.',
                f"Known endings: {listed_endings()}.",
            )
        return files
    if os.path.exists(path):
        if not path.lower().endswith(ENDINGS):
            raise SourceError(
                "unknown-format",
                f'cannot tell the format of "{path}".',
                f"Known endings: {listed_endings()}.",
            )
        return [path]
    files = sorted(each for each in glob.glob(path, recursive=True) if each.lower().endswith(ENDINGS))
    if not files:
        raise SourceError("missing-file", f'no file matches "{path}".', "Check the path, or quote the glob.")
    return files


def is_part(path: Path, folder: Path) -> bool:
    """Files of a known ending, leaving out what tools hide behind a dot or an underscore."""
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return not hidden and path.name.lower().endswith(ENDINGS) and path.is_file()


def listed_endings() -> str:
    return ", ".join(ENDINGS)


def check_readable(path: str) -> None:
    if not path.isprintable() and printable(path) != path:
        raise SourceError("file-name", f'the name "{path}" has control characters in it.', "Rename the file.")
    if not os.access(path, os.R_OK):
        raise SourceError("unreadable-file", f'no permission to read "{path}".', "Change its permissions.")
    if os.path.getsize(path) == 0:
        raise SourceError("empty-file", f'file "{path}" has no bytes.', "Write it again, or leave it out.")


def read_header(files: Sequence[str], file_format: Format, delimiter: str | None) -> Header:
    """Names and types shared by all files; their rows are not read."""
    check_delimiter(delimiter)
    headers = [
        parquet_header(path) if file_format == "parquet" else csv_header(path, delimiter) for path in files
    ]
    header = headers[0]
    for path, other in zip(files, headers, strict=True):
        if other != header:
            raise different_schemas(files[0], header, path, other)
    if file_format == "parquet":
        types = duckdb_types(files[0])
        header = Header(tuple(types), types)
    return header


def parquet_header(path: str) -> Header:
    try:
        schema = pq.read_metadata(path).schema.to_arrow_schema()
    except DAMAGE as error:
        raise corrupt_parquet(path, error) from None
    check_names(path, schema.names)
    names = tuple(sorted(schema.names))  # parts may order columns differently: they are read by name
    return Header(names, {name: str(schema.field(name).type) for name in names})


@dataclass(frozen=True)
class Chunk:
    """One stored piece of a column, as the footer of the file describes it."""

    group: int
    name: str  # with the path below it; of lists: time.list.element
    kind: str  # the physical type
    values: int
    size: int
    packed: int

    @property
    def is_text(self) -> bool:
        return self.kind.endswith("BYTE_ARRAY")


def chunks(path: str, names: Collection[str]) -> list[Chunk]:
    """Every stored piece of these columns; by DuckDB, since pyarrow aborts on some damaged footers."""
    try:
        with locked_connection() as connection:
            rows = connection.execute(
                "SELECT row_group_id, replace(path_in_schema, ', ', '.'), type, num_values,"
                " total_uncompressed_size, total_compressed_size FROM parquet_metadata(?)",
                [one_file(path)],
            ).fetchall()
    except duckdb.ConversionException:  # extreme milliseconds in the statistics, which are bad rows alone
        rows = _described_by_arrow(pq.read_metadata(path))
    stored = (Chunk(*row) for row in rows)
    return [each for each in stored if each.name in names or each.name.split(".")[0] in names]


def _described_by_arrow(about: pq.FileMetaData) -> list[tuple]:
    described = []
    for group in range(about.num_row_groups):
        for at in range(about.num_columns):
            chunk = about.row_group(group).column(at)
            sizes = chunk.total_uncompressed_size, chunk.total_compressed_size
            described.append((group, chunk.path_in_schema, chunk.physical_type, chunk.num_values, *sizes))
    return described


@lru_cache(maxsize=1 << 16)
def check_texts(path: str, names: tuple[str, ...], _changed_ns: int) -> None:
    """Refuse long texts: DuckDB copies a value of a dictionary into each of the 2,048 rows read at a time."""
    try:
        stored = chunks(path, names)
        texts = list(dict.fromkeys(chunk.name for chunk in stored if chunk.is_text))
        with pq.ParquetFile(path, read_dictionary=texts, buffer_size=LONGEST_TEXT) as file:
            for chunk in stored:
                long = chunk.size > LONGEST_TEXT * max(chunk.values, 1)
                long |= chunk.size > max(FREE_BYTES, MOST_UNPACKED * chunk.packed)
                if long or (chunk.is_text and longest_entry(file, chunk) > LONGEST_TEXT):
                    raise SourceError(
                        "oversized-value",
                        f'"{path}" has values of more than {LONGEST_TEXT} bytes in column "{chunk.name}", or '
                        f"packs them to less than 1/{MOST_UNPACKED} of their size.",
                        "No id or time is that long: choose another column (--column) or repair the file.",
                    )
    except DAMAGE as error:
        raise corrupt_parquet(path, error) from None


def longest_entry(file: pq.ParquetFile, chunk: Chunk) -> int:
    """Bytes of the longest value in the dictionary of a column, which one row is enough to read."""
    for batch in file.iter_batches(1, row_groups=[chunk.group], columns=[chunk.name], use_threads=False):
        column = batch.column(0)
        while pa.types.is_nested(column.type):
            column = column.values
        values = getattr(column, "dictionary", column)
        if pa.types.is_decimal(values.type) or pa.types.is_floating(values.type):
            return 0  # stored as bytes of a fixed, small size
        lengths = pc.call_function("binary_length", [values])
        return pc.call_function("max", [lengths]).as_py() or 0
    return 0


def has_extreme_times(path: str, names: Collection[str]) -> bool:
    """Whether the footer admits times in milliseconds that do not fit into microseconds."""
    try:
        about = pq.read_metadata(path)
        kinds = {about.schema.column(at).path: about.schema.column(at) for at in range(about.num_columns)}
        in_ms = [name for name in names if name in kinds and "milliseconds" in str(kinds[name].logical_type)]
        with pq.ParquetFile(path, metadata=about, buffer_size=LONGEST_TEXT) as file:
            return any(_may_be_extreme(file, name, list(kinds).index(name)) for name in in_ms)
    except DAMAGE as error:
        raise corrupt_parquet(path, error) from None


def _may_be_extreme(file: pq.ParquetFile, name: str, at: int) -> bool:
    for group in range(file.metadata.num_row_groups):
        # A row is read first: it raises an error where the description of the column would abort the process.
        next(file.iter_batches(1, row_groups=[group], columns=[name], use_threads=False), None)
        bounds = file.metadata.row_group(group).column(at).statistics
        if bounds is None or not bounds.has_min_max or max(-bounds.min_raw, bounds.max_raw) > MOST_MS:
            return True
    return False


def one_file(path: str) -> str:
    """A file's name for DuckDB, which takes *, ? and [ in it for a pattern and may read another file.

    >>> one_file("calls[1].parquet")
    'calls[[]1].parquet'
    """
    return re.sub(r"[*?[]", r"[\g<0>]", path)


def locked_connection(**settings: str | int) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that loads no extension and whose settings cannot be changed any more."""
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    # Text with an offset is read in UTC.
    for name, value in {"TimeZone": "UTC", **settings, "lock_configuration": "true"}.items():
        text = str(value).replace("'", "''")
        connection.execute(f"SET GLOBAL {name} = '{text}'")
    return connection


def duckdb_types(path: str) -> dict[str, str]:
    with locked_connection() as connection:
        try:
            relation = connection.execute(
                "SELECT * FROM read_parquet(?, hive_partitioning = false) LIMIT 0", [one_file(path)]
            )
            return {name: str(kind) for name, kind, *_ in relation.description or ()}
        except (duckdb.Error, UnicodeError, MemoryError) as error:
            raise corrupt_parquet(path, error) from None


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def corrupt_parquet(path: str, error: Exception) -> SourceError:
    return SourceError(
        "corrupt-parquet",
        f'"{path}" is not a whole Parquet file ({first_line(error)}).',
        "Copy or write it again; a truncated copy is the usual cause.",
    )


def csv_header(path: str, delimiter: str | None) -> Header:
    """The names in the first line."""
    try:
        content = next(whole_lines(unpacked(path)), b"")
    except (pa.ArrowException, OSError) as error:
        raise corrupt_csv(path, error) from None
    line = content.split(b"\n", 1)[0].removesuffix(b"\r").removeprefix(b"\xef\xbb\xbf")
    return header_line(path, line, delimiter)


def header_line(path: str, line: bytes, delimiter: str | None) -> Header:
    """Names in the bytes of a header line; the delimiter, if not given, is its most frequent of , ; tab |."""
    try:
        text = line[: MAX_LINE + 1].decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            "unreadable-csv",
            f'the header of "{path}" cannot be read ({str(error)[:120]}).',
            "CSV must be UTF-8 text, plain or packed as .gz or .zst.",
        ) from None
    delimiter = delimiter or max(",;\t|", key=text.count)
    try:
        names = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:  # open quotes, a carriage return
        names = []
    if len(line) > MAX_LINE or not names or not all(name.strip() for name in names):
        raise SourceError(
            "bad-header",
            f'the first line of "{path}" must name every column.',
            "Add a header line to the file.",
        )
    check_names(path, names)
    return Header(tuple(names), dict.fromkeys(names, "VARCHAR"), delimiter)


def check_delimiter(delimiter: str | None) -> None:
    if (delimiter is not None and not re.fullmatch("[\t -~]", delimiter)) or delimiter == '"':
        raise PlanError(
            "delimiter",
            f"the delimiter must be one ASCII character other than a quote; got {delimiter!r}.",
            "Pass --delimiter ';', say, or leave it out: it is then read from the header line.",
        )


def unpacked(path: str, tell: Callable[[float], None] | None = None) -> Iterator[bytes]:
    """The bytes of a file in pieces, unpacked by its ending; `tell` is called with the share read so far."""
    lowered = path.lower()
    codec = "gzip" if lowered.endswith(".gz") else "zstd" if lowered.endswith(".zst") else None
    size, total = os.path.getsize(path), 0
    with pa.OSFile(path) as raw:
        stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
        while piece := stream.read(CHUNK):
            total += len(piece)
            if codec is not None and total > max(FREE_BYTES, MOST_UNPACKED * raw.tell()):
                raise SourceError(
                    "packed-too-tightly",
                    f'"{path}" unpacks to more than {MOST_UNPACKED} times its size.',
                    "No table of events does; unpack the file and look at it.",
                )
            if tell is not None:
                tell(raw.tell() / max(size, 1))
            yield piece


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces cut after line feeds; of a line above MAX_LINE enough is kept to see that it is too long."""
    rest = b""
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        else:
            rest = (rest + piece)[: MAX_LINE + 8]
    if rest:
        yield rest


def corrupt_csv(path: str, error: Exception) -> SourceError:
    return SourceError(
        "corrupt-packed-file" if path.lower().endswith((".gz", ".zst")) else "unreadable-csv",
        f'"{path}" cannot be read to its end ({str(error)[:120]}).',
        "Copy or write it again; a truncated copy is the usual cause.",
    )


def check_names(path: str, names: Sequence[str]) -> None:
    # DuckDB compares names without case, so "User" and "user" are duplicates too.
    twice = [name for name, count in Counter(name.casefold() for name in names).items() if count > 1]
    odd = [name for name in names if not name.isprintable() and printable(name) != name]
    if odd:
        raise SourceError(
            "column-name",
            f'"{path}" has a column name with control characters: "{odd[0][:80]}".',
            "Rename the column.",
        )
    if twice:
        raise SourceError(
            "duplicate-column", f'"{path}" has two columns called "{twice[0]}".', "Rename one of them."
        )


def different_schemas(first: str, header: Header, path: str, other: Header) -> SourceError:
    odd = sorted(set(header.types.items()) ^ set(other.types.items()))
    what = f'column "{odd[0][0]}"' if odd else "the order or delimiter of columns"
    return SourceError(
        "different-schemas",
        f'all files of a source must have the same columns; "{path}" differs from "{first}" in {what}.',
        "Write the parts again with one schema, or read them one by one.",
    )
