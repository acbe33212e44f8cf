"""PriSH's update: faces and edges inside a rectangle are scaled towards its noisy answer, borders repaired.

Thesis, algorithms 2 to 4. All answers so far are replayed `SWEEPS` times after each new one. An answer is
cut to 0 .. trips first, and a gap within half the deviation of its noise is left alone: it tells little.
With edges of zero and no repair this is the update of MWEM.

The models that multiplicative updates work on are faces and edges, float64.

>>> model = uniform_model((2, 2), trips=8.0, cells=2.0)
>>> model.faces.sum(), model.whole()
(np.float64(16.0), np.float64(8.0))
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.space.cells import Euler, Rectangles
from shoal_baselines.postprocess.euler_consistent import violations

SWEEPS = 10  # k of the thesis
LARGEST_EXPONENT = 3.0
QUIET = 0.5  # of the deviation of an answer's noise: a gap counts from there on


class PrishLearner:
    """A model and the noisy answers it was made from; `follow` replays them."""

    def __init__(
        self, model: TripModel, given: Rectangles, trips: float, deviation: float, *, repair: bool = True
    ) -> None:
        self.model, self.given, self.trips, self.deviation = model, given, trips, deviation
        self.repair = repair
        self.chosen: list[int] = []
        self.noisy: list[float] = []

    def estimates(self) -> np.ndarray:
        return self.model.answers(self.given)

    def learn(self, chosen: int, answer: float) -> None:
        self.chosen.append(chosen)
        self.noisy.append(min(max(answer, 0.0), self.trips))
        self.follow()

    def follow(self) -> None:
        """All answers so far, again."""
        rows = self.given.take(np.array(self.chosen))
        sides = np.stack([rows.x0, rows.x1, rows.y0, rows.y1], axis=1).astype(np.int64)
        for _ in range(SWEEPS):
            _sweep(
                self.model.faces,
                self.model.east,
                self.model.north,
                sides,
                np.array(self.noisy),
                self.trips,
                QUIET * self.deviation,
                self.repair,
            )

    def without_repair(self, start: TripModel) -> float:
        """Share of constraints violated if `start` follows the same answers without repair (figure 3.6)."""
        other = copy(self)
        other.model, other.chosen, other.noisy, other.repair = start, [], [], False
        for chosen, answer in zip(self.chosen, self.noisy, strict=True):
            other.learn(chosen, answer)
        violated, every = violations(other.model.faces, other.model.east, other.model.north)
        return violated / every


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


@njit(cache=True, nogil=True)
def _sweep(faces, east, north, sides, answers, trips, quiet, repair):
    """Algorithm 2: every answer in turn."""
    for i in range(answers.size):
        x0, x1, y0, y1 = sides[i]
        error = answers[i] - rectangle_answer(faces, east, north, x0, x1, y0, y1)
        error = np.sign(error) * max(abs(error) - quiet, 0.0)
        if error == 0.0:
            continue
        exponent = min(max(error / (2 * trips), -LARGEST_EXPONENT), LARGEST_EXPONENT)
        scale_inside(faces, east, north, x0, x1, y0, y1, np.exp(exponent))
        if error < 0 and repair:
            repair_border(faces, east, north, x0, x1, y0, y1)
        factor = step_to(faces.sum() - east.sum() - north.sum(), trips)
        faces *= factor
        east *= factor
        north *= factor


@njit(cache=True, nogil=True)
def rectangle_answer(faces, east, north, x0, x1, y0, y1):
    total = 0.0
    for y in range(y0, y1):
        for x in range(x0, x1):
            total += faces[y, x]
            if x + 1 < x1:
                total -= east[y, x]
            if y + 1 < y1:
                total -= north[y, x]
    return total


@njit(cache=True, nogil=True)
def scale_inside(faces, east, north, x0, x1, y0, y1, factor):
    for y in range(y0, y1):
        for x in range(x0, x1):
            faces[y, x] *= factor
            if x + 1 < x1:
                east[y, x] *= factor
            if y + 1 < y1:
                north[y, x] *= factor


@njit(cache=True, nogil=True)
def repair_border(faces, east, north, x0, x1, y0, y1):
    """Algorithms 3 and 4: a face at the border is raised to the largest of its edges."""
    rows, columns = faces.shape
    for y in range(y0, y1):
        for x in range(x0, x1):
            if x0 < x < x1 - 1 and y0 < y < y1 - 1:
                continue
            if x + 1 < columns:
                faces[y, x] = max(faces[y, x], east[y, x])
            if x > 0:
                faces[y, x] = max(faces[y, x], east[y, x - 1])
            if y + 1 < rows:
                faces[y, x] = max(faces[y, x], north[y, x])
            if y > 0:
                faces[y, x] = max(faces[y, x], north[y - 1, x])
