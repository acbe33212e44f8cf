"""A concert, a weekly market and a fleet of vehicles, beside the diaries of people; and the truth about them.

Participants and vehicles are spread evenly over the numbers of the users, so that a city of any size has the
same shares of them. A participant is seen once in every hour at the gathering and nowhere else during it. A
vehicle has no diary.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import shapely
from numba import njit

from shoal.events.simulate.geography import City
from shoal.events.simulate.people import Ground, People, point_of, user_id
from shoal.events.simulate.presets import CityPreset
from shoal.space.geography import voronoi_weights
from shoal.space.places import Sites

VISITS = 5  # kind of place that no diary uses: where a person is at a site, whatever for
SHIFTS = ((6, 22),) * 5 + ((9, 17),)  # hours of a vehicle, Monday to Saturday; 88 a week
VISITS_PER_HOUR = 9.1
LEAST_SHARE = 0.05  # of a gathering that a zone must hold to be listed
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # user id, second since the local start, site


@dataclass(frozen=True, kw_only=True)
class Gathering:
    """People at one place in some hours of the window; each participant stays `stay` hours."""

    name: str
    weekly: bool
    zone: int
    site: int  # nearest to the venue
    xy: tuple[float, float]  # the venue, in metres of the city's plane
    first_hours: tuple[int, ...]  # of the window, one for each occurrence
    hours: int
    stay: int
    share: float  # of the users

    def people(self, hour: int, users: int) -> float:
        """Expected participants in the given hour after its beginning."""
        starts = self.hours - self.stay + 1
        return users * self.share * (min(hour, starts - 1) - max(hour - self.stay + 1, 0) + 1) / starts


def place_gatherings(city: City, ground: Ground, preset: CityPreset, seed: int) -> tuple[Gathering, ...]:
    """Concert and market in two zones that are neither busy nor empty; the evening depends on the seed."""
    if not preset.concert and not preset.market:
        return ()
    rng = np.random.default_rng([seed, 4])
    zones = city.zones.geometry
    site, zone = shapely.STRtree(zones).query(shapely.points(*city.site_lonlat), predicate="intersects")
    lived_in = np.bincount(zone, np.diff(ground.home, prepend=0)[site], city.zones.count)
    order, count = np.argsort(lived_in, kind="stable"), city.zones.count
    chosen = rng.choice(order[count * 4 // 10 : count * 6 // 10 + 2], 2)
    evening = 24 * int(rng.integers(0, 5)) + 168 * int(rng.integers(0, preset.weeks)) + 19
    sundays = tuple(range(24 * 6 + 9, 168 * preset.weeks, 168))
    gatherings = []
    for name, share, number, first_hours, hours, stay in (
        ("concert", preset.concert, chosen[0], (evening,), 4, 4),
        ("market", preset.market, chosen[1], sundays, 5, 2),
    ):
        venue = shapely.get_coordinates(shapely.point_on_surface(zones[number]))[0]
        x, y = (float(each) for each in city.plane.to_metres(*venue))
        nearest = int(np.hypot(city.xy[:, 0] - x, city.xy[:, 1] - y).argmin())
        if share:
            gatherings.append(
                Gathering(
                    name=name,
                    weekly=name == "market",
                    zone=int(number),
                    site=nearest,
                    xy=(x, y),
                    first_hours=first_hours,
                    hours=hours,
                    stay=stay,
                    share=share,
                )
            )
    return tuple(gatherings)


def with_extras(
    rows: Rows,
    people: People,
    ground: Ground,
    gatherings: tuple[Gathering, ...],
    preset: CityPreset,
    seed: int,
) -> Rows:
    """The visits of a block, vehicles and participants included; the venue of gathering i is site -1 - i."""
    drives = _chosen(people.index, preset.vehicles, 0.5)
    if drives.any():
        on_foot = ~np.isin(rows[0], _ids(people.index[drives], seed))
        vehicles = (_vehicle(number, ground, preset.weeks, seed) for number in people.index[drives])
        rows = _joined([tuple(column[on_foot] for column in rows), *vehicles])
    for i, gathering in enumerate(gatherings):
        takes_part = _chosen(people.index, gathering.share, 0.1 + 0.6 * i) & ~drives
        rows = _gather(rows, people.index[takes_part], gathering, -1 - i, seed)
    return rows


def _chosen(index: np.ndarray, share: float, offset: float) -> np.ndarray:
    """Whether each user is one of the share, as evenly spread as can be."""
    return np.floor((index + 1) * share + offset) > np.floor(index * share + offset)


def _gather(rows: Rows, index: np.ndarray, gathering: Gathering, site: int, seed: int) -> Rows:
    """Participants leave all other places for their hours and are seen at the venue once in each."""
    user = _ids(index, seed)
    order = np.argsort(user)
    user = user[order]
    rng_of = np.random.default_rng
    starts = gathering.hours - gathering.stay + 1
    for first in gathering.first_hours:
        arrival = np.array(
            [rng_of([seed, 6, first, number]).integers(starts) for number in index[order]], int
        )
        begin = 3600 * (first + arrival)
        at = np.minimum(np.searchsorted(user, rows[0]), max(len(user) - 1, 0))
        if len(user):
            within = (rows[1] >= begin[at]) & (rows[1] < begin[at] + 3600 * gathering.stay)
            elsewhere = (user[at] != rows[0]) | ~within
            rows = _joined([tuple(column[elsewhere] for column in rows)])
        added = [
            (user, begin + 3600 * hour + 60 * (user % 60), np.full(len(user), site, np.int32))
            for hour in range(gathering.stay)
        ]
        rows = _joined([rows, *added])
    return rows


def _vehicle(number: int, ground: Ground, weeks: int, seed: int) -> Rows:
    """Visits of one vehicle: on its shifts, at sites around where it waits that day."""
    seconds, sites = [], []
    for week in range(weeks):
        rng = np.random.default_rng([seed, 5, int(number), week])
        busy = VISITS_PER_HOUR * rng.lognormal(-0.02, 0.2)
        for day, (first, last) in enumerate(SHIFTS):
            weight = np.diff(ground.leisure[rng.integers(len(ground.xy))], prepend=0) + 1e-9
            for hour in range(first, last):
                visits = min(rng.poisson(busy), len(weight))
                site = rng.choice(len(weight), visits, replace=False, p=weight / weight.sum())
                sites.append(site)
                seconds.append(3600 * (168 * week + 24 * day + hour) + rng.integers(0, 3600, visits))
    second = np.concatenate(seconds)
    user = np.full(len(second), user_id(int(number), seed), np.int64)
    return user, second.astype(np.int64), np.concatenate(sites).astype(np.int32)


def _ids(index: np.ndarray, seed: int) -> np.ndarray:
    return np.array([user_id(number, seed) for number in index], np.int64)


def _joined(pieces: list) -> Rows:
    user, second, site = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return user, second, site


def points_of(
    user: np.ndarray, site: np.ndarray, ground: Ground, gatherings: tuple[Gathering, ...], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where each visit is, in metres: a place of the user's own around the site, or the venue."""
    x, y = np.empty(len(user)), np.empty(len(user))
    _fill_points(user, site, ground, seed, x, y)
    for i, gathering in enumerate(gatherings):
        there = site == -1 - i
        x[there], y[there] = gathering.xy
    return x, y


@njit(cache=True, nogil=True)
def _fill_points(user, site, ground, seed, x, y):
    state = np.empty(1, np.uint64)
    for i in range(user.shape[0]):
        if site[i] >= 0:
            x[i], y[i] = point_of(state, ground, seed, user[i], site[i], VISITS)


def write_gatherings(path: Path, gatherings: tuple[Gathering, ...], city: City, preset: CityPreset) -> None:
    """The truth: a row for each gathering, kind of record, zone and occurrence; hours are local.

    Events at sites reach a zone by the area that it shares with the site's cell, so a gathering may touch
    several zones.
    """
    sites = Sites(tuple(map(str, city.site_ids)), *city.site_lonlat)
    weights = voronoi_weights(sites, city.zones)
    shares = weights.matrix.toarray() / weights.lattice
    start = datetime(preset.start.year, preset.start.month, preset.start.day)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["event", "repeats", "records", "zone", "start", "end", "people"])
        for each in gatherings:
            column = shares[:, each.site]
            at_sites = [("events", int(zone), column[zone]) for zone in np.flatnonzero(column >= LEAST_SHARE)]
            most = max(each.people(hour, preset.users) for hour in range(each.hours))
            repeats = "weekly" if each.weekly else "once"
            for records, zone, share in [("points", each.zone, 1.0), *at_sites]:
                for first in each.first_hours:
                    ends = (start + timedelta(hours=hour) for hour in (first, first + each.hours))
                    window = [end.isoformat() for end in ends]
                    people = round(share * most)
                    rows.writerow([each.name, repeats, records, city.zones.ids[zone], *window, people])
