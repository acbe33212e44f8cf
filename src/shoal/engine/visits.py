"""The kernel of density: one visit per user and slot, at most `ell` per user, counted per site and slot.

For each user, with three independent keys derived from the run key:
  1. in each slot, one of the distinct (time, site) events, uniformly: the smallest F1(user, event);
  2. of these visits at most `ell`, uniformly: the smallest F2(user, slot);
  3. for the one-visit histogram, one of them, uniformly: number F3(user) modulo how many they are.
Beside them, for the owner's eyes and for the number of visits K: all visits, a user once per site and slot.
F is SipHash keyed by the secret run key, so the choices are uniform to anyone without it and the same
in every run with it. The bound is then checked on the chosen visits, by code that shares nothing with
the choice, before anything is counted.

All visits of a batch: a user once per site and slot, however many events they have there.

Events to bounded visits to exact zone counts: the engine's part of a density.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import int64, njit, uint64

from shoal.engine.buckets import UserOrder, by_user, hash3, split_key
from shoal.engine.engine import Engine, Progress, Sums
from shoal.errors import GuaranteeError
from shoal.space.geography import AreaWeights
from shoal.stages.bounded import BoundedVisits, ExactDensity
from shoal.stages.exact import ExactCounts, ScalableCounts

EVENT_PURPOSE, VISIT_PURPOSE, ONE_PURPOSE = 1, 2, 3


class Visits(NamedTuple):
    """One row per user and slot visited; `sampled`: at most ell per user; `one`: exactly one per user."""

    user: np.ndarray  # number within the batch
    slot: np.ndarray
    site: np.ndarray
    sampled: np.ndarray
    one: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class VisitKernel:
    """Bounded visit counts of user-complete batches with columns user, time_us, site."""

    edges_us: np.ndarray  # int64 [slots + 1]
    sites: int
    ell: int  # visits sampled per user
    cap: int  # visits per user that enter the number of visits K
    run_key: bytes = field(repr=False)

    def zero(self) -> Sums:
        cells = (self.sites, self.edges_us.size - 1)
        return {
            "counts": np.zeros(cells, np.int64),
            "uncapped": np.zeros(cells, np.int64),
            "one_visit": np.zeros(self.sites, np.int64),
            "users": np.zeros((), np.int64),
            "visits_capped": np.zeros((), np.int64),
        }

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        sums = self.zero()
        if batch.num_rows == 0:
            return sums
        users = by_user(batch.column("user"), self.run_key)
        visits = self.choose(batch, users)
        if not bound_holds(visits.user, visits.slot, visits.sampled, visits.one, self.ell):
            raise GuaranteeError("bound-not-held", "a user kept more visits than the plan allows.")
        sums["users"] += _count(visits, sums["counts"], sums["one_visit"])
        everywhere = find_visits(batch, users, self.edges_us, self.sites)
        sums["visits_capped"] += _count_all(everywhere, self.cap, sums["uncapped"])
        return sums

    def choose(self, batch: pa.RecordBatch, users: UserOrder | None = None) -> Visits:
        """One visit per user and slot, each user's together."""
        users = users or by_user(batch.column("user"), self.run_key)
        purposes = (EVENT_PURPOSE, VISIT_PURPOSE, ONE_PURPOSE)
        keys = np.array([split_key(self.run_key, p) for p in purposes], dtype=np.uint64)
        time_us = batch.column("time_us").to_numpy(zero_copy_only=False)
        site = batch.column("site").to_numpy(zero_copy_only=False)
        if site.size and int(site.max()) >= self.sites:
            raise GuaranteeError("site-out-of-list", "an event names a site outside the public list.")
        rows = users.digest, users.first, users.order, time_us, site
        return Visits(*_choose_visits(*rows, self.edges_us, self.ell, keys))


@njit(cache=True, nogil=True)
def _choose_visits(digest, first, order, time_us, site, edges, ell, keys):
    slots = edges.size - 1
    even = steps_are_even(edges)
    user_of = np.empty(order.size, np.int32)
    slot_of = np.empty(order.size, np.int32)
    site_of = np.empty(order.size, np.int32)
    sampled = np.zeros(order.size, np.bool_)
    one = np.zeros(order.size, np.bool_)
    seen_by = np.full(slots, -1, np.int64)  # user that last touched the slot
    best_hash = np.empty(slots, np.uint64)
    best_time = np.empty(slots, np.int64)
    best_site = np.empty(slots, np.int32)
    touched = np.empty(slots, np.int32)
    n = 0
    for u in range(digest.size):
        visited = 0
        for i in range(first[u], first[u + 1]):
            row = order[i]
            t, s = time_us[row], site[row]
            if s < 0 or t < edges[0] or t >= edges[slots]:
                continue
            slot = slot_of_time(t, edges, even)
            rank = hash3(keys[0, 0], keys[0, 1], digest[u], uint64(t), uint64(s))
            if seen_by[slot] != u:
                seen_by[slot] = u
                touched[visited] = slot
                visited += 1
            else:  # ties of hashes are broken by the event itself, never by the order of rows
                best = best_hash[slot]
                if rank > best:
                    continue
                if rank == best and (t, s) >= (best_time[slot], best_site[slot]):
                    continue
            best_hash[slot], best_time[slot], best_site[slot] = rank, t, s
        if visited == 0:
            continue
        sort_small(touched, visited)
        _keep_smallest(digest[u], touched[:visited], keys[1], ell, sampled[n : n + visited])
        single = hash3(keys[2, 0], keys[2, 1], digest[u], uint64(0), uint64(0)) % uint64(visited)
        one[n + int64(single)] = True
        for v in range(visited):
            user_of[n], slot_of[n], site_of[n] = u, touched[v], best_site[touched[v]]
            n += 1
    return user_of[:n], slot_of[:n], site_of[:n], sampled[:n], one[:n]


@njit(cache=True, nogil=True)
def _keep_smallest(digest, slots, key, how_many, chosen):
    """Mark the slots with the smallest keyed hashes; ties go to the earlier slot."""
    if slots.size <= how_many:
        chosen[:] = True
        return
    ranks = np.empty(slots.size, np.uint64)
    for v in range(slots.size):
        ranks[v] = hash3(key[0], key[1], digest, uint64(slots[v]), uint64(0))
    last = np.sort(ranks)[how_many - 1]
    left = how_many
    for v in range(slots.size):
        chosen[v] = ranks[v] < last
        left -= chosen[v]
    for v in range(slots.size):  # the last place, and equal hashes should there be any
        if ranks[v] == last and left > 0:
            chosen[v] = True
            left -= 1


@njit(cache=True, nogil=True)
def bound_holds(user, slot, sampled, one, ell):
    """Whether users have consecutive rows, distinct slots, at most `ell` sampled and one single visit."""
    slots = 0
    users = 0
    for i in range(user.size):
        slots = max(slots, slot[i] + 1)
        users = max(users, user[i] + 1)
    used_by = np.full(slots, -1, np.int64)
    closed = np.zeros(users, np.bool_)
    of_user = 0
    singles = 0
    for i in range(user.size):
        if i > 0 and user[i] != user[i - 1]:
            if singles != 1:
                return False
            closed[user[i - 1]] = True
            of_user = 0
            singles = 0
        if closed[user[i]] or used_by[slot[i]] == user[i]:
            return False
        used_by[slot[i]] = user[i]
        of_user += sampled[i]
        singles += one[i]
        if of_user > ell:
            return False
    return user.size == 0 or singles == 1


@njit(cache=True, nogil=True)
def _count(chosen, counts, one_visit):
    user, slot, site, sampled, one = chosen
    users = 0
    for i in range(user.size):
        users += i == 0 or user[i] != user[i - 1]
        if sampled[i]:
            counts[site[i], slot[i]] += 1
        if one[i]:
            one_visit[site[i]] += 1
    return users


@njit(cache=True, nogil=True)
def _count_all(visits, cap, uncapped):
    """All visits per site and slot; returns the sum over users of min(visits, cap)."""
    user, slot, site = visits
    total = 0
    of_user = 0
    for i in range(user.size):
        of_user = of_user + 1 if i > 0 and user[i] == user[i - 1] else 1
        total += of_user <= cap
        uncapped[site[i], slot[i]] += 1
    return total


def find_visits(
    batch: pa.RecordBatch, users: UserOrder, edges_us: np.ndarray, sites: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User number, slot and site of every visit, each user's together, in order of slot and site."""
    time_us = batch.column("time_us").to_numpy(zero_copy_only=False)
    site = batch.column("site").to_numpy(zero_copy_only=False)
    if site.size and int(site.max()) >= sites:
        raise GuaranteeError("site-out-of-list", "an event names a site outside the public list.")
    return _find(users.first, users.order, time_us, site, edges_us, sites)


@njit(cache=True, nogil=True)
def steps_are_even(edges):
    """Whether all slots are equally long, so that a division finds the slot."""
    even = True
    for t in range(edges.size - 1):
        even = even and edges[t + 1] - edges[t] == edges[1] - edges[0]
    return even


@njit(cache=True, nogil=True)
def slot_of_time(time, edges, even):
    """The slot of an instant inside the window."""
    if even:
        return (time - edges[0]) // (edges[1] - edges[0])
    return np.searchsorted(edges, time, side="right") - 1


@njit(cache=True, nogil=True)
def _find(first, order, time_us, site, edges, sites):
    even = steps_are_even(edges)
    last = edges[edges.size - 1]
    user_of = np.empty(order.size, np.int32)
    slot_of = np.empty(order.size, np.int32)
    site_of = np.empty(order.size, np.int32)
    longest = 0
    for u in range(first.size - 1):
        longest = max(longest, first[u + 1] - first[u])
    cells = np.empty(longest, np.int64)
    n = 0
    for u in range(first.size - 1):
        size = 0
        for i in range(first[u], first[u + 1]):
            t, s = time_us[order[i]], site[order[i]]
            if s >= 0 and edges[0] <= t < last:
                cells[size] = slot_of_time(t, edges, even) * sites + s
                size += 1
        sort_small(cells, size)
        for i in range(size):
            if i == 0 or cells[i] != cells[i - 1]:
                user_of[n], slot_of[n], site_of[n] = u, cells[i] // sites, cells[i] % sites
                n += 1
    return user_of[:n], slot_of[:n], site_of[:n]


@njit(cache=True, nogil=True)
def sort_small(values, n):
    """Ascending, in place; by insertion, since most users have a dozen events."""
    if n > 64:
        values[:n] = np.sort(values[:n])
        return
    for i in range(1, n):
        value = values[i]
        j = i - 1
        while j >= 0 and values[j] > value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value


def bound_visits(
    engine: Engine, events: Iterable[pa.RecordBatch], kernel: VisitKernel, progress: Progress | None = None
) -> tuple[BoundedVisits, ExactDensity]:
    """Sums over users under the kernel's bounds, checked again as a whole, and the uncapped density."""
    sums = engine.sum_users(events, kernel, progress)
    users = int(sums["users"])
    if int(sums["counts"].sum()) > users * kernel.ell or int(sums["one_visit"].sum()) != users:
        raise GuaranteeError("bound-not-held", "the sums are larger than the bound on each user allows.")
    bounded = BoundedVisits(
        counts=sums["counts"],
        one_visit=sums["one_visit"],
        users=users,
        visits_capped=int(sums["visits_capped"]),
        ell=kernel.ell,
        cap=kernel.cap,
    )
    return bounded, ExactDensity(sums["uncapped"], users)


def exact_counts(bounded: BoundedVisits, weights: AreaWeights) -> ExactCounts:
    """Site counts spread over zones: each visit is `lattice` units, shared out by area."""
    return _zone_counts(bounded.counts, bounded.ell, weights)


def _zone_counts(counts: np.ndarray, ell: int, weights: AreaWeights) -> ExactCounts:
    return ExactCounts(
        units=weights.spread(counts),
        lattice=weights.lattice,
        ell=ell,
        column_l1=weights.column_l1,
        column_l2_squared=weights.column_l2_squared,
    )


def scalable_counts(bounded: BoundedVisits, weights: AreaWeights) -> ScalableCounts:
    """Zone counts with the number of sampled visits and the number of all visits under the cap."""
    return ScalableCounts(
        counts=exact_counts(bounded, weights),
        sampled=int(bounded.counts.sum()),
        visits=bounded.visits_capped,
        cap=bounded.cap,
    )


def all_counts(density: ExactDensity, weights: AreaWeights) -> ExactCounts:
    """Zone counts of all visits, as many as a user has: for comparison only."""
    return _zone_counts(density.counts, density.counts.size, weights)


def exact_people(density: ExactDensity, weights: AreaWeights) -> np.ndarray:
    """Raw people per zone and slot, for the owner's report."""
    return weights.spread(density.counts) / weights.lattice
