"""Sites: the public points, such as antennas or stations, that events name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import shapely

from shoal.errors import GeometryError
from shoal.space.checks import check_coordinates, kind_name
from shoal.space.layers import Layer, given_crs, is_planar, label_column, missing_column, read_layer
from shoal.space.projection import LONLAT

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
        """SHA-256 of ids, coordinate system and coordinates: names the sites in a manifest."""
        digest = hashlib.sha256(json.dumps([self.crs, *self.ids]).encode())
        digest.update(np.column_stack([self.x, self.y]).astype("<f8").tobytes())
        return digest.hexdigest()


def read_sites(
    path: str | Path,
    *,
    id_column: str | None = None,
    x_column: str | None = None,
    y_column: str | None = None,
    crs: str | None = None,
) -> Sites:
    """Sites from CSV, Parquet with coordinate columns, or points in GeoJSON, GeoParquet or GeoPackage."""
    path = Path(path)
    table = _plain_table(path)
    if table is None:
        source = read_layer(path, crs=crs)
        x, y, found_crs = _points(source)
    else:
        source, x, y, found_crs = _table_points(table, path, x_column, y_column)
        if crs is not None:
            found_crs = given_crs(crs)
    check_coordinates(np.column_stack([x, y]), found_crs, "sites", planar_said=is_planar(crs))
    ids = label_column(source, id_column, _ID_NAMES, row_prefix="S", what="site")
    return Sites(ids=ids, x=x, y=y, crs=found_crs)


def _plain_table(path: Path) -> pa.Table | None:
    """A table without geometry, or None where `read_layer` is to read the file."""
    if not path.is_file():
        raise GeometryError("file-missing", f"there is no file {path}.", "Check the path.")
    try:
        if path.name.lower().endswith((".csv", ".csv.gz", ".tsv", ".txt")):
            return pyarrow.csv.read_csv(path)
        if path.suffix.lower() == ".parquet" and b"geo" not in (pq.read_schema(path).metadata or {}):
            return pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise GeometryError("file-unreadable", f"{path} cannot be read: {error}") from None
    return None


def _points(source: Layer) -> tuple[np.ndarray, np.ndarray, str | None]:
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
    return shapely.get_x(source.geometry), shapely.get_y(source.geometry), source.crs


def _table_points(table: pa.Table, path: Path, x_column: str | None, y_column: str | None):
    columns = table.column_names
    crs = None
    if x_column is None and y_column is None:
        for names in _LONLAT_NAMES + _PLANAR_NAMES:
            if set(names) <= set(columns):
                x_column, y_column = names
                break
    if (x_column, y_column) in _LONLAT_NAMES:
        crs = LONLAT
    xy = []
    for name in (x_column or "lon", y_column or "lat"):
        if name not in columns:
            raise missing_column(name, columns, str(path))
        xy.append(np.asarray(table[name].to_numpy(zero_copy_only=False), np.float64))
    source = Layer(
        path=str(path),
        columns={name: table[name].to_pylist() for name in columns},
        geometry=shapely.points(xy[0], xy[1]),
        crs=crs,
    )
    return source, xy[0], xy[1], crs
