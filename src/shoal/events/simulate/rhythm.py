"""When people are seen: the rate of records by kind of place and hour, and a factor of each site's own.

A user's week: where they are at every minute, as stays joined by journeys.

A stay is (arrive, leave, site, kind) in minutes since Monday local midnight.
The week begins and ends at home.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numba import njit
from scipy.optimize import least_squares
from scipy.stats import norm

from shoal.errors import PlanError
from shoal.events.simulate.geography import City
from shoal.events.simulate.people import (
    DIARY,
    ERRAND,
    HOME,
    LEISURE,
    NIGHT,
    WORK,
    below,
    normal,
    open_stream,
    pick,
    uniform,
)
from shoal.events.simulate.presets import CityPreset

RUSH_HOURS = (7, 8, 17, 18)
# Share of a full hour's activity, local clock 0 h to 23 h.
_HOME = "30 17 10 6.5 4.5 6.5 18 42 62 68 70 74 82 78 74 78 88 100 116 122 118 104 82 54"
_WORK = "25 14 9 6 4.5 8 25 70 96 104 108 112 118 110 106 108 110 112 104 90 75 60 45 34"
_OUT = "78 62 44 22 8 9 20 52 82 92 96 102 112 108 104 108 114 122 130 130 124 116 106 94"


class Rhythm(NamedTuple):
    """Tables for the compiled code; hours are local."""

    hour_running: np.ndarray  # float64 [168], running sums of the envelope over kinds of place
    accept: np.ndarray  # float64 [kinds, 168], rate over envelope
    factor: np.ndarray  # float32 [sites, hours of the window], own factor over the largest one


def make_rhythm(city: City, preset: CityPreset, crowds: np.ndarray, seed: int) -> Rhythm:
    """Rates by kind and hour; factors per site and hour, raised where a crowd gathers."""
    rates = _rates(preset.rush)
    envelope = rates.max(axis=0)
    running = np.cumsum(envelope) / envelope.sum()
    running[-1] = 1.0
    return Rhythm(hour_running=running, accept=rates / envelope, factor=_factors(city, preset, crowds, seed))


def _rates(rush: float) -> np.ndarray:
    """[kinds, 168]: home, work, errand, leisure, night life, on the road."""
    home, work, out = (np.array(curve.split(), float) / 100 for curve in (_HOME, _WORK, _OUT))
    weekday = np.stack([home, work, out, out, 1.15 * out, 1.1 * out])
    hours = np.arange(24)
    weekend = np.stack([np.interp(hours - 1.2, hours, curve, left=curve[0] * 1.2) for curve in weekday])
    weekend[:, 3:6] = 0.5 * (weekend[:, 3:6] + weekday[:, 3:6])  # later mornings, the same low at 4 h
    weekday[:, RUSH_HOURS] *= rush
    friday = weekday * np.where(hours >= 18, 1.12, 1.0)
    return np.concatenate([weekday] * 4 + [friday, 0.92 * weekend, 0.78 * weekend], axis=1)


def _factors(city: City, preset: CityPreset, crowds: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 3])
    hours = 168 * preset.weeks
    day = np.repeat(rng.normal(0, 0.25 * preset.irregularity, hours // 24), 24)
    own = rng.normal(0, preset.irregularity, size=(len(city.site_ids), hours))
    factor = np.exp(np.clip(own + day, -2.5 * preset.irregularity, 2.5 * preset.irregularity))
    for when, hour, site in crowds:
        start = when * 24 + hour
        stop = min(start + 3, hours)
        factor[city.near[site, :3], start:stop] *= 2.5
    return (factor / factor.max()).astype(np.float32)


def hour_starts(preset: CityPreset) -> np.ndarray:
    """UTC seconds at which every local hour of the window begins.

    In a week when clocks go forward the lost hour's records fall into the next one; when they go back the
    repeated hour is filled once.
    """
    zone = ZoneInfo(preset.time_zone)
    first = datetime(preset.start.year, preset.start.month, preset.start.day)
    hours = (first + timedelta(hours=h) for h in range(168 * preset.weeks))
    return np.array([int(hour.replace(tzinfo=zone).timestamp()) for hour in hours], dtype=np.int64)


def count_running(mean: float, sd: float, largest: int) -> np.ndarray:
    """Running probabilities of 1, 2, .. `largest` visits: a cut log-normal with this mean and sd.

    >>> table = count_running(13.55, 18.33, 732)
    >>> probability, visits = np.diff(table, prepend=0), np.arange(1, 733)
    >>> mean = float(probability @ visits)
    >>> round(mean, 2), round(float((probability @ visits**2 - mean**2) ** 0.5), 2)
    (13.55, 18.33)
    """
    visits = np.arange(1, largest + 1)

    def running(shape):
        table = norm.cdf((np.log(visits + 0.5) - shape[0]) / np.exp(shape[1]))
        low = norm.cdf((np.log(0.5) - shape[0]) / np.exp(shape[1]))
        return (table - low) / max(table[-1] - low, 1e-300)

    def misfit(shape):
        probability = np.diff(running(shape), prepend=0)
        m = probability @ visits
        return [m / mean - 1, np.sqrt(max(probability @ (visits - m) ** 2, 0)) / sd - 1]

    spread = np.sqrt(np.log(1 + (sd / mean) ** 2))
    fit = least_squares(misfit, [np.log(mean) - spread**2 / 2, np.log(spread)], xtol=1e-12, ftol=1e-14)
    if np.abs(fit.fun).max() > 1e-3:
        raise PlanError(
            "simulate-visits",
            f"no cut log-normal has mean {mean}, sd {sd} and maximum {largest}.",
            "Bring the sd nearer to the mean, or raise the maximum.",
        )
    table = running(fit.x)
    table[-1] = 1.0
    return table


WEEK_MINUTES = 7 * 1440
MAX_STAYS = 120


class Week(NamedTuple):
    """The stays of one week, in order; `size[0]` of them are in use."""

    arrive: np.ndarray
    leave: np.ndarray
    site: np.ndarray
    kind: np.ndarray
    size: np.ndarray


@njit(cache=True)
def empty_week():
    return Week(
        np.empty(MAX_STAYS),
        np.empty(MAX_STAYS),
        np.empty(MAX_STAYS, np.int32),
        np.empty(MAX_STAYS, np.int32),
        np.zeros(1, np.int64),
    )


@njit(cache=True)
def plan_week(stays, state, ground, people, i, seed, week):
    """Fill `stays` with one week of user i of the block."""
    open_stream(state, seed, people.index[i], week, DIARY)
    stays.arrive[0], stays.leave[0] = 0.0, WEEK_MINUTES
    stays.site[0], stays.kind[0] = people.anchors[i, HOME], HOME
    stays.size[0] = 1
    for day in range(7):
        if day < 5 and people.works[i] and uniform(state) < 0.9:
            _working_day(stays, state, ground, people, i, week, day)
        else:
            _free_day(stays, state, ground, people, i, week, day)
        _evening(stays, state, ground, people, i, week, day)


@njit(cache=True)
def _working_day(stays, state, ground, people, i, week, day):
    start = day * 1440.0 + 495 - people.early_minutes[i] + 20 * normal(state)
    if ground.on_the_hour:
        start = day * 1440.0 + 60 * (7 + below(state, 2))
    work = people.anchors[i, WORK]
    _go(stays, ground, start, work, WORK)
    if uniform(state) < ground.lunch:
        lunch = day * 1440.0 + 740 + 15 * normal(state)
        place = pick(state, ground.errand[work])
        _go(stays, ground, lunch, place, ERRAND)
        _go(stays, ground, lunch + 35 + 30 * uniform(state), work, WORK)
    end = start + (600 if ground.on_the_hour else 550 + 40 * normal(state))
    u = uniform(state)
    if u < 0.3 * people.outings[i]:
        _go(stays, ground, end, _errand_place(state, ground, people, i), ERRAND)
        end += 50 + 40 * uniform(state)
    elif u < 0.45 * people.outings[i]:
        _go(stays, ground, end, _leisure_place(state, ground, people, i, week, day, 18), LEISURE)
        end += 90 + 60 * uniform(state)
    _go(stays, ground, end, people.anchors[i, HOME], HOME)


@njit(cache=True)
def _free_day(stays, state, ground, people, i, week, day):
    home = people.anchors[i, HOME]
    late = 45.0 if day >= 5 else 0.0
    if uniform(state) < 0.6 * people.outings[i]:
        start = day * 1440.0 + 610 + late - people.early_minutes[i] + 60 * normal(state)
        _go(stays, ground, start, _errand_place(state, ground, people, i), ERRAND)
        _go(stays, ground, start + 50 + 70 * uniform(state), home, HOME)
    if uniform(state) < (0.6 if day >= 5 else 0.45) * people.outings[i]:
        start = day * 1440.0 + 870 + 75 * normal(state)
        _go(stays, ground, start, _leisure_place(state, ground, people, i, week, day, 15), LEISURE)
        _go(stays, ground, start + 100 + 130 * uniform(state), home, HOME)


@njit(cache=True)
def _evening(stays, state, ground, people, i, week, day):
    weekend = day == 4 or day == 5  # Friday and Saturday nights
    probability = 0.4 if weekend else (0.2 if day == 3 else 0.14)
    if uniform(state) >= probability * people.outings[i]:
        return
    start = day * 1440.0 + 1215 + 30 * normal(state)
    place = people.anchors[i, NIGHT]
    if uniform(state) < people.explore[i]:
        place = pick(state, ground.night[people.anchors[i, HOME]])
    place = _crowd_place(state, ground, week, day, 20, place)
    _go(stays, ground, start, place, NIGHT)
    stay = 110 + 80 * uniform(state)
    if weekend and uniform(state) < 0.4:
        stay += 100 + 80 * uniform(state)
    _go(stays, ground, start + stay, people.anchors[i, HOME], HOME)


@njit(cache=True)
def _errand_place(state, ground, people, i):
    if uniform(state) < people.explore[i] / 2:
        return pick(state, ground.errand[people.anchors[i, HOME]])
    return people.anchors[i, ERRAND]


@njit(cache=True)
def _leisure_place(state, ground, people, i, week, day, hour):
    place = people.anchors[i, LEISURE]
    if uniform(state) < people.explore[i]:
        place = pick(state, ground.leisure[people.anchors[i, HOME]])
    return _crowd_place(state, ground, week, day, hour, place)


@njit(cache=True)
def _crowd_place(state, ground, week, day, hour, usual):
    """For some of those who go out, the place of a concert or match then; else the usual place."""
    if ground.crowds.shape[0] == 0 or uniform(state) > 0.05:
        return usual
    first = below(state, ground.crowds.shape[0])
    for step in range(ground.crowds.shape[0]):
        crowd = ground.crowds[(first + step) % ground.crowds.shape[0]]
        if crowd[0] == week * 7 + day and abs(crowd[1] - hour) <= 2:
            return crowd[2]
    return usual


@njit(cache=True)
def _go(stays, ground, minute, site, kind):
    """Leave for another site at that minute, or a little later if the last journey was not over.

    Who could not be back home before the week ends does not go, or goes home earlier.
    """
    n = stays.size[0]
    last, home = stays.site[n - 1], stays.site[0]
    if last == site or n >= MAX_STAYS - 1:
        if last == site:
            stays.kind[n - 1] = kind
        return
    journey = journey_minutes(ground, last, site)
    back = 10.0 + journey_minutes(ground, site, home) if site != home else 0.0
    latest = WEEK_MINUTES - 10.0 - journey - back
    minute = max(minute, stays.arrive[n - 1] + 10.0)
    if minute > latest:
        if site != home:
            return
        minute = latest
    stays.leave[n - 1] = minute
    stays.arrive[n], stays.leave[n] = minute + journey, WEEK_MINUTES
    stays.site[n], stays.kind[n] = site, kind
    stays.size[0] = n + 1


@njit(cache=True)
def journey_minutes(ground, a, b):
    """Along streets: on foot below 1.2 km, else 18 to 36 km/h and some minutes to get going."""
    metres = abs(ground.xy[a, 0] - ground.xy[b, 0]) + abs(ground.xy[a, 1] - ground.xy[b, 1])
    if metres < 1200:
        return 2.0 + metres / 75.0
    return 6.0 + metres / (300.0 + 300.0 * min(metres / 40000.0, 1.0))


@njit(cache=True)
def stay_at(stays, minute):
    """Index of the last stay that was reached at that minute."""
    return max(np.searchsorted(stays.arrive[: stays.size[0]], minute, side="right") - 1, 0)
