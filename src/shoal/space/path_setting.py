"""What a generator of trips may know before it pays: the grid, the step, the window, what a unit is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.errors import PlanError
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock

WEEKEND = (5, 6)
DAY_KINDS = 48  # hour of day, apart for weekdays and weekends
# Parts of the week that tides are told apart by: weekdays before 6, 10, 15, 19 and 24 h; the weekend.
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
    trips: int | None = None  # declared number of trips; None: bought

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
        """int64 [slots]: hour of day, 24 more on weekends."""
        days = np.array([np.datetime64(day).astype("datetime64[D]").astype(int) for day in self.clock.days])
        weekend = np.isin((days + 3) % 7, WEEKEND)  # 1970-01-01 was a Thursday
        hour = self.clock.hours_local.astype(np.int64)
        return hour + 24 * weekend[self.clock.day_of_slot]
