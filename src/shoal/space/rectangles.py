"""Rectangles of grid cells: half-open ranges of columns and rows, in arrays.

>>> one = Rectangles.of([(0, 2, 1, 4)])
>>> one.count, int(one.areas[0])
(1, 6)

Boxes in map coordinates as ranges of grid cells: the cells whose centre lies in the box.

A box is west, south, east, north. A centre on its border lies inside. A box that holds no centre, because it
is smaller than a cell or beyond the grid, has no cells.

>>> grid = CellGrid(box=(0.0, 0.0, 8.0, 8.0), columns=8, rows=8, planar=True)
>>> snapped = snap(grid, np.array([[0.9, 0.0, 3.2, 2.5], [0.1, 0.1, 0.2, 0.2]]))
>>> snapped.x0.tolist(), snapped.x1.tolist(), snapped.y0.tolist(), snapped.y1.tolist()
([1, 0], [3, 0], [0, 0], [3, 0])
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shoal.errors import PlanError
from shoal.space.cells import CellGrid, check_box


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


SIDES = ("west", "south", "east", "north")


def snap(grid: CellGrid, boxes: np.ndarray) -> Rectangles:
    """The cells of every box, float64 [boxes, 4]; a box without cells becomes an empty range."""
    west, south, east, north = np.asarray(boxes, np.float64).reshape(-1, 4).T
    width, height = grid.cell_size
    x0, x1 = _range(west, east, grid.box[0], width, grid.columns)
    y0, y1 = _range(south, north, grid.box[1], height, grid.rows)
    empty = (x1 <= x0) | (y1 <= y0)
    return Rectangles(*(np.where(empty, 0, side).astype(np.int32) for side in (x0, x1, y0, y1)))


def _range(low, high, origin: float, size: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """First cell with its centre at or above `low`, and the one after the last at or below `high`."""
    first = np.ceil(_cells(low, origin, size) - 0.5)
    last = np.floor(_cells(high, origin, size) - 0.5)
    return np.clip(first, 0, count), np.clip(last + 1, 0, count)


def _cells(value, origin: float, size: float) -> np.ndarray:
    """Distance from the origin in cells; 1e-9 of a cell is rounding of the coordinates, not a distance."""
    cells = (value - origin) / size
    near = np.round(2 * cells) / 2
    return np.where(np.abs(cells - near) < 1e-9, near, cells)


def map_box(grid: CellGrid, rectangle: tuple[int, int, int, int]) -> tuple[float, float, float, float]:
    """The corners of a range of cells (x0, x1, y0, y1), as west, south, east, north."""
    x0, x1, y0, y1 = rectangle
    (west, east), (south, north) = grid.corner(np.array([x0, x1]), np.array([y0, y1]))
    return float(west), float(south), float(east), float(north)


def as_boxes(boxes: Sequence, planar: bool) -> np.ndarray:
    """float64 [boxes, 4] from one box or several, each checked."""
    try:
        table: np.ndarray = np.atleast_2d(np.asarray(boxes, np.float64)).reshape(-1, 4)
    except (TypeError, ValueError):
        raise PlanError(
            "box-range", "a box is four numbers.", "Give west, south, east, north in that order."
        ) from None
    for west, south, east, north in table.tolist():
        check_box((west, south, east, north), planar)
    return table


def read_boxes(path: str | Path, planar: bool) -> tuple[list[str], np.ndarray]:
    """Names and boxes of a CSV file with columns west, south, east, north and perhaps name."""
    path = Path(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise PlanError("boxes-file", f"there is no file {path}.", "Check its name and folder.") from None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise PlanError("boxes-file", f"{path} cannot be read.", "Pass a CSV file in UTF-8.") from None
    _check_columns(path, rows)
    names, boxes = [], []
    for number, row in enumerate(rows, 1):
        west, south, east, north = (_number(row[side]) for side in SIDES)
        try:
            check_box((west, south, east, north), planar)
        except PlanError as error:
            raise PlanError(error.code, f"{path}, row {number}: {error.message}", error.remedy) from None
        names.append(row.get("name") or str(number))
        boxes.append((west, south, east, north))
    return names, np.array(boxes, np.float64)


def _check_columns(path: Path, rows: list[dict]) -> None:
    missing = [side for side in SIDES if not rows or side not in rows[0]]
    if not missing:
        return
    remedy = "Its first line names them: west,south,east,north and perhaps name."
    if rows and any(";" in (name or "") for name in rows[0]):
        remedy = "Its columns are parted by semicolons: part them by commas, with points in the numbers."
    raise PlanError("boxes-file", f"{path} has no rows, or lacks the columns {', '.join(missing)}.", remedy)


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return math.nan
