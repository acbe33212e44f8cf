"""Encoded trips behind the door that mechanisms ask at: `UserPaths` over paths in memory.

A table is a sum over units. The entries of all trips of a unit are added up, scaled to norm LATTICE and
rounded down, so that every place stays below its share: sums of absolute values (norm 1), or the root of the
sum of squares (norm 2), are at most LATTICE for every unit. The kernel checks this on what it adds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.engine.euler import sum_parts
from shoal.errors import GuaranteeError
from shoal.space.cells import CellGrid
from shoal.space.path_tables import Entries, PathTable
from shoal.stages.trips import LATTICE, ExactPaths

# A sum of a million floats and its quotient are off by a part in 10^10 at most: lowered by this, a share is
# never above the true one.
LOWERED = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class PathDoor:
    """Bounded sums over units, nothing else."""

    paths: ExactPaths = field(repr=False)

    def __post_init__(self) -> None:
        unit = self.paths.unit
        if unit.size and (np.diff(unit) < 0).any():
            raise GuaranteeError("bound-not-held", "the trips of a unit do not come together.")
        if self.each_trip and unit.size and (np.diff(unit) == 0).any():
            raise GuaranteeError("bound-not-held", "a unit has more than one trip.")

    @property
    def each_trip(self) -> bool:
        return self.paths.each_trip

    @property
    def grid(self) -> CellGrid:
        return self.paths.grid

    @property
    def step_s(self) -> float:
        return self.paths.step_s

    @property
    def cap(self) -> int:
        return self.paths.cap

    def all_trips(self) -> int:
        return self.paths.all_trips

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        entries = table.entries(self.paths)
        _check(entries, table, self.paths)
        return summed(entries, self.paths.unit, table.size, norm)


def summed(entries: Entries, unit: np.ndarray, size: int, norm: int) -> np.ndarray:
    """int64 [size]: entries of each unit scaled to `norm` and added up."""
    begin = np.flatnonzero(np.diff(unit, prepend=-1))
    borders = entries.first[np.append(begin, unit.size)]  # entries of unit i
    weight = entries.weight if entries.weight is not None else np.ones(1, np.int64)
    weighted = entries.weight is not None

    def part(low: int, high: int) -> np.ndarray:
        out = np.zeros(size, np.int64)
        if not _add(borders, entries.index, weight, weighted, low, high, norm == 2, out):
            raise GuaranteeError("bound-not-held", "a unit adds more than its bound allows.")
        return out

    return sum_parts(borders.size - 1, part)


def _check(entries: Entries, table: PathTable, paths: ExactPaths) -> None:
    """Entries of every trip, each at a place of the table."""
    index, first = entries.index, entries.first
    if first.size != paths.count + 1 or int(first[-1]) != index.size:
        raise GuaranteeError("bound-not-held", "a trip has no entries of its own.")
    if index.size and not 0 <= index.min() <= index.max() < table.size:
        raise GuaranteeError("bound-not-held", "an entry has no place in the table.")
    if entries.weight is not None and index.size and entries.weight.min() < 1:
        raise GuaranteeError("bound-not-held", "an entry has no weight.")


@njit(cache=True, nogil=True)
def _add(borders, index, weight, weighted, low, high, squares, out):
    """Adds units low to high; False if one of them breaks the bound."""
    mass = np.zeros(out.size, np.int64)  # of one unit; cleared after each
    seen = np.empty(out.size, np.int64)
    for unit in range(low, high):
        places, total = 0, np.int64(0)
        for at in range(borders[unit], borders[unit + 1]):
            place = index[at]
            if mass[place] == 0:
                seen[places] = place
                places += 1
            mass[place] += weight[at] if weighted else 1
            total += weight[at] if weighted else 1
        norm = np.float64(total)
        if squares:
            norm = 0.0
            for i in range(places):
                norm += np.float64(mass[seen[i]]) * mass[seen[i]]
            norm = np.sqrt(norm)
        added, added_squares = np.int64(0), np.int64(0)
        for i in range(places):
            place = seen[i]
            share = np.int64(mass[place] * (LATTICE / norm) * LOWERED)
            added += share
            added_squares += share * share
            out[place] += share
            mass[place] = 0
        if squares and added_squares > LATTICE * LATTICE:
            return False
        if not squares and added > LATTICE:
            return False
    return True
