"""The audit of registered mechanisms: replay, noise, lower bounds, planted bugs, and a verdict.

Whole pipelines run as such as well, one call per run, and are judged by the released bytes alone. Several
mechanisms are audited in processes of their own where there are cores for them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from typing import Protocol, TypeVar

import numpy as np

from shoal.auditing.composition import QUICK, SIZES, composed
from shoal.auditing.lower_bounds import (
    PICKS,
    Advance,
    Bounds,
    Query,
    Runs,
    bounds,
    queries_of,
    run_spends,
    worst_shown,
)
from shoal.auditing.noise_faults import SLOTS, draw_noise, noise_faults, scale_faults
from shoal.auditing.pairs import NEW, Pair, at, event_table
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.ledger import MemoryStore, agrees
from shoal.auditing.planted.mutants import catch, more_than_budget, planted
from shoal.auditing.replay import KEYS, audit_pairs, counted_once, findings, replay_pair
from shoal.errors import PlanError
from shoal.mechanisms.registry import Entry, entry_of
from shoal.privacy.accounting import Loss, check_delta, check_epsilon, compose
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise

DRAWS = 400_000  # of all spends of a mechanism, where it need not come within a tenth of the claim


class Progress(Protocol):
    def stage(self, name: str, total: float | None = None) -> None: ...
    def advance(self, amount: float) -> None: ...


class Silent:
    def stage(self, name: str, total: float | None = None) -> None: ...
    def advance(self, amount: float) -> None: ...


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """Claims to test, and the effort of each check."""

    epsilon: float = 1.0
    delta: float = 1e-6
    runs: int | None = None  # per side; None: see `runs_for`
    choices: int = 1000  # runs of choices, per side
    whole_runs: int = 100  # of the whole pipeline, per side
    extra_pairs: int = 20  # random pairs beside those with a name
    noise_slots: int = SLOTS  # looked at for repeats, correlation and remainders
    fewer_transcripts: bool = False
    widths: tuple[int, ...] = SIZES  # of maps, for the composition without data

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
            runs=runs or 10_000,
            choices=200,
            whole_runs=20,
            extra_pairs=5,
            noise_slots=SLOTS // 6,
            fewer_transcripts=True,
            widths=QUICK,
        )


@dataclass(frozen=True, kw_only=True)
class SpendResult:
    """One named part of a claim, and what the runs prove about it."""

    name: str
    claimed_epsilon: float
    lower_bound: float
    claimed_mu: float | None
    mu_lower_bound: float | None
    runs: int  # per side


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Claims of a mechanism and the results of its checks."""

    mechanism: str
    claimed_epsilon: float
    delta: float
    lower_bound: float  # of all spends together, choices left out
    claimed_mu: float | None  # of all Gaussian spends together
    mu_lower_bound: float | None
    runs: int  # per side
    spends: tuple[SpendResult, ...]
    whole_lower_bound: float
    whole_runs: int  # per side
    mutants_planted: int
    mutants_caught: int
    replay_pairs: int
    replay_held: int
    replay_passed: bool
    noise_passed: bool
    composed_sizes: int  # map sizes at which the composition was compared with the claim
    composed_most: float  # largest share of the claim that was asked for at any of them
    caught_by: dict[str, str | None]
    problems: tuple[str, ...]


def audit_mechanism(
    name: str, plan: AuditPlan, progress: Progress | None = None, *, bugs: bool = True
) -> AuditResult:
    """Run every check on one mechanism at its audit size; without `bugs` none are planted."""
    tell = progress or Silent()
    entry = entry_of(name)
    delta = None if entry.pure else plan.delta
    pipeline = pipeline_of(name, plan.epsilon, delta)
    tight = pipeline_of(name, plan.epsilon, delta, size=entry.tight)
    claim = pipeline.mechanism.loss()

    pairs, passed, leaks = _replay(name, plan, pipeline, tight, tell)
    queries = queries_of(tight, entry)
    faults = _noise(name, plan, queries, tell)
    tell.stage(f"{name}: composition")
    sizes = composed(name, plan.epsilon, delta, plan.widths)
    spends, lower, mu_claim = _lower_bounds(name, plan, delta, tight, queries, tell)
    whole = _whole(name, plan, delta, pipeline, tell)
    caught_by = _plant_bugs(name, tell) if bugs else {}
    return AuditResult(
        mechanism=name,
        claimed_epsilon=claim.epsilon(plan.delta),
        delta=delta or 0.0,
        lower_bound=lower.epsilon,
        claimed_mu=mu_claim,
        mu_lower_bound=lower.mu,
        runs=lower.runs,
        spends=spends,
        whole_lower_bound=whole.epsilon,
        whole_runs=whole.runs,
        mutants_planted=len(caught_by),
        mutants_caught=sum(how is not None for how in caught_by.values()),
        replay_pairs=pairs,
        replay_held=passed,
        replay_passed=not leaks,
        noise_passed=not faults,
        composed_sizes=sizes.sizes,
        composed_most=sizes.most,
        caught_by=caught_by,
        problems=(
            *_asked(claim, pipeline, plan.epsilon, delta),
            *leaks,
            *faults,
            *(f"composition: {problem}" for problem in sizes.problems),
            *_above(lower.epsilon, claim.epsilon(plan.delta), "epsilon"),
            *_above(whole.epsilon, claim.epsilon(plan.delta), "epsilon of the whole pipeline"),
            *_above(lower.mu, mu_claim, "mu"),
            *(problem for spend in spends for problem in _spend_problems(spend)),
            *(f"planted bug not caught: {bug}" for bug, how in caught_by.items() if how is None),
        ),
    )


def audit_shared() -> list[str]:
    """Problems of the parts that all mechanisms share: noise of child processes, and the ledger."""
    agreed = agrees(lambda: Ledger(MemoryStore()))
    return scale_faults() + ([] if agreed else ["the ledger does not agree with its model"])


def _asked(claim: Loss, pipeline: Pipeline, epsilon: float, delta: float | None) -> list[str]:
    """A claim above the budget, or one that is not the sum of its parts."""
    problem = more_than_budget(claim, epsilon, delta)
    problems = [problem] if problem else []
    if compose(loss for _, loss in pipeline.spends()) != compose([claim]):
        problems.append("the named spends do not add up to the claim")
    return problems


def _replay(
    name: str, plan: AuditPlan, pipeline: Pipeline, tight: Pipeline, tell: Progress
) -> tuple[int, int, list[str]]:
    """Number of replayed pairs, number of pairs that passed, and the problems of the others."""
    tell.stage(f"{name}: replay")
    counted_once.cache_clear()  # what runs now is audited, not what ran before
    pairs = audit_pairs(pipeline, plan.extra_pairs)
    delta = None if entry_of(name).pure else plan.delta
    uneven = pipeline_of(name, plan.epsilon, delta, uneven=True)
    claim = pipeline.mechanism.loss()
    leaks = [
        *findings(pipeline, pairs, claim, quick=plan.fewer_transcripts),
        *findings(uneven, audit_pairs(uneven, 0)[:7], uneven.mechanism.loss(), quick=True),
    ]
    problems = [f"replay of {leak.pair} ({leak.transcript}): {leak.problem}" for leak in leaks]
    worst, source, swap = worst_shown(entry_of(name))
    verdict = replay_pair(tight, worst, tight.mechanism.loss(), source(), KEYS[0], swap=swap)
    problems += [f"replay of {worst.name}: {problem}" for problem in verdict.problems + verdict.raised]
    if not pairs:
        problems.append("replay: no pair was tried")
    return len(pairs), len(pairs) - len({leak.pair for leak in leaks}), problems


def _noise(name: str, plan: AuditPlan, queries: list[Query], tell: Progress) -> list[str]:
    """Faults of the noise."""
    tell.stage(f"{name}: noise")
    drawn = draw_noise(queries, OsNoise(), slots=plan.noise_slots)
    return [fault for each in drawn for fault in noise_faults(each)]


def _lower_bounds(
    name: str, plan: AuditPlan, delta: float | None, tight: Pipeline, queries: list[Query], tell: Progress
) -> tuple[tuple[SpendResult, ...], Bounds, float | None]:
    """Each spend alone; all together; what mu is claimed for all Gaussian spends."""
    runs = plan.runs or runs_for(entry_of(name), tight.mechanism.loss(), queries)
    tell.stage(f"{name}: runs", 2 * runs)
    drawn = run_spends(queries, OsNoise(), runs, min(plan.choices, runs), tell.advance)
    gaussian = {query.name for query in queries if query.has_mu}
    claims = dict(tight.spends())
    spends = tuple(
        _spend(spend, claims[spend], drawn, spend in gaussian, plan.delta, delta) for spend in claims
    )
    lower = bounds(*drawn.whole, delta or 0.0)
    if drawn.gaussian is None:
        return spends, lower, None
    mu = bounds(*drawn.gaussian, delta or 0.0, mu=True).mu
    claimed_mu = mu_of(compose(claims[spend] for spend in gaussian))
    return spends, Bounds(epsilon=lower.epsilon, mu=mu, runs=lower.runs), claimed_mu


def _spend(
    name: str, claim: Loss, drawn: Runs, gaussian: bool, at_delta: float, delta: float | None
) -> SpendResult:
    lower = bounds(*drawn.spends[name], delta or 0.0, mu=gaussian)
    return SpendResult(
        name=name,
        claimed_epsilon=claim.epsilon(at_delta),
        lower_bound=lower.epsilon,
        claimed_mu=mu_of(claim) if gaussian else None,
        mu_lower_bound=lower.mu,
        runs=lower.runs,
    )


def mu_of(claim: Loss) -> float:
    """Delta / sigma of Gaussian noise that costs rho: the trade-off curve of the continuous Gaussian."""
    return float(np.sqrt(2 * claim.rho))


def runs_for(entry: Entry, claim: Loss, queries: list[Query]) -> int:
    """Runs per side: DRAWS over all spends, or (thorough) enough to reach 0.9 of the claim.

    For mu both limits of Clopper-Pearson are about 6.2 / sqrt(n) off near the middle of the curve, and
    random error takes some 7.4 / sqrt(n) more of their sum at four standard deviations. Half of the
    runs only choose the event.
    """
    if not entry.thorough:
        cells = sum(query.before.size for query in queries if query.kind not in PICKS)
        return DRAWS // (2 * max(cells, 1))
    if entry.pure:
        return 300_000
    return int(np.clip(2 * (19.7 / (0.1 * mu_of(claim))) ** 2, 100_000, 1_600_000))


def _whole(name: str, plan: AuditPlan, delta: float | None, pipeline: Pipeline, tell: Progress) -> Bounds:
    tell.stage(f"{name}: whole runs", 2 * plan.whole_runs)
    sides = sample_whole(pipeline, OsNoise(), plan.whole_runs, tell.advance)
    return bounds(*sides, delta or 0.0)


def _plant_bugs(name: str, tell: Progress) -> dict[str, str | None]:
    """Each planted bug, and how it was caught."""
    mutants = planted(name)
    tell.stage(f"{name}: planted bugs", len(mutants))
    caught_by: dict[str, str | None] = {}
    for mutant in mutants:
        caught_by[mutant.name] = catch(mutant)
        tell.advance(1)
    return caught_by


def _spend_problems(spend: SpendResult) -> list[str]:
    return [
        *_above(spend.lower_bound, spend.claimed_epsilon, f"epsilon of {spend.name}"),
        *_above(spend.mu_lower_bound, spend.claimed_mu, f"mu of {spend.name}"),
    ]


def _above(bound: float | None, claim: float | None, what: str) -> list[str]:
    if bound is None or claim is None or bound <= claim:
        return []
    return [f"{what} is at least {bound:.6g} (wrong with probability 1e-6); the claim is {claim:.6g}"]


def worst_events(pipeline: Pipeline) -> Pair:
    """Two people, and one more who spends `ell` slots at a site that lies within one zone."""
    world = pipeline.world
    crowd = tuple((user, at(user % world.slots), user % world.size.places) for user in range(2))
    return Pair("one user at the cap", crowd, tuple((NEW, at(slot), 0) for slot in range(world.size.ell)))


def sample_whole(
    pipeline: Pipeline, noise: Noise, runs: int, advance: Advance | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Statistics [runs, 3] of released tables with the user, and without.

    The cells the user can be in are known to the adversary.
    """
    pair = worst_events(pipeline)
    sides = []
    for rows in (pair.after(), pair.before()):
        events = event_table(rows, batch_rows=1000)
        statistics = np.empty((runs, 3))
        for run in range(runs):
            cells = pipeline.watched(pipeline(events, noise))
            statistics[run] = cells.sum(), cells.min(), cells.max()
            if advance:
                advance(1)
        sides.append(statistics)
    return sides[0], sides[1]


Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")


def audit_many(
    names: Sequence[str], plan: AuditPlan, progress: Progress | None = None, jobs: int | None = None
) -> list[AuditResult]:
    """One result per name, in order. `jobs` processes at a time; by default one for each core."""
    tell = progress or Silent()
    if processes(jobs, len(names)) <= 1:
        return [audit_mechanism(name, plan, tell) for name in names]
    tell.stage(f"{len(names)} mechanisms", len(names))
    return in_processes(partial(audit_mechanism, plan=plan), names, tell, jobs)


def processes(jobs: int | None, work: int) -> int:
    """Processes at a time."""
    if jobs is not None and jobs < 1:
        raise PlanError("audit-jobs", f"an audit runs in at least 1 process; got {jobs}.")
    return min(jobs or os.cpu_count() or 1, work)


def in_processes(
    one: Callable[[Item], Result], items: Sequence[Item], tell: Progress, jobs: int | None
) -> list[Result]:
    """The result of `one` for each item, in order, each in a process of its own."""
    # Spawned, not forked: a fork copies the locks of compiled code and of DuckDB's threads.
    at_once = processes(jobs, len(items))
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), initializer=_leave_stops) as pool:
        pending = {pool.submit(one, item): item for item in items}
        results: dict[Item, Result] = {}
        try:
            for done in as_completed(pending):
                results[pending[done]] = done.result()
                tell.advance(1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise
    return [results[item] for item in items]


def _leave_stops() -> None:
    """Ctrl-C reaches every process of a terminal; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
