"""A noisy histogram of trips: what post-processing, files and reports may see."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.space.euler import Euler


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHistogram:
    """A published model of trips on a grid, from noisy answers alone."""

    euler: Euler = field(repr=False)  # in trips, before scaling up
    trips: float  # kept trips, declared or bought
    all_trips: float | None = None  # all trips under the cap, where bought: answers are scaled up to it
    violated_before: float | None = None  # share of constraints violated before repair, where one is made
    pool: TripPool | None = field(default=None, repr=False)

    @property
    def scale(self) -> float:
        """What a kept trip stands for."""
        if self.all_trips is None or self.trips <= 0:
            return 1.0
        return max(1.0, self.all_trips / max(self.trips, 1.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class TripPool:
    """Weighted boxes that stand for trips: a summary of movement that any weighting keeps consistent.

    Each path goes from one corner of the box to the opposite one over a bulge point, in cells.
    """

    x0: np.ndarray = field(repr=False)  # float64, cells; inclusive
    x1: np.ndarray = field(repr=False)
    y0: np.ndarray = field(repr=False)
    y1: np.ndarray = field(repr=False)
    shape: np.ndarray = field(repr=False)  # int8
    weight: np.ndarray = field(repr=False)  # float64, trips
