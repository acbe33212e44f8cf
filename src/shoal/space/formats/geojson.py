"""Rows of a GeoJSON file: a FeatureCollection, one Feature, or a bare geometry.

Coordinates are longitude and latitude (RFC 7946). The older `crs` member is followed where it is there; null
means planar, which is how we write zones without a coordinate system.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import shapely
import shapely.errors
from shapely.geometry import shape

from shoal.errors import GeometryError
from shoal.space.formats.rows import FileRows, check_size, not_finite, unreadable
from shoal.space.projection import LONLAT

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
