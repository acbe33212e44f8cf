"""The other histogram methods on the same trips, for the owner's report alone; no release, no spend.

The noise is seeded, so that the table can be made again. Choosing a method by it is not covered by any
promise: the ledger remembers the look, and later manifests say tuned_on_private_data.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shoal.engine.trip_door import TripDoor
from shoal.flows.histogram_figures import ExactAnswers, utility_of
from shoal.flows.histogram_methods import METHODS
from shoal.flows.progress import Progress
from shoal.metrics.histogram import HistogramUtility
from shoal.privacy.budget import Budget
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import SeededNoise
from shoal.space.euler import Euler
from shoal.stages.histogram import NoisyHistogram
from shoal.stages.trips import GridTrips

if TYPE_CHECKING:
    from shoal.flows.histogram_prepare import PreparedHistogram

SEED = 1


@dataclass(frozen=True, kw_only=True)
class ComparedHistogram:
    """One method, once."""

    method: str
    words: str
    utility: HistogramUtility
    seconds: float


def compare_histograms(
    prepared: PreparedHistogram,
    kept: GridTrips,
    exact: ExactAnswers,
    ledger: Ledger,
    where: str,
    progress: Progress,
) -> list[ComparedHistogram]:
    """Every method at the plan's epsilon on the kept trips; the ledger lists the look first."""
    population = prepared.plan.population
    ledger.disclose(population, "comparison of histogram methods with exact counts", where)
    ledger.remember_tuning(population, "histogram methods compared on private data")
    door = TripDoor(kept)
    progress.stage("compare methods", len(METHODS))
    found = []
    for method in METHODS.values():
        began = time.perf_counter()
        delta = None if method.pure else prepared.plan.delta
        mechanism = method.build(Budget.of(prepared.plan.epsilon, delta), prepared.setting)
        noisy = mechanism(door, _noise(prepared.plan.seed, method.name))
        seconds = time.perf_counter() - began
        utility = utility_of(exact, scaled(noisy), noisy.violated_before)
        found.append(
            ComparedHistogram(method=method.name, words=method.words, utility=utility, seconds=seconds)
        )
        progress.advance(1)
    return found


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
