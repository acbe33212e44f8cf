"""The public map of a release: zones, sites where events name them, and the weights between the two.

With its clock it is the setting of a density, which mechanisms may know before they pay.

Area weights say how one visit at a site is shared out over zones, in integer units.

W[zone, site] = area(cell of site, in zone) / area(cell of site), times LATTICE = 2**20 and rounded so that a
column never sums to more than LATTICE. One visit therefore moves the zone counts by at most LATTICE in L1:
the sensitivity proof relies on this step. The weights follow from sites and zones alone, so they are public.

>>> AreaWeights.identity(2).spread(np.array([[3], [5]])).tolist()
[[3145728], [5242880]]

The cell of a site is its Voronoi cell in an equal-area plane shared with the zones.
Envelope     cells are bounded by the convex hull of sites, zones and city, widened by the typical distance
             between sites: the square root of (hull area / number of positions). Public geometry only.
Duplicates   positions that agree to the millimetre are one position with one cell.
Order        positions are sorted before anything is computed, so the order of sites cannot change a weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import scipy.sparse
import shapely
from shapely.geometry.base import BaseGeometry

from shoal.errors import GeometryError, GuaranteeError, PlanError
from shoal.space.checks import LONLAT, equal_area_crs, is_lonlat, project_valid, transform, transform_xy
from shoal.space.clock import Clock
from shoal.space.grid import grid_shape, h3_zones, square_grid
from shoal.space.places import Sites, Zones
from shoal.space.plan import SpacePlan, box_missing, zones_missing

LATTICE = 2**20


@dataclass(frozen=True, eq=False)
class AreaWeights:
    """Integer weights [zones, sites]; every column sums to at most `lattice`."""

    matrix: scipy.sparse.csr_array = field(repr=False)  # int64
    lattice: int
    lost: np.ndarray = field(repr=False)  # float64 [sites]: share of each site's cell outside the zones

    def __post_init__(self) -> None:
        entries = self.matrix.data
        if (
            self.matrix.dtype != np.int64
            or (len(entries) and entries.min() < 0)
            or self.column_l1 > self.lattice
        ):
            raise GuaranteeError(
                "weights-bound",
                f"weights must be whole, not negative, and sum to at most {self.lattice} per site.",
            )

    @classmethod
    def identity(cls, count: int) -> AreaWeights:
        """Each place is its own zone: for points that were located in zones already."""
        units = np.full(count, LATTICE, np.int64)
        place = np.arange(count)
        matrix = scipy.sparse.csr_array((units, (place, place)), shape=(count, count))
        return cls(matrix=matrix, lattice=LATTICE, lost=np.zeros(count))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.matrix.indptr) - 1, len(self.lost)

    @property
    def column_l1(self) -> int:
        """Largest L1 norm of a column: what one visit can move the zone counts by, in units."""
        return int(np.asarray(self.matrix.sum(axis=0)).max(initial=0))

    @property
    def row_l1(self) -> int:
        """Largest sum of a row: what one visit at every place moves one zone's count by, in units."""
        return int(np.asarray(self.matrix.sum(axis=1)).max(initial=0))

    @property
    def column_l2_squared(self) -> int:
        """Largest squared L2 norm of a column."""
        return int(np.asarray(self.matrix.power(2).sum(axis=0)).max(initial=0))

    @property
    def site_share(self) -> np.ndarray:
        """float64 [zones]: squared weights over weights, what one person more counts on average in a zone."""
        zones = self.shape[0]
        zone_of = np.repeat(np.arange(zones), np.diff(self.matrix.indptr))
        share = self.matrix.data / self.lattice
        whole = np.bincount(zone_of, share, zones)
        squares = np.bincount(zone_of, share**2, zones)
        return np.divide(squares, whole, out=np.zeros(zones), where=whole > 0)

    def spread(self, counts: np.ndarray) -> np.ndarray:
        """Zone counts in units, int64 [zones, slots], from site counts, int64 [sites, slots]: exact."""
        counts = np.asarray(counts)
        if not np.issubdtype(counts.dtype, np.integer) or counts.shape[0] != self.shape[1]:
            raise GeometryError(
                "weights-shape",
                f"counts must be whole numbers with one row per site ({self.shape[1]}); "
                f"got {counts.dtype} {list(counts.shape)}.",
            )
        if np.abs(counts.astype(np.float64)).sum(axis=0).max(initial=0) * self.lattice >= 2.0**62:
            raise GuaranteeError("weights-overflow", "the counts are too large for 64-bit integer sums.")
        return np.asarray(self.matrix @ counts.astype(np.int64, copy=False))


def voronoi_weights(sites: Sites, zones: Zones, *, city: BaseGeometry | None = None) -> AreaWeights:
    """Weights from the Voronoi cells of `sites`, measured in an equal-area plane (planar input: as it is).

    The cell of a site in the city is clipped to the city. The city is where people can be: the union of the
    zones, unless a polygon `city` (public, in the zones' coordinates) says more; where it reaches beyond the
    zones, weight is lost. The cell of a site outside the city is bounded by a public envelope (see
    `voronoi_cells`), and only the share of it that lies in the zones is kept. Sites at one position share
    one cell and have equal weights.
    """
    plane = to_plane(sites, zones, city)
    cells = voronoi_cells(plane)
    cell, zone = shapely.STRtree(plane.zones).query(cells, predicate="intersects")
    order = np.lexsort((zone, cell))
    cell, zone = cell[order], zone[order]
    area = shapely.area(shapely.intersection(cells[cell], plane.zones[zone]))
    in_zones = np.bincount(cell, weights=area, minlength=len(cells))
    whole = shapely.area(cells)
    if plane.city is None:
        whole[plane.inside] = in_zones[plane.inside]
    else:
        whole[plane.inside] = shapely.area(shapely.intersection(cells[plane.inside], plane.city))
    whole = np.maximum(whole, in_zones)  # where zones overlap by a sliver, no place counts twice
    kept_share = np.divide(in_zones, whole, out=np.zeros(len(cells)), where=whole > 0)
    share = np.divide(area, whole[cell], out=np.zeros(len(cell)), where=whole[cell] > 0)
    units = round_columns(cell, share, kept_share)
    by_cell = scipy.sparse.coo_array((units, (zone, cell)), shape=(zones.count, len(cells)), dtype=np.int64)
    matrix = scipy.sparse.csr_array(by_cell.tocsc()[:, plane.cell_of_site])
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return AreaWeights(matrix=matrix, lattice=LATTICE, lost=1.0 - kept_share[plane.cell_of_site])


def round_columns(column: np.ndarray, share: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Largest-remainder rounding: units per entry; each column sums to floor(total * LATTICE).

    Entries below one unit become 0 and never win a remainder; a column of nothing else sums to 0.
    `column` must be sorted; equal remainders go to the earlier entry.
    """
    exact = share * LATTICE
    units = np.floor(exact).astype(np.int64)
    positive = np.flatnonzero(units > 0)
    remainder = exact[positive] - units[positive]
    owner = column[positive]
    entries = np.bincount(owner, minlength=len(total))
    so_far = np.zeros(len(total), np.int64)
    np.add.at(so_far, owner, units[positive])
    target = np.floor(np.minimum(total, 1.0) * LATTICE).astype(np.int64)
    each, extra = np.divmod(target - so_far, np.maximum(entries, 1))
    order = np.lexsort((-remainder, owner))  # stable: within a column, the largest remainder first
    rank = np.arange(len(positive)) - np.repeat(np.cumsum(entries) - entries, entries)
    units[positive] += each[owner]
    units[positive[order]] += rank < extra[owner]
    return units


_MM = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class Plane:
    """Sites and zones in one plane whose areas are true."""

    xy: np.ndarray = field(repr=False)  # float64 [positions, 2], distinct and sorted
    cell_of_site: np.ndarray = field(repr=False)  # int [sites], index into xy
    inside: np.ndarray = field(repr=False)  # bool [positions]: lies in the city
    zones: np.ndarray = field(repr=False)  # shapely polygons
    city: BaseGeometry | None = None  # where people can be; None: the zones


def to_plane(sites: Sites, zones: Zones, city: BaseGeometry | None = None) -> Plane:
    """Sites and zones in a Lambert equal-area plane; planar metres stay as they are."""
    if sites.count == 0:
        raise GeometryError("empty-file", "there are no sites.", "Give at least one site.")
    if (sites.crs is None) != (zones.crs is None):
        raise GeometryError(
            "crs-mixed",
            f"sites and zones must be on the same map; sites have {sites.crs}, zones {zones.crs}.",
            "Name the coordinate system of both, or give both in planar metres.",
        )
    x, y = np.asarray(sites.x, np.float64), np.asarray(sites.y, np.float64)
    if sites.crs is not None and zones.crs is not None and sites.crs != zones.crs:
        x, y = transform_xy(x, y, sites.crs, zones.crs)
    _check_near(x, y, zones.bounds)
    inside = zones.locate(x, y) >= 0 if city is None else shapely.intersects_xy(city, x, y)
    polygons = zones.geometry
    if zones.crs is not None:
        lonlat = zones.to_lonlat()
        plane = equal_area_crs(lonlat.bounds)
        x, y = transform_xy(x, y, zones.crs, plane)
        polygons = project_valid(lonlat.geometry, LONLAT, plane)
        if city is not None:
            city = project_valid(np.array([city], dtype=object), zones.crs, plane)[0]
    xy, cell_of_site = np.unique(np.round(np.column_stack([x, y]) / _MM) * _MM, axis=0, return_inverse=True)
    cell_of_site = cell_of_site.ravel()
    cell_inside = np.bincount(cell_of_site, weights=inside, minlength=len(xy)) > 0
    return Plane(xy=xy, cell_of_site=cell_of_site, inside=cell_inside, zones=polygons, city=city)


def _check_near(x: np.ndarray, y: np.ndarray, bounds: tuple[float, float, float, float]) -> None:
    """Some site must lie near the zones; else a file is of another place, or x and y are swapped."""
    west, south, east, north = bounds
    wide = max(east - west, north - south)

    def near(x: np.ndarray, y: np.ndarray) -> bool:
        in_x = (x >= west - wide) & (x <= east + wide)
        return bool((in_x & (y >= south - wide) & (y <= north + wide)).any())

    if near(x, y):
        return
    if near(y, x):
        raise GeometryError(
            "sites-swapped",
            f"no site lies near the zones, but some would with x and y swapped; "
            f"the first is ({x[0]:g}, {y[0]:g}).",
            "Give longitude (or east) as x and latitude (or north) as y.",
        )
    raise GeometryError(
        "sites-away",
        f"no site lies near the zones; the first site is ({x[0]:g}, {y[0]:g}), "
        f"the zones span {west:g} to {east:g} and {south:g} to {north:g}.",
        "Check that both files are of the same city and in the coordinate systems they claim.",
    )


def voronoi_cells(plane: Plane) -> np.ndarray:
    """One polygon per position, clipped to the envelope."""
    bound = envelope(plane)
    if len(plane.xy) == 1:
        return np.array([bound], dtype=object)
    points = shapely.multipoints(plane.xy)
    cells = shapely.get_parts(shapely.voronoi_polygons(points, extend_to=bound, ordered=True))
    return shapely.intersection(cells, bound)


def envelope(plane: Plane) -> BaseGeometry:
    """Convex hull of sites, zones and city, widened by the typical distance between sites."""
    city = np.empty((0, 2)) if plane.city is None else shapely.get_coordinates(plane.city)
    corners = np.concatenate([plane.xy, shapely.get_coordinates(plane.zones), city])
    hull = shapely.MultiPoint(corners).convex_hull
    spacing = float(np.sqrt(hull.area / len(plane.xy)))
    return hull.buffer(spacing)


@dataclass(frozen=True, eq=False)
class Geography:
    """Zones that are released, places where visits are counted, and how places spread over zones."""

    zones: Zones
    sites: Sites | None
    weights: AreaWeights = field(repr=False)

    @property
    def places(self) -> int:
        """Where visits are counted: sites, or the zones themselves where events carry points."""
        return self.zones.count if self.sites is None else self.sites.count

    @property
    def site_ids(self) -> tuple[str, ...] | None:
        return None if self.sites is None else self.sites.ids

    def place(self, events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Events with a place number: the site they name, or the zone their point lies in."""
        for batch in events:
            if self.sites is not None:
                yield batch.select(["user", "time_us", "site"])
                continue
            x, y = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("x", "y"))
            zone = pa.array(self.zones.locate(x, y), pa.int32())
            yield pa.RecordBatch.from_arrays(
                [batch.column("user"), batch.column("time_us"), zone], names=["user", "time_us", "site"]
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """Everything a density method may know before it pays: geometry and time, none of it from events."""

    weights: AreaWeights
    zone_xy_m: np.ndarray = field(repr=False)  # float64 [zones, 2], centroids on a plane in metres
    place_xy_m: np.ndarray = field(repr=False)  # float64 [places, 2]: sites, or the zones themselves
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
    """Centroids in an equal-area plane; planar metres stay as they are."""
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
    return Setting(weights=geography.weights, zone_xy_m=centroids, place_xy_m=places, clock=clock)


def open_geography(plan: SpacePlan, *, has_sites: bool, planar: bool) -> Geography:
    """Read or make the zones, and the weights that events of this kind need."""
    if has_sites:
        sites = plan.read_sites("events")
        zones = _zones(plan, sites.crs is None)
        weights = voronoi_weights(sites, zones)
        if weights.column_l1 == 0:
            raise GeometryError(
                "sites-outside",
                "no site's cell overlaps a zone, so there is nothing to count.",
                "Check that zones and sites are of the same city, and their coordinate systems.",
            )
        return Geography(zones, sites, weights)
    zones = _zones(plan, planar)
    _check_same_map(zones, planar)
    if not planar:
        zones = zones.to_lonlat()
    return Geography(zones, None, AreaWeights.identity(zones.count))


def grid_cells(plan: SpacePlan, *, planar: bool) -> int | None:
    """Number of zones of a grid, without making them; None for zones from a file and for H3 cells."""
    if plan.zones is not None or plan.box is None or plan.cell_m is None:
        return None
    rows, columns = grid_shape(plan.box, plan.cell_m, crs=None if planar else LONLAT)
    return rows * columns


def _zones(plan: SpacePlan, planar: bool) -> Zones:
    if (zones := plan.read_zones(holes=plan.holes)) is not None:
        return zones
    if plan.box is None:
        raise box_missing()
    if plan.h3 is not None:
        if planar:
            raise PlanError(
                "plan-h3", "H3 cells lie on the globe; the events or sites are planar.", "Use --cell-m."
            )
        return h3_zones(plan.box, plan.h3)
    if plan.cell_m is None:
        raise zones_missing()
    return square_grid(plan.box, plan.cell_m, crs=None if planar else LONLAT)


def _check_same_map(zones: Zones, planar: bool) -> None:
    """Points and zones must be in coordinates that can be compared; metres in a projected zone file can."""
    if planar and is_lonlat(zones.crs):
        mixed = f"planar x and y, but the zones are longitude and latitude ({zones.crs})"
        remedy = (
            "Give zones in the coordinates of the events (--zones-crs planar says that a file has them), "
            "or events with lon and lat."
        )
    elif not planar and zones.crs is None:
        mixed = "longitude and latitude, but the zones are planar, with no place on the globe"
        remedy = "Name the coordinate system of the zones with --zones-crs, such as EPSG:2154."
    else:
        return
    raise PlanError("plan-planar", f"the events have {mixed}.", remedy)
