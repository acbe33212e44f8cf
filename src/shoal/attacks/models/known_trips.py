"""Trips that an adversary knows, and whose they are: the material of attacks on synthetic trips.

>>> from shoal.space.cells import CellGrid
>>> grid = CellGrid(box=(0, 0, 3, 2), columns=3, rows=2, planar=True)
>>> paths = CellPaths.of(grid, 60, [[(0, 0, 0), (1, 1, 0)], [(4, 0, 0)], [(2, 0, 0), (5, 1, 0)]])
>>> trips = KnownTrips.of(paths, np.array([3, 3, 9]))
>>> some = trips.of_units(np.array([1]))
>>> trips.units, some.paths.cells.tolist(), some.unit.tolist()
(2, [2, 5], [0])
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from shoal.errors import PlanError
from shoal.space.cell_paths import CellPaths

DIRECTION_CODES = 9  # eight directions, and one for cells that do not touch
LONGEST_RUN = 12  # cells of a run whose key is sure to fit 64 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownTrips:
    """Trips and the number of the person (or the trip, where that is protected) behind each."""

    paths: CellPaths = field(repr=False)
    unit: np.ndarray = field(repr=False)  # int64 [trips], never falling; from 0, none left out
    units: int

    @classmethod
    def of(cls, paths: CellPaths, unit: np.ndarray) -> KnownTrips:
        """Units without a trip are left out, the others numbered from 0 in their order."""
        known, number = np.unique(unit, return_inverse=True)
        if (np.diff(number) < 0).any():
            raise PlanError("attack-trips", "the trips of a person do not come together.")
        return cls(paths=paths, unit=number.astype(np.int64), units=known.size)

    def of_units(self, chosen: np.ndarray) -> KnownTrips:
        """Trips of some units, which are renumbered from 0 in increasing order."""
        number = np.full(self.units, -1, np.int64)
        number[np.sort(chosen)] = np.arange(len(chosen))
        rows = np.flatnonzero(number[self.unit] >= 0)
        return KnownTrips(paths=taken(self.paths, rows), unit=number[self.unit[rows]], units=len(chosen))


def taken(paths: CellPaths, trips: np.ndarray) -> CellPaths:
    """Some of the trips, in the order given."""
    size = paths.first[trips + 1] - paths.first[trips]
    first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    visits = np.repeat(paths.first[trips] - first[:-1], size) + np.arange(first[-1])
    plain = CellPaths(**{name: getattr(paths, name) for name in CellPaths.__dataclass_fields__})
    return replace(
        plain,
        first=first,
        cells=paths.cells[visits],
        tick=paths.tick[visits],
        stay=paths.stay[visits],
        start_us=paths.start_us[trips],
    )


def run_keys(paths: CellPaths, length: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 key of every run of `length` cells one after the other, and the trip it is in."""
    if not 1 <= length <= LONGEST_RUN:
        raise PlanError("attack-runs", f"runs have from 1 to {LONGEST_RUN} cells.")
    visits, trip = paths.cells.size, paths.trip_of_visit
    leaves = np.zeros(visits, np.int64)
    leaves[paths.move_at] = paths.directions + 1
    at = np.arange(max(visits - length + 1, 0))
    at = at[trip[at] == trip[at + length - 1]]
    key = paths.cells[at].astype(np.int64)
    for step in range(length - 1):
        key = key * DIRECTION_CODES + leaves[at + step]
    return key, trip[at]


def evenly(count: int, most: int) -> np.ndarray:
    """int64: at most `most` of `count` places, evenly spread."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(np.int64))[:count]
