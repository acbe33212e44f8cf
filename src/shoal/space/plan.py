"""The part of a plan that says where zones and sites come from. It loads no geometry: plans are read without.

A box is declared by the owner and never read off the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from shoal.errors import PlanError
from shoal.setting import Plan, rule, setting

if TYPE_CHECKING:
    from shoal.space.places import Sites, Zones

Choice = Literal["stop", "warn", "allow"]


@dataclass(frozen=True, kw_only=True)
class SitesPlan(Plan):
    """Where the public list of sites comes from, and what its columns are."""

    sites: str | None = setting(
        None, "Sites: CSV or Parquet with site, lon, lat, or a file of points.", file=True, last=1
    )
    site_id: str | None = setting(None, "Column with the sites' ids; `row` numbers them.", last=1)
    site_lon: str | None = setting(
        None, "Column with the sites' longitudes (or x, with --sites-crs).", last=1
    )
    site_lat: str | None = setting(None, "Column with the sites' latitudes (or y, with --sites-crs).", last=1)
    sites_crs: str | None = setting(
        None, "Coordinate system of the sites where the file does not say; `planar` for metres.", last=1
    )

    def read_sites(self, records: str = "records") -> Sites:
        """The public list of sites, for records that name them."""
        if self.sites is None:
            raise PlanError(
                "plan-sites",
                f"the {records} name sites, so the list of sites with coordinates must be given.",
                "Pass --sites FILE (columns site, lon, lat, or as --site-id, --site-lon and --site-lat say); "
                f"it is public and never read off the {records}.",
            )
        from shoal.space.places import named_sites

        columns = {name: getattr(self, name) for name in ("site_id", "site_lon", "site_lat", "sites_crs")}
        return named_sites(self.sites, **columns)


@dataclass(frozen=True, kw_only=True)
class ZonesPlan(Plan):
    """Where the public zones come from, and what their columns are."""

    zones: str | None = setting(None, "Zones: GeoJSON, GeoParquet, Shapefile or GeoPackage.", file=True)
    zone_id: str | None = setting(None, "Column with the zones' ids; `row` numbers them.")
    zone_name: str | None = setting(None, "Column with the zones' names.")
    zones_crs: str | None = setting(None, "Coordinate system of the zones where the file does not say.")
    zones_layer: str | None = setting(None, "Layer of a file of zones with several.")
    repair_zones: bool = setting(False, "Repair self-intersecting polygons.")

    def read_zones(self, **checks: Any) -> Zones | None:
        """The zones of the file, if one is named; `checks` say what overlaps and holes do."""
        from shoal.space.places import read_zones

        if self.zones is None:
            return None
        return read_zones(
            self.zones,
            id_column=self.zone_id,
            name_column=self.zone_name,
            crs=self.zones_crs,
            layer=self.zones_layer,
            repair=self.repair_zones,
            **checks,
        )


@dataclass(frozen=True, kw_only=True)
class SpacePlan(ZonesPlan, SitesPlan):
    """Where the zones and sites come from: files, or a grid over a configured box. All of it is public."""

    holes: Choice = setting("stop", "Gaps between zones.")
    box: tuple[float, float, float, float] | None = setting(
        None,
        "west,south,east,north of a grid or of H3 cells (longitude first).",
        example=(2.25, 48.81, 2.42, 48.91),
        code="box-range",
        label="Box",
    )
    cell_m: float | None = setting(
        None,
        "Side of the squares of a grid over --box, in metres.",
        above=0,
        code="cell-size",
        example=500,
        label="Side of a square",
        unit="m",
    )
    h3: int | None = setting(
        None,
        "Resolution of H3 cells over --box.",
        (0, 15),
        code="h3-resolution",
        example=8,
        label="Resolution of hexagons",
    )

    @rule("zones", "cell_m", "h3")
    def _check_one_kind(self) -> None:
        if sum(way is not None for way in (self.zones, self.cell_m, self.h3)) != 1:
            raise zones_missing()

    @rule("box", "zones", "cell_m", "h3")
    def _check_box(self) -> None:
        if self.zones is None:
            if self.box is None:
                raise box_missing()
            check_area(self.box)


def is_coordinate(value: object) -> bool:
    """A finite number within 1e12: areas and cells of larger ones overflow."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e12 <= value <= 1e12


WIDEST = 180.0  # degrees of a box: lines between points go the other way round beyond


def check_width(west: float, east: float) -> None:
    """A box in degrees is not most of the world."""
    if east - west > WIDEST:
        raise PlanError(
            "box-wide",
            f"the box is {east - west:g} degrees wide; squares and lines on a map need {WIDEST:g} at most.",
            "Choose the box of the place that the data is about.",
        )


def check_area(box: tuple[float, ...]) -> None:
    """Four coordinates, west < east and south < north."""
    if len(box) != 4 or not all(map(is_coordinate, box)) or box[0] >= box[2] or box[1] >= box[3]:
        raise PlanError(
            "box-range",
            "a box is west, south, east, north with west < east and south < north.",
            "Give four numbers in that order; across the antimeridian (180 degrees) it takes two boxes.",
        )


def zones_missing() -> PlanError:
    return PlanError(
        "plan-zones",
        "a release needs one kind of zones, given by you and never read off the events.",
        "Pass --zones FILE, or --box W,S,E,N with --cell-m METRES or --h3 RESOLUTION.",
    )


def box_missing() -> PlanError:
    return PlanError(
        "plan-box",
        "a grid needs a box; it is public and never read off the events.",
        "Pass --box W,S,E,N, such as --box 2.25,48.81,2.42,48.91.",
    )
