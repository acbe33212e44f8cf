"""Pipelines of visits at audit size, and the pipeline of any registered mechanism.

Clipped sums are made by the package's own kernel on the whole table at once, behind its own query
interface; that an engine brings the events of a user together is for the pipelines of bounded visits, which
run through one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse

from shoal.auditing.pipelines.pipeline import Events, Pipeline, Step, WholeTable, World, small_world
from shoal.auditing.pipelines.trips import CommutePipeline, PathPipeline, TripPipeline, row_of
from shoal.baselines import part
from shoal.engine.clipped import EngineVisits
from shoal.engine.engine import DuckEngine
from shoal.engine.query_sums import QueryKernel, user_sums
from shoal.engine.visits import VisitKernel, bound_visits, exact_counts, scalable_counts
from shoal.mechanisms.audit_size import AuditSize
from shoal.mechanisms.methods import AUDIT_CLIP
from shoal.mechanisms.registry import entry_of
from shoal.postprocess.density.numbers import estimate_density, finish_answers, round_density, scaled_density
from shoal.privacy.accounting import Loss
from shoal.space.geography import Setting
from shoal.space.setting import Questions
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ClippedSum, UserSums, View, on_lattice
from shoal.stages.noisy import DensityEstimate, NoisyAnswers, NoisyBest, NoisyMeasurement, NoisyScaled


def count_visits(world: World, kernel: Step, bound: Step, events: Events, run_key: bytes) -> Counted:
    """A user is kept in `ell` slots, and `cap` visits are counted."""
    size = world.size
    public = {"edges_us": world.edges_us, "sites": size.places, "ell": size.ell, "cap": size.cap}
    return Counted(bound(world.engine, events, kernel(**public, run_key=run_key)), events, run_key, world)


@dataclass(frozen=True, eq=False)
class Counted:
    """Data before the noise: bounded visits, and the rows for bugs that clip them otherwise."""

    bounded: BoundedVisits
    events: list[pa.RecordBatch]
    run_key: bytes
    world: World

    by_questions: dict[Any, UserSums] = field(init=False, default_factory=dict, repr=False)

    def parts(self, questions: Questions) -> UserSums:
        """Parts of users in queries; cached, since the audit measures them often."""
        key = (questions.each, questions.reach)
        if key not in self.by_questions:
            kernel = QueryKernel(edges_us=self.world.edges_us, questions=questions, run_key=self.run_key)
            engine: Any = self.world.engine if self.world.spills else WholeTable()
            self.by_questions[key] = user_sums(engine, self.events, kernel)
        return self.by_questions[key]

    def freeze(self) -> None:
        """Nobody changes what several mechanisms share."""
        self.bounded.counts.setflags(write=False)
        self.bounded.one_visit.setflags(write=False)

    @cached_property
    def visits(self) -> VisitQueries:
        """All visits behind the query interface."""
        return self.behind(VisitQueries)

    def behind(self, queries: type[VisitQueries]) -> VisitQueries:
        return queries(
            engine=self.world.engine if self.world.spills else WholeTable(),
            events=lambda: self.events,
            edges_us=self.world.edges_us,
            places=self.world.size.places,
            run_key=self.run_key,
            count_users=lambda: self.bounded.users,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class VisitQueries(EngineVisits):
    """The package's query interface to visits; sums are cached, since the audit measures them often."""

    by_view: dict[tuple, Any] = field(init=False, default_factory=dict, repr=False)

    def clipped(self, *views: View) -> list[ClippedSum]:
        keys = [(view.space.toarray().tobytes(), view.time.tobytes(), view.clip) for view in views]
        new = [view for key, view in zip(keys, views, strict=True) if key not in self.by_view]
        fresh = iter(super().clipped(*new) if new else ())
        for key in keys:
            if key not in self.by_view:
                self.by_view[key] = next(fresh)
        return [self.by_view[key] for key in keys]

    def sizes(self, per_visit: np.ndarray, lattice: int) -> np.ndarray:
        key = (per_visit.tobytes(), lattice)
        if key not in self.by_view:
            self.by_view[key] = super().sizes(per_visit, lattice)
        return self.by_view[key]


@lru_cache(maxsize=16)
def audit_view(setting: Setting) -> View:
    """A public view of zones and slots whose columns overlap, so that norms are not sums over visits."""
    slot = np.arange(setting.slots)
    cosines = np.cos(np.pi * (slot[:, None] + 0.5) * slot / setting.slots) + (slot[:, None] == slot)
    return View(
        space=scipy.sparse.csr_array(setting.weights.matrix),
        space_lattice=setting.weights.lattice,
        time=on_lattice(cosines),
        clip=AUDIT_CLIP,
    )


def _bound(engine: DuckEngine, events: list[pa.RecordBatch], kernel: VisitKernel) -> BoundedVisits:
    return bound_visits(engine, events, kernel)[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class CountsPipeline(Pipeline):
    """Zone counts."""

    kernel: Callable[..., Any] = VisitKernel
    bound: Callable[..., Any] = _bound
    spread: Callable[[BoundedVisits, Any], Any] = exact_counts
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: estimate_density(noisy)

    count = staticmethod(count_visits)

    @property
    def public(self) -> Any:
        return self.world.size.setting.weights


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledPipeline(CountsPipeline):
    """Zone counts with the numbers of visits that they are scaled by."""

    spread: Callable[[BoundedVisits, Any], Any] = scalable_counts
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: scaled_and_bare(noisy)


@dataclass(frozen=True, kw_only=True, eq=False)
class VisitsPipeline(CountsPipeline):
    """All visits, measured in clipped sums."""

    spread: Callable[[Counted, Setting], Any] = lambda counted, _setting: counted.visits
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: bare(noisy)

    def exact(self, counted: Counted) -> Any:
        return self.spread(counted, self.world.size.setting)


def scaled_and_bare(noisy: NoisyScaled) -> DensityEstimate:
    """People as released, with intervals; and the two numbers themselves, which rounding would hide."""
    people = round_density(scaled_density(noisy), 1)
    numbers = np.array([noisy.visits, noisy.sampled])
    return row_of([people.people, numbers], [people.low, numbers], [people.high, numbers])


def bare(noisy: NoisyBest) -> DensityEstimate:
    """All measurements in a row: post-processing takes nothing else, and would round differences away."""
    measured: list[Any] = [
        value.values if isinstance(value, NoisyMeasurement) else value
        for value in (*vars(noisy.total).values(), *noisy.clips.values(), *vars(noisy).values())
        if value is not None and value is not noisy.total and value is not noisy.clips
    ]
    return row_of(measured)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedPipeline(VisitsPipeline):
    """One clipped sum of a public view, released as it is."""

    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: row_of([noisy])

    def exact(self, counted: Counted) -> Any:
        setting = self.world.size.setting
        return self.spread(counted, setting).clipped(audit_view(setting))[0]

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("clipped", self.mechanism.loss()),)


def answered(noisy: NoisyAnswers) -> DensityEstimate:
    """Answers in a row, as measured and as released: rounding would hide differences."""
    finished = finish_answers(noisy, 1)
    return row_of(
        [noisy.values, finished.visits],
        [noisy.low, finished.low],
        [noisy.high, finished.high],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryPipeline(CountsPipeline):
    """Zone counts, and answers to questions about them."""

    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: answered(noisy)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartsPipeline(CountsPipeline):
    """Parts of users in queries, and answers from their clipped sums."""

    spread: Callable[[Counted, Questions], UserSums] = lambda counted, questions: counted.parts(questions)
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, _setting: answered(noisy)

    def exact(self, counted: Counted) -> Any:
        return self.spread(counted, self.mechanism.questions)


# By the stage that a mechanism takes, or by its name where it takes counts otherwise.
STAGES: dict[str, type[Pipeline]] = {
    "counts": CountsPipeline,
    "scalable": ScaledPipeline,
    "visits": VisitsPipeline,
    "clipped": ClippedPipeline,
    "user sums": PartsPipeline,
    "trips": TripPipeline,
    "paths": PathPipeline,
    "commutes": CommutePipeline,
}


def stage_of(name: str) -> type[Pipeline]:
    """The kind of pipeline of a registered mechanism."""
    if name == "query-weights":
        return QueryPipeline
    return {**STAGES, **part("auditing:STAGES", {})}[entry_of(name).takes]


def pipeline_of(
    name: str, epsilon: float, delta: float | None, *, uneven: bool = False, size: AuditSize | None = None
) -> Pipeline:
    """The correct pipeline of a registered mechanism, at its audit size unless another is given.

    `uneven`: slots of different length, no site wholly in one zone, and an engine that spills.
    """
    entry = entry_of(name)
    kind: Any = stage_of(name)
    size = size or (entry.size.split if uneven else entry.size)
    return kind(mechanism=entry.build(epsilon, delta, size), world=small_world(size, uneven))
