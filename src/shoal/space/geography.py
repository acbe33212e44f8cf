"""The public map of a release: zones, sites where events name them, and the weights between the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from shoal.errors import GeometryError, PlanError
from shoal.space.grid import grid_shape, square_grid
from shoal.space.h3zones import h3_zones
from shoal.space.plan import SpacePlan, box_missing, zones_missing
from shoal.space.projection import LONLAT, is_lonlat
from shoal.space.sites import Sites, named_sites
from shoal.space.weights import AreaWeights, voronoi_weights
from shoal.space.zones import Zones, read_zones


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


def open_geography(plan: SpacePlan, *, has_sites: bool, planar: bool) -> Geography:
    """Read or make the zones, and the weights that events of this kind need."""
    if has_sites:
        sites = _sites(plan)
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


def _sites(plan: SpacePlan) -> Sites:
    if plan.sites is None:
        raise PlanError(
            "plan-sites",
            "the events name sites, so the list of sites with coordinates must be given.",
            "Pass --sites FILE (columns site, lon, lat, or as --site-id, --site-lon and --site-lat say); it "
            "is public and never read off the events.",
        )
    return named_sites(
        plan.sites, **{name: getattr(plan, name) for name in ("site_id", "site_lon", "site_lat", "sites_crs")}
    )


def _zones(plan: SpacePlan, planar: bool) -> Zones:
    if plan.zones is not None:
        return read_zones(
            plan.zones,
            id_column=plan.zone_id,
            name_column=plan.zone_name,
            layer=plan.zones_layer,
            crs=plan.zones_crs,
            repair=plan.repair_zones,
            holes=plan.holes,
        )
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
