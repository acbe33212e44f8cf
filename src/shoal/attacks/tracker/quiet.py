"""Windows in which a tracked person shows nothing: who else shows nothing there.

Where user i has no retained sample in W, record r fits iff no box of r lies wholly inside W, and none spans
the time of a suppressed sample of i in W. Two numbers for every start, counted once for all, settle most:
quiet[w]  records with no box touching W: they fit whatever was suppressed;
loose[w]  records with no box wholly inside W: exactly those that fit where i has no sample in W at all.
Only where samples were suppressed and fewer than k records are quiet, records are looked at one by one.

A window in which too few records fit, in plain words: who, when, and what rules the nearest others out.

For the owner's eyes: it names a person's window and places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from shoal.attacks.tracker.fits import ABSENT, holds_from, last_before, shows
from shoal.attacks.tracker.tables import Tables

BLOCKS = 32  # of users
STARTS = 1024  # looked at together, record by record
MOST_EXAMPLES = 10


def check_quiet(tables: Tables, k: int, tau: int, friends: np.ndarray) -> list[Callable[[], tuple]]:
    """Pieces of work over blocks of users; each gives violations, users hit, examples."""
    quiet, loose = quiet_and_loose(tables.box_start, tables.box, tables.reach, tables.steps, tau)
    order = np.argsort(np.diff(tables.box_start), kind="stable")  # those with few boxes fit most often
    low = np.concatenate([[0], np.cumsum(quiet < k)])
    cuts = np.unique(np.linspace(0, tables.users, BLOCKS + 1).astype(np.int64))
    return [
        lambda a=a, b=b: _check_users(
            tables.samples, tables.boxes, tables.steps, quiet, loose, low, order, friends, a, b, k, tau
        )
        for a, b in pairwise(cuts)
    ]


@njit(cache=True, nogil=True)
def quiet_and_loose(box_start, box, reach, steps, tau):
    """int64 [steps + tau - 1] each; the first entry is of the start 1 - tau."""
    size = steps + tau - 1
    quiet = np.zeros(size + 1, np.int64)
    loose = np.zeros(size + 1, np.int64)
    for r in range(len(box_start) - 1):
        first, end = box_start[r], box_start[r + 1]
        begins = 0  # the first start after the last box
        for p in range(first, end):
            stops = box[p, 0] - tau + (tau - 1)  # the last start whose window ends before the box
            if p > first:
                begins = reach[p - 1] + 1 + (tau - 1)
            if begins <= stops:
                quiet[begins] += 1
                quiet[stops + 1] -= 1
        begins = reach[end - 1] + 1 + (tau - 1) if end > first else 0
        quiet[begins] += 1
        quiet[size] -= 1
        # Starts with a box wholly inside, from the latest box back: each adds what lies below all before.
        loose[0] += 1
        lowest = size
        for p in range(end - 1, first - 1, -1):
            if box[p, 1] - box[p, 0] >= tau:
                continue
            low, high = box[p, 1] - tau + 1 + (tau - 1), min(box[p, 0] + (tau - 1), lowest - 1)
            if low <= high:
                loose[low] -= 1
                loose[high + 1] += 1
                lowest = low
    return np.cumsum(quiet)[:size], np.cumsum(loose)[:size]


@njit(cache=True, nogil=True)
def _check_users(samples, boxes, steps, quiet, loose, low, order, friends, first_user, end_user, k, tau):
    """Windows without a retained sample, of users first_user to end_user - 1."""
    sample_start, t, _, _, own = samples
    violations, shown = 0, 0
    hit = np.zeros(len(sample_start) - 1, np.bool_)
    examples = np.empty((MOST_EXAMPLES, 2), np.int64)
    have = np.empty(STARTS, np.int64)
    for i in range(first_user, end_user):
        begins = 1 - tau
        for n in range(sample_start[i], sample_start[i + 1] + 1):
            over = n == sample_start[i + 1]
            if not over and own[n] < 0:
                continue
            end = steps if over else t[n] - tau + 1  # starts begins .. end - 1 see nothing retained
            while begins < end:
                stop = min(end, begins + STARTS)
                if low[stop + tau - 1] > low[begins + tau - 1]:  # else k quiet records everywhere
                    lacking = _check_starts(
                        samples, boxes, quiet, loose, order, friends, i, begins, stop, k, tau, have
                    )
                    if lacking and not hit[i] and shown < MOST_EXAMPLES:
                        examples[shown] = (i, begins + np.argmin(have[: stop - begins]))
                        shown += 1
                    violations += lacking
                    hit[i] |= lacking > 0
                begins = stop
            if not over:
                begins = max(begins, t[n] + 1)
    return violations, np.flatnonzero(hit), examples[:shown]


@njit(cache=True, nogil=True)
def _check_starts(samples, boxes, quiet, loose, order, friends, i, begins, stop, k, tau, have):
    """Starts begins .. stop - 1 of user i that lack a record; `have` gets the number that fit, up to k."""
    sample_start, t = samples[0], samples[1]
    n = sample_start[i] + np.searchsorted(t[sample_start[i] : sample_start[i + 1]], begins)
    first_sample = n
    lacking, open_starts = 0, 0
    for w in range(begins, stop):
        while n < sample_start[i + 1] and t[n] < w:
            n += 1
        place = w + tau - 1
        if quiet[place] >= k:
            have[w - begins] = k
        elif n == sample_start[i + 1] or t[n] >= w + tau:
            have[w - begins] = min(loose[place], k)
            lacking += loose[place] < k
        else:
            have[w - begins] = -1  # to be counted
            open_starts += 1
    if open_starts:
        lacking += _one_by_one(samples, boxes, order, friends, i, first_sample, begins, stop, k, tau, have)
    return lacking


@njit(cache=True, nogil=True)
def _one_by_one(samples, boxes, order, friends, i, first_sample, begins, stop, k, tau, have):
    """Count fitting records where `have` is -1; how many of these starts end below k."""
    wanted = have[: stop - begins] < 0
    counted = np.zeros(stop - begins, np.int64)
    lacking = wanted.sum()
    bad = np.empty(stop - begins + 1, np.int64)
    early = friends.shape[1] + 1
    for place in range(early + len(order)):
        if place == 0:
            r = i
        elif place < early:
            r = friends[i, place - 1]
        else:
            r = order[place - early]
        if r < 0 or (place >= early and (r == i or friends[i, r % friends.shape[1]] == r)):
            continue  # no friend here, or one that was tried already
        _mark_bad(samples, boxes, i, first_sample, r, begins, stop, tau, bad)
        now = 0
        for w in range(stop - begins):
            now += bad[w]
            if wanted[w] and now == 0:
                counted[w] += 1
                lacking -= counted[w] == k
        if lacking == 0:
            break
    for w in range(stop - begins):
        if wanted[w]:
            have[w] = min(counted[w], k)
    return lacking


@njit(cache=True, nogil=True)
def _mark_bad(samples, boxes, i, first_sample, r, begins, stop, tau, bad):
    """Running sums of `bad` are above 0 at starts where record r does not fit user i, who shows nothing."""
    sample_start, t = samples[0], samples[1]
    box_start, box, _, reach = boxes
    first, end = box_start[r], box_start[r + 1]
    bad[:] = 0
    p = last_before(box, first, end, stop + tau - 2)
    while p >= first and reach[p] >= begins:
        low, high = max(box[p, 1] - tau + 1, begins), min(box[p, 0], stop - 1)
        if low <= high and box[p, 1] - box[p, 0] < tau:
            bad[low - begins] += 1
            bad[high + 1 - begins] -= 1
        n = first_sample
        while n < sample_start[i + 1] and t[n] <= min(box[p, 1], stop + tau - 2):
            if t[n] >= box[p, 0]:
                bad[max(t[n] - tau + 1, begins) - begins] += 1
                bad[min(t[n], stop - 1) + 1 - begins] -= 1
            n += 1
        p -= 1


NEAREST = 3
MISSING, WRONG_PLACE, TOO_MUCH, STRAY = range(4)
WORDS = {
    MISSING: "it has no box at step {t}, where the person's sample is published",
    WRONG_PLACE: "its box at step {t} does not hold the person's sample",
    TOO_MUCH: "it has a box at step {t}, where the person's sample was suppressed",
    STRAY: "its box from step {t} holds no published sample of the person",
}


@dataclass(frozen=True, kw_only=True)
class NearMiss:
    """A record that does not fit: how many pieces of evidence speak against it, and the first of them."""

    record: int
    faults: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Example:
    """User and start of a window in which only `fits` records fit."""

    user: int
    start: int
    fits: int
    near_misses: tuple[NearMiss, ...]


def explain(tables: Tables, user: int, start: int, tau: int) -> Example:
    """The nearest records that do not fit, those with the fewest faults first.

    A window that sticks out is moved inside, where as many records fit or fewer.
    """
    start = max(0, min(start, tables.steps - tau))
    faults, kind, at = all_faults(tables.samples, tables.boxes, user, start, tau)
    fits = int((faults == 0).sum())
    nearest = [r for r in np.argsort(faults, kind="stable")[: fits + NEAREST] if faults[r]][:NEAREST]
    near = tuple(
        NearMiss(record=int(r), faults=int(faults[r]), why=WORDS[int(kind[r])].format(t=int(at[r])))
        for r in nearest
    )
    return Example(user=user, start=start, fits=fits, near_misses=near)


@njit(cache=True, nogil=True)
def all_faults(samples, boxes, i, w, tau):
    """For every record: pieces of evidence against it in W = [w, w + tau), kind and step of the first."""
    records = len(boxes[0]) - 1
    faults = np.zeros(records, np.int64)
    kind, at = np.zeros(records, np.int64), np.zeros(records, np.int64)
    for r in range(records):
        faults[r], kind[r], at[r] = faults_of(samples, boxes, i, r, w, tau)
    return faults, kind, at


@njit(cache=True, nogil=True)
def faults_of(samples, boxes, i, r, w, tau):
    """The same for record r; without a fault it shows what a tracker saw of user i: the rule of fits.py."""
    sample_start, t, x, y, own = samples
    box_start, box, _, reach = boxes
    first, end = box_start[r], box_start[r + 1]
    begins = sample_start[i] + np.searchsorted(t[sample_start[i] : sample_start[i + 1]], w)
    faults, kind, at = 0, 0, 0
    n = begins
    while n < sample_start[i + 1] and t[n] < w + tau:
        shown = shows(box, reach, first, last_before(box, first, end, t[n]), t[n], x[n], y[n])
        if shown != (own[n] >= 0):
            if not faults:
                at = t[n]
                kind = TOO_MUCH if own[n] < 0 else MISSING if shown == ABSENT else WRONG_PLACE
            faults += 1
        n += 1
    p = last_before(box, first, end, w + tau - 1)
    while p >= first and reach[p] >= w:
        if box[p, 0] >= w and box[p, 1] < w + tau and not holds_from(samples, box, i, begins, p):
            if not faults:
                at, kind = box[p, 0], STRAY
            faults += 1
        p -= 1
    return faults, kind, at
