"""Samples by epoch and user, and the compiled sums over them: features, merge costs, merged records.

An epoch is a stretch of `epoch_steps` steps. A user is active in an epoch with a sample in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.anonymise.kmerge import box_cost, boxes_back, partition
from shoal.stages.trajectories import LatticeSamples

SPACE = 3.0  # steps that one cell counts for when near people are looked for


@dataclass(frozen=True, kw_only=True, eq=False)
class EpochSamples:
    """Samples sorted by epoch, user, t; those of user u in epoch e are first[e, u] .. first[e, u + 1]."""

    users: int
    epochs: int
    epoch_steps: int
    t: np.ndarray = field(repr=False)
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    first: np.ndarray = field(repr=False)  # int32 [epochs, users + 1]
    most: np.ndarray = field(repr=False)  # int64 [epochs]: the most samples one user has in it

    @classmethod
    def of(cls, samples: LatticeSamples, epoch_steps: int) -> EpochSamples:
        epochs = max(1, -(-samples.steps // epoch_steps))
        epoch = samples.t // epoch_steps
        order = np.argsort(epoch, kind="stable")
        count = np.bincount(
            epoch.astype(np.int64) * samples.users + samples.user, minlength=epochs * samples.users
        )
        ends = np.cumsum(count).astype(np.int32).reshape(epochs, samples.users)
        first = np.empty((epochs, samples.users + 1), np.int32)
        first[:, 1:] = ends
        first[0, 0] = 0
        first[1:, 0] = ends[:-1, -1]
        return cls(
            users=samples.users,
            epochs=epochs,
            epoch_steps=epoch_steps,
            t=samples.t[order],
            x=samples.x[order],
            y=samples.y[order],
            first=first,
            most=np.diff(first, axis=1).max(axis=1).astype(np.int64),
        )

    def active(self) -> np.ndarray:
        """bool [epochs, users]: has a sample."""
        return np.diff(self.first, axis=1) > 0


@njit(cache=True, nogil=True)
def features(t, x, y, first, epochs, members, out):
    """Mean x, y and t of each member in each of `epochs`, in cells and steps."""
    for row in range(len(members)):
        for column in range(len(epochs)):
            begin, end = first[epochs[column], members[row]], first[epochs[column], members[row] + 1]
            sum_x = sum_y = sum_t = 0.0
            for each in range(begin, end):
                sum_x += x[each]
                sum_y += y[each]
                sum_t += t[each]
            count = max(1, end - begin)
            out[row, 3 * column] = SPACE * sum_x / count
            out[row, 3 * column + 1] = SPACE * sum_y / count
            out[row, 3 * column + 2] = sum_t / count


@njit(cache=True, nogil=True)
def gather(t, x, y, first, epoch, who, count, held_t, held_x, held_y, owner):
    """Samples of who[:count] in an epoch, sorted by t, with their owner 0 .. count - 1; returns how many."""
    rows = 0
    for each in range(count):
        begin, sample = first[epoch, who[each]], first[epoch, who[each] + 1] - 1
        held, at = rows - 1, rows + sample - begin
        rows = at + 1
        while sample >= begin:  # two sorted lists into one, from the back
            if held >= 0 and held_t[held] > t[sample]:
                held_t[at], held_x[at] = held_t[held], held_x[held]
                held_y[at], owner[at] = held_y[held], owner[held]
                held -= 1
            else:
                held_t[at], held_x[at], held_y[at], owner[at] = t[sample], x[sample], y[sample], each
                sample -= 1
            at -= 1
    return rows


@njit(cache=True, nogil=True)
def added_costs(t, x, y, first, epochs, members, group, carried, carrier, most, cost, out):
    """What record members[carrier] costs more with members[carried] in it, summed over epochs.

    group[row, column, :] lists whom the record of members[row] holds already in epochs[column], itself first;
    -1 ends the list. No user has more than `most` samples in one of the epochs.
    """
    time_power, space_power, area, more = cost
    room = (group.shape[2] + 1) * (most + 1) + 3
    held_t, held_x = np.empty(room, np.int64), np.empty(room, np.int64)
    held_y, owner = np.empty(room, np.int64), np.empty(room, np.int64)
    whole, best = np.empty((4, room), np.int64), np.empty(room)
    who = np.empty(group.shape[2] + 1, np.int64)
    for edge in range(len(carried)):
        total = 0.0
        for column in range(len(epochs)):
            epoch = epochs[column]
            count = 0
            while count < group.shape[2] and group[carrier[edge], column, count] >= 0:
                who[count] = group[carrier[edge], column, count]
                count += 1
            who[count] = members[carried[edge]]
            count += 1
            alone = True
            x0 = y0 = t0 = 2**30
            x1 = y1 = t1 = -(2**30)
            for each in range(count):
                at = first[epoch, who[each]]
                alone = alone and first[epoch, who[each] + 1] == at + 1
                x0, x1 = min(x0, x[at]), max(x1, x[at])
                y0, y1 = min(y0, y[at]), max(y1, y[at])
                t0, t1 = min(t0, t[at]), max(t1, t[at])
            if alone:  # one sample each: one box
                total += box_cost(t1 - t0 + 1 + more, x1 - x0 + 1, y1 - y0 + 1, time_power, space_power, area)
                continue
            rows = gather(t, x, y, first, epoch, who, count, held_t, held_x, held_y, owner)
            groups = partition(
                held_t, held_x, held_y, owner, rows, count, time_power, space_power, area, more, whole, best
            )
            total += best[groups - 1]
        out[edge] = total


@njit(cache=True, nogil=True)
def merge_epoch(t, x, y, first, epoch, members, group, count, cost, out_record, out_box):
    """The records of members in an epoch: each merged with group[row, :count[row]], itself the first.

    Returns the number of boxes written to out_box [:, 6] with their record in out_record.
    """
    time_power, space_power, area = cost
    widest = 1
    for row in range(len(members)):
        rows = 0
        for each in range(count[row]):
            rows += first[epoch, group[row, each] + 1] - first[epoch, group[row, each]]
        widest = max(widest, rows)
    room = widest + group.shape[1] + 1
    held_t, held_x = np.empty(room, np.int64), np.empty(room, np.int64)
    held_y, owner = np.empty(room, np.int64), np.empty(room, np.int64)
    whole, best = np.empty((4, room), np.int64), np.empty(room)
    boxes = 0
    for row in range(len(members)):
        rows = gather(t, x, y, first, epoch, group[row], count[row], held_t, held_x, held_y, owner)
        groups = partition(
            held_t, held_x, held_y, owner, rows, count[row], time_power, space_power, area, 0, whole, best
        )
        made = boxes_back(held_t, held_x, held_y, whole, groups, out_box[boxes:])
        out_record[boxes : boxes + made] = members[row]
        boxes += made
    return boxes
