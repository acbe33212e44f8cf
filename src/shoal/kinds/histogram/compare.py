"""The other histogram methods on the same trips, for the owner's report alone; no release, no spend.

The noise is seeded, so that the table can be made again. Choosing a method by it is not covered by any
promise: the ledger remembers the look, and later manifests say tuned_on_private_data.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from shoal.baselines import needed
from shoal.engine.euler import euler_of
from shoal.kinds.histogram.figures import ExactAnswers, OwnersQueries, utility_of
from shoal.kinds.histogram.methods import METHODS
from shoal.kinds.source import Progress
from shoal.metrics.histogram import HistogramUtility
from shoal.privacy.accounting import Budget
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, SeededNoise
from shoal.space.euler import Euler
from shoal.stages.noisy import NoisyHistogram

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
    kept: OwnersQueries,
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
    found = []
    for name, words, sound, draw in (*_methods(prepared, kept), *_published(published, prepared, kept)):
        began = time.perf_counter()
        noisy = draw(_noise(prepared.plan.seed, name))
        seconds = time.perf_counter() - began
        utility = utility_of(exact, scaled(noisy), noisy.violated_before)
        found.append(
            ComparedHistogram(method=name, words=words, sound=sound, utility=utility, seconds=seconds)
        )
        progress.advance(1)
    return found


Draw = Callable[[Noise], NoisyHistogram]


def published_methods() -> tuple[type, ...]:
    """The methods as published, which a comparison shows beside those that may be released."""
    return needed("comparators.published_histogram:PUBLISHED", "--compare")


def _methods(prepared: PreparedHistogram, kept: OwnersQueries) -> Iterator[tuple[str, str, bool, Draw]]:
    """What may be released, at the plan's epsilon."""
    for method in METHODS.values():
        delta = None if method.pure else prepared.plan.delta
        mechanism = method.build(Budget.of(prepared.plan.epsilon, delta), prepared.setting)
        yield method.name, method.summary, True, partial(mechanism, kept)


def _published(
    kinds: tuple[type, ...], prepared: PreparedHistogram, kept: OwnersQueries
) -> Iterator[tuple[str, str, bool, Draw]]:
    """As published: they read exact numbers and promise less than they claim."""
    shared = kept.shared_faces(STEP) / STEP
    euler = euler_of(kept.euler_counts(False), False)
    for kind in kinds:
        comparator = kind(epsilon=prepared.plan.epsilon, setting=prepared.setting)

        def draw(noise: Noise, comparator=comparator) -> NoisyHistogram:
            noisy = comparator(comparator.reads(euler=euler, shared=shared, trips=kept.count()), noise)
            # what bounding left out is not theirs to answer for
            return replace(noisy, all_trips=float(kept.all_trips())) if kept.cap > kept.per_unit else noisy

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
