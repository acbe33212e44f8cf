"""What a generator of trips may know before it pays: the grid, the step, the window, what a unit is.

What a home, work and commute model may know before it pays: sites, clock, classes; and its tables' shapes.

parts of the day    0 night (19 to 7 h), 1 work hours (weekdays 9 to 17 h), 2 other weekday hours, 3 the
                    rest of weekends
classes of users    0 home and work place are one site, 1 a commuter: they are two, 2 a home only was seen
                    (nothing in work hours), 3 no home was seen (nothing at night)

>>> from shoal.space.clock import Clock
>>> xy_m = np.array([[0.0, 0.0], [3000.0, 0.0], [0.0, 4000.0]])
>>> setting = CommuteSetting(site_xy_m=xy_m, clock=Clock.week("2026-03-02", "UTC"), regions=2)
>>> setting.sites, setting.shapes["flows"], setting.part_of_slot[[0, 9, 18]].tolist()
(3, (2, 2), [0, 1, 2])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal.errors import PlanError
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.projection import LONLAT, equal_area_crs, transform_xy
from shoal.space.setting import regions_of
from shoal.space.sites import Sites

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


def hour_kinds(clock: Clock) -> np.ndarray:
    """int64 [slots]: hour of day, 24 more on weekends."""
    weekend = ~np.is_busday(np.array(clock.days, "datetime64[D]"))
    return clock.hours_local.astype(np.int64) + 24 * weekend[clock.day_of_slot]


CLASSES = 4
STAYER, COMMUTER, HOME_ONLY, NO_HOME = range(CLASSES)
PARTS = 4
NIGHT, WORK_HOURS, BETWEEN, WEEKEND_DAY = range(PARTS)
HOUR_KINDS = 48  # hour of day, 24 more on weekends
AT_HOME, AT_WORK, ELSEWHERE = range(3)
PLACES = 3
HOMES = 3  # kinds of anchors: homes of commuters, of others, and of those whose home was not seen
ANCHORS = 3  # what a call elsewhere is near to: anchor of others, home of commuters, work place of commuters
# Upper ends of classes of calls in the window; more than the last counts as the last.
_CALLS = "1 2 3 4 5 6 7 8 10 12 15 19 24 30 38 48 60 76 96 120 152 192 240 304 384 480 608 768 1024"
CALLS = np.array(_CALLS.split(), np.int64)
ACTIVITY = np.array([4, 16], np.int64)  # few, some, many calls: upper ends, the last class open
ACTIVITIES = ACTIVITY.size + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class CommuteSetting:
    """Public things, none of them from events."""

    site_xy_m: np.ndarray = field(repr=False)  # float64 [sites, 2], on a plane in metres
    clock: Clock = field(repr=False)
    regions: int = 16  # of near sites; flows are between regions
    distances: int = 24  # classes of distance, finer where near

    def __post_init__(self) -> None:
        xy = self.site_xy_m
        if xy.ndim != 2 or xy.shape[1] != 2 or not len(xy) or not np.isfinite(xy).all():
            raise PlanError("site-list", "a commute model needs sites with coordinates in metres.")
        if self.regions < 1 or self.distances < 2:
            raise PlanError(
                "commute-classes",
                f"regions must be 1 or more, distances 2 or more; got {self.regions} and {self.distances}.",
            )
        if self.clock.slot_minutes > 60:
            raise PlanError(
                "slot-minutes",
                f"hours of day need slots of an hour or less; got {self.clock.slot_minutes} minutes.",
                "Use slots of 60 minutes.",
            )

    @property
    def sites(self) -> int:
        return len(self.site_xy_m)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every table; each user adds a vector of norm at most 1 to each."""
        return {
            "users": (1,),
            "people": (CLASSES, CALLS.size),  # class and number of calls
            "homes": (HOMES, self.sites),
            "works": (self.sites,),  # of commuters, as the next two
            "distances": (self.distances,),
            "flows": (self.region_count, self.region_count),
            "hours": (CLASSES, 2, HOUR_KINDS),  # many calls or not
            "places": (CLASSES, ACTIVITIES, PARTS, PLACES),
            "elsewhere": (self.sites,),  # calls neither at home nor at work, as the next
            "reach": (ANCHORS, PARTS, self.distances),
        }

    @cached_property
    def region_of_site(self) -> np.ndarray:
        """int64 [sites]"""
        return regions_of(self.site_xy_m, self.regions)

    @cached_property
    def region_count(self) -> int:
        return int(self.region_of_site.max()) + 1

    @cached_property
    def distance_ends_m(self) -> np.ndarray:
        """float64 [distances - 1]: upper ends of classes, the last is open; widths grow with distance."""
        extent = float(np.hypot(*np.ptp(self.site_xy_m, axis=0)))
        return max(extent, 1.0) * (np.arange(1, self.distances) / self.distances) ** 2

    @cached_property
    def kind_of_slot(self) -> np.ndarray:
        return hour_kinds(self.clock)

    @property
    def part_of_slot(self) -> np.ndarray:
        return part_of_kind()[self.kind_of_slot]


def part_of_kind() -> np.ndarray:
    """int64 [48]: night, work hours, between, weekend day."""
    hour, weekend = np.arange(HOUR_KINDS) % 24, np.arange(HOUR_KINDS) >= 24
    by_day = np.where(weekend, WEEKEND_DAY, np.where((hour >= 9) & (hour < 17), WORK_HOURS, BETWEEN))
    return np.where((hour >= 19) | (hour < 7), NIGHT, by_day)


def commute_setting(sites: Sites, clock: Clock, **classes: int) -> CommuteSetting:
    """The setting of a public list of sites, put on an equal-area plane."""
    x, y = np.asarray(sites.x, float), np.asarray(sites.y, float)
    if sites.crs is not None:
        lon, lat = transform_xy(x, y, sites.crs, LONLAT)
        x, y = transform_xy(lon, lat, LONLAT, equal_area_crs((lon.min(), lat.min(), lon.max(), lat.max())))
    return CommuteSetting(site_xy_m=np.column_stack([x, y]), clock=clock, **classes)
