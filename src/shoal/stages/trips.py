"""Trips on a grid, exact and private, and the interfaces through which mechanisms ask for bounded sums.

GridTrips, UserTrips    paths of cells, for histograms
CellPaths, UserPaths    paths of visits with ticks and stays, for synthetic trips
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shoal.errors import GuaranteeError
from shoal.space.cell_paths import CellPaths, PathTable
from shoal.space.cells import CellGrid, Euler, Rectangles


@dataclass(frozen=True, kw_only=True, eq=False)
class GridTrips:
    """Paths of trips, bounded per unit; private and exact.

    Cells of trip i are cells[first[i]:first[i + 1]] in order of travel; one after the other they share an
    edge. A cell is row * columns + column.
    """

    grid: CellGrid
    first: np.ndarray = field(repr=False)  # int64 [trips + 1]
    cells: np.ndarray = field(repr=False)  # int32
    unit: np.ndarray = field(repr=False)  # int64 [trips]: the unit a trip belongs to, counted from 0
    per_unit: int  # at most so many trips of one unit
    all_trips: int  # before bounding, at most `cap` of one unit
    cap: int
    each_trip: bool  # every trip is a unit; else a unit is a user, with at most per_unit trips

    def __post_init__(self) -> None:
        if self.each_trip and self.per_unit != 1:
            raise GuaranteeError("bound-not-held", "where every trip is a unit, a unit has one trip.")
        if self.unit.size and int(np.bincount(self.unit).max()) > self.per_unit:
            raise GuaranteeError("bound-not-held", "a unit has more trips than the bound allows.")

    @property
    def count(self) -> int:
        return self.first.size - 1


class ExactEuler(Euler):
    """An Euler histogram of the trips themselves: private, for the owner's figures and published variants."""


class UserTrips(Protocol):
    """Query interface to bounded trips; returns only sums over trips. One unit has at most `per_unit`."""

    @property
    def grid(self) -> CellGrid: ...

    @property
    def per_unit(self) -> int: ...

    @property
    def cap(self) -> int: ...

    @property
    def each_trip(self) -> bool:
        """Whether every trip is a unit; else a unit is a user."""
        ...

    def count(self) -> int:
        """Number of bounded trips: one unit changes it by at most per_unit."""
        ...

    def all_trips(self) -> int:
        """Number of trips before bounding: one unit changes it by at most cap."""
        ...

    def distinct(self, rectangles: Rectangles) -> np.ndarray:
        """int64: trips that crossed each rectangle, each once; one unit changes each by at most per_unit."""
        ...

    def shared_faces(self, lattice: int) -> np.ndarray:
        """int64 [rows, columns]: each trip's `lattice` units shared equally over its cells, rounded down.

        One trip changes the sum of absolute values by at most `lattice`.
        """
        ...

    def binned(self, bins: BinsLike) -> np.ndarray:
        """int64 [bins.count]: trips per bin of their summary, each in one; L1 at most per_unit per unit."""
        ...


class BinsLike(Protocol):
    """A public partition of trip summaries into numbered bins."""

    @property
    def count(self) -> int: ...

    def index(
        self, x0: np.ndarray, x1: np.ndarray, y0: np.ndarray, y1: np.ndarray, shape: np.ndarray
    ) -> np.ndarray:
        """The bin of each summary, 0 <= index < count: first and last column, first and last row, shape."""
        ...


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
    """Encoded trips behind a query interface that returns only bounded sums over units."""

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
