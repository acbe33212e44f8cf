"""The pipelines of the registered mechanisms, one class per stage that a mechanism takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.auditing.pipelines.paths import CommutePipeline, PathPipeline
from shoal.auditing.pipelines.pipeline import Counted, Pipeline, audit_view, small_world
from shoal.auditing.pipelines.trips import TripPipeline
from shoal.baselines import part
from shoal.engine.density import exact_counts, scalable_counts
from shoal.mechanisms.audit_size import AuditSize
from shoal.mechanisms.registry import REGISTRY, Entry, entry_of
from shoal.postprocess.density.answers import finish_answers
from shoal.postprocess.density.numbers import estimate_density, round_density
from shoal.postprocess.density.scaled import scaled_density
from shoal.privacy.accounting import Loss
from shoal.space.setting import Setting
from shoal.space.weights import AreaWeights
from shoal.stages.bounded import BoundedVisits
from shoal.stages.noisy import DensityEstimate, NoisyAnswers, NoisyBest, NoisyMeasurement, NoisyScaled


@dataclass(frozen=True, kw_only=True, eq=False)
class CountsPipeline(Pipeline):
    """Zone counts."""

    spread: Callable[[BoundedVisits, AreaWeights], Any] = exact_counts
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: estimate_density(noisy)

    def exact(self, counted: Counted) -> Any:
        return self.spread(counted.bounded, self.world.weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledPipeline(CountsPipeline):
    """Zone counts with the numbers of visits that they are scaled by."""

    spread: Callable[[BoundedVisits, AreaWeights], Any] = scalable_counts
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: scaled_and_bare(noisy)


@dataclass(frozen=True, kw_only=True, eq=False)
class VisitsPipeline(Pipeline):
    """All visits, asked for in clipped sums."""

    spread: Callable[[Counted, Setting], Any] = lambda counted, _setting: counted.visits
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: bare(noisy)

    def exact(self, counted: Counted) -> Any:
        return self.spread(counted, self.world.setting)


def scaled_and_bare(noisy: NoisyScaled) -> DensityEstimate:
    """People as released, with intervals; and the two numbers themselves, which rounding would hide."""
    people = round_density(scaled_density(noisy), 1)
    numbers = np.array([noisy.visits, noisy.kept])
    return DensityEstimate(
        people=np.concatenate([people.people.ravel(), numbers])[None, :],
        low=np.concatenate([people.low.ravel(), numbers])[None, :],
        high=np.concatenate([people.high.ravel(), numbers])[None, :],
    )


def bare(noisy: NoisyBest) -> DensityEstimate:
    """All that was bought, in a row: post-processing sees nothing else, and would round differences away."""
    bought = [
        np.ravel(value.values if isinstance(value, NoisyMeasurement) else value).astype(float)
        for value in vars(noisy).values()
        if value is not None
    ]
    return _plain(np.concatenate(bought)[None, :])


def _plain(noisy: np.ndarray, *_public: Any) -> DensityEstimate:
    return DensityEstimate(people=noisy, low=noisy, high=noisy)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedPipeline(VisitsPipeline):
    """One clipped sum of a public view, released as it is."""

    estimate: Callable[..., DensityEstimate] = _plain

    def exact(self, counted: Counted) -> Any:
        setting = self.world.setting
        return self.spread(counted, setting).clipped(audit_view(setting))[0]

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("clipped", self.mechanism.loss()),)


def answered(noisy: NoisyAnswers) -> DensityEstimate:
    """Answers in a row, as bought and as released: rounding would hide differences."""
    made = finish_answers(noisy, 1)
    return DensityEstimate(
        people=np.concatenate([noisy.values, made.visits])[None, :],
        low=np.concatenate([noisy.values - noisy.half, made.low])[None, :],
        high=np.concatenate([noisy.values + noisy.half, made.high])[None, :],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryPipeline(CountsPipeline):
    """Zone counts, and answers to questions about them."""

    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: answered(noisy)


BY_STAGE: dict[str, type[Pipeline]] = {
    "counts": CountsPipeline,
    "scalable": ScaledPipeline,
    "visits": VisitsPipeline,
    "clipped": ClippedPipeline,
    "trips": TripPipeline,
    "paths": PathPipeline,
    "commutes": CommutePipeline,
    **part("auditing:STAGES", {}),
}


def _pipeline(name: str, entry: Entry) -> type[Pipeline]:
    return QueryPipeline if name.startswith("query-") else BY_STAGE[entry.takes]


PIPELINES: dict[str, type[Pipeline]] = {name: _pipeline(name, entry) for name, entry in REGISTRY.items()}


def pipeline_of(
    name: str, epsilon: float, delta: float | None, *, uneven: bool = False, size: AuditSize | None = None
) -> Pipeline:
    """The correct pipeline of a registered mechanism, at its audit size unless said otherwise.

    `uneven`: slots of different length, no site wholly in one zone, and an engine that spills.
    """
    entry: Entry = entry_of(name)
    size = size or (entry.size.split if uneven else entry.size)
    kind: Any = PIPELINES[name]
    return kind(mechanism=entry.build(epsilon, delta, size), world=small_world(size, uneven, kind.worlds))
