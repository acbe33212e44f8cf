"""Coarsening: everybody's samples on the same coarse grid and clock, and places with few people left out.

Promise     without k none. With k: every released box of an hour is shared by k records or more. One known
            point then has k candidates; two may have one.
Truthful    yes.
Source      common practice; grids, H3, and thresholds as in many mobility data products.
Deviations  a user in several cells in one hour gets one box over all of them (the smallest rectangle of grid
            cells), since boxes of a record must be disjoint in time. Splitting the hour at the samples would
            tell their minutes. A hexagon becomes its bounding rectangle on the lattice.
Cost        linear in samples, and a sort.

Cells of a lattice as H3 hexagons: the rectangle of lattice cells around each one's hexagon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.errors import PlanError
from shoal.space.lattice import Lattice, steps_of
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.hulls import Hulls, boxes_of_slots, cells_of, check_k, hulls_of
from shoal_baselines.anonymise.km import check_km, items_of


@dataclass(frozen=True, kw_only=True)
class _Slots:
    """One box per user and slot; with k, boxes held by fewer records are left out."""

    slot_minutes: int = 60
    k: int | None = None

    truthful = True

    def __post_init__(self) -> None:
        if self.k is not None:
            check_k(self.k)

    @property
    def promise(self) -> str:
        return "none" if self.k is None else f"each box shared by {self.k}"

    def broken(self, boxes: Boxes, lattice: Lattice) -> int | None:
        return None if self.k is None else check_km(boxes.record, items_of(boxes), self.k, 1)


@dataclass(frozen=True, kw_only=True)
class GridHours(_Slots):
    """Squares of `cell_m` and slots of `slot_minutes`; with k, boxes held by fewer records are left out.

    >>> from datetime import UTC, datetime
    >>> lattice = Lattice(start=datetime(2026, 1, 1, tzinfo=UTC), steps=120, origin=(0.0, 0.0))
    >>> samples = LatticeSamples.of([0, 1], [3, 70], [1, 2], [1, 1], users=2, steps=120)
    >>> boxes = GridHours(cell_m=1000)(samples, lattice)
    >>> boxes.t1.tolist(), boxes.x1.tolist()
    ([59, 119], [9, 9])
    """

    cell_m: float = 3000.0

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes:
        side = cells_of(self.cell_m, lattice)
        hulls = hulls_of(samples, steps_of(self.slot_minutes, lattice))
        low = [edge // side * side for edge in (hulls.x0, hulls.y0)]
        high = [edge // side * side + side - 1 for edge in (hulls.x1, hulls.y1)]
        space = (low[0], high[0], low[1], high[1])
        return boxes_of_slots(hulls, samples, *space, keep=shared(hulls, space, self.k))


@dataclass(frozen=True, kw_only=True)
class HexagonHours(_Slots):
    """H3 hexagons and slots of `slot_minutes`: the rectangle around the hexagons of a user's slot."""

    resolution: int = 7  # about 5 km2

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes:

        x0, x1, y0, y1 = hexagon_boxes(lattice, samples.x, samples.y, self.resolution)
        hulls = hulls_of(samples, steps_of(self.slot_minutes, lattice))
        first = np.append(0, np.cumsum(hulls.samples))[:-1]
        if not len(first):
            return boxes_of_slots(hulls, samples, hulls.x0, hulls.x1, hulls.y0, hulls.y1)
        space = (
            np.minimum.reduceat(x0, first),
            np.maximum.reduceat(x1, first),
            np.minimum.reduceat(y0, first),
            np.maximum.reduceat(y1, first),
        )
        return boxes_of_slots(hulls, samples, *space, keep=shared(hulls, space, self.k))


def shared(hulls: Hulls, space: tuple[np.ndarray, ...], k: int | None) -> np.ndarray | None:
    """Which boxes at least k records hold; None without k."""
    if k is None:
        return None
    rows = np.stack([hulls.slot, *space], axis=1)
    _, which, records = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return records[which.ravel()] >= k


def hexagon_boxes(
    lattice: Lattice, x: np.ndarray, y: np.ndarray, resolution: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x0, x1, y0, y1 (inclusive) around the hexagon that the centre of each cell lies in.

    The rectangle always holds the cell itself.
    """
    import h3

    if lattice.planar:
        raise PlanError(
            "h3-planar", "H3 needs longitudes and latitudes; this lattice is planar.", "Use a grid instead."
        )
    if isinstance(resolution, bool) or not isinstance(resolution, int) or not 0 <= resolution <= 15:
        raise PlanError(
            "h3-resolution", f"H3 resolutions go from 0 to 15; got {resolution!r}.", "7 is about 5 km2."
        )
    cells, which = np.unique(np.stack([x, y], axis=1), axis=0, return_inverse=True)
    lon, lat = lattice.corner_of(cells[:, 0] + 0.5, cells[:, 1] + 0.5)
    out = np.empty((len(cells), 4), np.int32)
    known: dict[str, tuple[int, int, int, int]] = {}
    for row, (east, north) in enumerate(zip(lon.tolist(), lat.tolist(), strict=True)):
        name = h3.latlng_to_cell(north, east, resolution)
        if name not in known:
            known[name] = _around(lattice, h3.cell_to_boundary(name), east)
        x0, x1, y0, y1 = known[name]
        cx, cy = cells[row]
        out[row] = min(x0, cx), max(x1, cx), min(y0, cy), max(y1, cy)
    x0, x1, y0, y1 = out[which.ravel()].T
    return x0, x1, y0, y1


def _around(lattice: Lattice, boundary, lon: float) -> tuple[int, int, int, int]:
    """Rectangle of a hexagon's corners; across the 180th meridian, on the side of `lon`."""
    ring = np.array(boundary)
    ring[:, 1] = lon + (ring[:, 1] - lon + 180) % 360 - 180
    x, y = lattice.cell_of(ring[:, 1], ring[:, 0])
    return int(x.min()), int(x.max()), int(y.min()), int(y.max())
