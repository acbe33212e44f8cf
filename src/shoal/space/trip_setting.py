"""What a histogram mechanism may know before it pays: the grid, the rectangles to serve, bounds on trips."""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.errors import PlanError
from shoal.space.cells import CellGrid
from shoal.space.rectangles import Rectangles


@dataclass(frozen=True, kw_only=True, eq=False)
class TripSetting:
    """Public things, none of them from trips."""

    grid: CellGrid
    given: Rectangles = field(repr=False)  # the workload that mechanisms may choose from
    each_trip: bool = False  # the unit is a trip; else a user, of whom per_unit trips are kept
    per_unit: int = 1  # trips kept of one unit: the sensitivity of every sum over kept trips
    cap: int | None = None  # trips of one unit in the number of all trips; None: only kept ones are counted
    trips: int | None = None  # declared number of kept trips; None: bought
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
