"""Plain arrays for a check of released trajectories: samples by user, boxes by record.

The check trusts nobody: whatever is handed in is sorted and looked at again here, with no help from the code
that made the release. Record j belongs to user j; a record may have no box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.errors import PlanError

MOST_STEPS = 2**24
MOST_CELLS = 2**30  # spans of cells must fit 32 bits

# what can be wrong with the files themselves: name -> in words, for counts
STRUCTURE = {
    "malformed_boxes": "boxes that end before they begin",
    "boxes_outside_window": "boxes outside the steps of the lattice",
    "boxes_of_no_record": "boxes of a record that belongs to nobody",
    "overlapping_boxes": "boxes that overlap the one before in time",
    "boxes_without_own_sample": "boxes that hold no sample of their own user",
    "samples_outside_own_box": "samples within the time of an own box but outside its space",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Samples of user j: rows sample_start[j] to sample_start[j + 1], by time. Boxes of record j alike.

    A column of `box` each: t0, t1, x0, x1, y0, y1, ends included. `reach` is the latest end of a record's
    boxes up to here: where boxes are disjoint, t1. `own` is a box of the own record that holds the sample,
    or -1: then it was suppressed.
    """

    users: int
    steps: int
    sample_start: np.ndarray = field(repr=False)  # int64 [users + 1]
    t: np.ndarray = field(repr=False)  # int32
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    box_start: np.ndarray = field(repr=False)  # int64 [users + 1]
    box: np.ndarray = field(repr=False)  # int32 [boxes, 6]
    owner: np.ndarray = field(repr=False)  # int32 [boxes]
    reach: np.ndarray = field(repr=False)  # int32 [boxes]
    own: np.ndarray = field(repr=False)  # int32 [samples]
    structure: dict[str, int]
    structure_examples: list[dict[str, int | str]]

    @property
    def samples(self) -> tuple[np.ndarray, ...]:
        return self.sample_start, self.t, self.x, self.y, self.own

    @property
    def boxes(self) -> tuple[np.ndarray, ...]:
        return self.box_start, self.box, self.owner, self.reach


def check_claim(k: int, tau: int, users: int, steps: int) -> None:
    """Numbers of a claim that make sense."""
    if k < 2:
        raise PlanError("claim-k", f"k must be 2 or more; got {k}.", "Pass --k 2, say.")
    if tau < 1:
        raise PlanError("claim-tau", f"tau must be 1 step or longer; got {tau}.", "Pass --tau-minutes 30.")
    if users < 0 or not 1 <= steps <= MOST_STEPS:
        raise PlanError("claim-size", f"there must be 1 to {MOST_STEPS} steps, and 0 users or more.")
    if tau > MOST_STEPS:
        raise PlanError("claim-tau", f"tau must be at most {MOST_STEPS} steps.", "Pass a shorter time.")


def sorted_samples(user, t, x, y, *, users: int, steps: int) -> tuple[np.ndarray, ...]:
    """sample_start, t, x, y; each (user, t, x, y) once."""
    columns = _columns((user, t, x, y), "samples")
    _refuse_range(columns[0], 0, users - 1, "a user number of a sample")
    _refuse_range(columns[1], 0, steps - 1, "a step of a sample")
    for cells in columns[2:]:
        _refuse_range(cells, -MOST_CELLS, MOST_CELLS, "a cell of a sample")
    when = columns[0].astype(np.int64) << 32 | columns[1].astype(np.int64)
    where = (columns[2].astype(np.int64) << 32) + columns[3].astype(np.int64)
    sorted_rows = (when[1:] > when[:-1]) | ((when[1:] == when[:-1]) & (where[1:] > where[:-1]))
    if not sorted_rows.all():
        order = np.lexsort((where, when))
        when, where = when[order], where[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (when[1:] != when[:-1]) | (where[1:] != where[:-1])
        order = order[new]
        columns = [column[order] for column in columns]
    user, t, x, y = (np.ascontiguousarray(column, np.int32) for column in columns)
    return np.searchsorted(user, np.arange(users + 1)).astype(np.int64), t, x, y


def sorted_boxes(columns: Sequence[np.ndarray], *, users: int, steps: int):
    """box_start, box, owner, reach of sound boxes, by record and t0; and what was wrong with the others."""
    record, *ends = _columns(columns, "boxes")
    t0, t1, x0, x1, y0, y1 = ends
    unknown = (record < 0) | (record >= users)
    turned = (t0 > t1) | (x0 > x1) | (y0 > y1)
    outside = (t0 < 0) | (t1 >= steps)
    for cells in (x0, x1, y0, y1):
        outside |= (cells < -MOST_CELLS) | (cells > MOST_CELLS)
    counts, examples = {}, []
    for name, bad in (
        ("malformed_boxes", turned),
        ("boxes_outside_window", outside),
        ("boxes_of_no_record", unknown),
    ):
        counts[name] = int(bad.sum())
        for row in np.flatnonzero(bad)[:3]:
            examples.append({"kind": name, "record": int(record[row]), "step": int(t0[row])})
    if any(counts.values()):
        good = ~(unknown | turned | outside)
        record, ends = record[good], [column[good] for column in ends]
    owner = np.ascontiguousarray(record, np.int32)
    box = np.empty((len(owner), 6), np.int32)
    for place, column in enumerate(ends):
        box[:, place] = column
    same = owner[1:] == owner[:-1]
    if not ((owner[1:] > owner[:-1]) | (same & (box[1:, 0] >= box[:-1, 0]))).all():
        order = np.lexsort((box[:, 1], box[:, 0], owner))
        owner, box = owner[order], box[order]
    start = np.searchsorted(owner, np.arange(users + 1)).astype(np.int64)
    return (start, box, owner), counts, examples


def _columns(columns: Sequence[np.ndarray], what: str) -> list[np.ndarray]:
    """One-dimensional whole numbers, equally many."""
    arrays = [np.asarray(column) for column in columns]
    if any(a.ndim != 1 for a in arrays) or len({len(a) for a in arrays}) != 1:
        raise PlanError("tracker-shape", f"columns of {what} must be plain lists of one length.")
    for array in arrays:
        if array.size and array.dtype.kind not in "iu":
            raise PlanError("tracker-type", f"columns of {what} must be whole numbers.")
    return [array if array.size else array.astype(np.int32) for array in arrays]


def _refuse_range(values: np.ndarray, least: int, most: int, what: str) -> None:
    if values.size and (int(values.min()) < least or int(values.max()) > most):
        raise PlanError("tracker-range", f"{what} is not in {least} to {most}.")
