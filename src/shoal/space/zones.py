"""Zones: the public polygons that counts are released for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import shapely

from shoal.errors import GeometryError
from shoal.space.checks import SLIVER, Choice, ZoneChecks, check_zones
from shoal.space.labels import label_column, text_column
from shoal.space.layers import Layer, is_planar, read_layer
from shoal.space.locate import Locator
from shoal.space.projection import LONLAT, transform

_ID_NAMES = ("zone", "zone_id", "id")
_NAME_NAMES = ("name", "zone_name")


@dataclass(frozen=True, eq=False)
class Zones:
    """Polygons with ids, in `crs` ("EPSG:4326", another name, or None for planar metres)."""

    ids: tuple[str, ...]
    names: tuple[str, ...]
    geometry: np.ndarray = field(repr=False)  # shapely Polygon or MultiPolygon
    crs: str | None = LONLAT
    notes: tuple[str, ...] = ()  # what the checks on reading found and let pass

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """(west, south, east, north), in the units of `crs`."""
        west, south, east, north = shapely.total_bounds(self.geometry).tolist()
        return west, south, east, north

    def locate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """int32 zone index of each point, -1 outside; a point on a shared border has the lowest index."""
        return self._locator.locate(x, y)

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self.geometry)

    def to_lonlat(self) -> Zones:
        """The same zones in longitude and latitude."""
        if self.crs == LONLAT:
            return self
        if self.crs is None:
            raise GeometryError(
                "crs-missing",
                "planar zones without a coordinate system have no longitude and latitude.",
                "Name the coordinate system of the zones, such as EPSG:2154.",
            )
        return replace(self, geometry=transform(self.geometry, self.crs, LONLAT), crs=LONLAT)

    def published(self) -> Zones:
        """The zones as GeoJSON holds them: in longitude and latitude, or planar."""
        return self if self.crs is None else self.to_lonlat()

    def to_geojson(self) -> dict:
        """A FeatureCollection with properties `zone` and `name`: lon/lat, or planar with a null `crs`."""
        shown = self.published()
        features = [
            {"type": "Feature", "properties": {"zone": zone, "name": name}, "geometry": json.loads(shape)}
            for zone, name, shape in zip(
                self.ids, self.names, shapely.to_geojson(shown.geometry), strict=True
            )
        ]
        planar = {"crs": None} if shown.crs is None else {}
        return {"type": "FeatureCollection", **planar, "features": features}

    def digest(self) -> str:
        """SHA-256 of ids, coordinate system and coordinates: names the geometry in a manifest."""
        digest = hashlib.sha256(json.dumps([self.crs, *self.ids]).encode())
        for wkb in shapely.to_wkb(self.geometry, byte_order=1, output_dimension=2):
            digest.update(wkb)
        return digest.hexdigest()


def read_zones(
    path: str | Path,
    *,
    id_column: str | None = None,
    name_column: str | None = None,
    layer: str | None = None,
    crs: str | None = None,
    on_overlap: Choice = "stop",
    holes: Choice = "warn",
    repair: bool = False,
    sliver: float = SLIVER,
) -> Zones:
    """Zones from GeoJSON, GeoParquet, a Shapefile (also zipped) or a GeoPackage, checked.

    `id_column` may be left out for a column `zone`, `zone_id` or `id`; "row" numbers the rows (Z0001). `crs`
    stands in for what the file says ("planar": metres with no place). Overlaps and holes above `sliver` stop,
    warn or pass.
    """
    checks = ZoneChecks(repair=repair, on_overlap=on_overlap, holes=holes, sliver=sliver)
    source = read_layer(path, layer=layer, crs=crs)
    ids = label_column(source, id_column, _ID_NAMES, row_prefix="Z", what="zone")
    names = _names(source, name_column, ids)
    geometry, notes = check_zones(ids, source.geometry, source.crs, checks, planar_said=is_planar(crs))
    return Zones(ids=ids, names=names, geometry=geometry, crs=source.crs, notes=notes)


def _names(source: Layer, name_column: str | None, ids: tuple[str, ...]) -> tuple[str, ...]:
    if name_column is None:
        name_column = next((name for name in _NAME_NAMES if name in source.columns), None)
    if name_column is None:
        return ids
    names = text_column(source, name_column, "--zone-name")
    return tuple(name or zone for name, zone in zip(names, ids, strict=True))
