"""What mechanisms of trips may know before they pay.

Histograms       the grid, the rectangles to serve, bounds on trips
Synthetic trips  the grid, the step, the window, what a unit is

Also the public partitions of trip summaries. A summary is the first and last column, the first and last row
(whole cells, inclusive) and a shape 0..11; a partition cuts columns and rows at given borders and keeps some
of the coordinates, so that every summary falls into exactly one bin:

box      first and last column, first and last row         centre   middle of the box
x, y     first and last column; first and last row         size     columns + rows of the box
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.errors import PlanError
from shoal.space.cells import CellGrid, Rectangles
from shoal.space.clock import Clock, hour_kinds


@dataclass(frozen=True, kw_only=True, eq=False)
class TripSetting:
    """Public things, none of them from trips."""

    grid: CellGrid
    given: Rectangles = field(repr=False)  # the workload that mechanisms may choose from
    each_trip: bool = False  # the unit is a trip; else a user, of whom per_unit trips are kept
    per_unit: int = 1  # trips kept of one unit: the sensitivity of every sum over kept trips
    cap: int | None = None  # trips of one unit in the number of all trips; None: only kept ones are counted
    trips: int | None = None  # declared number of kept trips; None: measured with part of the budget
    mean_cells: float | None = None  # a guess at the cells of a trip; None: a quarter of columns + rows

    def __post_init__(self) -> None:
        if self.per_unit < 1 or (self.cap is not None and self.cap < self.per_unit):
            raise PlanError(
                "trip-bound",
                f"trips per unit must be 1 or more, their cap not below; got {self.per_unit} and {self.cap}.",
                "Pass --trips-per-user 10 --trips-cap 100, say.",
            )
        if self.each_trip and (self.per_unit, self.cap) not in ((1, None), (1, 1)):
            raise PlanError("trip-bound", "where the unit is a trip, a unit has one trip.")
        if self.trips is not None and self.trips < 1:
            raise PlanError("trip-bound", "the declared number of trips must be at least 1.")
        self.given.check(self.grid)

    @property
    def expected_cells(self) -> float:
        """Cells of a typical trip, for a first guess that is public."""
        return self.mean_cells or 0.25 * (self.grid.columns + self.grid.rows)


ALL_SHAPES = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class TripBins:
    """Bins of one kind; `shapes` groups of shapes (1: shapes do not matter, 2: the diagonal, 12: all)."""

    kind: str
    x_cuts: np.ndarray = field(repr=False)  # float64, inner borders in cells, increasing
    y_cuts: np.ndarray = field(repr=False)
    shapes: int = 1

    @property
    def count(self) -> int:
        columns, rows = self.x_cuts.size + 1, self.y_cuts.size + 1
        places = {
            "box": (columns * rows) ** 2,
            "x": columns**2,
            "y": rows**2,
            "centre": columns * rows,
            "size": columns,
        }[self.kind]
        return places * self.shapes

    def index(self, x0, x1, y0, y1, shape) -> np.ndarray:
        """int64: the bin of every summary."""
        columns, rows = self.x_cuts.size + 1, self.y_cuts.size + 1
        if self.kind == "box":
            at = self._column(x0) * columns + self._column(x1)
            at = (at * rows + self._row(y0)) * rows + self._row(y1)
        elif self.kind == "x":
            at = self._column(x0) * columns + self._column(x1)
        elif self.kind == "y":
            at = self._row(y0) * rows + self._row(y1)
        elif self.kind == "centre":
            at = self._column((np.asarray(x0) + x1) / 2) * rows + self._row((np.asarray(y0) + y1) / 2)
        else:
            at = self._column(np.asarray(x1) - x0 + y1 - y0)
        if self.shapes == 1:
            return at
        return at * self.shapes + np.asarray(shape, np.int64) // (ALL_SHAPES // self.shapes)

    def _column(self, x) -> np.ndarray:
        return np.searchsorted(self.x_cuts, np.asarray(x) + 0.5, side="right")

    def _row(self, y) -> np.ndarray:
        return np.searchsorted(self.y_cuts, np.asarray(y) + 0.5, side="right")


# Parts of the week that tides distinguish: weekdays before 6, 10, 15, 19 and 24 h; the weekend.
PART_OF_KIND = np.repeat(np.arange(6), [6, 4, 5, 4, 5, 24])
WEEK_PARTS = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class PathSetting:
    """Public things, none of them from trips."""

    grid: CellGrid
    step_s: float  # lambda: the shortest stay, and the step of time
    clock: Clock = field(repr=False)  # hourly slots of the window
    each_trip: bool = False  # the unit is a trip; else a unit's trips are summed and scaled to norm 1
    cap: int = 1  # trips of one unit in the number of trips
    trips: int | None = None  # declared number of trips; None: measured with part of the budget

    def __post_init__(self) -> None:
        if not 1 <= self.step_s <= 86_400:
            raise PlanError(
                "step-range",
                f"the step of time must be from 1 second to a day; got {self.step_s}.",
                "Pass --step-s 60, say.",
            )
        if self.cap < 1 or (self.each_trip and self.cap != 1):
            raise PlanError(
                "trip-bound",
                f"the cap on a unit's trips must be 1 or more, 1 where a unit is a trip; got {self.cap}.",
                "Pass --trips-cap 100, say.",
            )
        if self.trips is not None and self.trips < 1:
            raise PlanError("trip-bound", "the declared number of trips must be at least 1.")

    @property
    def kind_of_slot(self) -> np.ndarray:
        return hour_kinds(self.clock)
