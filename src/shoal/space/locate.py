"""Which zone a point lies in: a raster of cells for the easy points, exact tests for the others.

A raster cell that only one zone touches, and that this zone covers, answers for all points in it. Points in
other cells are tested against each zone that touches their cell. So an answer depends on the point alone,
never on the batch, and a point on a shared border goes to the lowest zone index.
"""

from __future__ import annotations

import numpy as np
import shapely

OUTSIDE = -1
_MIXED = -2
_BATCH = 1 << 19  # points handled at once: bounds the memory of the pair tables


class Locator:
    """Raster over the zones' bounds, built once; see `locate`."""

    def __init__(self, geometry: np.ndarray) -> None:
        self._geometry = np.array(geometry, dtype=object)
        shapely.prepare(self._geometry)
        west, south, east, north = shapely.total_bounds(self._geometry)
        self._origin = (float(west), float(south))
        self._bounds = (float(west), float(south), float(east), float(north))
        width, height = max(east - west, 1e-12), max(north - south, 1e-12)
        cells = int(np.clip(64 * len(geometry), 1 << 12, 1 << 18))
        self._columns = int(np.clip(np.sqrt(cells * width / height), 1, cells))
        self._rows = max(1, cells // self._columns)
        self._cell = (width / self._columns, height / self._rows)
        self._answer, self._start, self._candidates = self._classify()

    def _classify(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per raster cell: the zone that covers it, OUTSIDE or _MIXED; and the zones that touch it (CSR)."""
        count = self._rows * self._columns
        row, column = np.divmod(np.arange(count), self._columns)
        (x0, y0), (dx, dy) = self._origin, self._cell
        # Wider than the cell by far more than rounding can move a point across its edge.
        pad_x, pad_y = dx * 1e-6, dy * 1e-6
        boxes = shapely.box(
            x0 + column * dx - pad_x, y0 + row * dy - pad_y,
            x0 + (column + 1) * dx + pad_x, y0 + (row + 1) * dy + pad_y,
        )  # fmt: skip
        zone, cell = shapely.STRtree(boxes).query(self._geometry, predicate="intersects")
        order = np.lexsort((zone, cell))
        zone, cell = zone[order], cell[order]
        touching = np.bincount(cell, minlength=count)
        start = np.concatenate(([0], np.cumsum(touching)))
        answer = np.where(touching == 0, OUTSIDE, _MIXED).astype(np.int32)
        alone = np.flatnonzero(touching == 1)
        owner = zone[start[alone]]
        covered = shapely.covers(self._geometry[owner], boxes[alone])
        answer[alone[covered]] = owner[covered]
        return answer, start.astype(np.int64), zone.astype(np.int32)

    def locate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """int32 zone index per point, -1 outside every zone and for NaN."""
        x, y = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
        found = np.full(len(x), OUTSIDE, np.int32)
        for begin in range(0, len(x), _BATCH):
            part = slice(begin, begin + _BATCH)
            found[part] = self._locate_batch(x[part], y[part])
        return found

    def _locate_batch(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        west, south, east, north = self._bounds
        found = np.full(len(x), OUTSIDE, np.int32)
        near = np.flatnonzero((x >= west) & (x <= east) & (y >= south) & (y <= north))  # NaN is nowhere
        column = np.minimum(((x[near] - west) / self._cell[0]).astype(np.int64), self._columns - 1)
        row = np.minimum(((y[near] - south) / self._cell[1]).astype(np.int64), self._rows - 1)
        cell = row * self._columns + column
        found[near] = self._answer[cell]
        mixed = found[near] == _MIXED
        point, cell = near[mixed], cell[mixed]
        found[point] = OUTSIDE
        tries = self._start[cell + 1] - self._start[cell]
        pair_point = np.repeat(point, tries)
        first = np.repeat(self._start[cell] - np.concatenate(([0], np.cumsum(tries)[:-1])), tries)
        pair_zone = self._candidates[first + np.arange(len(pair_point))] if len(pair_point) else first
        inside = shapely.intersects_xy(self._geometry[pair_zone], x[pair_point], y[pair_point])
        # Pairs of a point come in order of zone; written backwards, the lowest zone is written last.
        found[pair_point[inside][::-1]] = pair_zone[inside][::-1]
        return found
