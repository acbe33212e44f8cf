"""The kernel of commutes: for each user home, work place and habits of calling, as vectors of bounded norm.

home      the site with most of a user's events at night; ties by most events in all, then the first site
work      the same in work hours of weekdays
anchor    the home; where none is sites, the work place; else the site with most events
class     by what is sites: home = work, home and another work place, home only, no home
For every table of `CommuteSetting.shapes` the user's entries are counted, scaled to norm LATTICE (the sum, or
the root of the sum of squares) and rounded down. The bound is checked on what is added, user by user and
table by table, by code that knows nothing of how the entries were made. Nothing is random.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.engine.buckets import by_user
from shoal.engine.engine import Engine, Progress, Sums
from shoal.engine.visits import slot_of_time, steps_are_even
from shoal.errors import GuaranteeError
from shoal.space.clock import HOUR_KINDS
from shoal.space.setting import (
    ACTIVITIES,
    ACTIVITY,
    AT_HOME,
    AT_WORK,
    CALLS,
    COMMUTER,
    ELSEWHERE,
    HOME_ONLY,
    NIGHT,
    NO_HOME,
    PARTS,
    PLACES,
    STAYER,
    WORK_HOURS,
    CommuteSetting,
)
from shoal.stages.commutes import LATTICE, ExactCommutes

# A quotient of floats is off by a part in 10^15: lowered by this, a share is never above the true one.
LOWERED = 1.0 - 1e-9
USERS, PEOPLE, HOMES, WORKS, DISTANCES, FLOWS, HOURS, WHERE, AWAY, REACH = range(10)  # as in `shapes`


@dataclass(frozen=True, kw_only=True, eq=False)
class CommuteKernel:
    """Bounded tables of user-complete batches with columns user, time_us, site."""

    setting: CommuteSetting = field(repr=False)
    norm: int  # 1 or 2
    run_key: bytes = field(repr=False)

    def zero(self) -> Sums:
        return {name: np.zeros(shape, np.int64) for name, shape in self.setting.shapes.items()}

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        setting = self.setting
        shapes = setting.shapes
        offset = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes.values())])
        total = np.zeros(offset[-1], np.int64)
        if batch.num_rows:
            users = by_user(batch.column("user"), self.run_key)
            time_us = batch.column("time_us").to_numpy(zero_copy_only=False)
            site = batch.column("site").to_numpy(zero_copy_only=False)
            if int(site.max()) >= setting.sites:
                raise GuaranteeError("site-out-of-list", "an event names a site outside the public list.")
            hours = (setting.clock.edges_us, setting.kind_of_slot, setting.part_of_slot)
            region = (setting.region_of_site, setting.region_count)
            ground = (setting.site_xy_m, setting.distance_ends_m, region)
            if not _sum_users(
                users.first, users.order, time_us, site, hours, ground, offset, self.norm == 2, total
            ):
                raise GuaranteeError("bound-not-held", "a user adds more than the bound of a table allows.")
        parts = zip(shapes.items(), offset[:-1], offset[1:], strict=True)
        return {name: total[begin:end].reshape(shape) for (name, shape), begin, end in parts}


def sum_commutes(
    engine: Engine, events: Iterable[pa.RecordBatch], kernel: CommuteKernel, progress: Progress | None = None
) -> ExactCommutes:
    """Sums over all users, checked again as a whole."""
    tables = engine.sum_users(events, kernel, progress)
    users = int(tables["users"].sum()) // LATTICE
    for values in tables.values():
        if values.size and (int(values.min()) < 0 or int(values.max()) > users * LATTICE):
            raise GuaranteeError("bound-not-held", "the sums are larger than the bound on each user allows.")
        if kernel.norm == 1 and int(values.sum()) > users * LATTICE:
            raise GuaranteeError("bound-not-held", "the sums are larger than the bound on each user allows.")
    return ExactCommutes(tables=tables, norm=kernel.norm)


@njit(cache=True, nogil=True)
def _sum_users(first, order, time_us, site, hours, ground, offset, squares, total):
    """Adds every user's vectors into `total`; False if one of them is above its bound."""
    edges, kind_of, part_of = hours
    even, slots = steps_are_even(edges), edges.size - 1
    longest = 0
    for u in range(first.size - 1):
        longest = max(longest, first[u + 1] - first[u])
    sites = np.empty(longest, np.int64)  # sites of the user's events in the window
    slot = np.empty(longest, np.int64)
    cells = np.empty((4, longest), np.int64)  # entries of hours, places, elsewhere, reach
    counts = np.zeros((3, ground[0].shape[0]), np.int64)  # of one user: at night, in work hours, in all
    mass = np.zeros(offset[-1], np.int64)
    for u in range(first.size - 1):
        calls = 0
        for i in range(first[u], first[u + 1]):
            t, s = time_us[order[i]], site[order[i]]
            if s >= 0 and edges[0] <= t < edges[slots]:
                sites[calls], slot[calls] = s, slot_of_time(t, edges, even)
                calls += 1
        if calls == 0:
            continue
        home, work, anchor = _anchors(sites[:calls], part_of[slot[:calls]], counts)
        kind = _class(home, work)
        _one_each(calls, work, anchor, kind, ground, offset, total)
        kinds, parts = kind_of[slot[:calls]], part_of[slot[:calls]]
        sizes = _many(sites[:calls], kinds, parts, anchor, work, kind, ground, offset, cells)
        for row in range(4):
            if not _add(cells[row, : sizes[row]], mass, squares, total):
                return False
    return True


@njit(cache=True, nogil=True)
def _anchors(sites, part, counts):
    """Home, work place (-1: none) and anchor of one user; `counts` is zero before and after."""
    for i in range(sites.size):
        counts[2, sites[i]] += 1
        if part[i] == NIGHT:
            counts[0, sites[i]] += 1
        elif part[i] == WORK_HOURS:
            counts[1, sites[i]] += 1
    best = np.full(3, -1, np.int64)
    for i in range(sites.size):
        s = sites[i]
        for row in range(3):
            b = best[row]
            if counts[row, s] == 0:
                continue
            if b < 0 or (counts[row, s], counts[2, s], -s) > (counts[row, b], counts[2, b], -b):
                best[row] = s
    for i in range(sites.size):
        counts[:, sites[i]] = 0
    home, work = best[0], best[1]
    return home, work, home if home >= 0 else (work if work >= 0 else best[2])


@njit(cache=True, nogil=True)
def _class(home, work):
    if home < 0:
        return NO_HOME
    if work < 0:
        return HOME_ONLY
    return STAYER if home == work else COMMUTER


@njit(cache=True, nogil=True)
def _one_each(calls, work, anchor, kind, ground, offset, total):
    """Tables to which a user adds one whole entry."""
    bin_of = min(np.searchsorted(CALLS, calls), CALLS.size - 1)
    total[offset[USERS]] += LATTICE
    total[offset[PEOPLE] + kind * CALLS.size + bin_of] += LATTICE
    row = 0 if kind == COMMUTER else (2 if kind == NO_HOME else 1)
    total[offset[HOMES] + row * ground[0].shape[0] + anchor] += LATTICE
    if kind == COMMUTER:
        region, regions = ground[2]
        total[offset[WORKS] + work] += LATTICE
        total[offset[DISTANCES] + _far(ground, anchor, work)] += LATTICE
        total[offset[FLOWS] + region[anchor] * regions + region[work]] += LATTICE


@njit(cache=True, nogil=True)
def _far(ground, one, other):
    """The class of the distance between two sites."""
    xy, ends = ground[0], ground[1]
    return np.searchsorted(ends, np.hypot(xy[one, 0] - xy[other, 0], xy[one, 1] - xy[other, 1]))


@njit(cache=True, nogil=True)
def _many(sites, kinds, parts, anchor, work, kind, ground, offset, cells):
    """Entries of every event of a user; returns their numbers for hours, places, elsewhere, reach."""
    xy, distances = ground[0], ground[1].size + 1
    commutes = kind == COMMUTER
    activity = np.searchsorted(ACTIVITY, sites.size)
    group, busy = kind * ACTIVITIES + activity, activity == ACTIVITIES - 1
    away = 0
    for i in range(sites.size):
        s = sites[i]
        place = AT_HOME if s == anchor else (AT_WORK if commutes and s == work else ELSEWHERE)
        cells[0, i] = offset[HOURS] + (2 * kind + busy) * HOUR_KINDS + kinds[i]
        cells[1, i] = offset[WHERE] + (group * PARTS + parts[i]) * PLACES + place
        if place == ELSEWHERE:
            near, row = anchor, np.int64(commutes)
            if commutes and ((xy[s] - xy[work]) ** 2).sum() < ((xy[s] - xy[anchor]) ** 2).sum():
                near, row = work, np.int64(2)
            cells[2, away] = offset[AWAY] + s
            cells[3, away] = offset[REACH] + (row * PARTS + parts[i]) * distances + _far(ground, near, s)
            away += 1
    return sites.size, sites.size, away, away


@njit(cache=True, nogil=True)
def _add(cells, mass, squares, total):
    """Adds one user's entries to one table, scaled to norm LATTICE; `mass` is zero before and after."""
    for cell in cells:
        mass[cell] += 1
    norm = np.float64(cells.size)
    if squares:
        norm = 0.0
        for cell in cells:  # a cell with m entries is met m times: m^2
            norm += mass[cell]
        norm = np.sqrt(norm)
    added, added_squares = np.int64(0), np.int64(0)
    for cell in cells:
        if mass[cell] > 0:
            share = np.int64(mass[cell] * (LATTICE / norm) * LOWERED)
            total[cell] += share
            added += share
            added_squares += share * share
            mass[cell] = 0
    return added_squares <= LATTICE * LATTICE if squares else added <= LATTICE
