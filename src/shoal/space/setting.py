"""What mechanisms of counts may know before they pay, beside the map and the clock: questions and classes.

A zone's size is the number of visits it would have if every site had one. Sites are denser where more people
are, so sizes are a rough guess of how zones differ. Where points were located in zones, every zone is its own
place: all sizes are 1 and nothing is shared.

Regions are k-means clusters of zone centroids, the same for the same map.

The activity curve is a rough guess of how phones are used through a day (low before dawn, high in the
evening): a method weighs hours by it before anything was measured and replaces it by a measured profile
afterwards. Where slots are longer than three hours the curve is flat.

Counting questions: how many visits lie in a set of zones and slots. Public, and what one user can change.

Q(S, T) is the sum of a table [zones, slots] over the zones S and the slots T. Where each user has at most
`ell` visits, at most one per slot, one user changes it by at most

    min(ell, |T|) * max over places of (share of a visit there that falls into S)

so a question about one slot moves by at most one visit, whatever ell is.

>>> asked = Questions.of(
...     [Question(zones=(0, 1), slots=(3,)), Question(zones=(1,), slots=tuple(range(24)))],
...     AreaWeights.identity(2), slots=24, ell=5)
>>> [each // asked.lattice for each in asked.sensitivity]
[1, 5]

A home, work and commute model may know sites, clock and classes, and the shapes of its tables.

parts of the day    0 night (19 to 7 h), 1 work hours (weekdays 9 to 17 h), 2 other weekday hours, 3 the
                    rest of weekends
classes of users    0 home and work place are one site, 1 a commuter: they are two, 2 a home only was seen
                    (nothing in work hours), 3 no home was seen (nothing at night)

>>> xy_m = np.array([[0.0, 0.0], [3000.0, 0.0], [0.0, 4000.0]])
>>> setting = CommuteSetting(site_xy_m=xy_m, clock=Clock.week("2026-03-02", "UTC"), regions=2)
>>> setting.sites, setting.shapes["flows"], setting.part_of_slot[[0, 9, 18]].tolist()
(3, (2, 2), [0, 1, 2])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse
import shapely
from scipy.spatial.distance import cdist

from shoal.errors import GuaranteeError, PlanError
from shoal.space.checks import LONLAT, equal_area_crs, transform_xy
from shoal.space.clock import HOUR_KINDS, Clock, hour_kinds
from shoal.space.geography import AreaWeights
from shoal.space.places import Sites, Zones

LEAST_SIZE = 1e-3  # of the mean: a zone without any site has a size too
MOST_WEIGHT = 4.0
# Classes of users by the number of their visits, of which a user has at most MOST_VISITS that enter at all.
MOST_VISITS = 4096
SIZES_PER_OCTAVE = 2
SIZE_BINS = SIZES_PER_OCTAVE * (MOST_VISITS.bit_length() - 1) + 1  # the last: MOST_VISITS


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
HOURLY_ACTIVITY = (
    *(0.45, 0.25, 0.15, 0.10, 0.10, 0.15, 0.30, 0.60, 0.95, 1.20, 1.30, 1.35),
    *(1.40, 1.35, 1.30, 1.30, 1.35, 1.45, 1.55, 1.60, 1.55, 1.40, 1.10, 0.75),
)
CURVE_UP_TO_MINUTES = 180


def activity(clock: Clock) -> np.ndarray:
    """float64 [slots]: expected activity, with mean 1."""
    if clock.slot_minutes > CURVE_UP_TO_MINUTES:
        return np.ones(clock.slots)
    middle = clock.hours_local + clock.slot_minutes / 120
    expected = np.interp(middle - 0.5, np.arange(25), (*HOURLY_ACTIVITY, HOURLY_ACTIVITY[0]))
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


CLASSES = 4
STAYER, COMMUTER, HOME_ONLY, NO_HOME = range(CLASSES)
PARTS = 4
NIGHT, WORK_HOURS, BETWEEN, WEEKEND_DAY = range(PARTS)
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


LARGEST = 2.0**61  # of sums in lattice units, as in the noise
CLIPS = 25  # of a user's part in a query: by half-octaves, from one visit to 4,096


@dataclass(frozen=True, kw_only=True)
class Question:
    """Visits in these zones during these slots; both by their number, each once."""

    zones: tuple[int, ...]
    slots: tuple[int, ...]
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "zones", tuple(sorted(set(self.zones))))
        object.__setattr__(self, "slots", tuple(sorted(set(self.slots))))
        for what, chosen in (("zone", self.zones), ("slot", self.slots)):
            if not chosen:
                raise PlanError("query-empty", f"the query{_called(self.name)} covers no {what}.")


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Questions about one table, and by how much one user can change each, in lattice units."""

    each: tuple[Question, ...] = field(repr=False)
    reach: tuple[int, ...] = field(repr=False)  # units of one visit that fall into the zones, at most
    by_place: np.ndarray = field(repr=False, compare=False)  # int64 [questions, places]: units of a visit
    ell: int
    zones: int
    slots: int
    lattice: int
    column_l1: int
    column_l2_squared: int

    @classmethod
    def of(cls, each: Iterable[Question], weights: AreaWeights, *, slots: int, ell: int) -> Questions:
        each = tuple(each)
        zones = weights.shape[0]
        for question in each:
            query = f"the query{_called(question.name)}"
            if question.zones[0] < 0 or question.zones[-1] >= zones:
                raise PlanError("query-zones", f"{query} names zones that are not there.")
            if question.slots[0] < 0 or question.slots[-1] >= slots:
                outside = f"{query} names slots outside the window (0 to {slots - 1})."
                raise PlanError("query-slots", outside)
        chosen = _indicators([question.zones for question in each], zones)
        by_place = np.asarray(weights.matrix.T @ chosen.T.astype(np.int64))  # [places, questions]
        return cls(
            each=each,
            reach=tuple(int(most) for most in by_place.max(axis=0, initial=0)),
            by_place=np.ascontiguousarray(by_place.T),
            ell=ell,
            zones=zones,
            slots=slots,
            lattice=weights.lattice,
            column_l1=weights.column_l1,
            column_l2_squared=weights.column_l2_squared,
        )

    @property
    def count(self) -> int:
        return len(self.each)

    @property
    def sensitivity(self) -> tuple[int, ...]:
        """What one user can change each answer by, in lattice units; never zero, so that noise is due."""
        return tuple(
            max(1, min(self.ell, len(question.slots)) * reach)
            for question, reach in zip(self.each, self.reach, strict=True)
        )

    @cached_property
    def clips(self) -> np.ndarray:
        """int64 [questions, CLIPS]: increasing bounds of a user's part; no user's part exceeds the last ones.

        A part of all visits is at most one visit per slot and place of the query.
        """
        ladder = 2.0 ** (np.arange(CLIPS) / 2)
        each = zip(self.each, self.reach, self.by_place.sum(axis=1).tolist(), strict=True)
        return np.array(
            [
                np.minimum(np.ceil(max(reach, 1) * ladder), max(whole * len(question.slots), 1))
                for question, reach, whole in each
            ],
            np.int64,
        )

    @property
    def whole_sensitivity(self) -> int:
        """The same of the sum over all zones and slots."""
        return max(1, min(self.ell, self.slots) * self.column_l1)

    @cached_property
    def in_zones(self) -> np.ndarray:
        """bool [questions, zones]"""
        return _indicators([question.zones for question in self.each], self.zones)

    @cached_property
    def in_slots(self) -> np.ndarray:
        """bool [questions, slots]"""
        return _indicators([question.slots for question in self.each], self.slots)

    def values(self, table: np.ndarray) -> np.ndarray:
        """The sum of `table` [zones, slots] in each question: exact where the table is of integers."""
        if table.shape != (self.zones, self.slots):
            raise GuaranteeError("query-table", "the table has other zones or slots than the questions.")
        if np.abs(table).sum(dtype=np.float64) >= LARGEST:
            raise GuaranteeError("query-overflow", "the counts are too large for 64-bit integer sums.")
        return (self.in_zones.astype(table.dtype) @ table * self.in_slots).sum(axis=1)


def zones_in_box(zones: Zones, box: tuple[float, float, float, float]) -> tuple[int, ...]:
    """Zones whose centre lies in west, south, east, north: longitude and latitude, or planar as the zones."""
    west, south, east, north = box
    shown = zones if zones.crs is None else zones.to_lonlat()
    x, y = shapely.get_coordinates(shapely.centroid(shown.geometry)).T
    return tuple(np.flatnonzero((x >= west) & (x <= east) & (y >= south) & (y <= north)).tolist())


def _indicators(chosen: list[tuple[int, ...]], size: int) -> np.ndarray:
    inside = np.zeros((len(chosen), size), bool)
    for row, numbers in enumerate(chosen):
        inside[row, list(numbers)] = True
    return inside


def _called(name: str) -> str:
    return f' "{name}"' if name else ""
