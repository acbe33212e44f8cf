"""Bounded trips behind the door that mechanisms ask at: `UserTrips` over paths in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal.engine.distinct import distinct_counts
from shoal.engine.euler import euler_counts, shared_faces
from shoal.engine.trip_summary import summaries
from shoal.errors import GuaranteeError
from shoal.space.cells import CellGrid
from shoal.space.rectangles import Rectangles
from shoal.stages.trips import BinsLike, GridTrips


@dataclass(frozen=True, eq=False)
class TripDoor:
    """Sums over trips, nothing else; counts of a set of rectangles are kept, since rounds ask again."""

    trips: GridTrips = field(repr=False)
    _kept: dict[int, tuple[Rectangles, np.ndarray]] = field(default_factory=dict, init=False, repr=False)

    @property
    def grid(self) -> CellGrid:
        return self.trips.grid

    @property
    def per_unit(self) -> int:
        return self.trips.per_unit

    @property
    def cap(self) -> int:
        return self.trips.cap

    @property
    def each_trip(self) -> bool:
        return self.trips.each_trip

    def count(self) -> int:
        return self.trips.count

    def all_trips(self) -> int:
        return self.trips.all_trips

    def distinct(self, rectangles: Rectangles) -> np.ndarray:
        kept = self._kept.get(id(rectangles))
        if kept is None:  # the rectangles are kept too, so that their id stays theirs
            kept = self._kept[id(rectangles)] = rectangles, distinct_counts(self.trips, rectangles)
        return kept[1].copy()

    def shared_faces(self, lattice: int) -> np.ndarray:
        return shared_faces(self.trips, lattice)

    def binned(self, bins: BinsLike) -> np.ndarray:
        index = bins.index(*self._summaries)
        if index.size != self.trips.count or (
            index.size and not 0 <= index.min() <= index.max() < bins.count
        ):
            raise GuaranteeError("bound-not-held", "a trip has no bin, or several.")
        return np.bincount(index, minlength=bins.count).astype(np.int64)

    def euler_counts(self, blocks: bool) -> np.ndarray:
        """The exact Euler histogram as one array: for the owner's eyes, no mechanism asks for it."""
        return euler_counts(self.trips, blocks)

    @cached_property
    def _summaries(self) -> tuple[np.ndarray, ...]:
        made = summaries(self.trips)
        for part in made:
            part.flags.writeable = False  # shared by all bins
        return made
