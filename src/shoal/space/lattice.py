"""The public lattice of a trajectory release: steps of time from a start, square cells from an origin.

Degrees become metres by two constants of the origin's latitude, both in the manifest, so that anyone can
place a point with one line of arithmetic. Nothing here is read off the data: start, length and origin are
declared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import shapely

from shoal.errors import PlanError

DEGREE_LAT_M = 110_574.0  # metres in a degree of latitude, and of longitude at the equator
DEGREE_LON_M = 111_320.0
MOST_STEPS = 2**24  # 31 years of minutes
MOST_CELLS = 2**24  # either way from the origin


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """Step t starts at start + t * minutes; cell (x, y) has its corner at origin + (x, y) * metres."""

    start: datetime  # with a time zone
    steps: int
    origin: tuple[float, float]  # lon, lat; or x, y in metres where planar
    planar: bool = False
    minutes: int = 1
    metres: float = 100.0

    def __post_init__(self) -> None:
        if self.start.tzinfo is None:
            raise PlanError("lattice-start", "the start of the lattice needs a time zone.")
        if not 1 <= self.steps <= MOST_STEPS:
            raise PlanError(
                "lattice-steps", f"the window must have 1 to {MOST_STEPS} steps; got {self.steps}."
            )
        if self.minutes < 1 or not (0 < self.metres < 1e6):
            raise PlanError(
                "lattice-unit",
                "a step is at least 1 minute, a cell above 0 and below 1000 km.",
                "Pass --cell-m 100, say.",
            )
        first, second = self.origin
        if not (math.isfinite(first) and math.isfinite(second)):
            raise PlanError("lattice-origin", "the origin must be two numbers.", "Pass --origin LON,LAT.")
        if not self.planar and not (abs(first) <= 180 and abs(second) <= 80):
            raise PlanError(
                "lattice-origin",
                f"the origin must be a longitude and a latitude up to 80 degrees; got {first}, {second}.",
                "Pass --origin LON,LAT, south-west of the area.",
            )

    @property
    def metres_per_unit(self) -> tuple[float, float]:
        """Metres in one unit of the first and of the second coordinate."""
        if self.planar:
            return 1.0, 1.0
        return round(DEGREE_LON_M * math.cos(math.radians(self.origin[1])), 3), DEGREE_LAT_M

    @property
    def start_us(self) -> int:
        return round(self.start.astimezone(UTC).timestamp()) * 1_000_000

    def step_of(self, time_us: np.ndarray) -> np.ndarray:
        """int64: the step of each instant; outside 0 .. steps - 1 for those outside the window."""
        return (np.asarray(time_us, np.int64) - self.start_us) // (self.minutes * 60_000_000)

    def cell_of(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """int32 cells (x, y) of points given in the coordinates of the origin."""
        cells = []
        for value, origin, scale in zip((first, second), self.origin, self.metres_per_unit, strict=True):
            cell = np.floor((np.asarray(value, np.float64) - origin) * scale / self.metres)
            if len(cell) and not np.abs(cell).max() < MOST_CELLS:
                raise PlanError(
                    "lattice-far",
                    "a point lies too far from the origin.",
                    "Check --origin and the order of coordinates.",
                )
            cells.append(cell.astype(np.int32))
        return cells[0], cells[1]

    def corner_of(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """South-west corners of cells, in the coordinates of the origin."""
        (first, second), (by_x, by_y) = self.origin, self.metres_per_unit
        return first + np.asarray(x) * self.metres / by_x, second + np.asarray(y) * self.metres / by_y

    def bounds_of(self, boxes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Instants and edges of boxes t0..t1, x0..x1, y0..y1, ends included."""
        step_us = self.minutes * 60_000_000
        west, south = self.corner_of(boxes["x0"], boxes["y0"])
        east, north = self.corner_of(np.asarray(boxes["x1"]) + 1, np.asarray(boxes["y1"]) + 1)
        return {
            "start_us": self.start_us + np.asarray(boxes["t0"], np.int64) * step_us,
            "end_us": self.start_us + (np.asarray(boxes["t1"], np.int64) + 1) * step_us,
            "west": west,
            "south": south,
            "east": east,
            "north": north,
        }

    def to_manifest(self) -> dict[str, Any]:
        """All it takes to place a point: x = floor((lon - origin[0]) * metres_per_unit[0] / metres)."""
        return {
            "start": self.start.astimezone(UTC).isoformat(),
            "steps": self.steps,
            "minutes": self.minutes,
            "origin": list(self.origin),
            "metres": self.metres,
            "metres_per_unit": list(self.metres_per_unit),
            "coordinates": "planar metres" if self.planar else "longitude, latitude",
        }


def rectangles_wkb(west: np.ndarray, south: np.ndarray, east: np.ndarray, north: np.ndarray) -> np.ndarray:
    """bytes [boxes]: each rectangle as a polygon in WKB, counter-clockwise."""
    return shapely.to_wkb(shapely.box(west, south, east, north), byte_order=1)


def steps_of(minutes: int, lattice: Lattice) -> int:
    """Steps in a slot of so many minutes."""
    if minutes < 1 or minutes % lattice.minutes:
        raise PlanError(
            "slot-minutes",
            f"a slot must be whole steps of {lattice.minutes} min; got {minutes} min.",
            "Choose a multiple of the lattice's step.",
        )
    return minutes // lattice.minutes
