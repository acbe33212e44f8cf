"""Sites: the public points, such as antennas or stations, that events name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import shapely

from shoal.errors import GeometryError
from shoal.space.checks import check_coordinates, kind_name
from shoal.space.layers import Layer, given_crs, is_planar, read_layer
from shoal.space.projection import LONLAT
from shoal.space.tables import label_column, missing_column, plain_columns

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
