"""The best common generalisation of k trajectories: k-merge.

Input    k trajectories, each a list of samples (t, x, y) on a lattice.
Output   boxes, disjoint in time, that together hold every sample; each holds a sample of every trajectory.
Cost     of a box Dt * (Dx + Dy), spans with both ends; of a merge the sum over its boxes. It is the least.
Source   Gramaglia et al. 2017, section III and alg. 1. Deviation: samples of the same step stay in one box,
         since boxes must be disjoint in time; the paper's order by time leaves such ties open.

A set of consecutive steps is complete if every trajectory has a sample in it, elementary if no cut makes
two complete sets of it. A box that can be cut costs at least its two halves: Dt is at least the sum of
theirs, and no half is wider in space. So only elementary sets are tried. With L(g) the last start of a
complete set that ends at g, those are the starts L(L(g) - 1) + 1 .. L(g): linear time where trajectories
interleave, quadratic at worst.

Below: samples by epoch and user, and the compiled sums over them: features, merge costs, merged records. An
epoch is a stretch of `epoch_steps` steps. A user is active in an epoch with a sample in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.stages.trajectories import LatticeSamples

# The cost of a box as manifests state it: Dt ** time_power * (Dx + Dy) ** space_power.
COST_OF_A_BOX = {"time_power": 1.0, "space_power": 1.0, "area": False}


@dataclass(frozen=True, kw_only=True, eq=False)
class Merge:
    """Boxes in order of time, [count, 6] as t0, t1, x0, x1, y0, y1, and their cost."""

    boxes: np.ndarray = field(repr=False)
    cost: float

    @property
    def count(self) -> int:
        return len(self.boxes)


def k_merge(trajectories: Sequence[np.ndarray]) -> Merge:
    """The merge of least cost of k trajectories, each an integer array [samples, 3] of t, x, y.

    >>> walk, drive = [[0, 0, 0], [9, 5, 5]], [[1, 0, 1], [9, 5, 5]]
    >>> k_merge([np.array(walk), np.array(drive)]).boxes.tolist()
    [[0, 1, 0, 0, 0, 1], [9, 9, 5, 5, 5, 5]]
    """
    if not trajectories:
        raise PlanError("merge-empty", "there is no trajectory to merge.")
    parts = [np.asarray(each) for each in trajectories]
    for part in parts:
        if part.ndim != 2 or part.shape[1] != 3 or not len(part):
            raise PlanError("merge-shape", "a trajectory is an array of one or more rows t, x, y.")
        if part.dtype.kind not in "iu":
            raise PlanError(
                "merge-whole", "samples are whole numbers of the lattice.", "Round them down first."
            )
    rows = np.concatenate(parts).astype(np.int64)
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    order = np.argsort(rows[:, 0], kind="stable")
    t, x, y = (np.ascontiguousarray(rows[order, column]) for column in range(3))
    out = np.empty((len(rows), 6), np.int64)
    total, count = merge_sorted(t, x, y, owner[order], len(rows), len(parts), out)
    return Merge(boxes=out[:count].copy(), cost=float(total))


@njit(cache=True, inline="always")
def box_cost(dt, dx, dy):
    return float(dt * (dx + dy))


@njit(cache=True, nogil=True)
def merge_sorted(t, x, y, owner, count, k, out):
    """Boxes of the best merge of samples sorted by t into `out`; returns its cost and the number of boxes."""
    whole, best = np.empty((4, count + 1), np.int64), np.empty(count + 1)
    groups = partition(t, x, y, owner, count, k, 0, whole, best)
    if best[groups - 1] == np.inf:
        return np.inf, 0
    return best[groups - 1], boxes_back(t, x, y, whole, groups, out)


@njit(cache=True, nogil=True)
def partition(t, x, y, owner, count, k, more, whole, best):
    """The dynamic programme, on scratch of count + 1 and k or more; returns the number of distinct steps.

    whole[0] is the first sample of each distinct step, whole[1] where its best box begins, best its cost.
    Every box counts `more` steps longer than it is; only with 0 is the result the best merge.
    """
    first, came_from, complete, last_seen = whole[0], whole[1], whole[2], whole[3]
    groups = 0
    for row in range(count):
        if row == 0 or t[row] != t[row - 1]:
            first[groups] = row
            groups += 1
    first[groups] = count
    last_seen[:k] = -1
    for g in range(groups):
        best[g] = np.inf
        came_from[g] = -1
        for row in range(first[g], first[g + 1]):
            last_seen[owner[row]] = g
        latest = g
        for each in range(k):
            latest = min(latest, last_seen[each])
        complete[g] = latest
        if latest < 0:
            continue
        lowest = complete[latest - 1] + 1 if latest > 0 and complete[latest - 1] >= 0 else 0
        row = first[g]
        x0 = x1 = x[row]
        y0 = y1 = y[row]
        end = t[row]
        begin = g
        while begin >= lowest:
            for row in range(first[begin], first[begin + 1]):
                x0, x1 = min(x0, x[row]), max(x1, x[row])
                y0, y1 = min(y0, y[row]), max(y1, y[row])
            before = 0.0 if begin == 0 else best[begin - 1]
            if begin <= latest and before < np.inf:
                dt = end - t[first[begin]] + 1 + more
                total = before + box_cost(dt, x1 - x0 + 1, y1 - y0 + 1)
                if total < best[g]:
                    best[g] = total
                    came_from[g] = begin
            begin -= 1
    return groups


@njit(cache=True, nogil=True)
def boxes_back(t, x, y, whole, groups, out):
    """The chosen boxes into `out`, in order of time; returns their number."""
    first, came_from = whole[0], whole[1]
    boxes = 0
    g = groups - 1
    while g >= 0:
        boxes += 1
        g = came_from[g] - 1
    g, at = groups - 1, boxes - 1
    while g >= 0:
        begin, stop = first[came_from[g]], first[g + 1]
        x0 = x1 = x[begin]
        y0 = y1 = y[begin]
        for row in range(begin, stop):
            x0, x1 = min(x0, x[row]), max(x1, x[row])
            y0, y1 = min(y0, y[row]), max(y1, y[row])
        out[at, 0], out[at, 1] = t[begin], t[stop - 1]
        out[at, 2], out[at, 3], out[at, 4], out[at, 5] = x0, x1, y0, y1
        g, at = came_from[g] - 1, at - 1
    return boxes


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
        old, at = rows - 1, rows + sample - begin
        rows = at + 1
        while sample >= begin:  # two sorted lists into one, from the back
            if old >= 0 and held_t[old] > t[sample]:
                held_t[at], held_x[at] = held_t[old], held_x[old]
                held_y[at], owner[at] = held_y[old], owner[old]
                old -= 1
            else:
                held_t[at], held_x[at], held_y[at], owner[at] = t[sample], x[sample], y[sample], each
                sample -= 1
            at -= 1
    return rows


@njit(cache=True, nogil=True)
def added_costs(t, x, y, first, epochs, members, group, carried, carrier, most, more, out):
    """What record members[carrier] costs more with members[carried] in it, summed over epochs.

    group[row, column, :] lists whom the record of members[row] holds already in epochs[column], itself first;
    -1 ends the list. No user has more than `most` samples in one of the epochs. Every box counts `more` steps
    longer than it is.
    """
    capacity = (group.shape[2] + 1) * (most + 1) + 3
    held_t, held_x = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    held_y, owner = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    whole, best = np.empty((4, capacity), np.int64), np.empty(capacity)
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
                total += box_cost(t1 - t0 + 1 + more, x1 - x0 + 1, y1 - y0 + 1)
                continue
            rows = gather(t, x, y, first, epoch, who, count, held_t, held_x, held_y, owner)
            groups = partition(held_t, held_x, held_y, owner, rows, count, more, whole, best)
            total += best[groups - 1]
        out[edge] = total


@njit(cache=True, nogil=True)
def merge_epoch(t, x, y, first, epoch, members, group, count, out_record, out_box):
    """The records of members in an epoch: each merged with group[row, :count[row]], itself the first.

    Returns the number of boxes written to out_box [:, 6] with their record in out_record.
    """
    widest = 1
    for row in range(len(members)):
        rows = 0
        for each in range(count[row]):
            rows += first[epoch, group[row, each] + 1] - first[epoch, group[row, each]]
        widest = max(widest, rows)
    capacity = widest + group.shape[1] + 1
    held_t, held_x = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    held_y, owner = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    whole, best = np.empty((4, capacity), np.int64), np.empty(capacity)
    boxes = 0
    for row in range(len(members)):
        rows = gather(t, x, y, first, epoch, group[row], count[row], held_t, held_x, held_y, owner)
        groups = partition(held_t, held_x, held_y, owner, rows, count[row], 0, whole, best)
        merged = boxes_back(held_t, held_x, held_y, whole, groups, out_box[boxes:])
        out_record[boxes : boxes + merged] = members[row]
        boxes += merged
    return boxes
