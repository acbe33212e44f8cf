"""Cells of a lattice as H3 hexagons: the rectangle of lattice cells around each one's hexagon."""

from __future__ import annotations

import numpy as np

from shoal.errors import PlanError
from shoal.space.lattice import Lattice


def hexagon_boxes(
    lattice: Lattice, x: np.ndarray, y: np.ndarray, resolution: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each cell, x0, x1, y0, y1 (inclusive) around the hexagon that its centre lies in.

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
