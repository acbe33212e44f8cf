"""The public setting of a density: places and zones, how places spread over zones, regions, the clock.

A zone's size is the number of visits it would have if every site had one. Sites are denser where more people
are, so sizes are a rough guess of how zones differ. Where points were located in zones, every zone is its own
place: all sizes are 1 and nothing is shared.

Regions are k-means clusters of zone centroids, the same for the same map.

The activity curve is a rough guess of how phones are used through a day (low before dawn, high in the
evening): a method weighs hours by it before anything was measured and replaces it by a measured profile
afterwards. Where slots are longer than three hours the curve is flat.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
import shapely
from scipy.spatial.distance import cdist

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


LEAST_SIZE = 1e-3  # of the mean: a zone without any site has a size too
MOST_WEIGHT = 4.0


def zone_sizes(weights: AreaWeights) -> np.ndarray:
    """float64 [zones], above 0, with mean square 1.

    >>> zone_sizes(AreaWeights.identity(3)).tolist()
    [1.0, 1.0, 1.0]
    """
    size = np.asarray(weights.matrix.sum(axis=1), np.float64).ravel() / weights.lattice
    if not size.any():
        return np.ones(len(size))
    size = np.maximum(size, LEAST_SIZE * size.mean())
    return size / np.sqrt(np.mean(size**2))


def zone_overlap(weights: AreaWeights) -> scipy.sparse.csr_array:
    """float64 [zones, zones], mean 1 on the diagonal: the covariance of zones whose sites are independent."""
    share = scipy.sparse.csr_array(weights.matrix / weights.lattice)
    overlap = scipy.sparse.csr_array(share @ share.T)
    mean = float(overlap.diagonal().mean())
    overlap.data = overlap.data * (1.0 / (mean or 1.0))
    return overlap


def zone_weights(weights: AreaWeights) -> np.ndarray:
    """How much a zone counts, float64 [zones]: small ones more, since errors are judged relative to counts.

    One over the root of its size, against the size a visit is expected to meet; at most fourfold either way.
    """
    size = zone_sizes(weights)
    usual = np.exp(np.average(np.log(size), weights=size))
    return np.clip((size / usual) ** -0.5, 1 / MOST_WEIGHT, MOST_WEIGHT)


ROUNDS = 40


def regions_of(xy_m: np.ndarray, count: int) -> np.ndarray:
    """int64 [zones]: the region of each zone, numbered from 0 without gaps, at most `count` of them.

    >>> regions_of(np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]]), 2).tolist()
    [0, 0, 1]
    """
    xy = np.asarray(xy_m, np.float64)
    count = min(count, len(np.unique(xy, axis=0)))
    if count <= 1:
        return np.zeros(len(xy), np.int64)
    centres = _spread_out(xy, count)
    nearest = _nearest(xy, centres)
    for _ in range(ROUNDS):
        size = np.bincount(nearest, minlength=count)
        sums = np.column_stack([np.bincount(nearest, xy[:, axis], count) for axis in (0, 1)])
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
        again = _nearest(xy, centres)
        if (again == nearest).all():
            break
        nearest = again
    _, first, region = np.unique(nearest, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[region]  # numbered in order of their first zone


def _spread_out(xy: np.ndarray, count: int) -> np.ndarray:
    """Starting centres: the zone nearest to the middle, then always the farthest from those chosen."""
    middle = xy.mean(axis=0)
    chosen = [int(np.argmin(((xy - middle) ** 2).sum(axis=1)))]
    away = ((xy - xy[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, ((xy - xy[chosen[-1]]) ** 2).sum(axis=1))
    return xy[chosen].copy()


def _nearest(xy: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return cdist(xy, centres, "sqeuclidean").argmin(axis=1)


# Relative activity at 0, 1, ... 23 h: an assumption, not a measurement.
ACTIVITY = (
    *(0.45, 0.25, 0.15, 0.10, 0.10, 0.15, 0.30, 0.60, 0.95, 1.20, 1.30, 1.35),
    *(1.40, 1.35, 1.30, 1.30, 1.35, 1.45, 1.55, 1.60, 1.55, 1.40, 1.10, 0.75),
)
CURVE_UP_TO_MINUTES = 180


def activity(clock: Clock) -> np.ndarray:
    """float64 [slots]: expected activity, with mean 1."""
    if clock.slot_minutes > CURVE_UP_TO_MINUTES:
        return np.ones(clock.slots)
    middle = clock.hours_local + clock.slot_minutes / 120
    expected = np.interp(middle - 0.5, np.arange(25), (*ACTIVITY, ACTIVITY[0]))
    return expected / expected.mean()


def day_kinds(clock: Clock) -> np.ndarray:
    """int64 [slots]: Monday to Thursday, Friday, Saturday, Sunday, numbered as they occur."""
    weekday = (clock.start.weekday() + clock.day_of_slot - clock.day_of_slot.min()) % 7
    return np.unique(np.maximum(weekday - 3, 0), return_inverse=True)[1]


def daily_harmonics(clock: Clock, highest: int) -> list[np.ndarray]:
    """Ones, and the cosines and sines of a day up to `highest` periods, where slots are short enough."""
    hours = clock.hours_local + clock.slot_minutes / 120
    per_day = 1440 // clock.slot_minutes
    components = [np.ones(clock.slots)]
    for k in range(1, min(highest, (per_day - 1) // 2) + 1):
        components += [np.cos(2 * np.pi * k * hours / 24), np.sin(2 * np.pi * k * hours / 24)]
    return components
