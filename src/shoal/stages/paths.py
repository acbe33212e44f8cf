"""Trips encoded as paths of cells, exact and private; the door through which mechanisms ask for tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid
from shoal.space.path_tables import PathTable

LATTICE = 2**20  # units of a contribution of norm 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactPaths(CellPaths):
    """Paths of real trips, those of a unit together; private."""

    unit: np.ndarray = field(repr=False)  # int64 [trips], never falling: the unit a trip belongs to
    units: int  # how many there are; those without a trip in the box have none here
    all_trips: int  # trips, at most `cap` of one unit
    cap: int
    each_trip: bool  # every trip is a unit; else a unit is a user, with all its trips


class UserPaths(Protocol):
    """Encoded trips behind a door that lets only bounded sums over units out."""

    @property
    def grid(self) -> CellGrid: ...

    @property
    def step_s(self) -> float:
        """Seconds per tick of the encoded times."""
        ...

    @property
    def each_trip(self) -> bool:
        """Whether a unit has one trip at most."""
        ...

    @property
    def cap(self) -> int: ...

    def all_trips(self) -> int:
        """Trips, at most `cap` of one unit: one unit changes it by at most cap."""
        ...

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        """int64 [size]: sum over units of their entries, scaled to norm LATTICE and rounded down.

        `norm` 1: one unit changes the sum of absolute values by at most LATTICE. 2: the root of the sum of
        squares by at most LATTICE. Units without entries add nothing.
        """
        ...
