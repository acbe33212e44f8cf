"""What every reader returns, and the errors they share.

Rows of a GeoJSON file: a FeatureCollection, one Feature, or a bare geometry.

Coordinates are longitude and latitude (RFC 7946). The older `crs` member is followed where it is there; null
means planar, which is how we write zones without a coordinate system.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
import shapely.errors
from shapely.geometry import shape

from shoal.errors import GeometryError
from shoal.space.checks import LONLAT

# NotImplementedError: curves. TypeError: neither bytes nor text. struct.error: cut short.
NOT_WKB = (shapely.errors.GEOSException, NotImplementedError, TypeError, ValueError, struct.error)
MAX_BYTES = 1 << 28  # of a file, and of what it unpacks to
MAX_ROWS = 2_000_000
MAX_CELLS = 30_000_000  # rows times columns


@dataclass(frozen=True, kw_only=True)
class FileRows:
    """Columns and one flat geometry per row; `crs` as the file puts it, None where it says nothing."""

    columns: dict[str, list]
    geometry: np.ndarray
    crs: object


def from_wkb(wkb: Sequence[bytes | None], path: Path) -> np.ndarray:
    """Shapes from WKB; None stays None, and NaN coordinates are left for the checks to name."""
    stored = np.empty(len(wkb), dtype=object)
    stored[:] = wkb
    try:
        with np.errstate(invalid="ignore"):
            for one in stored:
                _check_nesting(one)
            return shapely.force_2d(shapely.from_wkb(stored))
    except NOT_WKB:
        row = next(row for row, one in enumerate(stored) if not _is_wkb(one))
        raise unreadable(path, f"row {row + 1} has {_fault(stored[row])}.") from None


def _is_wkb(one: bytes | None) -> bool:
    try:
        with np.errstate(invalid="ignore"):
            _check_nesting(one)
            shapely.from_wkb(one)
    except NOT_WKB:
        return False
    return True


def _check_nesting(wkb: bytes | None) -> None:
    """Collections are refused, also inside others: GEOS follows their nesting until the stack overflows."""
    if wkb is None:
        return
    if not isinstance(wkb, bytes):
        raise TypeError("WKB is bytes")
    if len(wkb) >= 5 and _kind(wkb, 0)[1] > 3:
        _end(wkb, 0, (4, 5, 6))


def _kind(wkb: bytes, at: int) -> tuple[str, int, int, int]:
    """Byte order, kind from 1 (point) to 7 (collection) and more, dimensions, and where the rest begins."""
    order = "<" if wkb[at] == 1 else ">"
    (code,) = struct.unpack_from(f"{order}I", wkb, at + 1)
    iso = code % 0x10000 // 1000
    dimensions = 2 + bool(code & 0x80000000) + bool(code & 0x40000000) + (iso in (1, 2)) + 2 * (iso == 3)
    return order, code % 0x10000 % 1000, dimensions, at + 5 + 4 * bool(code & 0x20000000)


def _end(wkb: bytes, at: int, allowed: tuple[int, ...]) -> int:
    """Where a geometry of one of these kinds ends; its parts must be of the kind that it is made of."""
    if at >= len(wkb):
        raise ValueError("cut short")
    order, kind, dimensions, at = _kind(wkb, at)
    if kind not in allowed:
        raise ValueError("a collection, or a part of another kind")
    if kind == 1:
        return at + 8 * dimensions
    (count,) = struct.unpack_from(f"{order}I", wkb, at)
    at += 4
    if kind == 2:
        return at + 8 * dimensions * count
    for _ in range(count):
        if kind == 3:
            at += 4 + 8 * dimensions * struct.unpack_from(f"{order}I", wkb, at)[0]
        else:
            at = _end(wkb, at, (kind - 3,))
    return at


def _fault(wkb: bytes) -> str:
    kind = int.from_bytes(wkb[1:5], "little" if wkb[:1] == b"\x01" else "big") & 0xFFFF
    if 8 <= kind % 1000 <= 14:
        return "a curve, and only straight edges can be read"
    if kind % 1000 == 7:
        return "a collection of geometries, and a zone is a polygon, a site a point"
    return "a geometry that is not WKB"


def not_finite(path: Path, row: int) -> GeometryError:
    """For a row with NaN or infinity where a shape cannot even be made, such as a ring that never closes."""
    return GeometryError(
        "coordinate-nan",
        f"coordinates must be finite; row {row + 1} of {path} has others.",
        "Remove or complete these rows.",
    )


def unreadable(path: Path, why: object) -> GeometryError:
    return GeometryError(
        "file-unreadable", f"{path} cannot be read: {why}", "Check how the file was written."
    )


def read_bounded(path: Path, read: Callable[[int], bytes]) -> bytes:
    """What `read` gives for the largest size allowed and one byte more, or an error that it is too large."""
    content = read(MAX_BYTES + 1)
    check_size(path, bytes_=len(content))
    return content


def check_size(path: Path, *, bytes_: int = 0, rows: int = 0, cells: int = 0) -> None:
    """Refuse files that would fill the memory; no map of zones or sites comes near."""
    for size, most, what in (
        (bytes_, MAX_BYTES, "bytes, unpacked"),
        (rows, MAX_ROWS, "rows"),
        (cells, MAX_CELLS, "values: its rows times its columns"),
    ):
        if size > most:
            raise GeometryError(
                "file-too-large",
                f"{path} holds more than {most} {what}.",
                "Keep only the rows and columns that are needed, or simplify the shapes.",
            )


def no_geometry(path: Path) -> GeometryError:
    return GeometryError("geometry-missing", f"{path} has no geometry.", "Check how the file was written.")


def choose_layer(path: Path, layers: list[str], wanted: str | None) -> str:
    """The layer that was asked for, or the only one."""
    if (wanted is None and len(layers) > 1) or (wanted is not None and wanted not in layers):
        raise GeometryError(
            "layer-choice",
            f"{path} has {len(layers)} layers: {', '.join(layers[:8])}; asked for {wanted or 'none'}.",
            "Name one with --zones-layer (in Python, layer); a file of sites must have a single layer.",
        )
    return layers[0] if wanted is None else wanted


_DEPTH = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}


def read_geojson(content: bytes, path: Path) -> FileRows:
    """All features; a property that only some have is None in the others."""
    try:
        text = content.removeprefix(b"\xef\xbb\xbf").decode()  # json itself would let surrogates pass
        top = json.loads(text)
        if "\\u" in text:
            json.dumps(top, ensure_ascii=False).encode()  # half of a surrogate pair could never be written
    except (ValueError, RecursionError) as error:  # broken JSON, broken UTF-8, nested without end
        raise unreadable(path, error) from None
    features = _features(top, path)
    check_size(path, rows=len(features))
    geometry = np.empty(len(features), dtype=object)
    for row, feature in enumerate(features):
        geometry[row] = _geometry(feature.get("geometry"), path, row)
    return FileRows(columns=_columns(features, path), geometry=geometry, crs=_crs(top, path))


def _features(top: object, path: Path) -> list[dict]:
    kind = top.get("type") if isinstance(top, dict) else None
    if not isinstance(top, dict) or not isinstance(kind, str):
        raise unreadable(path, "it is no FeatureCollection or Feature.")
    if kind == "FeatureCollection":
        features = top.get("features")
        if not isinstance(features, list):
            raise unreadable(path, "its FeatureCollection has no list of features.")
        for row, feature in enumerate(features):
            if not isinstance(feature, dict) or feature.get("type") != "Feature":
                raise unreadable(path, f"entry {row + 1} of its features is not a Feature.")
        return features
    if kind == "Feature":
        return [top]
    if kind in _DEPTH or kind == "GeometryCollection":
        return [{"geometry": top}]
    raise unreadable(path, f"it is no FeatureCollection or Feature; its type is {kind!r}.")


def _columns(features: list[dict], path: Path) -> dict[str, list]:
    """Properties by name; the `id` beside them is a column where no property has that name."""
    rows = []
    for row, feature in enumerate(features):
        properties = feature.get("properties") or {}
        if not isinstance(properties, dict):
            raise unreadable(path, f"the properties of row {row + 1} are not an object.")
        rows.append(properties)
    names = dict.fromkeys(name for properties in rows for name in properties)
    check_size(path, cells=len(names) * len(rows))
    columns = {name: [_value(properties.get(name)) for properties in rows] for name in names}
    if "id" not in columns and any("id" in feature for feature in features):
        columns["id"] = [_value(feature.get("id")) for feature in features]
    return columns


def _value(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _geometry(given: object, path: Path, row: int):
    if given is None:
        return None
    try:
        return _shape(given, path, row)
    except (
        KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError,
        shapely.errors.ShapelyError,
    ) as error:  # fmt: skip
        raise unreadable(path, f"row {row + 1} has no valid geometry ({error}).") from None


def _shape(given, path: Path, row: int):
    kind = given["type"]
    if kind == "GeometryCollection":
        return shapely.GeometryCollection([_shape(part, path, row) for part in given["geometries"]])
    if kind not in _DEPTH:
        raise ValueError(f"its type is {kind!r}")
    return shape({"type": kind, "coordinates": _flat(given["coordinates"], _DEPTH[kind], path, row)})


def _flat(given, depth: int, path: Path, row: int) -> list:
    """Nested coordinates without heights; only numbers will do."""
    if not isinstance(given, list):
        raise ValueError("coordinates must be lists of numbers")
    if depth > 0:
        return [_flat(part, depth - 1, path, row) for part in given]
    numbers = given[:2]
    if given and (len(numbers) < 2 or not all(type(n) in (int, float) for n in numbers)):
        raise ValueError("a position must have two numbers")
    xy = [float(n) for n in numbers]
    if not all(map(math.isfinite, xy)):
        raise not_finite(path, row)
    return xy


def _crs(top: dict, path: Path) -> object:
    if "crs" not in top:
        return LONLAT
    given = top["crs"]
    if given is None:
        return None
    properties = given.get("properties") if isinstance(given, dict) else None
    if isinstance(properties, dict):
        if isinstance(properties.get("name"), str):
            return properties["name"]
        if given.get("type") == "EPSG" and type(properties.get("code")) is int:
            return f"EPSG:{properties['code']}"
    raise GeometryError(
        "crs-unknown",
        f"the `crs` of {path} names no coordinate system: {json.dumps(given)[:80]}.",
        "Remove it where coordinates are longitude and latitude, or write a name such as EPSG:2154.",
    )
