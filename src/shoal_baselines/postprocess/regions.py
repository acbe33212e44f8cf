"""DQAM's update: whole regions touched by a rectangle are scaled towards its noisy answer, by their density.

Thesis, section 4.3 and algorithm 6. Inner edges of touched regions are scaled with them, edges between two
touched regions by the lesser factor, edges at the border of what was touched not at all. Where that leaves
an edge above a face, the nearest consistent histogram is taken.

A factor is exp(error weight / 2n). The thesis has weight = density, a share in [0, 1] that vanishes as
regions get small. Here it is the fourth root of trips per cell, in units of its mean over the trips
touched: dense regions move more, and what is touched moves by about as much as without densities.

Regions of a grid by a quadtree, split where noisy costs of blocks say so.

The tree stands on the smallest square of a power of two around the grid; blocks are cut at the grid's edge.
Level l has blocks of side / 2^l cells; the block of a cell is row / size * 2^l + column / size.

>>> costs = [np.array([8.0]), np.array([1.0, 1.0, 1.0, 9.0])]
>>> gaps = [costs[0] - mean_of_children(costs[1], level=0)]
>>> regions((2, 2), first=0, gaps=gaps, threshold=2.0).tolist()
[0, 1, 2, 3]
>>> regions((2, 2), first=0, gaps=gaps, threshold=9.0).tolist()
[0, 0, 0, 0]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.space.cells import Rectangles
from shoal_baselines.postprocess.euler_consistent import consistent
from shoal_baselines.postprocess.prish import LARGEST_EXPONENT, QUIET, PrishLearner, TripModel

SWEEPS = 3
POWER = 0.25  # 0: densities play no part


class DqamLearner(PrishLearner):
    """The same with regions and their noisy trips, which are scaled whole."""

    def __init__(
        self,
        model: TripModel,
        region: np.ndarray,
        mass: np.ndarray,
        given: Rectangles,
        trips: float,
        deviation: float,
        *,
        repair: bool = True,
    ) -> None:
        super().__init__(model, given, trips, deviation, repair=repair)
        self.region = region.reshape(model.faces.shape)
        self.mass = np.maximum(mass, 0.0)

    def follow(self) -> None:
        for _ in range(SWEEPS):
            for one, noisy in zip(self.chosen, self.noisy, strict=True):
                self._update(one, noisy)

    def _update(self, chosen: int, noisy: float) -> None:
        rectangle = self.given.take(np.array([chosen]))
        error = noisy - float(self.model.answers(rectangle)[0])
        error = np.sign(error) * max(abs(error) - QUIET * self.deviation, 0.0)
        if error == 0.0:
            return
        inside = np.s_[rectangle.y0[0] : rectangle.y1[0], rectangle.x0[0] : rectangle.x1[0]]
        touched = np.unique(self.region[inside])
        exponent = error / (2 * self.trips) * self.weights(touched)
        factor = np.full(self.mass.size, np.nan)  # nan: not touched
        factor[touched] = np.exp(np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        scale_regions(self.model, factor[self.region])
        if self.repair and error < 0:
            self.model = TripModel(*consistent(self.model.faces, self.model.east, self.model.north))
        self.model.normalise(self.trips)

    def weights(self, touched: np.ndarray) -> np.ndarray:
        """How much each touched region moves; 1 on average over the trips in them."""
        size = np.bincount(self.region.ravel(), minlength=self.mass.size)[touched]
        mass = self.mass[touched]
        if not mass.sum() > 0:
            return np.ones(touched.size)
        root = (mass / size) ** POWER
        return root * (mass.sum() / (root * mass).sum())


def scale_regions(model: TripModel, factor: np.ndarray) -> None:
    """Faces by their factor, edges by the lesser of both sides; nan leaves a face and its edges alone."""
    model.faces *= np.where(np.isnan(factor), 1.0, factor)
    for edges, one, other in (
        (model.east, factor[:, 1:], factor[:, :-1]),
        (model.north, factor[1:], factor[:-1]),
    ):
        lesser = np.minimum(one, other)  # nan if either is
        edges *= np.where(np.isnan(lesser), 1.0, lesser)


def depth_of(shape: tuple[int, int]) -> int:
    """Levels below the root until blocks are cells."""
    return max(max(shape) - 1, 0).bit_length()


def blocks(shape: tuple[int, int], level: int) -> np.ndarray:
    """int64 [cells]: the block of every cell at a level, 0 <= block < 4^level."""
    shift = depth_of(shape) - level
    row, column = np.divmod(np.arange(shape[0] * shape[1], dtype=np.int64), shape[1])
    return ((row >> shift) << level) + (column >> shift)


def regions(
    shape: tuple[int, int], *, first: int, gaps: Sequence[np.ndarray], threshold: float
) -> np.ndarray:
    """int64 [cells]: the region of every cell, numbered from 0.

    `gaps[i]` are of the blocks of level first + i: how much more a block costs than its four children do on
    average. All blocks of the first level are there; one is split where its gap is above the threshold
    (algorithm 5), and so on below it.
    """
    split = np.ones(4**first, bool)
    block = blocks(shape, first)
    region = block.copy()  # numbers of finer levels come after those of coarser ones
    for level, gap in enumerate(gaps, first):
        split = split & (gap > threshold)
        here = split[block]
        block = blocks(shape, level + 1)
        before = sum(4**coarser for coarser in range(first, level + 1))
        region = np.where(here, block + before, region)
        split = split[_parents(level)]
    return np.unique(region, return_inverse=True)[1].reshape(-1)


def mean_of_children(finer: np.ndarray, level: int) -> np.ndarray:
    """float64 [4^level]: the mean of each block's four children, from values of all blocks of level + 1."""
    return np.bincount(_parents(level), np.asarray(finer, np.float64)) / 4


def _parents(level: int) -> np.ndarray:
    """int64 [4^(level + 1)]: the block of `level` that holds each block of the next."""
    row, column = np.divmod(np.arange(4 ** (level + 1)), 2 ** (level + 1))
    return (row >> 1 << level) + (column >> 1)
