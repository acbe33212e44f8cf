"""Public places. Sites: the points, such as antennas or stations, that events name. Zones: the polygons that
counts are released for, and which of them a point lies in.

Points are located by a raster: a cell that only one zone touches, and that this zone covers, answers for all
points in it. Points in other cells are tested against each zone that touches their cell. So an answer depends
on the point alone, never on the batch, and a point on a shared border goes to the lowest zone index.

Zones written for a recipient: GeoJSON, or GeoParquet 1.1. Outlines are for the eye alone: planar, simplified
a little, on a grid of 65,536 steps.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import shapely

from shoal.errors import GeometryError, OutputError
from shoal.space.checks import (
    LONLAT,
    SLIVER,
    ZoneChecks,
    check_coordinates,
    check_zones,
    geometry_digest,
    kind_name,
    transform,
)
from shoal.space.layers import (
    Layer,
    given_crs,
    is_planar,
    label_column,
    missing_column,
    plain_columns,
    read_layer,
    text_column,
)
from shoal.space.plan import Choice

_SITE_ID_NAMES = ("site", "site_id", "id")
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
    ids = label_column(source, id_column, _SITE_ID_NAMES, row_prefix="S", what="site")
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


_ZONE_ID_NAMES = ("zone", "zone_id", "id")
_ZONE_NAME_NAMES = ("name", "zone_name")


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
        shapes = shapely.to_wkb(self.geometry, byte_order=1, output_dimension=2)
        return geometry_digest(self.crs, self.ids, shapes)


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
    ids = label_column(source, id_column, _ZONE_ID_NAMES, row_prefix="Z", what="zone")
    names = _names(source, name_column, ids)
    geometry, notes = check_zones(ids, source.geometry, source.crs, checks, planar_said=is_planar(crs))
    return Zones(ids=ids, names=names, geometry=geometry, crs=source.crs, notes=notes)


def _names(source: Layer, name_column: str | None, ids: tuple[str, ...]) -> tuple[str, ...]:
    if name_column is None:
        name_column = next((name for name in _ZONE_NAME_NAMES if name in source.columns), None)
    if name_column is None:
        return ids
    names = text_column(source, name_column, "--zone-name")
    return tuple(name or zone for name, zone in zip(names, ids, strict=True))


OUTSIDE = -1
_MIXED = -2
_BATCH = 1 << 19  # points handled at once: bounds the memory of the pair tables


class Locator:
    """Raster over the zones' bounds, built once; see `locate`."""

    def __init__(self, geometry: np.ndarray) -> None:
        self._geometry = np.array(geometry, dtype=object)
        shapely.prepare(self._geometry)
        west, south, east, north = shapely.total_bounds(self._geometry)
        self._origin = (float(west), float(south))
        self._bounds = (float(west), float(south), float(east), float(north))
        width, height = max(east - west, 1e-12), max(north - south, 1e-12)
        cells = int(np.clip(64 * len(geometry), 1 << 12, 1 << 18))
        self._columns = int(np.clip(np.sqrt(cells * width / height), 1, cells))
        self._rows = max(1, cells // self._columns)
        self._cell = (width / self._columns, height / self._rows)
        self._answer, self._start, self._candidates = self._classify()

    def _classify(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per raster cell: the zone that covers it, OUTSIDE or _MIXED; and the zones that touch it (CSR)."""
        count = self._rows * self._columns
        row, column = np.divmod(np.arange(count), self._columns)
        (x0, y0), (dx, dy) = self._origin, self._cell
        # Wider than the cell by far more than rounding can move a point across its edge.
        pad_x, pad_y = dx * 1e-6, dy * 1e-6
        boxes = shapely.box(
            x0 + column * dx - pad_x, y0 + row * dy - pad_y,
            x0 + (column + 1) * dx + pad_x, y0 + (row + 1) * dy + pad_y,
        )  # fmt: skip
        zone, cell = shapely.STRtree(boxes).query(self._geometry, predicate="intersects")
        order = np.lexsort((zone, cell))
        zone, cell = zone[order], cell[order]
        touching = np.bincount(cell, minlength=count)
        start = np.concatenate(([0], np.cumsum(touching)))
        answer = np.where(touching == 0, OUTSIDE, _MIXED).astype(np.int32)
        alone = np.flatnonzero(touching == 1)
        owner = zone[start[alone]]
        covered = shapely.covers(self._geometry[owner], boxes[alone])
        answer[alone[covered]] = owner[covered]
        return answer, start.astype(np.int64), zone.astype(np.int32)

    def locate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """int32 zone index per point, -1 outside every zone and for NaN."""
        x, y = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
        parts = [slice(begin, begin + _BATCH) for begin in range(0, len(x), _BATCH)]
        zones = [self._locate_batch(x[part], y[part]) for part in parts]
        return np.concatenate([np.empty(0, np.int32), *zones])

    def _locate_batch(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        west, south, east, north = self._bounds
        zone_of = np.full(len(x), OUTSIDE, np.int32)
        near = np.flatnonzero((x >= west) & (x <= east) & (y >= south) & (y <= north))  # NaN is nowhere
        column = np.minimum(((x[near] - west) / self._cell[0]).astype(np.int64), self._columns - 1)
        row = np.minimum(((y[near] - south) / self._cell[1]).astype(np.int64), self._rows - 1)
        cell = row * self._columns + column
        zone_of[near] = self._answer[cell]
        mixed = zone_of[near] == _MIXED
        point, cell = near[mixed], cell[mixed]
        zone_of[point] = OUTSIDE
        tries = self._start[cell + 1] - self._start[cell]
        pair_point = np.repeat(point, tries)
        first = np.repeat(self._start[cell] - np.concatenate(([0], np.cumsum(tries)[:-1])), tries)
        pair_zone = self._candidates[first + np.arange(len(pair_point))] if len(pair_point) else first
        inside = shapely.intersects_xy(self._geometry[pair_zone], x[pair_point], y[pair_point])
        # Pairs of a point come in order of zone; written backwards, the lowest zone is written last.
        zone_of[pair_point[inside][::-1]] = pair_zone[inside][::-1]
        return zone_of


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
    return table.replace_schema_metadata(geo_metadata("geometry", kinds, zones.crs, bbox=list(zones.bounds)))


def geo_metadata(column: str, kinds: list[str], crs: str | None = LONLAT, **about: Any) -> dict[str, str]:
    """GeoParquet 1.1 metadata of a file whose geometry is WKB in `column`."""
    about = {"encoding": "WKB", "geometry_types": kinds, **about}
    if crs != LONLAT:  # no crs key means longitude, latitude on WGS 84; null means unknown
        about["crs"] = None if crs is None else pyproj.CRS.from_user_input(crs).to_json_dict()
    geo = {"version": "1.1.0", "primary_column": column, "columns": {column: about}}
    return {"geo": json.dumps(geo)}


KM_PER_DEGREE = 111.32
GRID_STEPS = 65_535
# A drawing of about 1,000 pixels cannot show less than this share of its width.
SIMPLIFY_SHARE = 1 / 2_000


def outlines(zones: Zones) -> dict[str, Any]:
    """What pages draw of zones: ids, names and shapes, north up.

    Kilometres are equal in both directions at the middle of the city. The points of all rings are one after
    the other in `xy`, with y downwards, as on a screen; `rings` has for each zone the points of each of its
    rings, none where there is nothing to draw. Sizes are in steps.
    """
    planar_km = _planar_km(zones)
    bounds = shapely.total_bounds(planar_km)
    drawable = bool(np.isfinite(bounds).all())
    west, south, east, north = bounds.tolist() if drawable else (0.0, 0.0, 0.0, 0.0)
    steps_per_km, rings = 1.0, [[] for _ in planar_km]
    if drawable:
        extent_km = max(east - west, north - south, 1e-9)
        steps_per_km = GRID_STEPS / extent_km
        rings = [_rings(shape) for shape in _simplified(planar_km, extent_km * SIMPLIFY_SHARE)]
    points = [ring for of_zone in rings for ring in of_zone]
    xy_km = np.concatenate(points) if points else np.zeros((0, 2))
    steps = np.column_stack([xy_km[:, 0] - west, north - xy_km[:, 1]]) * steps_per_km
    return {
        "ids": [str(zone) for zone in zones.ids],
        "names": [str(name) for name in zones.names],
        "rings": [[len(ring) for ring in of_zone] for of_zone in rings],
        "xy": np.clip(np.rint(steps), 0, GRID_STEPS).astype("u2"),
        "width": max(1, round((east - west) * steps_per_km)),
        "height": max(1, round((north - south) * steps_per_km)),
        "stepsPerKm": steps_per_km,
    }


def _planar_km(zones: Zones) -> np.ndarray:
    if zones.crs is None:  # planar metres without a place on earth: drawn as they are
        return shapely.transform(np.asarray(zones.geometry, dtype=object), lambda xy: xy / 1000)
    lonlat = np.asarray(zones.to_lonlat().geometry, dtype=object)
    bounds = shapely.total_bounds(lonlat)
    # One longitude scale for the whole map: at the size of a city the error is below a pixel.
    shrink = math.cos(math.radians((bounds[1] + bounds[3]) / 2)) if np.isfinite(bounds).all() else 1.0
    return shapely.transform(lonlat, lambda xy: xy * (KM_PER_DEGREE * shrink, KM_PER_DEGREE))


def _simplified(shapes: np.ndarray, tolerance_km: float) -> np.ndarray:
    """Shapes with fewer points; shared borders stay shared, so no slits open between zones."""
    try:
        return np.asarray(shapely.coverage_simplify(shapes, tolerance_km), dtype=object)
    except (shapely.errors.ShapelyError, AttributeError, TypeError, ValueError, NotImplementedError):
        # An old GEOS, or shapes that are no coverage (overlaps, points): each by itself.
        return np.asarray(shapely.simplify(shapes, tolerance_km), dtype=object)


def _rings(shape: shapely.Polygon | shapely.MultiPolygon | None) -> list[np.ndarray]:
    """Outer and inner rings, without the repeated last point; inner ones are drawn by the even-odd rule."""
    if shape is None or shape.is_empty:
        return []
    rings = []
    for part in shapely.get_parts(shape):
        if part.geom_type == "Polygon" and not part.is_empty:
            for ring in (part.exterior, *part.interiors):
                rings.append(shapely.get_coordinates(ring)[:-1])
    return rings
