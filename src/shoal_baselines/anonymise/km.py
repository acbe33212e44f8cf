"""k^m-anonymity for m = 1, 2: any m released boxes of a record are all in at least k records.

Promise     every set of up to m boxes is in no record or in at least k. So an adversary who knows m points
            of a person finds k candidates; m + 1 points are not covered.
Truthful    yes.
Source      Terrovitis, Mamoulis and Kalnis 2008 (k^m-anonymity of sets of items, a hierarchy of items).
Deviations  an item is a place in a slot of time: the rectangle of squares of one size (100 m, 500 m, 1 km,
            2 km, ..) around the user's samples of the slot. The paper generalises bottom-up, for all records
            at once; here all begin with the largest squares and items are split top-down, one by one, while
            every pair stays shared; records that cannot follow keep the larger squares. Slots are the same
            for everybody (1 h, 4 h or a day): all three are tried, and the one of least loss is taken.
Cost        for m = 2 every pair of boxes of every record is counted, again and again: pairs are counted
            before the start, above `most_pairs` the method refuses. 3,000 users, a week: 7 M pairs of hours.

Splits of places that keep every set of m items shared by k records.

Invariant: after every step, each item, and for m = 2 each pair of items that some record holds, is held by at
least k records. A split takes from an item `a` the records of one smaller place: those that can go there
together keep the invariant among themselves (`_core`), those that stay in `a` keep it among themselves, and
no other pair changes. So nothing is ever undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.space.lattice import Lattice, steps_of
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.hulls import Hulls, boxes_of_slots, cells_of, check_k, hulls_of

DAY_MINUTES = 1440


@dataclass(frozen=True, kw_only=True)
class ItemSets:
    """Boxes of which any m are shared by k records.

    >>> from datetime import UTC, datetime
    >>> lattice = Lattice(start=datetime(2026, 1, 1, tzinfo=UTC), steps=60, origin=(0.0, 0.0))
    >>> samples = LatticeSamples.of([0, 1, 2], [3, 7, 9], [1, 7, 900], [1, 1, 1], users=3, steps=60)
    >>> boxes = ItemSets(k=2, m=1, most_lost=0.5)(samples, lattice)
    >>> boxes.record.tolist(), boxes.x1.tolist()
    ([0, 1], [9, 9])
    """

    k: int
    m: int
    slot_minutes: tuple[int, ...] = (60, 240, DAY_MINUTES)  # tried; the least loss wins
    sides_m: tuple[float, ...] = (100, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000)
    most_lost: float = 0.1  # boxes suppressed for a split, of those that get smaller by it
    most_pairs: int = 500_000_000

    truthful = True

    def __post_init__(self) -> None:
        check_k(self.k)
        if self.m not in (1, 2):
            raise PlanError("km-m", f"m must be 1 or 2; got {self.m!r}.", "The cost grows with the power m.")
        if not self.slot_minutes or not self.sides_m or not 0 <= self.most_lost <= 1:
            raise PlanError("km-plan", "slots and squares must be given, and most_lost be from 0 to 1.")
        if any(b % a for a, b in zip(self.sides_m, self.sides_m[1:], strict=False)):
            raise PlanError("km-sides", "each square must be cut into whole squares of the next size.")

    @property
    def promise(self) -> str:
        return f"any {'box' if self.m == 1 else f'{self.m} boxes'} shared by {self.k}"

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes:
        sides = self._sides(lattice)
        gathered = [hulls_of(samples, steps_of(minutes, lattice)) for minutes in self.slot_minutes]
        if self.m == 2:
            for hulls in gathered:
                self._afford(hulls, samples.users)
        day = max(DAY_MINUTES // lattice.minutes, 1)
        best, least = None, np.inf
        for hulls in gathered:
            level = self._levels(hulls, sides, samples.users)
            space = rounded_out(hulls, sides[level])
            loss = _loss(hulls, level >= 0, space, max(day, hulls.slot_steps) * 2.0 * sides[-1])
            if best is None or loss < least:
                best, least = (hulls, space, level >= 0), loss
        assert best is not None
        hulls, space, present = best
        return boxes_of_slots(hulls, samples, *space, keep=present)

    def broken(self, boxes: Boxes, lattice: Lattice) -> int:
        return check_km(boxes.record, items_of(boxes), self.k, self.m)

    def _sides(self, lattice: Lattice) -> np.ndarray:
        """Squares in cells of the lattice: those that are whole, and at least the largest."""
        whole = [side for side in self.sides_m[:-1] if side >= lattice.metres and side % lattice.metres == 0]
        return np.array([cells_of(side, lattice) for side in (*whole, self.sides_m[-1])], np.int64)

    def _afford(self, hulls: Hulls, users: int) -> None:
        pairs = pairs_of(hulls.user, users)
        if pairs > self.most_pairs:
            raise PlanError(
                "km-pairs",
                f"there are more pairs of boxes than the limit of {self.most_pairs:,}.",
                "Take fewer people or days, longer slots, or m = 1.",
            )

    def _levels(self, hulls: Hulls, sides: np.ndarray, users: int) -> np.ndarray:
        """The size of the square of every user's slot, as an index into `sides`; -1 where suppressed."""
        entries = Entries.of(hulls, _rectangles(hulls, sides[-1]), len(sides) - 1, users=users)
        suppress_rare(entries, self.k, self.m)
        for at in range(len(sides) - 2, -1, -1):
            split_level(entries, _rectangles(hulls, sides[at]), at, self.k, self.m, self.most_lost)
        return entries.level


def rounded_out(hulls: Hulls, side: np.ndarray) -> tuple[np.ndarray, ...]:
    """x0, x1, y0, y1 of the smallest rectangles of squares of these sides around the hulls."""
    low = [edge // side * side for edge in (hulls.x0, hulls.y0)]
    high = [edge // side * side + side - 1 for edge in (hulls.x1, hulls.y1)]
    return low[0], high[0], low[1], high[1]


def _rectangles(hulls: Hulls, side: int) -> np.ndarray:
    """Equal numbers for equal rectangles of squares of this side.

    Equal rectangles of small squares are equal in larger ones too, which are cut along the same lines.
    """
    codes = []
    for low, high in ((hulls.x0, hulls.x1), (hulls.y0, hulls.y1)):
        code = (low // side).astype(np.int64) * (1 << 32) + high // side
        codes.append(np.unique(code, return_inverse=True)[1].ravel().astype(np.int64))
    return codes[0] * (codes[1].max(initial=0) + 1) + codes[1]


def pairs_of(user: np.ndarray, users: int) -> int:
    """Pairs of items of the same record, over all records: what m = 2 counts.

    >>> pairs_of(np.array([0, 0, 0, 1]), 2)
    3
    """
    per_record = np.bincount(user, minlength=users).astype(np.int64)
    return int((per_record * (per_record - 1) // 2).sum())


def _loss(hulls: Hulls, present: np.ndarray, space: tuple[np.ndarray, ...], suppressed: float) -> float:
    """Sum over samples of Dt * (Dx + Dy), or of `suppressed`."""
    x0, x1, y0, y1 = space
    each = np.where(present, hulls.slot_steps * (x1 - x0 + y1 - y0 + 2.0), suppressed)
    return float((each * hulls.samples).sum())


def items_of(boxes: Boxes) -> np.ndarray:
    """Equal numbers for equal boxes: the items that k^m-anonymity is about."""
    rows = np.stack([boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1], axis=1)
    if not len(rows):
        return np.zeros(0, np.int64)
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def check_km(record: np.ndarray, item: np.ndarray, k: int, m: int) -> int:
    """Sets of 1 to m items (m is 1 or 2) held by 1 .. k - 1 records: 0 if the promise holds.

    Counts by sorting; shares nothing with the splits above.

    >>> check_km(np.array([0, 0, 1, 1, 2]), np.array([5, 6, 5, 6, 5]), 2, 2)
    0
    >>> check_km(np.array([0, 0, 1, 2]), np.array([5, 6, 5, 6]), 2, 2)
    1
    """
    entries = np.unique(np.stack([record, item], axis=1).astype(np.int64), axis=0)
    if not len(entries):
        return 0
    bad = int((np.unique(entries[:, 1], return_counts=True)[1] < k).sum())
    if m == 1:
        return bad
    codes = []
    many = entries[:, 1].max() + 1
    for rows in np.split(entries[:, 1], np.flatnonzero(np.diff(entries[:, 0])) + 1):
        first, second = np.triu_indices(len(rows), 1)
        codes.append(rows[first] * many + rows[second])
    pairs = np.sort(np.concatenate(codes))
    if not len(pairs):
        return bad
    ends = np.flatnonzero(np.append(pairs[1:] != pairs[:-1], True))
    return bad + int((np.diff(np.append(-1, ends)) < k).sum())


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
    """Number of rare sets that each entry is in."""
    rare = np.zeros(len(item), np.int64)
    records = np.bincount(item[item >= 0], minlength=items)
    rare[(item >= 0) & (records[item] < k)] = 1 << 40
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
                    core = _core(stay.copy(), start, user, item, tally, k, m)
                    if len(stay) - len(core) <= most_lost * len(go):
                        for entry in stay:
                            item[entry], levels[entry] = -1, -1
                        for entry in core:
                            item[entry], levels[entry] = own, level + 1
                        for entry in go:
                            item[entry], levels[entry] = items, level
                        items += 1
                        left = core
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
        count_left = 0
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
                members[count_left] = members[at]
                count_left += 1
        if count_left == count:
            break
        count = count_left
    return members[:count] if count >= k else members[:0]
