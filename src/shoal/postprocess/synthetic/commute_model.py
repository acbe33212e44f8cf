"""People with homes, work places and calls, drawn from noisy tables: any number of them, from a seed.

Class and number of calls are drawn first, then home and work place of a commuter together or the home of
another person, then their calls. The draws of a person do not depend on how many others there are.

1. The first calls put the person into their class: at home at night, at work in work hours. All calls
   together follow the hours of people of the class.
2. Each other call is at home, at work or elsewhere, with probabilities of the part of the day; elsewhere is a
   site at a drawn distance from an anchor, drawn by the number of calls there.
3. All calls are drawn again, a few times at most, if they imply another class, home or work place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.postprocess.synthetic.commute_fit import PART_OF_KIND, CommuteFit, fit_commutes
from shoal.postprocess.synthetic.numbers import pick, stream, uniform, uniforms
from shoal.space.clock import HOUR_KINDS
from shoal.space.setting import (
    ACTIVITY,
    AT_HOME,
    AT_WORK,
    CALLS,
    COMMUTER,
    ELSEWHERE,
    NIGHT,
    NO_HOME,
    PARTS,
    PLACES,
    WORK_HOURS,
    CommuteSetting,
)
from shoal.stages.commutes import NoisyCommutes, SyntheticEvents

PERSON, SIZE, HOME = 1, 2, 3  # purposes of random numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class CommuteModel:
    """The noisy tables, and how people are drawn from them."""

    noisy: NoisyCommutes
    setting: CommuteSetting = field(repr=False)

    @property
    def users(self) -> float:
        """The noisy number of users, at least 1."""
        return self.fit.users

    def numbers(self) -> dict[str, np.ndarray]:
        """Every noisy number by name; they determine the model."""
        return dict(self.noisy.tables)

    @cached_property
    def fit(self) -> CommuteFit:
        return fit_commutes(self.noisy, self.setting)

    def generate(self, count_users: int, seed: int) -> SyntheticEvents:
        """Events of `count_users` people. The seed is not for privacy: the model was paid for."""
        if count_users < 0:
            raise PlanError("people-range", f"the number of people cannot be negative; got {count_users}.")
        setting, fit = self.setting, self.fit
        kind, calls, home, work = self._people(count_users, seed)
        first = np.concatenate([[0], np.cumsum(calls)]).astype(np.int64)
        time_us, site = np.empty(first[-1], np.int64), np.empty(first[-1], np.int32)
        order = np.argsort(setting.kind_of_slot, kind="stable")
        begin = np.searchsorted(setting.kind_of_slot[order], np.arange(HOUR_KINDS + 1))
        hours = (setting.clock.edges_us, order, begin, PART_OF_KIND)
        people = (first, kind, home, work)
        draw_calls(np.uint64(seed), people, hours, (fit.hours, fit.places), self._nearby, time_us, site)
        person = np.repeat(np.arange(count_users), calls)
        by_time = np.lexsort((site, time_us, person))
        return SyntheticEvents(
            people=count_users, person=person, time_us=time_us[by_time], site=site[by_time]
        )

    def _people(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Class, calls, home and work place of each person."""
        fit, sites = self.fit, self.setting.sites
        drawn = pick(fit.people, uniforms(seed, PERSON, count)) if count else np.zeros(0, np.int64)
        kind, bin_of = drawn // CALLS.size, drawn % CALLS.size
        low = np.concatenate([[1], CALLS[:-1] + 1])[bin_of]
        calls = low + ((CALLS[bin_of] - low + 1) * uniforms(seed, SIZE, count)).astype(np.int64)
        draws = uniforms(seed, HOME, count)
        unseen = kind == NO_HOME
        home = np.where(unseen, pick(fit.homes[2], draws), pick(fit.homes[1], draws)) if count else drawn
        work = home.copy()
        commutes = kind == COMMUTER
        if commutes.any():
            both = pick(fit.pairs, draws[commutes])
            home[commutes], work[commutes] = both // sites, both % sites
        return kind, np.maximum(calls, 1 + (kind <= COMMUTER)), home, work

    @cached_property
    def _nearby(self) -> tuple[np.ndarray, ...]:
        """For each site the others by distance, running sums of calls there, and where classes begin.

        12 bytes for each pair of sites.
        """
        setting, fit = self.setting, self.fit
        xy, sites, distances = setting.site_xy_m, setting.sites, setting.distances
        order, running = np.empty((sites, sites), np.int32), np.empty((sites, sites + 1))
        begin = np.empty((sites, distances + 1), np.int64)
        for site in range(sites):
            metres = np.hypot(*(xy - xy[site]).T)
            order[site] = np.argsort(metres, kind="stable")
            far = np.searchsorted(setting.distance_ends_m, metres[order[site]])
            begin[site] = np.searchsorted(far, np.arange(distances + 1))
            weight = np.where(order[site] == site, 0.0, fit.elsewhere[order[site]])
            running[site] = np.concatenate([[0.0], np.cumsum(weight)])
        reach = fit.reach if fit.reach is not None else np.zeros((0, 0, 0))
        return order, running, begin, reach


CALL, AWAY = 4, 5  # further purposes of random numbers
ATTEMPTS = 8  # for one person
PER_CALL = 5  # random numbers of one call: hour, slot, second, place, site


@njit(cache=True, nogil=True)
def draw_calls(seed, people, hours, tables, nearby, time_us, site):
    """Time and site of every call of every person; drawn again if they imply another class."""
    first, class_of, home, work = people
    longest = 0
    for person in range(first.size - 1):
        longest = max(longest, first[person + 1] - first[person])
    parts = np.empty(longest, np.int64)
    counts = np.zeros((3, nearby[0].shape[0]), np.int64)
    for person in range(first.size - 1):
        begin, end = first[person], first[person + 1]
        kind, ends = class_of[person], (home[person], work[person])
        activity = np.searchsorted(ACTIVITY, end - begin)
        usual, places = tables[0][kind, np.int64(activity == ACTIVITY.size)], tables[1][kind, activity]
        for attempt in range(ATTEMPTS):
            states = (
                stream(seed, CALL, person * ATTEMPTS + attempt),
                stream(seed, AWAY, person * ATTEMPTS + attempt),
            )
            _one_person(
                states, kind, ends, usual, places, hours, nearby, time_us[begin:end], site[begin:end], parts
            )
            if kind == NO_HOME or _implies_anchors(site[begin:end], parts, ends, kind, counts):
                break


@njit(cache=True, nogil=True)
def _one_person(states, kind, ends, usual, places, hours, nearby, time_us, site, parts):
    edges, slots, begin, part_of = hours
    rest, place_weight = np.empty(HOUR_KINDS), np.empty(PLACES)
    calls = time_us.size
    expected = _calls_by_part(usual, part_of, calls)
    _rest_of_hours(usual, part_of, expected, kind, rest)
    for call in range(calls):
        at, forced = PER_CALL * call, _forced(kind, call)
        weight = np.where(part_of == forced, usual, 0.0) if forced >= 0 else rest
        hour = _pick(weight, uniform(states[0], at))
        part, among = part_of[hour], begin[hour + 1] - begin[hour]
        slot = slots[begin[hour] + min(int(uniform(states[0], at + 1) * among), among - 1)]
        length = edges[slot + 1] - edges[slot]
        time_us[call] = edges[slot] + min(int(uniform(states[0], at + 2) * length), length - 1)
        parts[call] = part
        place = AT_WORK if forced == WORK_HOURS else AT_HOME
        if forced < 0 and (kind != NO_HOME or call > 0):
            _rest_of_places(places[part], expected[part], part, kind, place_weight)
            place = _pick(place_weight, uniform(states[0], at + 3))
        if place == ELSEWHERE:
            draws = uniform(states[1], call), uniform(states[0], at + 4)
            site[call] = _elsewhere(part, kind == COMMUTER, ends, draws, nearby)
        else:
            site[call] = ends[0] if place == AT_HOME else ends[1]


@njit(cache=True, nogil=True)
def _implies_anchors(site, parts, ends, kind, counts):
    """Whether the home has most calls at night, and the work place in work hours; `counts` stays zero."""
    for call in range(site.size):
        counts[2, site[call]] += 1
        if parts[call] == NIGHT:
            counts[0, site[call]] += 1
        elif parts[call] == WORK_HOURS:
            counts[1, site[call]] += 1
    implied = True
    for row in range(2 if kind <= COMMUTER else 1):
        own = ends[row]
        for call in range(site.size):
            s = site[call]
            if (counts[row, s], counts[2, s], -s) > (counts[row, own], counts[2, own], -own):
                implied = False
    for call in range(site.size):
        counts[:, site[call]] = 0
    return implied


@njit(cache=True, nogil=True)
def _forced(kind, call):
    """The part of the day of a call that everyone of a class makes, -1 for other calls."""
    if call == 0 and kind != NO_HOME:
        return NIGHT
    return WORK_HOURS if call == 1 and kind <= COMMUTER else -1


@njit(cache=True, nogil=True)
def _calls_by_part(usual, part_of, calls):
    expected = np.zeros(PARTS)
    for hour in range(HOUR_KINDS):
        expected[part_of[hour]] += calls * usual[hour]
    return expected


@njit(cache=True, nogil=True)
def _rest_of_hours(usual, part_of, expected, kind, rest):
    """Hours of calls that are not forced: the expected calls less the forced ones."""
    for hour in range(HOUR_KINDS):
        part = part_of[hour]
        taken = (part == NIGHT and kind != NO_HOME) or (part == WORK_HOURS and kind <= COMMUTER)
        left = max(expected[part] - 1.0, 0.0) / expected[part] if taken and expected[part] > 0 else 1.0
        rest[hour] = usual[hour] * left
    if rest.sum() <= 0:
        rest[:] = usual


@njit(cache=True, nogil=True)
def _rest_of_places(usual, expected, part, kind, rest):
    """Places of calls that are not forced, likewise."""
    forced = -1
    if part == NIGHT and kind != NO_HOME:
        forced = AT_HOME
    elif part == WORK_HOURS and kind <= COMMUTER:
        forced = AT_WORK if kind == COMMUTER else AT_HOME
    for place in range(PLACES):
        rest[place] = max(expected * usual[place] - (place == forced), 0.0)
    if rest.sum() <= 0.05 * expected:
        rest[:] = usual


@njit(cache=True, nogil=True)
def _pick(weight, draw):
    """A place in proportion to weights; the last positive one if rounding leaves `draw` beyond the sum."""
    total = weight.sum()
    reached, last = 0.0, 0
    for place in range(weight.size):
        if weight[place] > 0:
            reached += weight[place]
            last = place
            if draw * total < reached:
                return place
    return last


@njit(cache=True, nogil=True)
def _elsewhere(part, commutes, ends, draws, nearby):
    """A site that is not the anchor: a class of distance by `reach`, then a site by its number of calls."""
    order, running, begin, reach = nearby
    (home, work), (anchor_draw, site_draw) = ends, draws
    anchor, row = home, 0
    low, high = 0, order.shape[1]
    if reach.size > 0:
        if commutes:
            at_home, at_work = reach[1, part].sum(), reach[2, part].sum()
            row = 1 if anchor_draw * (at_home + at_work) < at_home else 2
            anchor = home if row == 1 else work
            turn = at_home / (at_home + at_work)
            anchor_draw = anchor_draw / turn if row == 1 else (anchor_draw - turn) / (1.0 - turn)
        far = _pick(reach[row, part], anchor_draw)
        low, high = begin[anchor, far], begin[anchor, far + 1]
        wider = 0
        while running[anchor, high] <= running[anchor, low] and wider < begin.shape[1]:
            wider += 1  # no site at this distance: extend to the nearest classes with one
            low = begin[anchor, max(far - wider, 0)]
            high = begin[anchor, min(far + 1 + wider, begin.shape[1] - 1)]
    sums = running[anchor]
    if sums[high] <= sums[low]:
        return anchor
    aim = sums[low] + site_draw * (sums[high] - sums[low])
    place = np.searchsorted(sums, aim, side="right") - 1
    while place > 0 and sums[place + 1 if place + 1 < sums.size else place] <= sums[place]:
        place -= 1
    return order[anchor, min(max(place, low), high - 1)]
