"""Models of trips on a grid that multiplicative updates work on: faces and edges, float64.

>>> model = uniform_model((2, 2), trips=8.0, cells=2.0)
>>> model.faces.sum(), model.whole()
(np.float64(16.0), np.float64(8.0))
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.space.euler import Euler
from shoal.space.rectangles import Rectangles

LEAST_TOTAL = 0.2  # of the trips: a total below that is not divided by
MOST_STEP = 2.0  # normalising multiplies by at most so much, and by no less than its inverse


@dataclass(eq=False)
class TripModel:
    """Faces [rows, columns] and inner edges; changed in place by updates."""

    faces: np.ndarray = field(repr=False)
    east: np.ndarray = field(repr=False)
    north: np.ndarray = field(repr=False)

    def answers(self, rectangles: Rectangles) -> np.ndarray:
        return self.euler().answers(rectangles)

    def whole(self) -> float:
        """The answer to the whole grid."""
        return self.faces.sum() - self.east.sum() - self.north.sum()

    def normalise(self, trips: float) -> None:
        """Everything times one number, so that the whole grid has `trips`, in bounded steps."""
        factor = step_to(self.whole(), trips)
        for part in (self.faces, self.east, self.north):
            part *= factor

    def copy(self) -> TripModel:
        return TripModel(self.faces.copy(), self.east.copy(), self.north.copy())

    def euler(self) -> Euler:
        return Euler(faces=self.faces, east=self.east, north=self.north)


def uniform_model(shape: tuple[int, int], trips: float, cells: float) -> TripModel:
    """Equal faces of `trips` trips with `cells` cells each; equal edges, so that the whole grid has `trips`.

    No edge exceeds a face: with F cells there are at least F - 1 edges, and cells <= F.
    """
    rows, columns = shape
    cells = min(max(cells, 1.0), float(rows * columns))
    edges = rows * (columns - 1) + (rows - 1) * columns
    edge = trips * (cells - 1) / max(edges, 1)
    return TripModel(
        np.full((rows, columns), trips * cells / (rows * columns)),
        np.full((rows, columns - 1), edge),
        np.full((rows - 1, columns), edge),
    )


@njit(cache=True, nogil=True)
def step_to(total, trips):
    """The factor that brings `total` to `trips`, kept within bounds."""
    factor = trips / max(total, LEAST_TOTAL * trips)
    return min(max(factor, 1 / MOST_STEP), MOST_STEP)
