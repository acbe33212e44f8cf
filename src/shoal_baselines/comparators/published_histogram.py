"""An Euler histogram of trips by PriSH and by DQAM, with the noise the thesis prints.

PublishedPrish   chapter 3, algorithms 1 to 4; claims epsilon.
PublishedDqam    chapter 4, algorithms 5 and 6; claims epsilon.

The exact Euler histogram is what they choose and measure rectangles on. Where the text leaves a choice: all
values start equal and sum to n, and "normalise to n" keeps that sum; a child's cost has noise of its own; an
edge counts a trip once (counted at each passing, a trip would move an answer without any bound); densities
are of trips shared over their cells, as costs are.

What the claims miss, and what is true instead, for one trip (more for a user with several):
  n            all values sum to the exact number of trips: an adversary who knows all others can
               distinguish n from n + 1, so nothing bounds a trip's epsilon. With n public, neighbours replace
               one trip by another.
  rounds       the number with the least true error of six is reported: not private, whatever it costs.
  Euler        an answer is charged as if a trip moved it by 1. It moves it by pieces - loops: up to one per
               border cell of the rectangle, or down by (w - 1) (h - 1) - 1 in a w x h one; a trip replaced
               by another moves it by both together. Choices and answers cost that many times what is
               claimed (`reach`).
  quadtree     one level is charged. The leaves show every split above them: each block's cost is looked at
               as a parent on all levels and as a child on all but the last, where it is 0.
               Densities, of shared trips, are shares of n with noise for 1: they cost less than claimed,
               and tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shoal.privacy.noise import Noise
from shoal.space.cells import Rectangles
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import ExactEuler
from shoal_baselines.comparators.published_density import STEP, laplace_of, units_of
from shoal_baselines.postprocess.euler_consistent import consistent, violations
from shoal_baselines.postprocess.prish import TripModel, rectangle_answer, repair_border, scale_inside
from shoal_baselines.postprocess.regions import blocks, depth_of, mean_of_children, regions, scale_regions

ROUNDS = (10, 12, 14, 16, 18, 20)
SWEEPS = 10  # k
LARGEST_EXPONENT = 30.0  # keeps what the noise makes of weights finite


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedInput:
    """Exact input of the published methods: the Euler histogram, faces shared over cells, number of trips."""

    euler: ExactEuler = field(repr=False)
    shared: np.ndarray = field(repr=False)  # float64 [rows, columns], each trip 1 in all
    trips: int


@dataclass(frozen=True, kw_only=True)
class PublishedPrish:
    """Multiplicative weights on Euler answers; the best of six numbers of rounds."""

    epsilon: float
    setting: TripSetting = field(repr=False)
    rounds: tuple[int, ...] = ROUNDS

    name = "published-prish"
    reads = PublishedInput
    takes = "published"

    def __call__(self, exact: PublishedInput, noise: Noise) -> NoisyHistogram:
        learn = self.learner(exact, noise)
        return self._best(exact, [learn(rounds) for rounds in self.rounds])

    def learner(self, exact: PublishedInput, noise: Noise) -> Callable[[int], TripModel]:
        answers, given = exact.euler.answers(self.setting.given), self.setting.given

        def learn(rounds: int) -> TripModel:
            model, known = equal_model(exact), []
            for _ in range(rounds):
                errors = np.abs(answers - model.answers(given))
                chosen = noise.choose("select", units_of(errors), 2 * (2 * rounds / self.epsilon) * STEP)
                noisy = laplace_of(answers[[chosen]], 2 * rounds / self.epsilon, "answers", noise)[0]
                known.append((_sides(given, chosen), noisy))
                for _ in range(SWEEPS):
                    for sides, answer in known:
                        _prish_update(model, sides, answer, exact.trips)
            return model

        return learn

    def _best(self, exact: PublishedInput, models: list[TripModel]) -> NoisyHistogram:
        """Picked on the true error, as they report it."""
        given = self.setting.given
        truth = exact.euler.answers(given)
        errors = [np.abs(model.answers(given) - truth).mean() for model in models]
        return NoisyHistogram(euler=models[int(np.argmin(errors))].euler(), trips=float(exact.trips))

    def epsilon_if_fixed(self) -> float:
        """Epsilon of replacing a trip, if n were public and the number of rounds fixed before."""
        return self.epsilon * reach(self.setting)

    def true_guarantee(self) -> str:
        return (
            f"No guarantee as published, which claims epsilon {self.epsilon:g}: the values sum to the exact "
            "number of trips, and the number of rounds is picked on the true error. With both public, "
            f"replacing a trip would have an epsilon of up to {self.epsilon_if_fixed():.3g}: trips that come "
            f"back or go in loops move an Euler answer by up to {reach(self.setting)}, not by 1."
        )


@dataclass(frozen=True, kw_only=True)
class PublishedDqam(PublishedPrish):
    """The same with regions of a quadtree, their densities and the nearest consistent histogram."""

    name = "published-dqam"

    def learner(self, exact: PublishedInput, noise: Noise) -> Callable[[int], TripModel]:
        answers, given = exact.euler.answers(self.setting.given), self.setting.given
        region = self.partition(exact, noise)
        share = np.bincount(region, exact.shared.ravel()) / max(exact.trips, 1)
        density = laplace_of(share, 1 / self.quarter, "densities", noise)
        region = region.reshape(exact.shared.shape)

        def learn(rounds: int) -> TripModel:
            model = equal_model(exact)
            for _ in range(rounds):
                errors = np.abs(answers - model.answers(given))
                chosen = noise.choose("select", units_of(errors), 2 * (rounds / self.quarter) * STEP)
                noisy = laplace_of(answers[[chosen]], rounds / self.quarter, "answers", noise)[0]
                rectangle = given.take(np.array([chosen]))
                model = _dqam_update(model, region, density, rectangle, noisy, exact.trips)
            return model

        return learn

    def partition(self, exact: PublishedInput, noise: Noise) -> np.ndarray:
        """Algorithm 5: split where cost - mean cost of the children > 4 / eps1^2, all costs noised."""
        shape = exact.shared.shape[0], exact.shared.shape[1]
        gaps = []
        for level in range(depth_of(shape)):
            parent, children = (_costs(exact.shared, blocks(shape, at), 4**at) for at in (level, level + 1))
            parent = laplace_of(parent, 2 / self.quarter, "costs", noise)
            children = laplace_of(children, 2 / self.quarter, "costs", noise)
            gaps.append(parent - mean_of_children(children, level))
        return regions(shape, first=0, gaps=gaps, threshold=4 / self.quarter**2)

    @property
    def quarter(self) -> float:
        """eps1 = eps2 = eps3 = eps4."""
        return self.epsilon / 4

    def epsilon_if_fixed(self) -> float:
        """Twice depth levels as parents and one less as children; densities; `reach` choices and answers."""
        depth = depth_of((self.setting.grid.rows, self.setting.grid.columns))
        return self.quarter * (2 * max(2 * depth - 1, 0) + 1 + 2 * reach(self.setting))

    def true_guarantee(self) -> str:
        depth = depth_of((self.setting.grid.rows, self.setting.grid.columns))
        return (
            f"{super().true_guarantee().removesuffix('.')}, and {depth} levels of the quadtree are decided "
            "where one is paid for."
        )


def reach(setting: TripSetting) -> int:
    """What a trip replaced by another can change any Euler answer to the given rectangles by.

    A trip's answer is pieces - loops of its path. A piece that is not the only one enters through a cell at
    the rectangle's border. A path that crosses all w (h - 1) + (w - 1) h inner edges has 1 - (w - 1) (h - 1).
    """
    given, grid = setting.given, setting.grid
    width, height = given.x1 - given.x0, given.y1 - given.y0
    border = width * height - np.maximum(width - 2, 0) * np.maximum(height - 2, 0)
    pieces = np.where((width == grid.columns) & (height == grid.rows), 1, border)
    loops = (width - 1) * (height - 1) - 1
    return int((pieces + np.maximum(loops, 0)).max(initial=1))


def equal_model(exact: PublishedInput) -> TripModel:
    """All faces and edges equal, n in all."""
    rows, columns = exact.shared.shape
    values = rows * columns + rows * (columns - 1) + (rows - 1) * columns
    each = exact.trips / values
    return TripModel(*(np.full(s, each) for s in ((rows, columns), (rows, columns - 1), (rows - 1, columns))))


def _prish_update(model: TripModel, sides: tuple[int, int, int, int], answer: float, trips: int) -> None:
    """Algorithm 2 for one answer; algorithms 3 and 4 where it scales down."""
    parts = model.faces, model.east, model.north
    error = answer - rectangle_answer(*parts, *sides)
    scale_inside(*parts, *sides, _factor(error / (2 * max(trips, 1))))
    if error < 0:
        repair_border(*parts, *sides)
    _normalise(model, trips)


def _dqam_update(
    model: TripModel,
    region: np.ndarray,
    density: np.ndarray,
    rectangle: Rectangles,
    answer: float,
    trips: int,
) -> TripModel:
    """Algorithm 6, s2 and s3."""
    error = answer - float(model.answers(rectangle)[0])
    inside = np.s_[rectangle.y0[0] : rectangle.y1[0], rectangle.x0[0] : rectangle.x1[0]]
    factor = np.full(density.size, np.nan)
    touched = np.unique(region[inside])
    factor[touched] = _factor(error * density[touched] / (2 * max(trips, 1)))
    scale_regions(model, factor[region])
    if violations(model.faces, model.east, model.north)[0]:
        model = TripModel(*consistent(model.faces, model.east, model.north))
    _normalise(model, trips)
    return model


def _sides(given: Rectangles, chosen: int) -> tuple[int, int, int, int]:
    return int(given.x0[chosen]), int(given.x1[chosen]), int(given.y0[chosen]), int(given.y1[chosen])


def _normalise(model: TripModel, trips: int) -> None:
    parts = (model.faces, model.east, model.north)
    total = sum(part.sum() for part in parts)
    for part in parts:
        part *= trips / total if total > 0 else 0.0


def _factor(exponent):
    return np.exp(np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT))


def _costs(shared: np.ndarray, block: np.ndarray, count: int) -> np.ndarray:
    """Sum over each block of |cell - mean|."""
    cells = shared.ravel()
    mean = np.bincount(block, cells, count) / np.maximum(np.bincount(block, minlength=count), 1)
    return np.bincount(block, np.abs(cells - mean[block]), count)


PUBLISHED = (PublishedDqam, PublishedPrish)
