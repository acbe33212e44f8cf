"""The other histogram methods on the same trips, for the owner's report alone; no release, no spend.

The noise is seeded, so that the table can be made again. Choosing a method by it is not covered by any
promise: the ledger remembers the look, and later manifests say tuned_on_private_data.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from shoal.baselines import needed
from shoal.engine.trip_queries import euler_of
from shoal.kinds.histogram.plan import METHODS
from shoal.kinds.run import Progress
from shoal.metrics.histogram import HistogramUtility, error_by_size, kld, mean_absolute_error, violated_share
from shoal.privacy.accounting import Budget
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, SeededNoise
from shoal.space.cells import CellGrid, Euler, Rectangles, random_rectangles
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import ExactEuler, UserTrips

if TYPE_CHECKING:
    from shoal.kinds.histogram.prepare import PreparedHistogram

SEED = 1
STEP = 2**20  # parts of a trip, which is shared out over its cells


@dataclass(frozen=True, kw_only=True)
class ComparedHistogram:
    """One method, once. `sound`: it may be released; otherwise `words` say what it truly promises."""

    method: str
    words: str
    sound: bool
    utility: HistogramUtility
    seconds: float


def compare_histograms(
    prepared: PreparedHistogram,
    bounded: OwnersQueries,
    exact: ExactAnswers,
    ledger: Ledger,
    where: str,
    progress: Progress,
) -> list[ComparedHistogram]:
    """Every method at the plan's epsilon on the kept trips; the ledger lists the look first."""
    population = prepared.plan.population
    ledger.look(population, "comparison of histogram methods with exact counts", where)
    published = published_methods()
    progress.stage("compare methods", len(METHODS) + len(published))
    compared = []
    for name, words, sound, draw in (*_methods(prepared, bounded), *_published(published, prepared, bounded)):
        began = time.perf_counter()
        noisy = draw(_noise(prepared.plan.seed, name))
        seconds = time.perf_counter() - began
        utility = utility_of(exact, scaled(noisy), noisy.violated_before)
        compared.append(
            ComparedHistogram(method=name, words=words, sound=sound, utility=utility, seconds=seconds)
        )
        progress.advance(1)
    return compared


Draw = Callable[[Noise], NoisyHistogram]


def published_methods() -> tuple[type, ...]:
    """The methods as published, which a comparison shows beside those that may be released."""
    return needed("comparators.published_histogram:PUBLISHED", "--compare")


def _methods(prepared: PreparedHistogram, bounded: OwnersQueries) -> Iterator[tuple[str, str, bool, Draw]]:
    """Provably private methods at the plan's epsilon."""
    for method in METHODS.values():
        delta = None if method.pure else prepared.plan.delta
        mechanism = method.build(Budget.of(prepared.plan.epsilon, delta), prepared.setting)
        yield method.name, method.summary, True, partial(mechanism, bounded)


def _published(
    kinds: tuple[type, ...], prepared: PreparedHistogram, bounded: OwnersQueries
) -> Iterator[tuple[str, str, bool, Draw]]:
    """Methods as published, which read exact numbers and promise less than they claim."""
    shared = bounded.shared_faces(STEP) / STEP
    euler = euler_of(bounded.euler_counts(False), False)
    for kind in kinds:
        comparator = kind(epsilon=prepared.plan.epsilon, setting=prepared.setting)

        def draw(noise: Noise, comparator=comparator) -> NoisyHistogram:
            noisy = comparator(comparator.reads(euler=euler, shared=shared, trips=bounded.count()), noise)
            # as published, they do not bound trips: what bounding left out is not counted against them
            if bounded.cap <= bounded.per_unit:
                return noisy
            return replace(noisy, all_trips=float(bounded.all_trips()))

        yield comparator.name, comparator.true_guarantee(), False, draw


def scaled(noisy: NoisyHistogram) -> Euler:
    """As it would be published."""
    parts = {name: getattr(noisy.euler, name) for name in ("faces", "east", "north")}
    return replace(
        noisy.euler, **{name: values * noisy.scale for name, values in parts.items() if values is not None}
    )


def _noise(seed: int | None, method: str) -> SeededNoise:
    """A stream of its own for each method, so that a row does not depend on the others."""
    digest = hashlib.sha256(repr((SEED if seed is None else seed, method)).encode()).digest()
    return SeededNoise(int.from_bytes(digest[:8], "little"))


UNSEEN = 2_000
MOST_GIVEN = 4_000  # of the given rectangles; exact counts of more take minutes on many trips
UNSEEN_SEED_STEP = 1_000_003  # away from the seed of the given ones


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactAnswers:
    """Exact distinct trips in given and unseen rectangles, and the exact Euler histogram."""

    grid: CellGrid
    trips: int
    bounded_trips: int
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


def exact_answers(bounded: OwnersQueries, every: OwnersQueries, given: Rectangles, seed: int) -> ExactAnswers:
    """Exact counts over all trips; `seed` is that of the given rectangles."""
    grid = every.grid
    some = given.take(np.arange(min(given.count, MOST_GIVEN)))
    unseen = random_rectangles(grid, UNSEEN, seed + UNSEEN_SEED_STEP)
    scale = bounded.all_trips() / max(bounded.count(), 1) if bounded.cap > bounded.per_unit else 1.0
    return ExactAnswers(
        grid=grid,
        trips=every.count(),
        bounded_trips=bounded.count(),
        given=some,
        unseen=unseen,
        of_given=every.distinct(some),
        of_unseen=every.distinct(unseen),
        bounded=bounded.distinct(unseen) * scale,
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
        bounded_trips=exact.bounded_trips,
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
            name: error_by_size(unseen, exact.grid, answered, of_unseen) for name, answered in answers.items()
        },
    )
