"""The public setting of a density: where places and zones lie, how places spread over zones, the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import shapely

from shoal.space.clock import Clock
from shoal.space.geography import Geography
from shoal.space.projection import LONLAT, equal_area_crs, transform, transform_xy
from shoal.space.weights import AreaWeights


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """Everything a density method may know before it pays: geometry and time, none of it from events."""

    weights: AreaWeights
    zone_xy_m: np.ndarray = field(repr=False)  # float64 [zones, 2], centroids on a plane in metres
    place_xy_m: np.ndarray = field(repr=False)  # float64 [places, 2]: sites, or the zones themselves
    zone_area_km2: np.ndarray = field(repr=False)  # float64 [zones]
    clock: Clock

    @property
    def zones(self) -> int:
        return self.weights.shape[0]

    @property
    def places(self) -> int:
        return self.weights.shape[1]

    @property
    def slots(self) -> int:
        return self.clock.slots


def setting_of(geography: Geography, clock: Clock) -> Setting:
    """Centroids and areas in an equal-area plane; planar metres stay as they are."""
    zones, sites = geography.zones, geography.sites
    plane = None
    polygons = zones.geometry
    if zones.crs is not None:
        lonlat = zones.to_lonlat()
        plane = equal_area_crs(lonlat.bounds)
        polygons = transform(lonlat.geometry, LONLAT, plane)
    centroids = shapely.get_coordinates(shapely.centroid(polygons))
    places = centroids
    if sites is not None:
        x, y = np.asarray(sites.x, float), np.asarray(sites.y, float)
        if plane is not None and sites.crs is not None:
            x, y = transform_xy(x, y, sites.crs, plane)
        places = np.column_stack([x, y])
    return Setting(
        weights=geography.weights,
        zone_xy_m=centroids,
        place_xy_m=places,
        zone_area_km2=shapely.area(polygons) / 1e6,
        clock=clock,
    )
