"""Figures of a released histogram against the owner's trips: exact counts, for the owner's eyes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shoal.engine.euler import euler_of
from shoal.metrics.histogram import HistogramUtility, error_by_size, kld, mean_absolute_error, violated_share
from shoal.space.cells import CellGrid
from shoal.space.euler import Euler
from shoal.space.rectangles import Rectangles, random_rectangles
from shoal.stages.trips import ExactEuler, UserTrips

UNSEEN = 2_000
MOST_GIVEN = 4_000  # of the given rectangles; exact counts of more take minutes on many trips
UNSEEN_SEED_STEP = 1_000_003  # away from the seed of the given ones


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactAnswers:
    """The truth: distinct trips in given and unseen rectangles, and the exact Euler histogram."""

    grid: CellGrid
    trips: int
    kept: int
    given: Rectangles = field(repr=False)
    unseen: Rectangles = field(repr=False)
    of_given: np.ndarray = field(repr=False)
    of_unseen: np.ndarray = field(repr=False)
    bounded: np.ndarray = field(repr=False)  # kept trips in the unseen ones, scaled up without noise
    euler: ExactEuler = field(repr=False)
    euler_blocks: ExactEuler = field(repr=False)


class OwnersQueries(UserTrips, Protocol):
    """The owner may also ask for the exact Euler histogram."""

    def euler_counts(self, blocks: bool) -> np.ndarray: ...


def exact_answers(kept: OwnersQueries, every: OwnersQueries, given: Rectangles, seed: int) -> ExactAnswers:
    """Exact counts over all trips; `seed` is that of the given rectangles."""
    grid = every.grid
    some = given.take(np.arange(min(given.count, MOST_GIVEN)))
    unseen = random_rectangles(grid, UNSEEN, seed + UNSEEN_SEED_STEP)
    scale = kept.all_trips() / max(kept.count(), 1) if kept.cap > kept.per_unit else 1.0
    return ExactAnswers(
        grid=grid,
        trips=every.count(),
        kept=kept.count(),
        given=some,
        unseen=unseen,
        of_given=every.distinct(some),
        of_unseen=every.distinct(unseen),
        bounded=kept.distinct(unseen) * scale,
        euler=euler_of(every.euler_counts(False), False),
        euler_blocks=euler_of(every.euler_counts(True), True),
    )


def utility_of(exact: ExactAnswers, released: Euler, violated_before: float | None) -> HistogramUtility:
    """Errors of one histogram against the truth."""
    unseen, of_unseen = exact.unseen, exact.of_unseen
    answers = {
        "released": released.answers(unseen),
        "euler": exact.euler.answers(unseen),
        "euler_blocks": exact.euler_blocks.answers(unseen),
    }
    return HistogramUtility(
        trips=exact.trips,
        kept=exact.kept,
        mean_exact=float(of_unseen.mean()),
        given=mean_absolute_error(released.answers(exact.given), exact.of_given),
        unseen=mean_absolute_error(answers["released"], of_unseen),
        bounded=mean_absolute_error(exact.bounded, of_unseen),
        euler=mean_absolute_error(answers["euler"], of_unseen),
        euler_blocks=mean_absolute_error(answers["euler_blocks"], of_unseen),
        kld=kld(exact.euler.faces, released.faces, exact.trips),
        violated_before=violated_before,
        violated_after=violated_share(released),
        rectangles=(exact.given.count, unseen.count),
        by_size={
            name: error_by_size(unseen, exact.grid, found, of_unseen) for name, found in answers.items()
        },
    )
