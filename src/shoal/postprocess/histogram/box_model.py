"""The model of trips as weighted boxes, fitted to the noisy answers measured so far.

A box stands for paths from one corner over a bulge point to the opposite corner, always monotone. Such a path
meets any rectangle in one piece, so its Euler count there is 0 or 1, and any weighting of such paths gives a
histogram whose answers are never negative and never shrink when a rectangle grows.

The pool is public, and is drawn again by weight, from a fixed sequence instead of random numbers: the
additive recurrence of the generalised golden ratio (Roberts 2018), which fills a cube evenly in any number of
dimensions. Nothing here is random, so the same noisy answers give the same pool.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numba import njit

from shoal.postprocess.histogram.box_fit import Targets, fit_weights, targets_of
from shoal.space.cells import CellGrid, Euler, Rectangles
from shoal.space.trip_setting import TripBins
from shoal.stages.noisy import TripPool

JITTER_SIDE = 256  # cells of the side that jitters refer to
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
        """The public model before any measurement but the number of trips."""
        pool = start_pool(boxes, grid.columns, grid.rows)
        return cls(grid=grid, pool=pool, weight=np.full(boxes, trips / boxes), trips=trips, pull=pull)

    def with_bins(self, measured: list[NoisyBins], jitters: tuple[float, ...]) -> BoxModel:
        """The model fitted to more histograms, then drawn again and fitted once per jitter."""
        return replace(self, bins=(*self.bins, *measured)).fitted().refined(jitters)

    def with_rectangles(self, given: Rectangles, measured: list[NoisyRectangle]) -> BoxModel:
        """The model fitted to more rectangles, starting from its weights."""
        sides = [given.x0, given.x1, given.y0, given.y1]
        more = [tuple(int(side[each.index]) for side in sides) for each in measured]
        model = replace(
            self,
            rectangles=(*self.rectangles, *more),
            answers=(*self.answers, *measured),  # type: ignore[arg-type]
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
        """The pool drawn again by weight and fitted, for each jitter (cells, for a side of 256)."""
        model, columns, rows = self, self.grid.columns, self.grid.rows
        for jitter in jitters:
            cells = max(1.0, jitter * max(columns, rows) / JITTER_SIDE)  # less would not leave the cell
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


REACH = (0.58, 0.75, 0.93)  # how far a path of each degree bulges into its corner


def pool_euler(pool: BoxPool, weight: np.ndarray, rows: int, columns: int) -> Euler:
    """Faces and edges of weighted paths."""
    faces = np.zeros((rows, columns))
    east, north = np.zeros((rows, columns)), np.zeros((rows, columns))
    _add(pool.x0, pool.x1, pool.y0, pool.y1, pool.shape, weight, faces, east, north)
    return Euler(faces=faces, east=np.ascontiguousarray(east[:, :-1]), north=np.ascontiguousarray(north[:-1]))


def pool_hits(pool: BoxPool, rectangles: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """bool [rectangles, paths]: whether a path meets a rectangle (rows of x0, x1, y0, y1, half-open)."""
    hits = np.zeros((len(rectangles), pool.count), np.bool_)
    _hit(pool.x0, pool.x1, pool.y0, pool.y1, pool.shape, rectangles, columns, rows, hits)
    return hits


@njit(cache=True, nogil=True)
def _path(left, right, bottom, top, shape, xs, ys):
    """Cells of one path into xs, ys; returns their number.

    The way leads along straight lines through cell centres; where both coordinates change it goes one step
    across, then one up or down, so that it never cuts a corner.
    """
    falls = shape >= 6
    side = (shape // 3) % 2
    reach = REACH[shape % 3]
    # The bulge, in units of the box measured from its lower left corner.
    if falls:
        u, v = (1 - reach, 1 - reach) if side == 0 else (reach, reach)
    else:
        u, v = (1 - reach, reach) if side == 0 else (reach, 1 - reach)
    middle_x = left + int(np.rint(u * (right - left)))
    middle_y = bottom + int(np.rint(v * (top - bottom)))
    start_y, stop_y = (top, bottom) if falls else (bottom, top)
    xs[0], ys[0] = left, start_y
    size = _walk(left, start_y, middle_x, middle_y, xs, ys, 1)
    return _walk(middle_x, middle_y, right, stop_y, xs, ys, size)


@njit(cache=True, nogil=True)
def _walk(x, y, to_x, to_y, xs, ys, size):
    """Append the cells after (x, y) on the way to (to_x, to_y)."""
    wide, high = abs(to_x - x), abs(to_y - y)
    step_x, step_y = (1 if to_x > x else -1), (1 if to_y > y else -1)
    done_x = done_y = 0
    while done_x < wide or done_y < high:
        # the next border that the straight line meets: (2 done + 1) / (2 side) of the way
        if done_y == high or (done_x < wide and (2 * done_x + 1) * high <= (2 * done_y + 1) * wide):
            x += step_x
            done_x += 1
        else:
            y += step_y
            done_y += 1
        xs[size], ys[size] = x, y
        size += 1
    return size


@njit(cache=True, nogil=True)
def _add(x0, x1, y0, y1, shape, weight, faces, east, north):
    rows, columns = faces.shape
    xs, ys = np.empty(rows + columns, np.int64), np.empty(rows + columns, np.int64)
    for i in range(x0.size):
        size = _path(x0[i], x1[i], y0[i], y1[i], shape[i], xs, ys)
        for k in range(size):
            faces[ys[k], xs[k]] += weight[i]
            if k > 0:
                low_x, low_y = min(xs[k], xs[k - 1]), min(ys[k], ys[k - 1])
                if ys[k] == ys[k - 1]:
                    east[low_y, low_x] += weight[i]
                else:
                    north[low_y, low_x] += weight[i]


@njit(cache=True, nogil=True)
def _hit(x0, x1, y0, y1, shape, rectangles, columns, rows, hits):
    xs, ys = np.empty(rows + columns, np.int64), np.empty(rows + columns, np.int64)
    for i in range(x0.size):
        size = _path(x0[i], x1[i], y0[i], y1[i], shape[i], xs, ys)
        for q in range(rectangles.shape[0]):
            a, b, c, d = rectangles[q]
            for k in range(size):
                if a <= xs[k] < b and c <= ys[k] < d:
                    hits[q, i] = True
                    break


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
    """Starts denser towards the middle, displacements Laplace of many scales, reflected at the borders.

    A grid is usually drawn around a city, so more trips are expected near the middle.
    """
    at = spread(count, 8)
    scale = LEAST * (MOST / LEAST) ** at[:, 4]
    x, y = (at[:, 0] + at[:, 6]) / 2, (at[:, 1] + at[:, 7]) / 2
    other_x = fold(x + scale * laplace(at[:, 2]))
    other_y = fold(y + scale * laplace(at[:, 3]))
    shape = np.minimum((12 * at[:, 5]).astype(np.int64), 11)
    return _boxes([x, other_x, y, other_y], shape, columns, rows)


def redraw(pool: BoxPool, weight: np.ndarray, count: int, jitter: float, columns: int, rows: int) -> BoxPool:
    """`count` boxes, drawn in proportion to weight, their sides moved by up to `jitter` cells."""
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
    """Boxes in whole cells, from corners in units of the sides of the grid."""
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


def laplace(probability: np.ndarray) -> np.ndarray:
    """Quantiles of the Laplace distribution of scale 1."""
    centred = probability - 0.5
    return -np.sign(centred) * np.log1p(-2 * np.minimum(np.abs(centred), 0.5 - 1e-12))


def fold(place: np.ndarray) -> np.ndarray:
    """Reflected at 0 and 1 until inside."""
    inside = np.abs(place) % 2.0
    return np.where(inside > 1, 2 - inside, inside)
