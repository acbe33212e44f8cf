"""Public partitions of trip summaries: a trip's bounding box and shape fall into exactly one bin.

A summary is the first and last column, the first and last row (whole cells, inclusive) and a shape 0..11. A
partition cuts columns and rows at given borders and keeps some of the coordinates:

box      first and last column, first and last row         centre   middle of the box
x, y     first and last column; first and last row         size     columns + rows of the box
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

ALL_SHAPES = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class TripBins:
    """Bins of one kind; `shapes` groups of shapes (1: shapes do not matter, 2: the diagonal, 12: all)."""

    kind: str
    x_cuts: np.ndarray = field(repr=False)  # float64, inner borders in cells, increasing
    y_cuts: np.ndarray = field(repr=False)
    shapes: int = 1

    @property
    def count(self) -> int:
        columns, rows = self.x_cuts.size + 1, self.y_cuts.size + 1
        places = {
            "box": (columns * rows) ** 2,
            "x": columns**2,
            "y": rows**2,
            "centre": columns * rows,
            "size": columns,
        }[self.kind]
        return places * self.shapes

    def index(self, x0, x1, y0, y1, shape) -> np.ndarray:
        """int64: the bin of every summary."""
        columns, rows = self.x_cuts.size + 1, self.y_cuts.size + 1
        if self.kind == "box":
            at = self._column(x0) * columns + self._column(x1)
            at = (at * rows + self._row(y0)) * rows + self._row(y1)
        elif self.kind == "x":
            at = self._column(x0) * columns + self._column(x1)
        elif self.kind == "y":
            at = self._row(y0) * rows + self._row(y1)
        elif self.kind == "centre":
            at = self._column((np.asarray(x0) + x1) / 2) * rows + self._row((np.asarray(y0) + y1) / 2)
        else:
            at = self._column(np.asarray(x1) - x0 + y1 - y0)
        if self.shapes == 1:
            return at
        return at * self.shapes + np.asarray(shape, np.int64) // (ALL_SHAPES // self.shapes)

    def _column(self, x) -> np.ndarray:
        return np.searchsorted(self.x_cuts, np.asarray(x) + 0.5, side="right")

    def _row(self, y) -> np.ndarray:
        return np.searchsorted(self.y_cuts, np.asarray(y) + 0.5, side="right")
