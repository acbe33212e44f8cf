"""Distinct trips in any rectangle, from a pool of synthetic boxes weighted to fit noisy histograms of trips.

Guarantee    epsilon-DP for everything together, epsilon = that of the numbers of trips + "boxes".
Unit         one unit of the setting (user, or trip where declared).  Neighbours  add or remove one unit.
Requires     trips behind the query interface `UserTrips`: at most m = per_unit of one unit (checked by the
             engine).
Sensitivity  Each trip has one summary (bounding box and shape) and lies in one bin of each histogram, so the
             L1 sensitivity of a histogram is m. Bins of the second stage depend on noisy answers only. The
             number of distinct trips in a rectangle changes by at most m, and so does |count - estimate|: the
             choice among rectangles has bounded range 2 m. All steps use the same trips, so their losses add
             up; the shares sum to at most 1.
Public       grid, given rectangles, m, the schedule; a declared number of trips.
Source       own: specs of the package, "Histogram, the method of our own".
Deviations   none.

1. trips       number n of trips, unless declared; s = n epsilon / m selects the row of the schedule
2. histograms  coarse, with equal bins; the weights of a pool of boxes are fitted to them
3. histograms  finer, with bins that follow the density of the pool
4. rectangles  only where s is large: a few per round, chosen for a large error of the pool, are measured
The published model is the pool. Every path in it is monotone, so answers are consistent.

>>> from shoal.mechanisms.audit_size import trip_setting
>>> mechanism = HistogramBoxes.within(Budget.of(1.0, None), trip_setting(per_unit=2))
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 100000000), ('boxes', 900000000)]

The schedule is at the end of this file: which histograms are measured at which signal-to-noise ratio s. The
larger s, the finer are the histograms; for very large s, rectangles are measured too.

>>> [row_for(s).below for s in (5, 1000, 1e6)]
[8, 3000, inf]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.trip_totals import TripTotals
from shoal.postprocess.histogram.box_model import BoxModel, BoxPool, NoisyBins, NoisyRectangle
from shoal.privacy.accounting import NANO, Budget, Loss
from shoal.privacy.noise import LAPLACE, Adder, Composed, Noise, whole_estimates
from shoal.space.trip_setting import TripBins, TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import UserTrips


@dataclass(frozen=True, kw_only=True, eq=False)
class HistogramBoxes(Composed):
    """Measures the number of trips, histograms of boxes and chosen rectangles with Laplace noise."""

    totals: TripTotals
    boxes_nano: int  # epsilon in 1e-9
    setting: TripSetting = field(repr=False)
    boxes: int | None = None  # size of the pool; None: by the schedule

    name = "histogram-boxes"
    takes = "trips"
    edges = True  # the model has faces and edges; False: only shares of trips in cells
    pool = True  # the pool of synthetic boxes is published too

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (*self.totals.spends(), ("boxes", Loss.pure(self.boxes_nano)))

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram:
        bounded, every = self.totals(trips, noise)
        row = row_for(bounded * self.boxes_nano / NANO / self.setting.per_unit)
        model = BoxModel.start(self.boxes or row.boxes, self.setting.grid, bounded, row.pull)
        model = model.with_bins(self._counts(row.first, model, trips, noise), FIRST_JITTER)
        if self.setting.trips is None:
            model = model.with_trips(self._trips(bounded, model))
        if row.second:
            model = model.with_bins(self._counts(row.second, model, trips, noise), SECOND_JITTER)
        if row.rectangles and self.setting.given.count:
            model = self._rectangles(row, model, trips, noise)
        return NoisyHistogram(
            euler=model.euler(), trips=model.trips, all_trips=every, pool=model.pool_of_trips()
        )

    def _counts(
        self, counts: tuple[Count, ...], model: BoxModel, trips: UserTrips, noise: Noise
    ) -> list[NoisyBins]:
        """Noisy histograms of trips, each with its share of the budget."""
        grid, measured = self.setting.grid, []
        for count in counts:
            bins = count.bins(grid.columns, grid.rows, model.pool, model.weight)
            adder = Adder.within(LAPLACE, self._nano(count.share), self.setting.per_unit)
            noisy = adder.add(noise, "boxes", trips.binned(bins))
            measured.append(NoisyBins(bins=bins, values=noisy.astype(np.float64), sigma=adder.deviation))
        return measured

    def _trips(self, bounded: float, model: BoxModel) -> float:
        """Mean of the measured number of trips and the totals of the histograms, by inverse variance."""
        assert self.totals.trips is not None  # measured
        known = [(bounded, self.totals.trips.deviation**2)]
        known += [(float(part.values.sum()), part.values.size * part.sigma**2) for part in model.bins]
        weight = sum(1 / variance for _, variance in known)
        return max(1.0, sum(value / variance for value, variance in known) / weight)

    def _rectangles(self, row: Row, model: BoxModel, trips: UserTrips, noise: Noise) -> BoxModel:
        """The model after rounds that each choose and measure a few of the given rectangles."""
        given, m = self.setting.given, self.setting.per_unit
        wanted = min(ROUNDS * PER_ROUND, given.count)
        share = row.rectangles / wanted
        choice, measure = self._nano(share * CHOICE), self._nano(share * (1 - CHOICE))
        scale = LAPLACE.scale(choice, LAPLACE.choice(m))
        adder = Adder.within(LAPLACE, measure, m)
        exact = trips.distinct(given)
        for begin in range(0, wanted, PER_ROUND):
            estimate = whole_estimates(model.euler().answers(given))
            measured = []
            for number in range(begin, min(begin + PER_ROUND, wanted)):
                part = np.arange(number, given.count, wanted)
                at = part[noise.choose("boxes", np.abs(exact[part] - estimate[part]), scale)]
                noisy = adder.add(noise, "boxes", exact[at : at + 1])
                measured.append(NoisyRectangle(index=int(at), value=float(noisy[0]), sigma=adder.deviation))
            model = model.with_rectangles(given, measured)
        return model.refined(LAST_JITTER)

    def _nano(self, share: float) -> int:
        nano = int(self.boxes_nano * Fraction(share).limit_denominator(10**6))
        if nano < 1:
            raise PlanError("share-empty", "nothing is left for a histogram.", "Raise --epsilon.")
        return nano

    @classmethod
    def within(cls, budget: Budget, setting: TripSetting, *, boxes: int | None = None) -> HistogramBoxes:
        """Splits a pure budget: the numbers of trips, unless declared, and the remainder for histograms."""
        if not budget.pure:
            raise PlanError(
                "histogram-pure",
                "the method boxes is pure: its noise is Laplace, and it has no delta.",
                "Leave --delta out, or pass --method prish or dqam.",
            )
        totals, rest = TripTotals.within(budget, setting)
        return cls(totals=totals, boxes_nano=rest.left, setting=setting, boxes=boxes)

    def describe(self) -> dict:
        """Public parameters for the manifest."""
        return {
            "trips_declared": self.setting.trips,
            "trips_per_unit": self.setting.per_unit,
            "epsilon_boxes": self.boxes_nano / NANO,
        }


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
    Row(3000, 10, 20_000, (Count("centre", 4, 0.2),), (*_both(8, 0.25, True), Count("centre", 6, 0.3, True))),
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
