"""Rows of a GeoParquet file with WKB geometry."""

from __future__ import annotations

import json
from pathlib import Path

from shoal.errors import GeometryError
from shoal.space.formats.parquet import read_parquet
from shoal.space.formats.rows import FileRows, from_wkb
from shoal.space.projection import LONLAT


def read_geoparquet(path: Path) -> FileRows:
    """All rows; a missing `crs` means longitude and latitude, a null one that it is not known."""
    columns, metadata = read_parquet(path)
    if b"geo" not in metadata:
        raise GeometryError(
            "geometry-missing",
            f"{path} is Parquet without GeoParquet metadata.",
            "Write it as GeoParquet, or as GeoPackage or GeoJSON.",
        )
    try:
        geo = json.loads(metadata[b"geo"])
        name, about = geo["primary_column"], geo["columns"][geo["primary_column"]]
        encoding, crs = about.get("encoding"), about.get("crs", LONLAT)
        shapes = {str(each) for each in geo["columns"]}
        stored = columns[name] if encoding == "WKB" else []
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _bad_metadata(path, f"its metadata cannot be followed ({error})") from None
    if encoding != "WKB":
        raise GeometryError(
            "geometry-encoding",
            f"{path} stores its geometry as {encoding}; only WKB can be read.",
            "Write it with WKB geometry, which every GeoParquet writer offers.",
        )
    if not all(one is None or isinstance(one, bytes) for one in stored):
        raise _bad_metadata(path, "its geometry column is not WKB")
    kept = {column: values for column, values in columns.items() if column not in shapes}
    return FileRows(columns=kept, geometry=from_wkb(stored, path), crs=crs)


def _bad_metadata(path: Path, why: str) -> GeometryError:
    return GeometryError("geometry-metadata", f"{path} is broken GeoParquet: {why}.", "Write it again.")
