"""The part of a plan that says where zones and sites come from. It loads no geometry: plans are read without.

A box is declared by the owner and never read off the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shoal.errors import PlanError

Choice = Literal["stop", "warn", "allow"]


@dataclass(frozen=True, kw_only=True)
class SpacePlan:
    """Where the zones and sites come from: files, or a grid over a configured box. All of it is public."""

    zones: str | None = None
    zone_id: str | None = None
    zone_name: str | None = None
    zones_crs: str | None = None
    zones_layer: str | None = None  # of a file with several
    repair_zones: bool = False
    holes: Choice = "stop"  # gaps between zones: stop, warn or allow
    sites: str | None = None
    site_id: str | None = None
    site_lon: str | None = None  # columns with the coordinates, where their names are not usual ones
    site_lat: str | None = None
    sites_crs: str | None = None  # where the file does not say; "planar" for metres without a place
    box: tuple[float, float, float, float] | None = None  # west, south, east, north
    cell_m: float | None = None
    h3: int | None = None

    def __post_init__(self) -> None:
        ways = [self.zones is not None, self.cell_m is not None, self.h3 is not None]
        if sum(ways) != 1:
            raise zones_missing()
        if self.zones is None:
            if self.box is None:
                raise box_missing()
            check_area(self.box)


def is_coordinate(value: object) -> bool:
    """A finite number within 1e12: areas and cells of larger ones overflow."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e12 <= value <= 1e12


def check_area(box: tuple[float, ...]) -> None:
    """Four coordinates, west < east and south < north."""
    if len(box) != 4 or not all(map(is_coordinate, box)) or box[0] >= box[2] or box[1] >= box[3]:
        raise PlanError(
            "box-range",
            "a box is west, south, east, north with west < east and south < north.",
            "Give four numbers in that order.",
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
