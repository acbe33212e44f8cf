"""Euler histogram: numbers on the faces and inner edges of a grid, and answers to rectangles from them.

answer(rectangle) = sum of its faces - sum of the edges inside it (+ full 2 x 2 blocks, where they are kept)

A trip whose path inside a rectangle is one piece without loops adds exactly 1. One that leaves and comes back
adds more, one that goes round in circles less; counting 2 x 2 blocks back in mends small circles.

>>> path = Euler(faces=np.ones((1, 3)), east=np.ones((1, 2)), north=np.ones((0, 3)))
>>> path.answers(Rectangles.of([(0, 3, 0, 1), (1, 2, 0, 1)])).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal.errors import GuaranteeError
from shoal.space.rectangles import Rectangles


@dataclass(frozen=True, kw_only=True, eq=False)
class Euler:
    """faces [rows, columns]; east [rows, columns - 1] and north [rows - 1, columns] are the inner edges."""

    faces: np.ndarray = field(repr=False)
    east: np.ndarray | None = field(default=None, repr=False)  # None: faces alone answer
    north: np.ndarray | None = field(default=None, repr=False)
    blocks: np.ndarray | None = field(default=None, repr=False)  # [rows - 1, columns - 1]

    def __post_init__(self) -> None:
        rows, columns = self.faces.shape
        shapes = {
            "east": (rows, columns - 1),
            "north": (rows - 1, columns),
            "blocks": (rows - 1, columns - 1),
        }
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                raise GuaranteeError("euler-shape", f"{name} must be {shape} for {rows} x {columns} faces.")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.faces.shape[0], self.faces.shape[1]

    def answers(self, rectangles: Rectangles) -> np.ndarray:
        """One number per rectangle, by prefix sums."""
        x0, x1, y0, y1 = (
            np.asarray(side, np.int64)
            for side in (rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1)
        )
        total = _range(self._sums["faces"], x0, x1, y0, y1)
        for name, sign, in_x, in_y in (("east", -1, 1, 0), ("north", -1, 0, 1), ("blocks", 1, 1, 1)):
            if name in self._sums:
                total = total + sign * _range(self._sums[name], x0, x1 - in_x, y0, y1 - in_y)
        return total

    @cached_property
    def _sums(self) -> dict[str, np.ndarray]:
        parts = {name: getattr(self, name) for name in ("faces", "east", "north", "blocks")}
        return {name: _prefix(values) for name, values in parts.items() if values is not None}


def _prefix(values: np.ndarray) -> np.ndarray:
    """Sums over all rows below and columns left of a corner, [rows + 1, columns + 1]."""
    wide = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float64
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1), wide)
    sums[1:, 1:] = values.astype(wide).cumsum(axis=0).cumsum(axis=1)
    return sums


def _range(sums: np.ndarray, x0, x1, y0, y1) -> np.ndarray:
    return sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
