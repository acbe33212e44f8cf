"""Whole trajectories from counts alone: people per place and slot, nothing else about anybody.

Knows        counts of every place and slot, where places lie, which slots are night, the number of people.
Assumes      everybody is at exactly one place in every slot, and most people sleep where they slept before.
Within days  from slot to slot, people are carried from the counts of one to the counts of the next at least
             cost. Cost is the root of the distance from where a person is predicted to be: further along
             the last move by day, the same place at night. Those who can come home do.
Across days  fragments of days that begin at the same place are linked by likeness (below).
Source       Xu et al. 2017, after Acs, Biczok and Castelluccia 2018, section 1.1.1. Changed: the root of
             the distance, a shorter step ahead, and homes, without which people drift from place to place.

People with the same place, move and home are one group, so each step is a transport problem over groups and
places, solved exactly. People who rest stay for free where the next counts have a place for all of them: with
a cost that keeps the triangle inequality no plan is cheaper.

Daily fragments linked to whole trajectories: the same home, alike days.

How alike a fragment is to the days before it, in slots of a day:

    same time     mean number of slots spent at the same place at the same time of day
    both away     half a slot for each in which both are away from home, wherever they are
    same places   overlap of the visit frequencies (Bhattacharyya coefficient), times the slots of a day

Fragments that begin at the same place are matched so that their likeness adds up to the most. Where places do
not hold as many people on both mornings, those left over are carried to the nearest place that can take them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from shoal.attacks.models.recovery_score import carried
from shoal.errors import PlanError

HOME_PULL = 100.0  # above any root of a distance in km: coming home wins


@dataclass(frozen=True, kw_only=True)
class RecoveryPlan:
    """How the adversary predicts; the defaults were chosen on simulated commuters."""

    momentum: float = 0.25  # share of the last move that is expected again by day; 1: as published
    power: float = 0.5  # of the distance in km; 1: as published
    homes: bool = True  # whether people come home if they can; False: as published

    def __post_init__(self) -> None:
        if not 0 <= self.momentum <= 1 or not 0 < self.power <= 1:
            raise PlanError(
                "recovery-range",
                f"momentum lies in 0 to 1, power above 0 and up to 1; got {self.momentum} and {self.power}.",
                "With a power above 1 staying is not free any more.",
            )


def recover_trajectories(
    counts: np.ndarray,
    place_xy_m: np.ndarray,
    *,
    users: int,
    night: np.ndarray,
    day_of_slot: np.ndarray,
    plan: RecoveryPlan | None = None,
    advance: Callable[[float], None] | None = None,
) -> np.ndarray:
    """int32 [users, slots]: a place for each of `users` unknown people in each slot.

    `counts` [places, slots] may be raw or protected: see `whole_people`. `day_of_slot` numbers the fragments,
    which should begin when most people sleep. `advance` is called with 1 after each slot.

    >>> counts = np.array([[2, 1, 2], [1, 2, 1]])
    >>> still = dict(night=np.ones(3, bool), day_of_slot=np.zeros(3, int))
    >>> recover_trajectories(counts, np.array([[0.0, 0.0], [900.0, 0.0]]), users=3, **still).tolist()
    [[0, 0, 0], [0, 1, 0], [1, 1, 1]]
    """
    people = whole_people(counts, users)
    place_xy_m, night, day_of_slot = _checked(people, place_xy_m, night, day_of_slot)
    plan = plan or RecoveryPlan()
    tell = advance or (lambda amount: None)
    starts = np.flatnonzero(np.diff(day_of_slot, prepend=day_of_slot[0] - 1))
    fragments = [
        _one_day(people[:, first:end], place_xy_m, night[first:end], plan, tell)
        for first, end in zip(starts, [*starts[1:], len(day_of_slot)], strict=True)
    ]
    return chain_days(fragments, place_xy_m)


def whole_people(counts: np.ndarray, users: int) -> np.ndarray:
    """int64 [places, slots]: every slot holds `users` whole people.

    Counts below zero become zero. Each slot is scaled to `users` and rounded by largest remainders. A slot
    in which nothing is left repeats the slot before it (the first ones: the first slot with anybody).

    >>> whole_people(np.array([[1.5, -2.0, 0.0], [0.5, 3.0, 0.0]]), 3).tolist()
    [[2, 0, 0], [1, 3, 3]]
    """
    counts = np.asarray(counts, float)
    if counts.ndim != 2 or not counts.size or not np.isfinite(counts).all():
        raise PlanError(
            "recovery-counts",
            f"counts must be finite numbers [places, slots]; got the shape {list(counts.shape)}.",
            "Give a count for every place and slot, 0 where there is nobody.",
        )
    left = np.maximum(counts, 0.0)
    filled = np.flatnonzero(left.sum(axis=0) > 0)
    if users < 1 or not len(filled):
        raise PlanError(
            "recovery-nobody", "there is nobody in the counts.", "Attack counts of at least one person."
        )
    slot = np.arange(left.shape[1])
    source = filled[np.maximum(np.searchsorted(filled, slot, side="right") - 1, 0)]
    share = left[:, source] * (users / left[:, source].sum(axis=0))
    whole = np.floor(share + 1e-9).astype(np.int64)
    order = np.argsort(whole - share, axis=0, kind="stable")
    rank = np.argsort(order, axis=0, kind="stable")
    return whole + (rank < users - whole.sum(axis=0))


def _one_day(
    people: np.ndarray,
    xy: np.ndarray,
    night: np.ndarray,
    plan: RecoveryPlan,
    tell: Callable[[float], None],
) -> np.ndarray:
    """int32 [users, slots of the day]: one fragment per person, in the order of their first places."""
    home = np.repeat(np.arange(len(xy)), people[:, 0])
    before = now = home
    positions = [now]
    for slot in range(1, people.shape[1]):
        momentum = 0.0 if night[slot] else plan.momentum
        before, now = now, next_places(now, before, home, people[:, slot], xy, momentum, plan)
        positions.append(now)
        tell(1)
    tell(1)
    return np.stack(positions, axis=1).astype(np.int32)


def next_places(
    now: np.ndarray,
    before: np.ndarray,
    home: np.ndarray,
    demand: np.ndarray,
    xy: np.ndarray,
    momentum: float,
    plan: RecoveryPlan,
) -> np.ndarray:
    """int64 [users]: where each goes, so that `demand` [places] is met at least cost in all."""
    places = len(xy)
    resting = (now == before) | (momentum == 0)
    stays = resting & (np.bincount(now[resting], minlength=places) <= demand)[now]
    following = np.where(stays, now, -1)
    open_places = demand - np.bincount(now[stays], minlength=places)
    moving = np.flatnonzero(~stays)
    if not len(moving):
        return following
    last = np.where(resting[moving], now[moving], before[moving])
    key = (now[moving] * places + last) * places + (home[moving] if plan.homes else 0)
    _, first, group, size = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    member = moving[first]
    predicted = xy[now[member]] + momentum * (xy[now[member]] - xy[last[first]])
    targets = np.flatnonzero(open_places)
    cost = _distance_km(predicted, xy[targets]) ** plan.power
    if plan.homes:
        cost -= HOME_PULL * (home[member][:, None] == targets[None, :])
    flow = carried(size, open_places[targets], cost)
    origin, target = np.nonzero(flow)
    following[moving[np.argsort(group, kind="stable")]] = np.repeat(targets[target], flow[origin, target])
    return following


def _distance_km(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.hypot(np.subtract.outer(a[:, 0], b[:, 0]), np.subtract.outer(a[:, 1], b[:, 1])) / 1000


def _checked(people: np.ndarray, xy, night, day_of_slot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    xy, night, day = np.asarray(xy, float), np.asarray(night, bool), np.asarray(day_of_slot, np.int64)
    places, slots = people.shape
    if xy.shape != (places, 2) or night.shape != (slots,) or day.shape != (slots,):
        raise PlanError(
            "recovery-shape",
            f"places lie at [places, 2], night and day are [slots]; got {list(xy.shape)}, "
            f"{list(night.shape)} and {list(day.shape)} for {places} places and {slots} slots.",
            "Say for every slot whether it is night and which day it belongs to.",
        )
    return xy, night, day


AWAY = 0.5


def chain_days(fragments: Sequence[np.ndarray], place_xy_m: np.ndarray) -> np.ndarray:
    """int32 [users, slots]: fragments [users, slots of a day], one array per day, joined person by person.

    Days may differ in length: they are compared from their last slot back.

    >>> monday, tuesday = np.array([[0, 1, 0], [0, 2, 0]]), np.array([[0, 2, 0], [0, 1, 0]])
    >>> chain_days([monday, tuesday], np.zeros((3, 2))).tolist()
    [[0, 1, 0, 0, 1, 0], [0, 2, 0, 0, 2, 0]]
    """
    done = [np.ascontiguousarray(fragments[0], np.int32)]
    for fragment in fragments[1:]:
        order = _link(done, np.ascontiguousarray(fragment, np.int32), place_xy_m)
        done.append(np.ascontiguousarray(fragment[order], np.int32))
    return np.concatenate(done, axis=1)


def _link(done: list[np.ndarray], fragment: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """int64 [users]: the row of `fragment` that goes on from each person."""
    home, start = done[-1][:, 0], fragment[:, 0]
    habit = _root_frequencies(np.concatenate(done, axis=1), len(xy))
    new = _root_frequencies(fragment, len(xy))
    linked = np.full(len(home), -1, np.int64)
    by_home, by_start = _members(home, len(xy)), _members(start, len(xy))
    for place in range(len(xy)):
        people, rows = by_home[place], by_start[place]
        if not len(people) or not len(rows):
            continue
        alike = _likeness(done, fragment, people, rows, place)
        alike += fragment.shape[1] * (habit[people] @ new[rows].T).toarray()
        person, row = linear_sum_assignment(alike, maximize=True)
        linked[people[person]] = rows[row]
    _link_left_over(linked, home, start, xy)
    return linked


def _link_left_over(linked: np.ndarray, home: np.ndarray, start: np.ndarray, xy: np.ndarray) -> None:
    """Links people whose place holds fewer people the next day to the nearest free rows; fills `linked`."""
    people = np.flatnonzero(linked < 0)
    if not len(people):
        return
    rows = np.setdiff1d(np.arange(len(linked)), linked)
    metres = np.hypot(*(xy[home[people]][:, None, :] - xy[start[rows]][None, :, :]).transpose(2, 0, 1))
    person, row = linear_sum_assignment(metres)
    linked[people[person]] = rows[row]


def _likeness(
    done: list[np.ndarray], fragment: np.ndarray, people: np.ndarray, rows: np.ndarray, home: int
) -> np.ndarray:
    alike = np.zeros((len(people), len(rows)))
    for day in done:
        shared = min(day.shape[1], fragment.shape[1])
        mine, theirs = day[people, -shared:], fragment[rows, -shared:]
        alike += np.rint(shared * (1 - cdist(mine, theirs, "hamming")))
        alike += AWAY * ((mine != home).astype(float) @ (theirs != home).T)
    return alike / len(done)


def _root_frequencies(positions: np.ndarray, places: int) -> scipy.sparse.csr_array:
    """Roots of the share of time at each place, [rows, places]."""
    rows = np.repeat(np.arange(len(positions)), positions.shape[1])
    ones = np.ones(positions.size)
    frequencies = scipy.sparse.csr_array((ones, (rows, positions.ravel())), shape=(len(positions), places))
    frequencies.sum_duplicates()
    frequencies.data = np.sqrt(frequencies.data / positions.shape[1])
    return frequencies


def _members(place: np.ndarray, places: int) -> list[np.ndarray]:
    """Rows of people, by place."""
    order = np.argsort(place, kind="stable")
    return np.split(order, np.searchsorted(place[order], np.arange(1, places)))
