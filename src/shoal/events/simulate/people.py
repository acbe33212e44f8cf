"""The people of the city: for each user a home, a work place, three places to go out, and habits.

A user's anchors depend on the seed and the user alone: the same under events, trips, samples and transit.

A random stream per (seed, user, week, purpose), in compiled code.

SplitMix64: the state is a counter, so a stream needs no set-up, and a user's draws do not depend on
which block, thread or part the user falls into. Not for privacy: see `shoal.privacy.noise`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from shoal.events.simulate.geography import City, nearness
from shoal.events.simulate.presets import CityPreset

HOME, WORK, ERRAND, LEISURE, NIGHT, ROAD = 0, 1, 2, 3, 4, 5  # kinds of place


class Ground(NamedTuple):
    """What the compiled code knows of the city (arrays only)."""

    xy: np.ndarray
    near: np.ndarray
    spread_m: np.ndarray
    raster: np.ndarray
    raster_origin: np.ndarray
    home: np.ndarray  # running sums over sites
    work: np.ndarray  # [from site, sites] running sums, and so on
    errand: np.ndarray
    leisure: np.ndarray
    night: np.ndarray
    crowds: np.ndarray  # int64 [crowds, 3]: day of the window, hour, site
    employed: float
    explore: float
    outings: float
    lunch: float
    habit_spread: float
    on_the_hour: bool  # working days begin and end on the hour


class People(NamedTuple):
    """A block of users; anchors[i, kind] is a site."""

    index: np.ndarray  # int64, 0 .. users - 1
    anchors: np.ndarray  # int32 [n, 5]
    works: np.ndarray  # bool
    early_minutes: np.ndarray  # how much earlier than others this person's day starts
    activity: np.ndarray  # standard normal: how much the person is seen
    explore: np.ndarray  # probability that a leisure visit goes to a new place
    outings: np.ndarray  # scales how often the person goes out


def make_ground(city: City, preset: CityPreset, seed: int) -> Ground:
    """Attraction of every site for every purpose, by the characters of its surroundings."""
    rng = np.random.default_rng([seed, 2])
    n, radius = len(city.xy), city.radius_m
    reach_m = radius * preset.built_up  # of a hub
    hubs, bars = city.hubs, city.hubs.copy()
    bars[:, :2] += rng.normal(0, 0.28 * reach_m, size=(len(bars), 2))  # night life is beside business
    business = nearness(city.xy, hubs, 0.28 * reach_m)
    lively = nearness(city.xy, bars, 0.16 * reach_m)
    own = rng.lognormal(0, preset.site_skew, size=(5, n))
    home = (0.35 + 1 / (0.6 + business)) * own[0]
    crowds = _crowds(preset, lively + 0.2, rng)
    distance = np.sqrt(((city.xy[:, None] - city.xy[None]) ** 2).sum(axis=2)) / (radius * preset.reach)
    return Ground(
        xy=city.xy,
        near=city.near,
        spread_m=city.spread_m,
        raster=city.raster,
        raster_origin=city.raster_origin,
        home=_running(home[None])[0],
        work=_running((0.10 + business**1.3) * own[1] * np.exp(-distance / 0.8)),
        errand=_running((0.5 + 0.5 * business + 0.3 * lively) * own[2] * np.exp(-distance / 0.15)),
        leisure=_running((0.25 + lively + 0.3 * business) * own[3] * np.exp(-distance / 0.5)),
        night=_running((0.02 + lively**2) * own[4] * np.exp(-distance / 1.0)),
        crowds=crowds,
        employed=preset.employed,
        explore=preset.explore,
        outings=preset.outings,
        lunch=preset.lunch,
        habit_spread=preset.habit_spread,
        on_the_hour=preset.rush > 1,
    )


def _running(weight: np.ndarray) -> np.ndarray:
    total = np.cumsum(weight, axis=1)
    total /= total[:, -1:]
    total[:, -1] = 1.0
    return np.ascontiguousarray(total)


def _crowds(preset: CityPreset, attraction, rng) -> np.ndarray:
    """Concerts and matches: day of the window, hour and site."""
    n = preset.bursts_per_week * preset.weeks
    day = rng.integers(0, 7 * preset.weeks, n)
    hour = rng.choice([12, 15, 18, 19, 20, 21], n)
    site = rng.choice(len(attraction), n, p=attraction / attraction.sum())
    return np.stack([day, hour, site], axis=1).astype(np.int64)


def make_people(ground: Ground, seed: int, first: int, last: int) -> People:
    """The users first .. last - 1."""
    n = last - first
    people = People(
        index=np.arange(first, last, dtype=np.int64),
        anchors=np.empty((n, 5), np.int32),
        works=np.empty(n, np.bool_),
        early_minutes=np.empty(n),
        activity=np.empty(n),
        explore=np.empty(n),
        outings=np.empty(n),
    )
    _fill_people(people, ground, seed)
    return people


@njit(cache=True, nogil=True)
def _fill_people(people, ground, seed):
    state = np.empty(1, np.uint64)
    for i in range(people.index.shape[0]):
        open_stream(state, seed, people.index[i], 0, PERSON)
        home = pick(state, ground.home)
        work = pick(state, ground.work[home])
        works = uniform(state) < ground.employed
        people.anchors[i, HOME] = home
        people.anchors[i, WORK] = work
        people.anchors[i, ERRAND] = pick(state, ground.errand[home])
        people.anchors[i, LEISURE] = pick(state, ground.leisure[work if works else home])
        people.anchors[i, NIGHT] = pick(state, ground.night[home])
        people.works[i] = works
        people.early_minutes[i] = 35.0 * normal(state)
        people.activity[i] = normal(state)
        people.explore[i] = min(ground.explore * math.exp(ground.habit_spread * normal(state)), 1.0)
        people.outings[i] = ground.outings * math.exp(ground.habit_spread * normal(state) / 3)


@njit(cache=True)
def point_of(state, ground, seed, user, site, kind):
    """Where exactly, in metres, this user's place of this kind at a site is: always the same answer."""
    open_stream(state, seed, user, site * 8 + kind, PLACE)
    x = ground.xy[site, 0] + ground.spread_m[site] * normal(state)
    y = ground.xy[site, 1] + ground.spread_m[site] * normal(state)
    return x, y


@njit(cache=True)
def site_at(ground, x, y):
    """The site nearest to a point, from the raster."""
    i = int((x - ground.raster_origin[0]) / ground.raster_origin[2])
    j = int((y - ground.raster_origin[1]) / ground.raster_origin[2])
    i = min(max(i, 0), ground.raster.shape[0] - 1)
    j = min(max(j, 0), ground.raster.shape[1] - 1)
    return ground.raster[i, j]


PERSON, DIARY, VISITS, SAMPLES, TRIPS, TRANSIT, PLACE = 1, 2, 3, 4, 5, 6, 7  # purposes

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True)
def mix(z):
    """A 64-bit bijection that scrambles its argument."""
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def open_stream(state, seed, user, week, purpose):
    """Point `state` (uint64[1]) at the stream of this user, week and purpose."""
    z = mix(np.uint64(seed) + _GOLDEN)
    z = mix(z ^ (np.uint64(user) + _GOLDEN))
    state[0] = mix(z ^ ((np.uint64(week) << np.uint64(8)) + np.uint64(purpose) + _GOLDEN))


@njit(cache=True)
def uniform(state):
    """One draw from [0, 1)."""
    state[0] += _GOLDEN
    return np.float64(mix(state[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def below(state, n):
    """One integer from 0 to n - 1."""
    return int(uniform(state) * n)


@njit(cache=True)
def normal(state):
    """One standard normal draw (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))


@njit(cache=True)
def pick(state, cumulative):
    """An index with the probabilities whose running sums are given (the last is 1)."""
    return np.searchsorted(cumulative, uniform(state), side="right")


@njit(cache=True)
def user_id(index, seed):
    """An arbitrary-looking id below 2**40, different for different users: a bijection on 40 bits."""
    mask = np.uint64((1 << 40) - 1)
    z = (np.uint64(index) + mix(np.uint64(seed))) & mask
    for _ in range(3):
        z = (z * np.uint64(0xD6E8FEB86659FD93)) & mask
        z ^= z >> np.uint64(21)
    return np.int64(z)
