"""Splits of places that keep every set of m items shared by k records.

Invariant: after every step, each item, and for m = 2 each pair of items that some record holds, is held by at
least k records. A split takes from an item `a` the records of one smaller place: those that can go there
together keep the invariant among themselves (`_core`), those that stay in `a` keep it among themselves, and
no other pair changes. So nothing is ever undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.anonymise.neighbours.hulls import Hulls


@dataclass(kw_only=True, eq=False)
class Entries:
    """One entry per user and slot: its item and level; -1 where suppressed. Sorted by user."""

    start: np.ndarray = field(repr=False)  # user u's entries are start[u] .. start[u + 1]
    user: np.ndarray = field(repr=False)
    item: np.ndarray = field(repr=False)
    level: np.ndarray = field(repr=False)
    by_slot: list[np.ndarray] = field(repr=False)  # entries of each slot
    tally: np.ndarray = field(repr=False)  # zeros, one per item there can ever be
    items: int

    @classmethod
    def of(cls, hulls: Hulls, rectangle: np.ndarray, level: int, *, users: int) -> Entries:
        """Items of a slot and a rectangle, all at one level."""
        code = hulls.slot.astype(np.int64) * (rectangle.max(initial=0) + 1) + rectangle
        item = np.unique(code, return_inverse=True)[1].ravel().astype(np.int64)
        order = np.argsort(hulls.slot, kind="stable")
        cuts = np.flatnonzero(np.diff(hulls.slot[order])) + 1
        return cls(
            start=np.searchsorted(hulls.user, np.arange(users + 1)).astype(np.int64),
            user=hulls.user.astype(np.int64),
            item=item,
            level=np.full(hulls.count, level),
            by_slot=np.split(order, cuts) if len(order) else [],
            tally=np.zeros(2 * hulls.count + 2, np.int64),
            items=int(item.max(initial=-1)) + 1,
        )


def suppress_rare(entries: Entries, k: int, m: int) -> None:
    """Establish the invariant: suppress, worst first, until every item and pair is shared."""
    while True:
        rare = _rare(entries.start, entries.item, len(entries.tally), k, m)
        if not rare.any():
            return
        worst = np.zeros(len(entries.start) - 1, np.int64)
        np.maximum.at(worst, entries.user, rare)
        gone = (rare > 0) & (rare == worst[entries.user])  # of each record those in most rare sets
        entries.item[gone] = -1
        entries.level[gone] = -1


def _rare(start: np.ndarray, item: np.ndarray, items: int, k: int, m: int) -> np.ndarray:
    """Of each entry, the number of rare sets it is in."""
    rare = np.zeros(len(item), np.int64)
    held = np.bincount(item[item >= 0], minlength=items)
    rare[(item >= 0) & (held[item] < k)] = 1 << 40
    if m == 2:
        order = np.argsort(item, kind="stable")
        order = order[item[order] >= 0]
        edges = np.searchsorted(item[order], np.arange(items + 1))
        user = np.repeat(np.arange(len(start) - 1), np.diff(start))
        _rare_pairs(start, item, user, order, edges, k, rare)
    return rare


@njit(cache=True, nogil=True)
def _rare_pairs(start, item, user, order, edges, k, rare):
    """Add to `rare` the pairs (this item, another one of the record) held by fewer than k."""
    tally = np.zeros(len(edges), np.int64)
    for which in range(len(edges) - 1):
        members = order[edges[which] : edges[which + 1]]
        for entry in members:
            for other in range(start[user[entry]], start[user[entry] + 1]):
                if item[other] >= 0:
                    tally[item[other]] += 1
        for entry in members:
            for other in range(start[user[entry]], start[user[entry] + 1]):
                if item[other] >= 0 and tally[item[other]] < k:
                    rare[entry] += 1
        for entry in members:
            for other in range(start[user[entry]], start[user[entry] + 1]):
                if item[other] >= 0:
                    tally[item[other]] = 0


def split_level(
    entries: Entries, rectangle: np.ndarray, level: int, k: int, m: int, most_lost: float
) -> None:
    """Split the items one level above `level` into the rectangles of that level, slot by slot."""
    for members in entries.by_slot:
        at = members[entries.level[members] == level + 1]
        if not len(at):
            continue
        order = np.lexsort((rectangle[at], entries.item[at]))
        at = at[order]
        entries.items = _split(
            at,
            rectangle[at],
            (entries.start, entries.user, entries.item, entries.level),
            entries.tally,
            entries.items,
            (level, k, m, most_lost),
        )


@njit(cache=True, nogil=True)
def _split(at, child, entries, tally, items, setting):
    """Split each run of equal items in `at` (sorted by item, then child); returns the next free item."""
    start, user, item, levels = entries
    level, k, m, most_lost = setting
    begin = 0
    while begin < len(at):
        end = begin
        own = item[at[begin]]
        while end < len(at) and item[at[end]] == own:
            end += 1
        left = at[begin:end].copy()  # who is still in the item
        run = begin
        while run < end:
            stop = run
            while stop < end and child[stop] == child[run]:
                stop += 1
            if stop - run >= k:
                go = _core(at[run:stop].copy(), start, user, item, tally, k, m)
                if len(go):
                    stay = _without(left, go)
                    kept = _core(stay.copy(), start, user, item, tally, k, m)
                    if len(stay) - len(kept) <= most_lost * len(go):
                        for entry in stay:
                            item[entry], levels[entry] = -1, -1
                        for entry in kept:
                            item[entry], levels[entry] = own, level + 1
                        for entry in go:
                            item[entry], levels[entry] = items, level
                        items += 1
                        left = kept
            run = stop
        begin = end
    return items


@njit(cache=True, nogil=True)
def _without(left, go):
    """Entries of `left` that are not in `go`."""
    out = np.empty(len(left), np.int64)
    gone = set(go)
    count = 0
    for entry in left:
        if entry not in gone:
            out[count] = entry
            count += 1
    return out[:count]


@njit(cache=True, nogil=True)
def _core(members, start, user, item, tally, k, m):
    """The most of `members` that may share an item: each other item among them is held by k of them."""
    count = len(members)
    while count >= k and m == 2:
        for at in range(count):
            for other in range(start[user[members[at]]], start[user[members[at]] + 1]):
                if item[other] >= 0:
                    tally[item[other]] += 1
        kept = 0
        fine = np.ones(count, np.bool_)
        for at in range(count):
            for other in range(start[user[members[at]]], start[user[members[at]] + 1]):
                if item[other] >= 0 and tally[item[other]] < k:
                    fine[at] = False
                    break
        for at in range(count):
            for other in range(start[user[members[at]]], start[user[members[at]] + 1]):
                if item[other] >= 0:
                    tally[item[other]] = 0
        for at in range(count):
            if fine[at]:
                members[kept] = members[at]
                kept += 1
        if kept == count:
            break
        count = kept
    return members[:count] if count >= k else members[:0]
