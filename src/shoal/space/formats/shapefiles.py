"""Rows of a Shapefile: shapes (.shp), index (.shx), table (.dbf), its encoding (.cpg), the crs (.prj)."""

from __future__ import annotations

import io
import re
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import shapefile
import shapely
import shapely.errors

from shoal.space.formats.rows import FileRows, not_finite, unreadable

SUFFIXES = (".shp", ".shx", ".dbf", ".prj", ".cpg")
_POINT, _LINES, _POLYGON, _MULTIPOINT = 1, 3, 5, 8  # + 10 with heights, + 20 with measures
_HEADER_BYTES = 100
# Python's other codecs are not character sets, or decode to what cannot be written (surrogates).
_CHARACTER_SETS = re.compile(
    r"utf-?8|(us-)?ascii|latin-?[1-9]|(iso[-_ ]?)8859[-_ ]?\d+|cp\d{3,5}|windows-\d+|koi8[-_][ru]"
    r"|mac[-_]?roman|big5(hkscs)?|gbk|gb2312|gb18030|shift[-_]?jis|sjis|euc[-_](jp|kr)|johab|tis-620"
)
_DAMAGE = (
    shapefile.ShapefileException, shapely.errors.ShapelyError, struct.error, UnicodeError, ValueError,
    KeyError, IndexError, TypeError, OverflowError, AssertionError,
)  # fmt: skip


def read_shapefile(parts: Mapping[str, bytes], path: Path) -> FileRows:
    """All rows not marked as deleted; `parts` are the files by suffix. No table means no columns."""
    if ".shx" not in parts:
        raise unreadable(
            path, "its index, the .shx file, is missing; keep .shp, .shx, .dbf and .prj together."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a wrong length in a header, or padding, does no harm here
            geometry = _shapes(parts, path)
            columns, present = _table(parts, len(geometry), path)
    except _DAMAGE as error:
        raise unreadable(path, f"it is damaged ({error}).") from None
    prj = parts.get(".prj", b"").decode("utf-8", "replace").removeprefix("\ufeff").strip("\x00 \r\n\t")
    return FileRows(columns=columns, geometry=geometry[present], crs=prj or None)


def _shapes(parts: Mapping[str, bytes], path: Path) -> np.ndarray:
    count = _check_index(parts[".shp"], parts[".shx"], path)
    reader = shapefile.Reader(shp=io.BytesIO(parts[".shp"]), shx=io.BytesIO(parts[".shx"]))
    geometry = np.empty(count, dtype=object)
    for row in range(count):
        geometry[row] = _shape(reader.shape(row), path, row)
    return geometry


def _check_index(shp: bytes, shx: bytes, path: Path) -> int:
    """How many shapes the index names, after checking that each lies in the file."""
    body = shx[_HEADER_BYTES:]
    if len(shp) < _HEADER_BYTES or len(shx) < _HEADER_BYTES or len(body) % 8:
        raise unreadable(path, "it is cut short.")
    if int.from_bytes(shx[24:28], "big") * 2 != len(shx):
        raise unreadable(path, "the length in its index, the .shx file, is not the length of the index.")
    start, length = np.frombuffer(body, ">i4").astype(np.int64).reshape(-1, 2).T * 2
    if ((start < _HEADER_BYTES) | (length < 4) | (start + 8 + length > len(shp))).any():
        raise unreadable(path, "its index names shapes that lie outside the file, as if it were cut short.")
    return len(start)


def _shape(stored, path: Path, row: int):
    if stored is None or stored.shapeType == 0:
        return None
    kind = stored.shapeType % 10 if stored.shapeType < 30 else stored.shapeType
    xy = np.array([point[:2] for point in stored.points], dtype=float).reshape(-1, 2)
    if not np.isfinite(xy).all():
        raise not_finite(path, row)
    if kind == _POINT:
        return shapely.Point(xy[0])
    if kind == _MULTIPOINT:
        return shapely.MultiPoint(xy)
    if kind not in (_LINES, _POLYGON):
        raise unreadable(
            path, f"row {row + 1} is a {stored.shapeTypeName.lower()}, not a point, line or polygon."
        )
    starts = list(stored.parts)
    if starts != sorted(starts) or (starts and (starts[0] < 0 or starts[-1] >= len(xy))):
        raise unreadable(path, f"row {row + 1} has parts that lie outside its points.")
    pieces = np.split(xy, starts[1:]) if starts else []
    return shapely.MultiLineString(pieces) if kind == _LINES else _polygon(pieces)


def _polygon(rings: list[np.ndarray]):
    """Rings that run clockwise are shells; the others are holes in the smallest shell around them.

    A hole in no shell is taken for a shell: some writers mix up the two.
    """
    polygons = np.array([shapely.Polygon(ring) for ring in rings], dtype=object)
    if len(polygons) == 1:
        return polygons[0]
    is_hole = np.array([shapely.is_ccw(shapely.get_exterior_ring(one)) for one in polygons], dtype=bool)
    shells, holes = list(polygons[~is_hole]), {k: [] for k in range(int((~is_hole).sum()))}
    around = np.array(shells, dtype=object)
    for ring in polygons[is_hole]:
        fits = np.flatnonzero(shapely.covers(around, ring))
        if len(fits):
            holes[int(fits[np.argmin(shapely.area(around[fits]))])].append(shapely.get_exterior_ring(ring))
        else:
            holes[len(shells)] = []
            shells.append(ring)
    whole = [shapely.Polygon(shell.exterior, holes[k]) for k, shell in enumerate(shells)]
    return whole[0] if len(whole) == 1 else shapely.MultiPolygon(whole)


def _table(parts: Mapping[str, bytes], count: int, path: Path) -> tuple[dict[str, list], np.ndarray]:
    """Columns of the .dbf file, and which rows are not marked as deleted."""
    if ".dbf" not in parts:
        return {}, np.ones(count, dtype=bool)
    names, records = _decoded(parts)
    if len(records) != count:
        raise unreadable(
            path, f"it has {count} shapes, but its table, the .dbf file, has {len(records)} rows."
        )
    present = np.array([record is not None for record in records], dtype=bool)
    rows = [record for record in records if record is not None]
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}, present


def _decoded(parts: Mapping[str, bytes]) -> tuple[list[str], list]:
    """Field names and records, in the encoding the .cpg file names, else UTF-8, else Latin-1."""
    named = _encoding(parts.get(".cpg", b""))
    if named is not None:
        return _records(parts[".dbf"], named, "replace")  # a cut-off letter must not spoil the rest
    try:
        return _records(parts[".dbf"], "utf-8", "strict")
    except (UnicodeError, shapefile.ShapefileException):
        return _records(parts[".dbf"], "latin-1", "strict")


def _records(dbf: bytes, encoding: str, errors: str) -> tuple[list[str], list]:
    reader = shapefile.Reader(dbf=io.BytesIO(dbf), encoding=encoding, encodingErrors=errors)
    names = [str(field[0]) for field in reader.fields if field[0] != "DeletionFlag"]
    return names, [reader.record(row) for row in range(reader.numRecords or 0)]


def _encoding(cpg: bytes) -> str | None:
    """The Python name of what a .cpg file says ("UTF-8", "1252", "ANSI 1252", "88591"); None: not known."""
    name = cpg.decode("ascii", "replace").strip("\x00 \r\n\t").lower().removeprefix("ansi ")
    if name.startswith("8859"):
        name = "iso8859-" + name[4:].strip("-_ ")
    for known in ("utf-8" if name == "65001" else name, f"cp{name}"):
        if _CHARACTER_SETS.fullmatch(known):
            try:
                b"a".decode(known)  # no bytes would not look the name up
            except (LookupError, ValueError):
                continue
            return known
    return None
