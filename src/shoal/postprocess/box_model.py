"""The model of trips as weighted boxes: what was bought so far, and the pool that agrees with it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from shoal.postprocess.box_fit import Targets, fit_weights, targets_of
from shoal.postprocess.box_paths import pool_euler, pool_hits
from shoal.postprocess.box_pool import BoxPool, redraw, start_pool
from shoal.space.cells import CellGrid
from shoal.space.euler import Euler
from shoal.space.rectangles import Rectangles
from shoal.space.trip_bins import TripBins
from shoal.stages.histogram import TripPool

JITTER_SIDE = 256  # cells of the side that jitters are said for
ROUND_STEPS = 60  # of the fit between rounds of rectangles


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyBins:
    """A noisy histogram of trip summaries."""

    bins: TripBins
    values: np.ndarray = field(repr=False)
    sigma: float


@dataclass(frozen=True, kw_only=True)
class NoisyRectangle:
    """The noisy number of trips in one of the given rectangles."""

    index: int
    value: float
    sigma: float


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxModel:
    """A pool of boxes with weights that sum to the number of trips."""

    grid: CellGrid
    pool: BoxPool = field(repr=False)
    weight: np.ndarray = field(repr=False)
    trips: float
    pull: float
    bins: tuple[NoisyBins, ...] = ()
    rectangles: tuple[tuple[int, int, int, int], ...] = ()
    answers: tuple[NoisyRectangle, ...] = ()

    @classmethod
    def start(cls, boxes: int, grid: CellGrid, trips: float, pull: float) -> BoxModel:
        """Public: nothing was bought but the number of trips."""
        pool = start_pool(boxes, grid.columns, grid.rows)
        return cls(grid=grid, pool=pool, weight=np.full(boxes, trips / boxes), trips=trips, pull=pull)

    def with_bins(self, bought: list[NoisyBins], jitters: tuple[float, ...]) -> BoxModel:
        """Fitted to more histograms, then drawn again and fitted as often as there are jitters."""
        return replace(self, bins=(*self.bins, *bought)).fitted().refined(jitters)

    def with_rectangles(self, given: Rectangles, bought: list[NoisyRectangle]) -> BoxModel:
        """Fitted on from where it was to more rectangles."""
        sides = [given.x0, given.x1, given.y0, given.y1]
        more = [tuple(int(side[each.index]) for side in sides) for each in bought]
        model = replace(
            self,
            rectangles=(*self.rectangles, *more),
            answers=(*self.answers, *bought),  # type: ignore[arg-type]
        )
        return replace(
            model,
            weight=fit_weights(model._targets(), self.trips, self.pull, start=self.weight, steps=ROUND_STEPS),
        )

    def with_trips(self, trips: float) -> BoxModel:
        """The same shares of another number of trips."""
        return replace(self, trips=trips, weight=self.weight * (trips / self.trips))

    def fitted(self) -> BoxModel:
        return replace(self, weight=fit_weights(self._targets(), self.trips, self.pull))

    def refined(self, jitters: tuple[float, ...]) -> BoxModel:
        """Drawn again by weight with a jitter, and fitted; for each jitter, in cells of a side of 256."""
        model, columns, rows = self, self.grid.columns, self.grid.rows
        for jitter in jitters:
            cells = max(1.0, jitter * max(columns, rows) / JITTER_SIDE)  # or it would stay in its cell
            pool = redraw(model.pool, model.weight, model.pool.count, cells, columns, rows)
            model = replace(model, pool=pool).fitted()
        return model

    def euler(self) -> Euler:
        return pool_euler(self.pool, self.weight, self.grid.rows, self.grid.columns)

    def pool_of_trips(self) -> TripPool:
        return TripPool(**vars(self.pool), weight=self.weight)

    def _targets(self) -> Targets:
        binned = [(part.values, part.sigma, part.bins.index(*self.pool.columns)) for part in self.bins]
        if not self.answers:
            return targets_of(binned)
        table = np.array(self.rectangles, np.int64)
        hits = pool_hits(self.pool, table, self.grid.rows, self.grid.columns)
        values = np.array([answer.value for answer in self.answers])
        return targets_of(binned, hits, values, self.answers[0].sigma)
