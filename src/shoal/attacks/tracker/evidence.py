"""Checks that k records fit every tracked person in every window of length tau: a proof or counterexamples.

Claim    for every user i and every start w whose window W = [w, w + tau) meets the lattice's steps, at least
         k of the released records are evidence-equal to i on W (see fits.py for the definition).
Checks   all of them, one by one, nothing is sampled; and that records are truthful (see tables.py).
Knows    raw samples, released boxes, whose record is whose. Nothing of how the release was made.
Limits   one window of tau for one person. No composition, no protection beyond this adversary.

Every (i, w) falls to one of two parts. Where i has a retained sample in W, take the first: only records with
a box that holds it can fit, and each fits for an interval of starts. Else see quiet.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numba import njit

from shoal.attacks.tracker.fits import good_starts, last_before, own_boxes, running_reach, starts_by_first
from shoal.attacks.tracker.index import boxes_near, build_index, by_bucket
from shoal.attacks.tracker.quiet import Example, check_quiet, explain
from shoal.attacks.tracker.tables import Tables, check_claim, sorted_boxes, sorted_samples

MOST_EXAMPLES = 10
PIECES = 128  # of work, a thread takes one after the other
FRIENDS = 2  # for each of k - 1: records that fitted a user lately are tried first

T = TypeVar("T")


class Progress(Protocol):
    def stage(self, name: str, total: float | None = None) -> None: ...

    def advance(self, amount: float) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The outcome. `violations` counts (user, start) pairs with fewer than k fitting records."""

    k: int
    tau: int
    users: int
    pairs_checked: int
    violations: int
    users_hit: int
    structure: dict[str, int]  # name of a rule -> how often it is broken
    examples: list[Example]
    structure_examples: list[dict[str, int | str]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.violations and not any(self.structure.values())

    def to_plain(self) -> dict[str, Any]:
        plain = asdict(self)
        return {"passed": self.passed, "tau_steps": plain.pop("tau"), **plain}


def verify_arrays(
    user, t, x, y, record, t0, t1, x0, x1, y0, y1, *, users: int, steps: int, k: int, tau: int, progress=None
) -> Verified:
    """Check all; users and records count from 0, record j is user j's. Boxes include their ends.

    Two people who are always together, published as one box each:

    >>> seen = verify_arrays([0, 1], [3, 4], [7, 7], [5, 6], [0, 1], [3, 3], [4, 4], [7, 7], [7, 7], [5, 5],
    ...                      [6, 6], users=2, steps=10, k=2, tau=5)
    >>> seen.passed, seen.pairs_checked
    (True, 28)
    """
    check_claim(k, tau, users, steps)
    tables = make_tables((user, t, x, y), (record, t0, t1, x0, x1, y0, y1), users=users, steps=steps)
    return verify_tables(tables, build_index(tables), k=k, tau=tau, progress=progress)


def make_tables(samples, boxes, *, users: int, steps: int) -> Tables:
    """Sorted plain arrays, and everything that is wrong with single boxes."""
    sample_start, t, x, y = sorted_samples(*samples, users=users, steps=steps)
    (box_start, box, owner), structure, examples = sorted_boxes(boxes, users=users, steps=steps)
    reach, overlaps = running_reach(owner, box)
    own, outside, used = own_boxes(sample_start, t, x, y, box_start, box, reach)
    for name, bad in (("overlapping_boxes", overlaps), ("boxes_without_own_sample", ~used)):
        structure[name] = int(bad.sum())
        for row in np.flatnonzero(bad)[:3]:
            examples.append({"kind": name, "record": int(owner[row]), "step": int(box[row, 0])})
    structure["samples_outside_own_box"] = int(outside.sum())
    for row in np.flatnonzero(outside)[:3]:
        whose = int(np.searchsorted(sample_start, row, "right")) - 1
        examples.append({"kind": "samples_outside_own_box", "user": whose, "step": int(t[row])})
    return Tables(
        users=users,
        steps=steps,
        sample_start=sample_start,
        t=t,
        x=x,
        y=y,
        box_start=box_start,
        box=box,
        owner=owner,
        reach=reach,
        own=own,
        structure=structure,
        structure_examples=examples,
    )


def verify_tables(
    tables: Tables, index: tuple, *, k: int, tau: int, progress: Progress | None = None
) -> Verified:
    """The same, of arrays that are in order and their index."""
    lengths = starts_by_first(tables.samples, tau)
    order, start = by_bucket(index, tables)
    cuts = np.searchsorted(start, np.linspace(0, len(order), PIECES + 1)[1:-1])
    cuts = np.unique(np.concatenate([[0], cuts, [len(start) - 1]]))
    friends = np.full((tables.users, FRIENDS * (k - 1)), -1, np.int32)
    pieces = [
        lambda a=a, b=b: _check_buckets(
            tables.samples, tables.boxes, index, lengths, order, start, a, b, k, tau, friends, MOST_EXAMPLES
        )
        for a, b in pairwise(cuts)
    ]
    results = in_threads(pieces, progress, "check windows")
    results += in_threads(check_quiet(tables, k, tau, friends), progress, "check quiet windows")
    hit = np.zeros(tables.users, np.bool_)
    examples: dict[int, int] = {}  # user -> start
    for _, users_hit, some in results:
        hit[users_hit] = True
        for user, at in some:
            if len(examples) < MOST_EXAMPLES:
                examples.setdefault(int(user), int(at))
    return Verified(
        k=k,
        tau=tau,
        users=tables.users,
        pairs_checked=tables.users * (tables.steps + tau - 1),
        violations=sum(int(count) for count, _, _ in results),
        users_hit=int(hit.sum()),
        structure=dict(tables.structure),
        examples=[explain(tables, user, at, tau) for user, at in examples.items()],
        structure_examples=list(tables.structure_examples),
    )


def in_threads(
    pieces: Sequence[Callable[[], T]], progress: Progress | None = None, name: str = ""
) -> list[T]:
    """Results of the pieces of work, in their order."""
    if progress is not None:
        progress.stage(name, len(pieces))
    done = []
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for result in pool.map(lambda piece: piece(), pieces):
            done.append(result)
            if progress is not None:
                progress.advance(1)
    return done


@njit(cache=True, nogil=True)
def _check_buckets(samples, boxes, index, lengths, order, start, bucket, end, k, tau, friends, most_examples):
    """Windows whose first retained sample lies in one of these buckets."""
    sample_start, t, x, y, _ = samples
    looked_at = np.full(len(sample_start) - 1, -1, np.int64)  # the last sample a record was looked at for
    hit = np.zeros(len(sample_start) - 1, np.bool_)
    have = np.empty(tau, np.int64)
    examples = np.empty((most_examples, 2), np.int64)
    violations, shown = 0, 0
    for b in range(bucket, end):
        rows = order[start[b] : start[b + 1]]
        if not len(rows):
            continue
        near = boxes_near(index, boxes[1], t[rows], x[rows], y[rows])
        for j in rows:
            i = np.searchsorted(sample_start, j, "right") - 1
            starts = lengths[j]
            if starts <= 0:
                continue
            after = t[j] - starts
            have[:starts] = 0
            lacking = _fill(samples, boxes, near, i, j, after, k, tau, have, looked_at, friends)
            if lacking == 0:
                continue
            violations += lacking
            if not hit[i] and shown < most_examples:
                examples[shown] = (i, after + 1 + np.argmin(have[:starts]))
                shown += 1
            hit[i] = True
    return violations, np.flatnonzero(hit), examples[:shown]


@njit(cache=True, nogil=True)
def _fill(samples, boxes, near, i, j, after, k, tau, have, looked_at, friends):
    """Count fitting records for every start in (after, t_j] until each has k; how many starts lack some."""
    t, x, y = samples[1], samples[2], samples[3]
    box_start, box, owner, _ = boxes
    lacking = t[j] - after
    for f in range(-1, friends.shape[1]):  # the own record first, then records that fitted before
        r = i if f < 0 else friends[i, f]
        if r < 0 or looked_at[r] == j:
            continue
        looked_at[r] = j
        p = last_before(box, box_start[r], box_start[r + 1], t[j])
        low, high = good_starts(samples, boxes, i, j, after, r, p, tau)
        lacking -= _count(have, low - after - 1, high - after - 1, k)
        if lacking == 0:
            return lacking
    for p in near:
        if box[p, 0] > t[j] or box[p, 1] < t[j] or box[p, 2] > x[j] or box[p, 3] < x[j]:
            continue
        r = owner[p]
        if box[p, 4] > y[j] or box[p, 5] < y[j] or looked_at[r] == j:
            continue
        looked_at[r] = j
        while p + 1 < box_start[r + 1] and box[p + 1, 0] <= t[j]:
            p += 1
        low, high = good_starts(samples, boxes, i, j, after, r, p, tau)
        if low <= high:
            friends[i, r % friends.shape[1]] = r  # other threads may write too: it only changes the order
            lacking -= _count(have, low - after - 1, high - after - 1, k)
            if lacking == 0:
                return lacking
    return lacking


@njit(cache=True, nogil=True)
def _count(have, low, high, k):
    """One more record for each of these starts; how many have k now."""
    full = 0
    for place in range(low, high + 1):
        have[place] += 1
        full += have[place] == k
    return full
