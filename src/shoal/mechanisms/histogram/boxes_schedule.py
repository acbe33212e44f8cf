"""Public constants of the method `boxes`: which histograms it measures at which signal-to-noise ratio.

s = trips * epsilon / trips per unit is computed from the declared or the measured number of trips. The larger
s, the finer are the histograms; for very large s, rectangles are measured too.

>>> [row_for(s).below for s in (5, 1000, 1e6)]
[8, 3000, inf]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.postprocess.histogram.box_pool import BoxPool
from shoal.space.trip_setting import TripBins

ENDS = 0.7  # share of warped cuts that follows the ends of paths in the pool; the rest is uniform
SIZES = (20 / 512, 50 / 512, 100 / 512, 180 / 512)  # cuts between sizes of boxes, as shares of columns + rows
ROUNDS, PER_ROUND = 8, 8  # rounds, and rectangles measured in each
CHOICE = 0.3  # of a rectangle's share goes into choosing it
FIRST_JITTER, SECOND_JITTER, LAST_JITTER = (16, 8), (8, 4, 2), (2,)  # in cells of a side of 256


@dataclass(frozen=True)
class Count:
    """One histogram of trip summaries: its kind, parts per side, share of the budget."""

    kind: str
    parts: int
    share: float
    warped: bool = False
    shapes: int = 1

    def bins(self, columns: int, rows: int, pool: BoxPool, weight: np.ndarray) -> TripBins:
        """Bins of the histogram; warped cuts follow the ends of the weighted pool, so noisy counts only."""
        if self.kind == "size":
            cuts = np.array(SIZES) * (columns + rows)
            return TripBins(kind="size", x_cuts=cuts, y_cuts=np.empty(0), shapes=self.shapes)
        sides = ((columns, pool.x0, pool.x1), (rows, pool.y0, pool.y1))
        cuts = [
            warped_cuts(self.parts, side, low, high, weight) if self.warped else even_cuts(self.parts, side)
            for side, low, high in sides
        ]
        return TripBins(kind=self.kind, x_cuts=cuts[0], y_cuts=cuts[1], shapes=self.shapes)


@dataclass(frozen=True)
class Row:
    """Histograms of both stages and the share of the rectangles; all shares sum to 1."""

    below: float  # s
    pull: float  # weight of the prior pool in the fit
    boxes: int
    first: tuple[Count, ...]
    second: tuple[Count, ...] = ()
    rectangles: float = 0.0


def _both(parts: int, share: float, warped: bool = False) -> tuple[Count, Count]:
    return Count("x", parts, share, warped), Count("y", parts, share, warped)


ROWS = (
    Row(8, 8, 20_000, (Count("centre", 3, 1.0),)),
    Row(60, 8, 20_000, (Count("centre", 4, 1.0),)),
    Row(400, 10, 20_000, (Count("centre", 4, 0.4),), _both(6, 0.3, True)),
    Row(
        3000,
        10,
        20_000,
        (Count("centre", 4, 0.2),),
        (*_both(8, 0.25, True), Count("centre", 6, 0.3, True)),
    ),
    Row(
        7000,
        10,
        20_000,
        (Count("centre", 8, 0.1),),
        (
            *_both(16, 0.2, True),
            Count("centre", 16, 0.15, True),
            Count("box", 6, 0.25, True, 2),
            Count("size", 5, 0.1, shapes=12),
        ),
    ),
    Row(
        60_000,
        10,
        20_000,
        (Count("centre", 8, 0.1),),
        (
            *_both(24, 0.2, True),
            Count("centre", 16, 0.1, True),
            Count("box", 8, 0.15, True, 2),
            Count("box", 4, 0.15, True, 12),
            Count("size", 5, 0.1, shapes=12),
        ),
    ),
    Row(
        math.inf,
        10,
        40_000,
        (Count("box", 4, 0.06), Count("box", 8, 0.06), *_both(16, 0.06)),
        (
            Count("box", 4, 0.06, True, 12),
            Count("box", 8, 0.06, True, 12),
            Count("box", 16, 0.06, True, 2),
            *_both(64, 0.075, True),
            Count("size", 5, 0.03, shapes=12),
        ),
        rectangles=0.4,
    ),
)


def row_for(signal: float) -> Row:
    """The row of the schedule for s."""
    return next(row for row in ROWS if signal < row.below)


def even_cuts(parts: int, side: int) -> np.ndarray:
    """Inner cuts of equal parts, in cells."""
    parts = min(parts, side)
    return np.arange(1, parts) * side / parts


def warped_cuts(parts: int, side: int, low: np.ndarray, high: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Inner cuts at whole cells, denser where more boxes end."""
    ends = np.bincount(low, weight, side) + np.bincount(high, weight, side)
    density = ENDS * ends / max(float(ends.sum()), 1e-12) + (1 - ENDS) / side
    reached = np.concatenate([[0.0], np.cumsum(density)])
    parts = min(parts, side)
    borders = np.interp(np.arange(1, parts) / parts * reached[-1], reached, np.arange(side + 1))
    return np.unique(np.clip(np.rint(borders), 1, side - 1)) if side > 1 else np.empty(0)
