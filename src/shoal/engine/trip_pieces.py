"""Points of trips cut into pieces, bounded per unit, and traced to paths of cells; all in memory.

A trip is cut where a point lies outside the box (that point is dropped) and, where the rule says so, where
one step is longer than `jump_m`. The pieces are the trips from here on. At most `per_unit` of each unit are
kept, chosen by a keyed hash of unit and piece: any split and order of the rows gives the same choice. Where
the unit is a trip, that is the trip before these cuts, and of its pieces the one with most points is kept:
taking a trip's points away takes one path away and leaves all others as they are.

A step between two points is a straight line, traced in whole numbers. A line that goes exactly through a
corner enters the cell to its east or west first, so consecutive cells of a path share an edge. Beyond
`most_cells` cells of a unit its paths are cut off, trip by trip; a trip keeps its first cell.

Points are also counted, for the owner's eyes: how many lie beyond the box, how many steps are slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.engine.buckets import digest_users, hash3, same_as_before, split_key
from shoal.engine.engine import Sums
from shoal.engine.trip_queries import TripQueries
from shoal.errors import GuaranteeError, PlanError
from shoal.space.cells import STEPS, CellGrid
from shoal.stages.trips import GridTrips

KEEP_PURPOSE = 7
TRIP_PURPOSE = 8
# Cells of a unit, filled-in ones included: points far apart must not exhaust the memory. What is kept of a
# unit depends on that unit alone, so the bound on what a unit changes holds as without it.
MOST_CELLS = 10_000_000
Stage = TypeVar("Stage", bound=Any)


@dataclass(frozen=True, kw_only=True)
class PieceBound:
    """How points become bounded pieces of trips; public."""

    grid: CellGrid
    per_unit: int = 1
    cap: int | None = None  # in the number of all trips; None: per_unit
    each_trip: bool = False  # the unit is a trip, before it is cut: its longest piece is kept
    jump_m: float | None = None
    most_cells: int = MOST_CELLS
    run_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.each_trip and self.per_unit != 1:
            raise PlanError("trip-bound", "where the unit is a trip, a unit has one trip.")
        if not (self.per_unit >= 1 and self.counted >= 1):
            raise PlanError(
                "trip-bound",
                f"trips per unit and their cap must be 1 or more; got {self.per_unit} and {self.cap}.",
                "Pass --trips-per-user 10 --trips-cap 100, say.",
            )
        if self.jump_m is not None and not self.jump_m > 0:
            raise PlanError(
                "trip-jump", "the longest step must be above 0 metres.", "Pass --jump-m 2000, say."
            )

    @property
    def counted(self) -> int:
        return self.per_unit if self.cap is None else self.cap

    def pieces(self, batch: pa.RecordBatch) -> Pieces:
        """Kept pieces of one batch of user-complete points: user, trip, x, y, sorted by user, trip, time."""
        x, y = (batch[name].to_numpy(zero_copy_only=False) for name in ("x", "y"))
        u, v, inside = self.grid.place(x, y)
        digest = digest_users(batch["user"], self.run_key)
        trip = batch["trip"].to_numpy(zero_copy_only=False).astype(np.int64)
        width, height = self.grid.cell_m
        longest = np.inf if self.jump_m is None else self.jump_m**2
        same_user = same_as_before(batch["user"])
        start, stop, owner = _pieces(same_user, trip, u, v, inside, longest, width / STEPS, height / STEPS)
        new = np.diff(owner, prepend=-1) > 0
        if self.each_trip:
            new |= np.diff(trip[start], prepend=-1) != 0
            owner = np.cumsum(new) - 1
            whose = _digest_trips(
                digest[start[new]], trip[start[new]], *split_key(self.run_key, TRIP_PURPOSE)
            )
            rank = _by_length(stop - start, owner)
        else:
            whose = digest[start[new]]
            rank = _ranks(digest[start], owner, *split_key(self.run_key, KEEP_PURPOSE))
        units = int(owner[-1]) + 1 if owner.size else 0
        size = np.bincount(owner, minlength=units)
        keep = rank < self.per_unit
        points = np.concatenate([[0], np.cumsum((stop - start)[keep])])
        rows = _rows(start[keep], points)
        return Pieces(
            rows=rows,
            first=points,
            u=u[rows],
            v=v[rows],
            owners=Owners(owner[keep], units, int(np.minimum(size, self.counted).sum()), whose),
        )

    def joined(self, parts: Sequence[Encoded], **kinds: type[np.generic]) -> tuple[Owners, dict[str, Any]]:
        """Owners of many batches, and what stages made of them have in common; a unit lies in one batch.

        `kinds` names the columns of the parts and their types.
        """
        owners = Owners.joined([part.owners for part in parts])
        owners.check_complete()
        columns = {
            name: np.concatenate([np.empty(0, kind), *(part.columns[name] for part in parts)])
            for name, kind in kinds.items()
        }
        return owners, {
            "grid": self.grid,
            "first": joined_first([part.first for part in parts]),
            "unit": owners.unit,
            "all_trips": owners.all_trips,
            "cap": self.counted,
            "each_trip": self.each_trip,
            **columns,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """Kept pieces of some users; points of piece i are first[i] to first[i + 1]."""

    rows: np.ndarray  # of the batch, one per point
    first: np.ndarray
    u: np.ndarray  # whole steps on the grid
    v: np.ndarray
    owners: Owners


@dataclass(frozen=True, eq=False)
class Owners:
    """The unit of each piece."""

    unit: np.ndarray  # int64 per piece
    units: int
    all_trips: int  # before bounding, at most the cap of one unit
    whose: np.ndarray  # uint64: digests of the users, or trips, that are the units

    @classmethod
    def joined(cls, parts: list[Owners]) -> Owners:
        """Parts one after the other, units counted through."""
        before = np.cumsum([0, *(part.units for part in parts)])
        return cls(
            np.concatenate(
                [np.empty(0, np.int64), *(p.unit + b for p, b in zip(parts, before, strict=False))]
            ),
            int(before[-1]),
            sum(part.all_trips for part in parts),
            np.concatenate([np.empty(0, np.uint64), *(part.whose for part in parts)]),
        )

    def check_complete(self) -> None:
        """Refuses units whose rows are not together in one batch: the bound would hold for parts of them."""
        if np.unique(self.whose).size != self.whose.size:
            raise GuaranteeError(
                "bound-not-held", "the points of a user, or of a trip, do not come together."
            )


@dataclass(frozen=True, eq=False)
class Encoded:
    """Paths of some users: where each begins in the columns of visits; other columns have a row per path."""

    owners: Owners
    first: np.ndarray
    columns: dict[str, np.ndarray]


def joined_first(firsts: list[np.ndarray]) -> np.ndarray:
    """Offsets of parts, one after the other, as offsets of the whole."""
    return np.cumsum(np.concatenate([[0], *(np.diff(first) for first in firsts)]).astype(np.int64))


def merge_stages(stages: Sequence[Stage]) -> Stage:
    """Stages of different units as one: offsets and units counted through, numbers of them added."""
    first = stages[0]
    if len(stages) == 1:
        return first
    changed: dict[str, Any] = {"first": joined_first([stage.first for stage in stages])}
    before = 0
    units = []
    for stage in stages:
        units.append(stage.unit + before)
        before += int(stage.unit.max()) + 1 if stage.unit.size else 0
    changed["unit"] = np.concatenate(units)
    for each in fields(first):
        value = getattr(first, each.name)
        if each.name in ("all_trips", "units"):
            changed[each.name] = sum(getattr(stage, each.name) for stage in stages)
        elif isinstance(value, np.ndarray) and each.name not in changed:
            changed[each.name] = np.concatenate([getattr(stage, each.name) for stage in stages])
    return replace(first, **changed)


@njit(cache=True, nogil=True)
def cut_beyond(unit, most, size):
    """Cells of piece i in size[i + 1], at most `most` of a unit but for the first of every piece."""
    left = most
    for i in range(unit.size):
        if i == 0 or unit[i] != unit[i - 1]:
            left = most
        size[i + 1] = max(min(size[i + 1], left), 1)
        left = max(left - size[i + 1], 0)


@njit(cache=True, nogil=True)
def _pieces(same, trip, u, v, inside, longest, metres_u, metres_v):
    """First row, row after the last, and the user (counted in order) of every piece."""
    rows = same.size
    start = np.empty(rows, np.int64)
    stop = np.empty(rows, np.int64)
    owner = np.empty(rows, np.int64)
    count, user = 0, -1
    begun = False  # the user has a piece already, so has a number
    for row in range(rows):
        same_user = same[row]
        if not same_user:
            begun = False
        if not inside[row]:
            continue
        goes_on = same_user and inside[row - 1] and trip[row] == trip[row - 1]
        if goes_on:
            across = (u[row] - u[row - 1]) * metres_u
            along = (v[row] - v[row - 1]) * metres_v
            goes_on = across * across + along * along <= longest
        if not goes_on:
            if not begun:
                user += 1
                begun = True
            start[count] = row
            owner[count] = user
            count += 1
        stop[count - 1] = row + 1
    return start[:count].copy(), stop[:count].copy(), owner[:count].copy()


@njit(cache=True, nogil=True)
def _digest_trips(user, trip, k0, k1):
    """uint64 per unit: a keyed digest of the user and the trip."""
    out = np.empty(user.size, np.uint64)
    for i in range(user.size):
        out[i] = hash3(k0, k1, user[i], np.uint64(trip[i]), np.uint64(0))
    return out


@njit(cache=True, nogil=True)
def _ranks(digest, owner, k0, k1):
    """The place of each piece in the random order of its unit's pieces."""
    rank = np.zeros(owner.size, np.int64)
    begin = 0
    while begin < owner.size:
        end = begin
        while end < owner.size and owner[end] == owner[begin]:
            end += 1
        if end - begin > 1:
            draw = np.empty(end - begin, np.uint64)
            for i in range(end - begin):
                draw[i] = hash3(k0, k1, digest[begin], np.uint64(i), np.uint64(0))
            order = np.argsort(draw)
            for place in range(end - begin):
                rank[begin + order[place]] = place
        begin = end
    return rank


def _by_length(points: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The place of each piece among its unit's, most points first."""
    order = np.lexsort((np.arange(owner.size), -points, owner))
    first = np.searchsorted(owner, owner[order])  # owners do not fall, so this is where their pieces begin
    rank = np.empty(owner.size, np.int64)
    rank[order] = np.arange(owner.size) - first
    return rank


@njit(cache=True, nogil=True)
def _rows(start, points):
    """Rows of the kept pieces, one after the other."""
    rows = np.empty(points[-1], np.int64)
    for i in range(start.size):
        for j in range(points[i + 1] - points[i]):
            rows[points[i] + j] = start[i] + j
    return rows


@dataclass(frozen=True, kw_only=True)
class TripBound(PieceBound):
    """How points become bounded paths; public."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_unit > self.counted:
            raise PlanError(
                "trip-bound",
                f"trips per unit must be 1 or more, their cap not below; got {self.per_unit} and {self.cap}.",
                "Pass --trips-per-user 10 --trips-cap 100, say.",
            )

    def __call__(self, batch: pa.RecordBatch) -> Encoded:
        """Paths of one batch of user-complete points: user, trip, x, y, sorted by user, trip and time."""
        pieces = self.pieces(batch)
        size = crossed(pieces.u, pieces.v, pieces.first)
        cut_beyond(pieces.owners.unit, self.most_cells, size)
        first = np.cumsum(size)
        cells = trace(pieces.u, pieces.v, pieces.first, first, self.grid.columns)
        return Encoded(pieces.owners, first, {"cells": cells})

    def join(self, parts: Sequence[Encoded]) -> GridTrips:
        """Paths of many batches as one stage; every unit comes in one of them."""
        return GridTrips(per_unit=self.per_unit, **self.joined(parts, cells=np.int32)[1])

    def queries(self, stage: GridTrips) -> TripQueries:
        return TripQueries(stage)


def crossed(u: np.ndarray, v: np.ndarray, start: np.ndarray) -> np.ndarray:
    """int64 [trips + 1]: cells of trip i, whose points u, v (whole steps) begin at start[i], at i + 1."""
    size = np.zeros(start.size, np.int64)
    _count(u, v, start, size)
    return size


def trace(u: np.ndarray, v: np.ndarray, start: np.ndarray, first: np.ndarray, columns: int) -> np.ndarray:
    """Cells of all trips, those of trip i at first[i] to first[i + 1]; a path that is longer is cut off."""
    cells = np.empty(int(first[-1]), np.int32)
    _fill(u, v, start, first, cells, columns)
    return cells


@njit(cache=True, nogil=True)
def _count(u, v, start, size):
    """Cells of trip i in size[i + 1]."""
    for i in range(start.size - 1):
        total = 1
        for p in range(start[i] + 1, start[i + 1]):
            total += abs(u[p] // STEPS - u[p - 1] // STEPS) + abs(v[p] // STEPS - v[p - 1] // STEPS)
        size[i + 1] = total


@njit(cache=True, nogil=True)
def _fill(u, v, start, first, cells, columns):
    for i in range(start.size - 1):
        at = first[i]
        p = start[i]
        x, y = u[p] // STEPS, v[p] // STEPS
        cells[at] = y * columns + x
        for p in range(start[i] + 1, start[i + 1]):
            if at + 1 == first[i + 1]:
                break
            at = _line(u[p - 1], v[p - 1], u[p], v[p], cells, at, first[i + 1], columns)


@njit(cache=True, nogil=True)
def _line(u0, v0, u1, v1, cells, at, end, columns):
    """Append the cells after the first of one straight step, up to `end`; returns the index of the last."""
    x, y = u0 // STEPS, v0 // STEPS
    left_x, left_y = abs(u1 // STEPS - x), abs(v1 // STEPS - y)
    du, dv = abs(u1 - u0), abs(v1 - v0)
    step_x, step_y = (1 if u1 > u0 else -1), (1 if v1 > v0 else -1)
    # Way to the next border, in steps. How many borders are crossed is settled by the cells of both ends.
    to_x = (x + 1) * STEPS - u0 if step_x > 0 else u0 - x * STEPS
    to_y = (y + 1) * STEPS - v0 if step_y > 0 else v0 - y * STEPS
    while left_x + left_y > 0 and at + 1 < end:
        # The border of x is met first iff to_x / du <= to_y / dv; a corner counts as x.
        if left_y == 0 or (left_x > 0 and to_x * dv <= to_y * du):
            x += step_x
            to_x += STEPS
            left_x -= 1
        else:
            y += step_y
            to_y += STEPS
            left_y -= 1
        at += 1
        cells[at] = y * columns + x
    return at


COUNTED = ("points", "outside", "steps", "slow")


@dataclass(frozen=True, kw_only=True)
class PointWatch:
    """Points, those beyond the box, steps from point to point within a trip, those longer than `step_s`."""

    grid: CellGrid
    step_s: float | None = None

    def zero(self) -> Sums:
        return {name: np.zeros((), np.int64) for name in COUNTED}

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        _, _, inside = self.grid.place(batch["x"].to_numpy(), batch["y"].to_numpy())
        counts = [inside.size, int(inside.size - inside.sum()), 0, 0]
        if self.step_s is not None:
            trip = batch["trip"].to_numpy()
            same = same_as_before(batch["user"])[1:] & (trip[1:] == trip[:-1])
            apart = np.diff(batch["time_us"].to_numpy())[same]
            counts[2:] = apart.size, int((apart > round(self.step_s * 1_000_000)).sum())
        return {name: np.array(value, np.int64) for name, value in zip(COUNTED, counts, strict=True)}


def share(watched: Sums, part: str, whole: str) -> float | None:
    """One count as a share of another; None where there is nothing to share."""
    total = int(watched[whole])
    return int(watched[part]) / total if total else None
