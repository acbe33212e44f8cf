"""Rows of a GeoParquet file with WKB geometry."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from shoal.errors import GeometryError
from shoal.space.formats.rows import NOT_WKB, FileRows, unreadable
from shoal.space.projection import LONLAT


def read_geoparquet(path: Path) -> FileRows:
    """All rows; a missing `crs` means longitude and latitude, a null one that it is not known."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(path, error) from None
    metadata = (table.schema.metadata or {}).get(b"geo")
    if metadata is None:
        raise GeometryError(
            "geometry-missing",
            f"{path} is Parquet without GeoParquet metadata.",
            "Write it as GeoParquet, or as GeoPackage or GeoJSON.",
        )
    try:
        geo = json.loads(metadata)
        name, about = geo["primary_column"], geo["columns"][geo["primary_column"]]
        encoding, crs = about.get("encoding"), about.get("crs", LONLAT)
        stored = table[name].to_numpy(zero_copy_only=False)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _bad_metadata(path, f"its metadata cannot be followed ({error})") from None
    if encoding != "WKB":
        raise GeometryError(
            "geometry-encoding",
            f"{path} stores its geometry as {encoding}; only WKB can be read.",
            "Write it with WKB geometry, which every GeoParquet writer offers.",
        )
    geometry = _from_wkb(stored, path)
    columns = {c: table[c].to_pylist() for c in table.column_names if c not in geo["columns"]}
    return FileRows(columns=columns, geometry=geometry, crs=crs)


def _from_wkb(wkb: np.ndarray, path: Path) -> np.ndarray:
    try:
        with np.errstate(invalid="ignore"):  # NaN coordinates are for the checks to name
            return shapely.force_2d(shapely.from_wkb(wkb))
    except NOT_WKB:
        raise _bad_metadata(path, "its geometry column is not WKB") from None


def _bad_metadata(path: Path, why: str) -> GeometryError:
    return GeometryError("geometry-metadata", f"{path} is broken GeoParquet: {why}.", "Write it again.")
