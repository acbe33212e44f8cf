"""Whole pipelines at audit size: a tiny table of events to released bytes, one class per stage.

They use the package's own steps (engine, kernels, area weights, cover, mechanism, post-processing) on a
public world of a few sites, zones and slots (shoal/mechanisms/audit_size.py). Each step is a field, so that
a planted bug replaces one step and nothing else (shoal/audit/mutants.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.audit.doors import Door, WholeTable, audit_view
from shoal.audit.tables import HOUR_US, START_US, table_bytes
from shoal.engine.density import bound_visits, cover_counts, exact_counts, scalable_counts
from shoal.engine.duck import DuckEngine
from shoal.engine.visits import VisitKernel
from shoal.mechanisms.audit_size import AuditSize
from shoal.mechanisms.registry import Entry, entry_of
from shoal.postprocess.answers import finish_answers
from shoal.postprocess.density import estimate_density
from shoal.postprocess.rounding import round_density
from shoal.postprocess.scaled import scaled_density
from shoal.postprocess.scheme import finish_scheme
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise
from shoal.space.cover import Cover
from shoal.space.setting import Setting
from shoal.space.weights import AreaWeights
from shoal.stages.answers import NoisyAnswers
from shoal.stages.bounded import BoundedVisits
from shoal.stages.noisy import DensityEstimate, NoisyBest, NoisyMeasurement, NoisyScaled


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """The public part of a run: a clock, sites, zones and the bounds on visits."""

    size: AuditSize
    edges_us: np.ndarray

    @property
    def setting(self) -> Setting:
        return self.size.setting

    @property
    def cover(self) -> Cover:
        return self.size.cover

    @property
    def ell(self) -> int:
        return self.size.ell

    @property
    def cap(self) -> int:
        return self.size.cap

    @property
    def weights(self) -> AreaWeights:
        return self.setting.weights

    @property
    def sites(self) -> int:
        return self.setting.places

    @property
    def slots(self) -> int:
        return self.edges_us.size - 1


@cache
def small_world(size: AuditSize, uneven: bool = False) -> World:
    """The world of a size; `uneven`: with a longer slot, as at a change of the clocks."""
    edges = START_US + HOUR_US * np.arange(size.slots + 1, dtype=np.int64)
    if uneven:
        edges[size.slots // 2 :] += HOUR_US
    return World(size=size, edges_us=edges)


@dataclass(frozen=True, eq=False)
class Counted:
    """What there is before the noise: bounded visits, and the rows for those who clip them otherwise."""

    bounded: BoundedVisits
    events: list[pa.RecordBatch]
    run_key: bytes
    world: World

    @cached_property
    def visits(self) -> Door:
        """All visits behind a door."""
        return self.behind(Door)

    def behind(self, door: type[Door]) -> Door:
        return door(
            engine=WholeTable(),
            events=lambda: self.events,
            edges_us=self.world.edges_us,
            places=self.world.sites,
            run_key=self.run_key,
            count_users=lambda: self.bounded.users,
        )


def _bound(engine: DuckEngine, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    return bound_visits(engine, events, kernel)[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline:
    """Events to released bytes, in the order of the flow; every step may be replaced."""

    mechanism: Any
    world: World
    kernel: Callable[..., VisitKernel] = VisitKernel
    bound: Callable[..., BoundedVisits] = _bound
    spread: Callable[[Any, Any], Any]
    estimate: Callable[[Any, BoundedVisits, Setting], DensityEstimate]
    write: Callable[[DensityEstimate, BoundedVisits], bytes] = lambda estimate, _: table_bytes(estimate)

    def __call__(self, events: list[pa.RecordBatch], noise: Noise) -> bytes:
        return self.release(self.counted(events, noise.run_key()), noise)

    def counted(self, events: list[pa.RecordBatch], run_key: bytes) -> Counted:
        """The part before the noise: it is handed the run key and nothing else of the noise."""
        return count_events(self.kernel, self.bound, self.world, events, run_key)

    def exact(self, counted: Counted) -> Any:
        """The stage that the mechanism takes."""
        raise NotImplementedError

    def measure(self, counted: Counted, noise: Noise) -> Any:
        return self.mechanism(self.exact(counted), noise)

    def release(self, counted: Counted, noise: Noise) -> bytes:
        """From the noise on. A correct step after it ignores the bounded visits."""
        noisy = self.measure(counted, noise)
        estimate = self.estimate(noisy, counted.bounded, self.world.setting)
        return self.write(estimate, counted.bounded)

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """Named parts of the claim."""
        return self.mechanism.spends()


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
class CoverPipeline(Pipeline):
    """Counts of cover cells, back to zones after the noise."""

    spread: Callable[[BoundedVisits, Cover], Any] = cover_counts
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, setting: round_density(
        finish_scheme(noisy, setting), 1
    )

    def exact(self, counted: Counted) -> Any:
        return self.spread(counted.bounded, self.world.cover)


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


def count_events(
    kernel: Callable[..., VisitKernel],
    bound: Callable[..., BoundedVisits],
    world: World,
    events: list[pa.RecordBatch],
    run_key: bytes,
) -> Counted:
    made = kernel(edges_us=world.edges_us, sites=world.sites, ell=world.ell, cap=world.cap, run_key=run_key)
    return Counted(bound(DuckEngine(threads=1), events, made), events, run_key, world)


PIPELINES: dict[str, type[Pipeline]] = {
    "density-gaussian": CountsPipeline,
    "density-laplace": CountsPipeline,
    "density-fpa": CountsPipeline,
    "density-fpa-laplace": CountsPipeline,
    "density-scm-full": CountsPipeline,
    "density-scaled": ScaledPipeline,
    "density-scaled-laplace": ScaledPipeline,
    "density-efpag": CoverPipeline,
    "density-efpag-basic": CoverPipeline,
    "density-efpag-repaired": CoverPipeline,
    "density-efpa": CoverPipeline,
    "clipped-gaussian": ClippedPipeline,
    "density-best": VisitsPipeline,
    "query-gaussian": QueryPipeline,
    "query-laplace": QueryPipeline,
    "query-weights": QueryPipeline,
}


def pipeline_of(
    name: str, epsilon: float, delta: float | None, *, uneven: bool = False, size: AuditSize | None = None
) -> Pipeline:
    """The correct pipeline of a registered mechanism, at its audit size unless said otherwise."""
    entry: Entry = entry_of(name)
    size = size or entry.size
    kind: Any = PIPELINES[name]
    return kind(mechanism=entry.build(epsilon, delta, size), world=small_world(size, uneven))
