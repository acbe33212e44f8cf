"""Rectangles of grid cells: half-open ranges of columns and rows, in arrays.

>>> one = Rectangles.of([(0, 2, 1, 4)])
>>> one.count, int(one.areas[0])
(1, 6)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from shoal.errors import PlanError
from shoal.space.cells import CellGrid


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Columns x0 <= x < x1 and rows y0 <= y < y1 of every rectangle; int32."""

    x0: np.ndarray = field(repr=False)
    x1: np.ndarray = field(repr=False)
    y0: np.ndarray = field(repr=False)
    y1: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int]]) -> Rectangles:
        """From (x0, x1, y0, y1) tuples."""
        table = np.array(list(rows), np.int32).reshape(-1, 4)
        return cls(*(np.ascontiguousarray(column) for column in table.T))

    @property
    def count(self) -> int:
        return self.x0.size

    @property
    def areas(self) -> np.ndarray:
        """int64: cells."""
        return (self.x1 - self.x0).astype(np.int64) * (self.y1 - self.y0)

    def take(self, index: np.ndarray) -> Rectangles:
        return Rectangles(self.x0[index], self.x1[index], self.y0[index], self.y1[index])

    def check(self, grid: CellGrid) -> None:
        """Non-empty and on the grid."""
        good = (self.x0 >= 0) & (self.x0 < self.x1) & (self.x1 <= grid.columns)
        good &= (self.y0 >= 0) & (self.y0 < self.y1) & (self.y1 <= grid.rows)
        if not good.all():
            raise PlanError(
                "rectangle-range",
                f"a rectangle is empty or leaves the grid of {grid.columns} x {grid.rows} cells.",
                "Give ranges of cells with x0 < x1 and y0 < y1 inside the grid.",
            )


def rectangles_digest(rectangles: Rectangles) -> str:
    """SHA-256 of the rectangles to serve: little-endian x0, x1, y0, y1."""
    sides = np.stack([rectangles.x0, rectangles.x1, rectangles.y0, rectangles.y1]).astype("<i4")
    return hashlib.sha256(sides.tobytes()).hexdigest()


def random_rectangles(grid: CellGrid, count: int, seed: int) -> Rectangles:
    """Both intervals uniform over ordered pairs of cell borders; public, from a public seed."""
    generator = np.random.Generator(np.random.Philox(seed))

    def interval(side: int) -> tuple[np.ndarray, np.ndarray]:
        a = generator.integers(0, side + 1, count)
        b = generator.integers(0, side, count)
        b = b + (b >= a)  # another border, each as likely
        return np.minimum(a, b).astype(np.int32), np.maximum(a, b).astype(np.int32)

    x0, x1 = interval(grid.columns)
    y0, y1 = interval(grid.rows)
    return Rectangles(x0, x1, y0, y1)
