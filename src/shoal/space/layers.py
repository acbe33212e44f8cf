"""Rows with a geometry, from any of the formats or a zip archive, before they become zones or sites.

Columns of public files: sites in CSV or Parquet, and the ids and names of zones and sites.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import lzma
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from unicodedata import category

import numpy as np
import pyarrow.parquet as pq

from shoal.errors import GeometryError, printable
from shoal.space.checks import crs_name
from shoal.space.formats.geopackage import read_geopackage
from shoal.space.formats.parquet import DAMAGE, read_geoparquet, read_parquet
from shoal.space.formats.rows import (
    FileRows,
    check_size,
    choose_layer,
    read_bounded,
    read_geojson,
    unreadable,
)
from shoal.space.formats.shapefiles import SUFFIXES, read_shapefile

PLANAR = "planar"  # what an owner passes as `crs` for metres with no place on the globe

_BY_EXTENSION = {
    ".geojson": "GeoJSON",
    ".json": "GeoJSON",
    ".parquet": "Parquet",
    ".geoparquet": "Parquet",
    ".shp": "Shapefile",
    ".zip": "zip",
    ".gpkg": "GeoPackage",
}
_BY_FIRST_BYTES = (
    (b"PAR1", "Parquet"),
    (b"SQLite format 3\x00", "GeoPackage"),
    (b"PK\x03\x04", "zip"),
    (b"\x00\x00\x27\x0a", "Shapefile"),
    (b"{", "GeoJSON"),
)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Columns and one geometry per row."""

    path: str
    columns: dict[str, list]
    geometry: np.ndarray
    crs: str | None


def read_layer(path: str | Path, *, layer: str | None = None, crs: str | None = None) -> Layer:
    """All rows of a geometry file; `crs` replaces what the file says ("planar" for no coordinate system)."""
    path = Path(path)
    kind = _kind(path)
    try:
        rows = _read(path, kind, layer)
    except OSError as error:
        raise unreadable(path, error.strerror or error) from None
    if len(rows.geometry) == 0:
        raise GeometryError("empty-file", f"{path} has no rows.", "Check how the file was written.")
    found_crs = crs_name(rows.crs) if crs is None else given_crs(crs)
    return Layer(path=str(path), columns=rows.columns, geometry=rows.geometry, crs=found_crs)


def given_crs(crs: str | None) -> str | None:
    """The coordinate system the owner named."""
    return None if crs is None or is_planar(crs) else crs_name(crs)


def is_planar(crs: str | None) -> bool:
    """Whether the owner said that coordinates are metres with no place on the globe."""
    return crs is not None and crs.lower() == PLANAR


def _kind(path: Path) -> str:
    """The format, which name and first bytes must agree on."""
    check_file(path)
    with path.open("rb") as file:
        head = file.read(64)
    if not head.strip():
        raise GeometryError("empty-file", f"{path} is empty.", "Check how the file was written.")
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    by_name = _BY_EXTENSION.get(path.suffix.lower())
    by_bytes = next((kind for magic, kind in _BY_FIRST_BYTES if head.startswith(magic)), None)
    if by_bytes is None and by_name is None:
        raise GeometryError(
            "format-unknown",
            f"{path} is none of the formats that can be read.",
            "Use GeoJSON, GeoParquet, Shapefile (.shp or .zip) or GeoPackage.",
        )
    if by_name is not None and by_bytes != by_name:
        raise GeometryError(
            "format-mismatch",
            f"{path} is named like a {by_name} file but holds {by_bytes or 'something else'}.",
            "Rename it, or write it again.",
        )
    return by_bytes or ""


def _read(path: Path, kind: str, layer: str | None) -> FileRows:
    if kind == "GeoPackage":
        return read_geopackage(path, layer)
    if kind == "zip":
        return read_zipped(path, layer)
    if kind == "Parquet":
        return read_geoparquet(path)
    choose_layer(path, [path.stem], layer)
    if kind == "GeoJSON":
        return read_geojson(_content(path), path)
    return read_shapefile(_beside(path), path)


def _beside(path: Path) -> dict[str, bytes]:
    """The files of a Shapefile by suffix, whatever their case."""
    parts = {".shp": _content(path)}
    for other in sorted(path.parent.iterdir()):
        suffix = other.suffix.lower()
        if other.stem == path.stem and suffix in SUFFIXES and suffix not in parts and other.is_file():
            parts[suffix] = _content(other)
    return parts


def check_file(path: Path) -> None:
    try:
        is_there = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        is_there = False
    if not str(path).isprintable() and printable(str(path)) != str(path):
        raise GeometryError("file-name", f"the name {path} has control characters in it.", "Rename the file.")
    if not is_there:
        raise GeometryError("file-missing", f"there is no file {path}.", "Check the path.")


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return read_bounded(path, file.read)


_IN_ARCHIVES = (".shp", ".gpkg", ".geojson")
_DAMAGED_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, OverflowError,
    RuntimeError, KeyError, AssertionError,  # encrypted, or packed in a way Python does not know
)  # fmt: skip


def read_zipped(path: Path, layer: str | None = None) -> FileRows:
    """The one file in the archive, in whatever folder, or the one named like `layer`."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = _member(archive, path, layer)
            parts = _unpacked(archive, member, path)
    except _DAMAGED_ARCHIVE as error:
        raise unreadable(path, error) from None
    chosen = parts[member.suffix.lower()]
    if member.suffix.lower() == ".gpkg":
        return read_geopackage(path, None if layer == member.stem else layer, chosen)
    choose_layer(path, [member.stem], layer)
    return read_geojson(chosen, path) if member.suffix.lower() == ".geojson" else read_shapefile(parts, path)


def _member(archive: zipfile.ZipFile, path: Path, layer: str | None) -> PurePosixPath:
    members = [PurePosixPath(name) for name in archive.namelist() if not name.startswith("__MACOSX/")]
    members = [member for member in members if member.suffix.lower() in _IN_ARCHIVES]
    chosen = [member for member in members if member.stem == layer] if len(members) > 1 else members
    if not members:
        raise GeometryError(
            "geometry-missing", f"{path} holds no Shapefile, GeoPackage or GeoJSON.", "Check it."
        )
    if len(chosen) != 1:
        stems = ", ".join(member.stem for member in members[:8])
        raise GeometryError(
            "layer-choice", f"{path} holds {len(members)} files: {stems}.", "Name one of them as the layer."
        )
    return chosen[0]


def _unpacked(archive: zipfile.ZipFile, member: PurePosixPath, path: Path) -> dict[str, bytes]:
    """The chosen file and, for a Shapefile, its parts, by suffix."""

    def content(name: str) -> bytes:
        with archive.open(name) as file:
            return read_bounded(path, file.read)

    parts = {member.suffix.lower(): content(str(member))}
    for name in archive.namelist() if member.suffix.lower() == ".shp" else ():
        other = PurePosixPath(name)
        suffix = other.suffix.lower()
        if other.with_suffix("") == member.with_suffix("") and suffix in SUFFIXES and suffix not in parts:
            parts[suffix] = content(name)
    return parts


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
            message = f"{path} has {len(header)} columns, but row {number} has {len(row)}."
            remedy = "Quote values that contain the separator, or complete the row."
            raise GeometryError("file-unreadable", message, remedy)
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


MOST_LETTERS = 1000  # bytes of an id or a name
DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# The option that names a column, and the same in read_zones and read_sites.
IN_PYTHON = {
    "--zone-id": "id_column",
    "--zone-name": "name_column",
    "--site-id": "id_column",
    "--site-lon": "x_column",
    "--site-lat": "y_column",
}


def text_column(source: Layer, name: str, option: str) -> list[str]:
    """A column as text; whole numbers without a decimal point, missing values as "".

    `option` is how the owner names the column, for the error where it is not there.
    """
    if name not in source.columns:
        raise missing_column(name, list(source.columns), source.path, option)
    texts = [as_text(value) for value in source.columns[name]]
    if option == "--zone-name":  # names may be written with direction marks; nobody sees them
        texts = ["".join(each for each in text if each not in DIRECTION_MARKS) for text in texts]
    for row, text in enumerate(texts, 1):
        fault = bad_text(text)
        if fault:
            message = f"row {row} of column {name!r} has {fault}."
            raise GeometryError("id-text", message, "Write these values as plain text.")
    return texts


def as_text(value: object) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def bad_text(text: str) -> str:
    """What makes a text unfit as an id or a name; "" where nothing does.

    >>> bad_text("Gare 4"), bad_text("a" + chr(7))
    ('', 'a control character or a direction mark')
    """
    if text.isascii() and text.isprintable() and len(text) <= MOST_LETTERS:
        return ""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return "half a surrogate pair, which is no character"
    if any(category(letter) in ("Cc", "Zl", "Zp") or letter in DIRECTION_MARKS for letter in text):
        return "a control character or a direction mark"
    if len(text.encode()) > MOST_LETTERS:
        return f"more than {MOST_LETTERS} bytes"
    if text and not any(category(letter)[0] in "LNPS" for letter in text):
        return "only characters that cannot be seen"
    return ""


def label_column(
    source: Layer, name: str | None, usual: tuple[str, ...], *, row_prefix: str, what: str
) -> tuple[str, ...]:
    """Distinct, non-empty ids from a column, or from the row order when the owner asks for "row"."""
    if name == "row" and "row" not in source.columns:
        count = len(source.geometry)
        digits = max(4, len(str(count)))
        return tuple(f"{row_prefix}{row:0{digits}d}" for row in range(1, count + 1))
    if name is None:
        name = next((column for column in usual if column in source.columns), None)
    if name is None:
        raise GeometryError(
            "id-column-missing",
            f"no {what} id column was named for {source.path}; "
            f"it has {', '.join(source.columns) or 'no columns'}.",
            f"Name it with --{what}-id NAME, or number the rows with --{what}-id row (in Python, id_column).",
        )
    return distinct_ids(text_column(source, name, f"--{what}-id"), what)


def distinct_ids(ids: list[str], what: str) -> tuple[str, ...]:
    first: dict[str, int] = {}
    for row, label in enumerate(ids, 1):
        if not label:
            raise GeometryError("id-empty", f"row {row} has no {what} id.", "Give every row an id.")
        if label in first:
            raise GeometryError(
                "duplicate-id",
                f"{what} ids must differ; {label!r} is in rows {first[label]} and {row}.",
                "Choose another id column, or merge these rows.",
            )
        first[label] = row
    return tuple(ids)


def missing_column(name: str, present: list[str], path: str, option: str) -> GeometryError:
    near = difflib.get_close_matches(name, present, n=3, cutoff=0.5)
    meant = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    remedy = f"{meant}Name one of these columns with {option} (in Python, {IN_PYTHON[option]})."
    return GeometryError(
        "missing-column", f"{path} has no column {name!r}; it has {', '.join(present) or 'none'}.", remedy
    )
