"""Sites: the public points, such as antennas or stations, that events name.

Columns of public files: sites in CSV or Parquet, and the ids and names of zones and sites.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import category

import numpy as np
import pyarrow.parquet as pq
import shapely

from shoal.errors import GeometryError
from shoal.space.checks import check_coordinates, kind_name
from shoal.space.formats.parquet import DAMAGE, read_parquet
from shoal.space.formats.rows import check_size, read_bounded, unreadable
from shoal.space.layers import Layer, check_file, given_crs, is_planar, read_layer
from shoal.space.projection import LONLAT, geometry_digest

_ID_NAMES = ("site", "site_id", "id")
_LONLAT_NAMES = (("lon", "lat"), ("longitude", "latitude"), ("lng", "lat"), ("long", "lat"))
_PLANAR_NAMES = (("x", "y"), ("x_m", "y_m"), ("easting", "northing"))


@dataclass(frozen=True, eq=False)
class Sites:
    """Points with ids, in `crs` ("EPSG:4326", another name, or None for planar metres)."""

    ids: tuple[str, ...]
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    crs: str | None = LONLAT

    @property
    def count(self) -> int:
        return len(self.ids)

    def digest(self) -> str:
        coordinates = np.column_stack([self.x, self.y]).astype("<f8").tobytes()
        return geometry_digest(self.crs, self.ids, [coordinates])


def read_sites(
    path: str | Path,
    *,
    id_column: str | None = None,
    x_column: str | None = None,
    y_column: str | None = None,
    crs: str | None = None,
) -> Sites:
    """Sites from CSV or Parquet with coordinate columns, or points in GeoJSON, GeoParquet, GeoPackage.

    `id_column` may be left out for a column `site`, `site_id` or `id`; "row" numbers the rows (S0001).
    Columns `lon` and `lat` are degrees, `x` and `y` planar metres; for other names or systems, say the `crs`.
    """
    path = Path(path)
    columns = plain_columns(path)
    if columns is None:
        source = read_layer(path, crs=crs)
        _check_points(source)
    else:
        source = _with_points(columns, path, x_column, y_column, crs)
    xy = shapely.get_coordinates(source.geometry)
    check_coordinates(xy, source.crs, "sites", planar_said=is_planar(crs))
    ids = label_column(source, id_column, _ID_NAMES, row_prefix="S", what="site")
    return Sites(ids=ids, x=xy[:, 0].copy(), y=xy[:, 1].copy(), crs=source.crs)


def named_sites(
    path: str | Path,
    *,
    site_id: str | None = None,
    site_lon: str | None = None,
    site_lat: str | None = None,
    sites_crs: str | None = None,
) -> Sites:
    """Sites as a plan describes them: columns named as lon and lat hold degrees, unless a system is said."""
    crs = LONLAT if sites_crs is None and site_lon is not None else sites_crs
    return read_sites(path, id_column=site_id, x_column=site_lon, y_column=site_lat, crs=crs)


def _check_points(source: Layer) -> None:
    kind = shapely.get_type_id(source.geometry)
    other = np.flatnonzero((kind != 0) | shapely.is_empty(source.geometry))
    if len(other):
        first = other[0]
        raise GeometryError(
            "geometry-type" if kind[first] > 0 else "geometry-empty",
            f"sites must be points; row {first + 1} has a {kind_name(source.geometry[first])}"
            f"{'' if kind[first] > 0 else ' with no coordinates'}.",
            "Polygons are zones; for sites take a point of each.",
        )


def _with_points(
    columns: dict[str, list], path: Path, x_column: str | None, y_column: str | None, crs: str | None
) -> Layer:
    """Rows with a point each, from the coordinate columns that were named or have a usual name."""
    if (x_column is None) != (y_column is None):
        raise GeometryError(
            "column-pair",
            f"coordinates need two columns; got {x_column or y_column!r} only.",
            "Name both, with --site-lon and --site-lat (in Python, x_column and y_column).",
        )
    usual = (pair for pair in _LONLAT_NAMES + _PLANAR_NAMES if set(pair) <= set(columns))
    names = (x_column, y_column) if x_column and y_column else next(usual, ("lon", "lat"))
    options = ("--site-lon", "--site-lat")
    x, y = (_numbers(columns, name, path, option) for name, option in zip(names, options, strict=True))
    found_crs = given_crs(crs) if crs is not None else (LONLAT if names in _LONLAT_NAMES else None)
    return Layer(path=str(path), columns=columns, geometry=np.asarray(shapely.points(x, y)), crs=found_crs)


def _numbers(columns: dict[str, list], name: str, path: Path, option: str) -> np.ndarray:
    if name not in columns:
        raise missing_column(name, list(columns), str(path), option)
    values = np.full(len(columns[name]), np.nan)
    for row, value in enumerate(columns[name]):
        try:
            values[row] = np.nan if value is None or value == "" else float(value)
        except (TypeError, ValueError):
            raise GeometryError(
                "coordinate-type",
                f"column {name!r} of {path} must hold numbers; row {row + 1} has {str(value)[:40]!r}.",
                "Write coordinates as plain numbers with a decimal point.",
            ) from None
    return values


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
