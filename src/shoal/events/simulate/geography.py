"""The ground of a simulated city: outline, zones, sites, and where people live, work and go out.

Everything is computed in a local plane in metres and written in longitude and latitude.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.spatial import KDTree

from shoal.errors import GeometryError
from shoal.events.simulate.presets import CityPreset
from shoal.space.checks import LONLAT, transform_xy
from shoal.space.places import Sites, Zones

EARTH_M = 6_371_008.8
NEAR = 8  # candidate sites around a place
RASTER_M = 100.0


@dataclass(frozen=True, kw_only=True)
class Plane:
    """Metres east and north of a reference point."""

    lon: float
    lat: float

    def to_metres(self, lon, lat):
        scale = np.pi / 180 * EARTH_M
        x = (np.asarray(lon) - self.lon) * scale * np.cos(np.radians(self.lat))
        return x, (np.asarray(lat) - self.lat) * scale

    def to_degrees(self, x, y):
        scale = np.pi / 180 * EARTH_M
        lon = self.lon + np.asarray(x) / (scale * np.cos(np.radians(self.lat)))
        return lon, self.lat + np.asarray(y) / scale


@dataclass(frozen=True, kw_only=True)
class City:
    """Public geometry of one city; `xy` and the raster are in metres of `plane`."""

    plane: Plane
    outline: shapely.Geometry  # metres
    zones: Zones  # in lon/lat
    site_ids: np.ndarray
    xy: np.ndarray  # float64 [sites, 2]
    near: np.ndarray  # int32 [sites, NEAR], nearest sites, itself first
    spread_m: np.ndarray  # float64 [sites], how far people of a site live from it
    raster: np.ndarray  # int32 [nx, ny], nearest site of each 100 m square
    raster_origin: np.ndarray  # float64 [2]
    radius_m: float
    hubs: np.ndarray  # float64 [centres, 3]: x, y, weight

    @property
    def site_lonlat(self) -> tuple[np.ndarray, np.ndarray]:
        lon, lat = self.plane.to_degrees(self.xy[:, 0], self.xy[:, 1])
        return np.round(lon, 7), np.round(lat, 7)


def make_city(preset: CityPreset, seed: int, zones: Zones | None = None, sites: Sites | None = None) -> City:
    """The city of a preset; `zones` and `sites` (of `shoal.space`) replace its own geometry."""
    rng = np.random.default_rng([seed, 1])
    if zones is not None:
        zones = zones.to_lonlat()
        lon0, lat0, lon1, lat1 = zones.bounds
        plane = Plane(lon=(lon0 + lon1) / 2, lat=(lat0 + lat1) / 2)
        outline = shapely.transform(
            shapely.union_all(zones.geometry), lambda xy: np.column_stack(plane.to_metres(xy[:, 0], xy[:, 1]))
        )
        hubs = _hubs(preset, outline, rng)
    else:
        plane = Plane(lon=preset.lon, lat=preset.lat)
        outline = _outline(preset, rng)
        hubs = _hubs(preset, outline, rng)
        points = _scatter(outline, hubs, preset.zones * preset.zone_pieces, 3, preset.built_up, rng)
        centres = rng.permutation(points)[: preset.zones] if preset.zone_pieces > 1 else points
        polygons = _partition(outline, points, centres, plane)
        numbers = range(len(polygons))
        zones = Zones(tuple(f"Z{i:04d}" for i in numbers), tuple(f"Zone {i}" for i in numbers), polygons)
    if sites is not None:
        site_ids, xy = _given_sites(sites, plane)
    else:
        xy = _scatter(outline, hubs, preset.sites, 1, preset.built_up, rng)
        site_ids = np.array([f"S{i:04d}" for i in range(len(xy))])
    return _finish(plane, outline, hubs, site_ids, xy, zones)


def _finish(plane, outline, hubs, site_ids, xy, zones: Zones) -> City:
    """Look-up tables over the sites."""
    tree = KDTree(xy)
    distance, near = tree.query(xy, k=min(NEAR, len(xy)))
    distance, near = distance.reshape(len(xy), -1), near.reshape(len(xy), -1)
    near = near[:, np.arange(NEAR) % near.shape[1]]
    x0, y0, x1, y1 = outline.bounds
    step = max(RASTER_M, (x1 - x0) / 2000, (y1 - y0) / 2000)
    gx = np.arange(x0 - 500, x1 + 500, step)
    gy = np.arange(y0 - 500, y1 + 500, step)
    centres = np.stack(np.meshgrid(gx + step / 2, gy + step / 2, indexing="ij"), axis=-1)
    raster = tree.query(centres.reshape(-1, 2))[1].reshape(len(gx), len(gy))
    return City(
        plane=plane,
        outline=outline,
        zones=zones,
        site_ids=site_ids,
        xy=np.ascontiguousarray(xy),
        near=np.ascontiguousarray(near, np.int32),
        spread_m=np.minimum(0.35 * distance[:, min(2, distance.shape[1] - 1)], 800.0),
        raster=raster.astype(np.int32),
        raster_origin=np.array([gx[0], gy[0], step]),
        radius_m=float(np.sqrt(outline.area / np.pi)),
        hubs=hubs,
    )


def _outline(preset: CityPreset, rng) -> shapely.Polygon:
    """A ragged ellipse of the preset's area."""
    angle = np.linspace(0, 2 * np.pi, 240, endpoint=False)
    radius = np.ones_like(angle)
    for k in range(2, 7):
        radius += preset.wobble * rng.normal() / (k - 1) * np.cos(k * angle + rng.uniform(0, 2 * np.pi))
    radius = np.maximum(radius, 0.4)
    x, y = radius * np.cos(angle) * np.sqrt(preset.stretch), radius * np.sin(angle) / np.sqrt(preset.stretch)
    tilt = rng.uniform(-0.5, 0.5)
    ring = np.stack([x * np.cos(tilt) - y * np.sin(tilt), x * np.sin(tilt) + y * np.cos(tilt)], axis=1)
    scale = np.sqrt(preset.area_km2 * 1e6 / shapely.Polygon(ring).area)
    return shapely.Polygon(ring * scale)


def _hubs(preset: CityPreset, outline, rng) -> np.ndarray:
    """Centres of business and night life: one in the middle, the others around it."""
    radius = np.sqrt(outline.area / np.pi)
    around = _uniform_inside(outline.buffer(-0.15 * radius), preset.centres - 1, rng)
    middle = np.array(outline.centroid.coords)
    weight = np.concatenate([[1.0], rng.uniform(0.3, 0.8, preset.centres - 1)])
    return np.column_stack([np.vstack([middle, around]), weight])


def _uniform_inside(shape, n: int, rng) -> np.ndarray:
    x0, y0, x1, y1 = shape.bounds
    shapely.prepare(shape)
    points = np.empty((0, 2))
    while len(points) < n:
        xy = rng.uniform((x0, y0), (x1, y1), size=(2 * n + 64, 2))
        points = np.vstack([points, xy[shapely.contains_xy(shape, xy[:, 0], xy[:, 1])]])
    return points[:n]


def _scatter(outline, hubs, n: int, rounds: int, built_up: float, rng) -> np.ndarray:
    """n points, denser near the hubs, evened out by some rounds of Lloyd's algorithm."""
    radius = np.sqrt(outline.area / np.pi)
    cloud = _uniform_inside(outline, int((60 * n + 2000) / built_up**2), rng)
    density = 0.25 * built_up**2 + nearness(cloud, hubs, 0.45 * radius * built_up)
    cloud = cloud[rng.random(len(cloud)) < density / density.max()]
    points = cloud[rng.choice(len(cloud), size=n, replace=False)]
    for _ in range(rounds):
        owner = KDTree(points).query(cloud)[1]
        members = np.maximum(np.bincount(owner, minlength=n), 1)[:, None]
        centre = np.stack([np.bincount(owner, cloud[:, i], n) for i in (0, 1)], axis=1) / members
        points = np.where(np.bincount(owner, minlength=n)[:, None] > 0, centre, points)
    return points


def nearness(xy, hubs, width_m: float) -> np.ndarray:
    """Sum over hubs of weight * exp(-(distance / width)^2 / 2)."""
    square = ((xy[:, None, :] - hubs[None, :, :2]) ** 2).sum(axis=2)
    return (hubs[:, 2] * np.exp(-square / (2 * width_m**2))).sum(axis=1)


def _partition(outline, points, centres, plane: Plane) -> np.ndarray:
    """Voronoi cells of the points within the outline, in lon/lat, sharing exact vertices.

    A centre's cells are joined to one zone; where centres are the points, zones are cells.
    Edges and outline are noded once and polygonised together: neighbours then hold the same vertices.
    """
    edges = shapely.voronoi_polygons(shapely.MultiPoint(points), extend_to=outline, only_edges=True)
    lines = shapely.unary_union([edges, outline.boundary])
    faces = np.array(shapely.get_parts(shapely.polygonize([*shapely.get_parts(lines)])))
    inner = shapely.point_on_surface(faces)
    within = shapely.contains(outline, inner)
    faces, inner = faces[within], inner[within]
    owner = KDTree(points).query(shapely.get_coordinates(inner))[1]
    if len(centres) < len(points):
        faces, owner = _join_cells(faces, np.asarray(KDTree(centres).query(points)[1])[owner])
    faces = _join_offcuts(faces, owner, len(centres))

    def rounded(xy):
        lon, lat = plane.to_degrees(xy[:, 0], xy[:, 1])
        return np.round(np.column_stack([lon, lat]), 7)

    return shapely.transform(faces, rounded)


def _join_cells(faces, owner) -> tuple[np.ndarray, np.ndarray]:
    """The union of each owner's cells, one face per connected part."""
    unions = [shapely.union_all(faces[owner == number]) for number in range(owner.max() + 1)]
    faces, whose = shapely.get_parts(np.array(unions), return_index=True)
    return faces, whose


def _join_offcuts(faces, owner, n: int) -> np.ndarray:
    """One polygon per point: an outline that bends inwards cuts cells apart; offcuts go to a neighbour."""
    order = np.argsort(-shapely.area(faces), kind="stable")
    cells: list = [None] * n
    offcuts = []
    for i in order:
        if cells[owner[i]] is None:
            cells[owner[i]] = faces[i]
        else:
            offcuts.append(faces[i])
    cells = [cell for cell in cells if cell is not None]
    for piece in offcuts:
        border = shapely.length(shapely.intersection(np.array(cells), piece))
        best = int(np.argmax(border))
        cells[best] = shapely.union(cells[best], piece)
    return np.array(cells)


def _given_sites(sites: Sites, plane: Plane):
    if sites.crs is None:
        raise GeometryError(
            "crs-missing",
            "planar sites without a coordinate system have no longitude and latitude.",
            "Give the sites as lon and lat.",
        )
    x, y = plane.to_metres(*transform_xy(sites.x, sites.y, sites.crs, LONLAT))
    return np.array(sites.ids), np.column_stack([x, y])
