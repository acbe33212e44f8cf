"""The audit of one registered mechanism: replay, its noise, lower bounds, planted bugs, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shoal.audit.check import audit_pairs, counted_once, findings
from shoal.audit.lower_bound import Bounds, bounds, runs_for, sample
from shoal.audit.mutants import catch, more_than_asked, planted
from shoal.audit.noise_faults import SLOTS, draw_noise, noise_faults
from shoal.audit.pipelines import pipeline_of
from shoal.audit.whole import sample_whole
from shoal.errors import PlanError
from shoal.mechanisms.registry import entry_of
from shoal.privacy.accounting import check_delta, check_epsilon
from shoal.privacy.noise import OsNoise


class Progress(Protocol):
    def stage(self, name: str, total: float | None = None) -> None: ...
    def advance(self, amount: float) -> None: ...


class Silent:
    def stage(self, name: str, total: float | None = None) -> None: ...
    def advance(self, amount: float) -> None: ...


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What to claim and how long to look."""

    epsilon: float = 1.0
    delta: float = 1e-6
    runs: int | None = None  # per side; None: enough to reach 0.9 of the claim
    whole_runs: int = 300  # of the whole pipeline, per side
    extra_pairs: int = 20  # random pairs beside those with a name
    noise_slots: int = SLOTS  # looked at for repeats, correlation and remainders

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        for what, least, given in (("runs", 100, self.runs), ("whole runs", 10, self.whole_runs)):
            if given is not None and given < least:
                raise PlanError(
                    "audit-runs", f"an audit needs at least {least} {what} per side; got {given}."
                )

    @classmethod
    def quick(cls, epsilon: float = 1.0, delta: float = 1e-6, runs: int | None = None) -> AuditPlan:
        return cls(
            epsilon=epsilon,
            delta=delta,
            runs=runs or 50_000,
            whole_runs=50,
            extra_pairs=5,
            noise_slots=SLOTS // 6,
        )


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What was claimed, what was found."""

    mechanism: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    claimed_mu: float | None
    mu_lower_bound: float | None
    runs: int  # per side
    whole_lower_bound: float
    whole_runs: int  # per side
    mutants_planted: int
    mutants_caught: int
    replay_pairs: int
    replay_held: int
    replay_passed: bool
    noise_passed: bool
    caught_by: dict[str, str | None]
    problems: tuple[str, ...]


def audit_mechanism(name: str, plan: AuditPlan, progress: Progress | None = None) -> AuditResult:
    """Run every check on one mechanism at its audit size."""
    tell = progress or Silent()
    entry = entry_of(name)
    delta = plan.delta if entry.has_mu else None
    pipeline = pipeline_of(name, plan.epsilon, delta)
    claim = pipeline.mechanism.loss()
    claimed_epsilon = claim.epsilon(plan.delta)
    claimed_mu = float(np.sqrt(2 * claim.rho)) if entry.has_mu else None

    asked = more_than_asked(claim, plan.epsilon, delta)
    pairs, held, leaks = _replay(name, plan, delta, tell)
    faults = _noise(name, plan, delta, tell)
    found, whole = _lower_bounds(name, plan, delta, tell)
    caught_by = _plant_bugs(name, tell)
    return AuditResult(
        mechanism=name,
        claimed_epsilon=claimed_epsilon,
        delta=delta or 0.0,
        lower_bound=found.epsilon,
        claimed_mu=claimed_mu,
        mu_lower_bound=found.mu,
        runs=found.runs,
        whole_lower_bound=whole.epsilon,
        whole_runs=whole.runs,
        mutants_planted=len(caught_by),
        mutants_caught=sum(how is not None for how in caught_by.values()),
        replay_pairs=pairs,
        replay_held=held,
        replay_passed=not leaks,
        noise_passed=not faults,
        caught_by=caught_by,
        problems=(
            *([asked] if asked else []),
            *leaks,
            *faults,
            *_above(found.epsilon, claimed_epsilon, "epsilon"),
            *_above(whole.epsilon, claimed_epsilon, "epsilon of the whole pipeline"),
            *_above(found.mu, claimed_mu, "mu"),
            *(f"planted bug not caught: {bug}" for bug, how in caught_by.items() if how is None),
        ),
    )


def _replay(name: str, plan: AuditPlan, delta: float | None, tell: Progress) -> tuple[int, int, list[str]]:
    """How many pairs were replayed, how many held, and what gave the data away."""
    tell.stage(f"{name}: replay")
    counted_once.cache_clear()  # what runs now is audited, not what ran before
    pipeline = pipeline_of(name, plan.epsilon, delta)
    pairs = audit_pairs(pipeline, plan.extra_pairs)
    uneven = pipeline_of(name, plan.epsilon, delta, uneven=True)
    claim = pipeline.mechanism.loss()
    leaks = [*findings(pipeline, pairs, claim), *findings(uneven, pairs[:5], claim)]
    problems = [f"replay of {leak.pair} ({leak.transcript}): {leak.problem}" for leak in leaks]
    if not pairs:
        problems.append("replay: no pair was tried")
    return len(pairs), len(pairs) - len({leak.pair for leak in leaks}), problems


def _noise(name: str, plan: AuditPlan, delta: float | None, tell: Progress) -> list[str]:
    """What the noise shows that it must not."""
    tell.stage(f"{name}: noise")
    drawn = draw_noise(entry_of(name), plan.epsilon, delta, OsNoise(), slots=plan.noise_slots)
    return list(noise_faults(drawn))


def _lower_bounds(name: str, plan: AuditPlan, delta: float | None, tell: Progress) -> tuple[Bounds, Bounds]:
    """From many runs of the mechanism, and from some of the whole pipeline."""
    entry = entry_of(name)
    runs = plan.runs or runs_for(entry, plan.epsilon, delta)
    tell.stage(f"{name}: runs", 2 * runs)
    drawn = sample(entry, plan.epsilon, delta, OsNoise(), runs, advance=tell.advance)
    found = bounds(*drawn, delta or 0.0, mu=entry.has_mu)
    tell.stage(f"{name}: whole runs", 2 * plan.whole_runs)
    pipeline = pipeline_of(name, plan.epsilon, delta)
    seen = sample_whole(pipeline, OsNoise(), plan.whole_runs, tell.advance)
    return found, bounds(*seen, delta or 0.0)


def _plant_bugs(name: str, tell: Progress) -> dict[str, str | None]:
    """Each planted bug, and how it was caught."""
    mutants = planted(name)
    tell.stage(f"{name}: planted bugs", len(mutants))
    caught_by: dict[str, str | None] = {}
    for mutant in mutants:
        caught_by[mutant.name] = catch(mutant)
        tell.advance(1)
    return caught_by


def _above(bound: float | None, claim: float | None, what: str) -> list[str]:
    if bound is None or claim is None or bound <= claim:
        return []
    return [f"{what} is at least {bound:.6g} (wrong with probability 1e-6); the claim is {claim:.6g}"]
