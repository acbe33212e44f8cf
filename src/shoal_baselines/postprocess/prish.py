"""PriSH's update: faces and edges inside a rectangle are scaled towards its noisy answer, borders repaired.

Thesis, algorithms 2 to 4. All answers so far are replayed `SWEEPS` times after each new one. An answer is
cut to 0 .. trips first, and a gap within half the deviation of its noise is left alone: it tells little.
With edges of zero and no repair this is the update of MWEM.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.space.cells import Rectangles
from shoal_baselines.postprocess.prefix import TripModel, step_to

SWEEPS = 10  # k of the thesis
LARGEST_EXPONENT = 3.0
QUIET = 0.5  # of the deviation of an answer's noise: a gap counts from there on


class PrishLearner:
    """A model and the noisy answers it was made from."""

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

    def without_repair(self, start: TripModel) -> TripModel:
        """What the same answers make of `start` if borders are not repaired (figure 3.6)."""
        other = PrishLearner(start, self.given, self.trips, self.deviation, repair=False)
        for chosen, answer in zip(self.chosen, self.noisy, strict=True):
            other.learn(chosen, answer)
        return other.model


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
