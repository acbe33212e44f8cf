"""DQAM's update: whole regions touched by a rectangle are scaled towards its noisy answer, by their density.

Thesis, section 4.3 and algorithm 6. Inner edges of touched regions are scaled with them, edges between two
touched regions by the lesser factor, edges at the border of what was touched not at all. Where that leaves
an edge above a face, the nearest consistent histogram is taken.

A factor is exp(error weight / 2n). The thesis has weight = density, a share in [0, 1] that vanishes as
regions get small. Here it is the fourth root of trips per cell, in units of its mean over the trips
touched: dense regions move more, and what is touched moves by about as much as without densities.
"""

from __future__ import annotations

import numpy as np

from shoal.postprocess.euler_consistent import consistent, violations
from shoal.postprocess.prish import LARGEST_EXPONENT, QUIET
from shoal.postprocess.trip_model import TripModel
from shoal.space.rectangles import Rectangles

SWEEPS = 3
POWER = 0.25  # 0: densities play no part


class DqamLearner:
    """A model, its regions with their noisy trips, and the noisy answers it was made from."""

    def __init__(
        self,
        model: TripModel,
        region: np.ndarray,
        mass: np.ndarray,
        given: Rectangles,
        trips: float,
        deviation: float,
        *,
        repair: bool = True,
    ) -> None:
        self.model, self.given, self.trips, self.deviation = model, given, trips, deviation
        self.repair = repair
        self.region = region.reshape(model.faces.shape)
        self.mass = np.maximum(mass, 0.0)
        self.chosen: list[int] = []
        self.noisy: list[float] = []

    def estimates(self) -> np.ndarray:
        return self.model.answers(self.given)

    def learn(self, chosen: int, answer: float) -> None:
        self.chosen.append(chosen)
        self.noisy.append(min(max(answer, 0.0), self.trips))
        for _ in range(SWEEPS):
            for one, noisy in zip(self.chosen, self.noisy, strict=True):
                self._update(one, noisy)

    def _update(self, chosen: int, noisy: float) -> None:
        rectangle = self.given.take(np.array([chosen]))
        error = noisy - float(self.model.answers(rectangle)[0])
        error = np.sign(error) * max(abs(error) - QUIET * self.deviation, 0.0)
        if error == 0.0:
            return
        inside = np.s_[rectangle.y0[0] : rectangle.y1[0], rectangle.x0[0] : rectangle.x1[0]]
        touched = np.unique(self.region[inside])
        exponent = error / (2 * self.trips) * self.weights(touched)
        factor = np.full(self.mass.size, np.nan)  # nan: not touched
        factor[touched] = np.exp(np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        scale_regions(self.model, factor[self.region])
        if self.repair and error < 0:
            self.model = TripModel(*consistent(self.model.faces, self.model.east, self.model.north))
        self.model.normalise(self.trips)

    def weights(self, touched: np.ndarray) -> np.ndarray:
        """How much each touched region moves; 1 on average over the trips in them."""
        size = np.bincount(self.region.ravel(), minlength=self.mass.size)[touched]
        mass = self.mass[touched]
        if not mass.sum() > 0:
            return np.ones(touched.size)
        root = (mass / size) ** POWER
        return root * (mass.sum() / (root * mass).sum())

    def without_repair(self, start: TripModel) -> float:
        """Share of constraints violated if the same answers are followed without repair."""
        other = DqamLearner(
            start, self.region, self.mass, self.given, self.trips, self.deviation, repair=False
        )
        for chosen, answer in zip(self.chosen, self.noisy, strict=True):
            other.learn(chosen, answer)
        violated, every = violations(other.model.faces, other.model.east, other.model.north)
        return violated / every


def scale_regions(model: TripModel, factor: np.ndarray) -> None:
    """Faces by their factor, edges by the lesser of both sides; nan leaves a face and its edges alone."""
    model.faces *= np.where(np.isnan(factor), 1.0, factor)
    for edges, one, other in (
        (model.east, factor[:, 1:], factor[:, :-1]),
        (model.north, factor[1:], factor[:-1]),
    ):
        lesser = np.minimum(one, other)  # nan if either is
        edges *= np.where(np.isnan(lesser), 1.0, lesser)
