"""Zones written for a recipient: GeoJSON, or GeoParquet 1.1."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely

from shoal.errors import OutputError
from shoal.space.projection import LONLAT
from shoal.space.zones import Zones


def write_zones(zones: Zones, path: str | Path) -> None:
    """Write `zone`, `name` and the shapes; GeoJSON is lon/lat, GeoParquet keeps the coordinate system."""
    path = Path(path)
    try:
        if path.suffix.lower() in (".geojson", ".json"):
            text = json.dumps(zones.to_geojson(), ensure_ascii=False, separators=(",", ":"))
            path.write_text(text + "\n", encoding="utf-8")
        elif path.suffix.lower() in (".parquet", ".geoparquet"):
            pq.write_table(zones_table(zones), path, compression="zstd")
        else:
            raise OutputError(
                "format-unknown",
                f"zones are not written as {path.suffix or path.name}.",
                "Use .geojson or .parquet.",
            )
    except OSError as error:
        raise OutputError(
            "not-written", f"{path} could not be written: {error.strerror or error}.", "Check the folder."
        ) from None


def zones_table(zones: Zones) -> pa.Table:
    """An Arrow table with GeoParquet 1.1 metadata."""
    wkb = shapely.to_wkb(zones.geometry, byte_order=1, output_dimension=2)
    table = pa.table(
        {"zone": list(zones.ids), "name": list(zones.names), "geometry": pa.array(wkb.tolist(), pa.binary())}
    )
    kinds = np.unique([shape.geom_type for shape in zones.geometry]).tolist()
    about: dict = {"encoding": "WKB", "geometry_types": kinds, "bbox": list(zones.bounds)}
    if zones.crs != LONLAT:  # no crs key means longitude, latitude on WGS 84; null means unknown
        about["crs"] = None if zones.crs is None else pyproj.CRS.from_user_input(zones.crs).to_json_dict()
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": about}}
    return table.replace_schema_metadata({"geo": json.dumps(geo)})
