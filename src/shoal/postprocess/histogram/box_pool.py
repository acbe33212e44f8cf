"""A public pool of boxes, and how it is drawn again by weight: fixed sequences instead of chance.

Positions come from the additive recurrence of the generalised golden ratio (Roberts 2018), which fills a cube
evenly in any number of dimensions. Nothing here is random, so the same noisy answers give the same pool.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LEAST, MOST = 0.05, 0.4  # scale of a trip's displacement, in sides of the grid


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxPool:
    """Boxes with whole sides in cells, inclusive, and their shapes."""

    x0: np.ndarray = field(repr=False)
    x1: np.ndarray = field(repr=False)
    y0: np.ndarray = field(repr=False)
    y1: np.ndarray = field(repr=False)
    shape: np.ndarray = field(repr=False)

    @property
    def count(self) -> int:
        return self.x0.size

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        return self.x0, self.x1, self.y0, self.y1, self.shape


def start_pool(count: int, columns: int, rows: int) -> BoxPool:
    """Starts denser towards the middle, displacements Laplace of many scales, folded back at the borders.

    A box is drawn around a city, so the middle is the better guess; it costs little where it is wrong.
    """
    at = spread(count, 8)
    scale = LEAST * (MOST / LEAST) ** at[:, 4]
    x, y = (at[:, 0] + at[:, 6]) / 2, (at[:, 1] + at[:, 7]) / 2
    other_x = fold(x + scale * laplace(at[:, 2]))
    other_y = fold(y + scale * laplace(at[:, 3]))
    shape = np.minimum((12 * at[:, 5]).astype(np.int64), 11)
    return _boxes([x, other_x, y, other_y], shape, columns, rows)


def redraw(pool: BoxPool, weight: np.ndarray, count: int, jitter: float, columns: int, rows: int) -> BoxPool:
    """`count` boxes, each as often as its weight says, its sides moved by up to `jitter` cells."""
    steps = np.cumsum(weight / weight.sum())
    which = np.minimum(np.searchsorted(steps, (np.arange(count) + 0.5) / count), pool.count - 1)
    move = 2 * jitter * (spread(count, 4) - 0.5)
    sides = [
        (side[which] + 0.5 + move[:, k]) / across
        for k, (side, across) in enumerate(
            zip((pool.x0, pool.x1, pool.y0, pool.y1), (columns, columns, rows, rows), strict=True)
        )
    ]
    return _boxes([fold(side) for side in sides], pool.shape[which], columns, rows)


def _boxes(sides: list[np.ndarray], shape: np.ndarray, columns: int, rows: int) -> BoxPool:
    """Corners in sides of the grid to whole cells."""
    x_cells = np.minimum((np.stack(sides[:2]) * columns).astype(np.int64), columns - 1)
    y_cells = np.minimum((np.stack(sides[2:]) * rows).astype(np.int64), rows - 1)
    return BoxPool(
        x0=x_cells.min(axis=0),
        x1=x_cells.max(axis=0),
        y0=y_cells.min(axis=0),
        y1=y_cells.max(axis=0),
        shape=shape,
    )


def spread(count: int, dimensions: int) -> np.ndarray:
    """float64 [count, dimensions] in [0, 1): even in the whole cube.

    >>> spread(1000, 2).mean(axis=0).round(2).tolist()
    [0.5, 0.5]
    """
    ratio = 2.0
    for _ in range(64):  # the root of r^(d + 1) = r + 1
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    step = ratio ** -np.arange(1, dimensions + 1)
    return (0.5 + np.arange(1, count + 1)[:, None] * step) % 1.0


def laplace(chance: np.ndarray) -> np.ndarray:
    """Quantiles of the Laplace distribution of scale 1."""
    centred = chance - 0.5
    return -np.sign(centred) * np.log1p(-2 * np.minimum(np.abs(centred), 0.5 - 1e-12))


def fold(place: np.ndarray) -> np.ndarray:
    """Reflected at 0 and 1 until inside."""
    inside = np.abs(place) % 2.0
    return np.where(inside > 1, 2 - inside, inside)
