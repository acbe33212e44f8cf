"""Planted bugs: pipelines that break the promise, each of which the audit must catch.

A mutant replaces one step of a correct pipeline. `catches` asks every check whether it notices:
  bound    the package's own checks refuse to go on (GuaranteeError) where the true pipeline runs
  asked    loss() claims more than was asked for
  lattice  a noisy count is not a whole number of lattice units
  replay   neighbours can be distinguished, or a transcript costs more than loss() or spends() claim
  noise    noise comes again, cells go together, or the lattice is coarser than it should be
  runs     a lower bound from many runs is above the claim
Only true bugs are listed. Keeping a user's first ell visits instead of random ones, say, would bias the
counts, but would not break the promise. A mutant that crashes where its bug is not to raise proves nothing,
and does not count as caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from shoal.auditing.lower_bounds import PICKS, Query, bounds, queries_of, sample, worst_shown
from shoal.auditing.noise_faults import draw_noise, noise_faults
from shoal.auditing.pairs import event_table
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted import calls, clipped, counts, paths, trips
from shoal.auditing.planted.bug import Bug, Family, Shown
from shoal.auditing.planted.calls import on_cells, sampler_bugs
from shoal.auditing.replay import (
    KEYS,
    NOTHING_RELEASED,
    RecordingNoise,
    audit_pairs,
    findings,
    observe,
    replay_pair,
)
from shoal.baselines import part
from shoal.mechanisms.registry import entry_of
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise, SeededNoise

CHECKS = ("bound", "asked", "lattice", "replay", "noise", "runs")
SAMPLER_CHECKS = ("noise", "runs", "bound", "asked", "lattice", "replay")  # the most probable ones first
EXTRA_PAIRS = 20  # random ones, beside those with a name
ROUNDING = 1e-9  # of a conversion to epsilon, relative
RUNS = 100_000  # per side: enough for a scale that is a fifth too small, at the epsilon below
DELTA = 1e-6


def families_of(pipeline: type[Pipeline]) -> Iterator[Family]:
    """Every family of bugs that a kind of pipeline can have, with those of the baselines."""
    tables = [module.FAMILIES for module in (calls, counts, clipped, trips, paths)]
    for table in (*tables, part("auditing:FAMILIES", {})):
        yield from table.get(pipeline, ())
    yield from (counts.people_bugs, counts.output_bugs)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A planted bug in the pipeline of one mechanism."""

    mechanism: str
    bug: Bug
    sampler: Callable[[int], Noise] = SeededNoise  # from a seed; a bug may sit inside the noise module
    delta: float | None

    @property
    def name(self) -> str:
        return self.bug.name

    @property
    def epsilon(self) -> float:
        return claim_of(self.mechanism)

    @property
    def pipeline(self) -> Pipeline:
        return self.bug.plant(pipeline_of(self.mechanism, self.epsilon, self.delta))

    @property
    def tight_pipeline(self) -> Pipeline:
        """The same bug where one user costs the whole claim."""
        size = entry_of(self.mechanism).tight
        return self.bug.plant(pipeline_of(self.mechanism, self.epsilon, self.delta, size=size))


def claim_of(name: str) -> float:
    """The epsilon of mutants: one at which a wrong scale shows after few runs."""
    entry = entry_of(name)
    return entry.bugs_at or (1.0 if entry.pure else 4.0)


def planted(name: str) -> list[Mutant]:
    """Every planted bug of a registered mechanism."""
    entry = entry_of(name)
    delta = None if entry.pure else DELTA
    true = pipeline_of(name, claim_of(name), delta)
    bugs = [bug for family in families_of(type(true)) for bug in family(true)]
    adjusted = part("auditing:adjusted")
    bugs = bugs if adjusted is None else adjusted(true, bugs)
    greedy = Bug(name="a fifth of the noise asked for, and an honest claim", plant=_greedy(name, delta))
    return [
        *(Mutant(mechanism=name, bug=bug, delta=delta) for bug in (*bugs, greedy)),
        *(
            Mutant(mechanism=name, bug=Bug(name=bug, plant=lambda true: true), sampler=sampler, delta=delta)
            for bug, sampler in sampler_bugs()
        ),
    ]


def _greedy(name: str, delta: float | None) -> Callable[[Pipeline], Pipeline]:
    """Built with too little noise, and says so in its loss(): more than was asked for."""

    def plant(true: Pipeline) -> Pipeline:
        return pipeline_of(name, 5 * claim_of(name), delta, size=true.world.size)

    return plant


def catch(mutant: Mutant) -> str | None:
    """The first check that notices the mutant, with its problem; None if the mutant survives."""
    return next((f"{check}: {saw}" for check, saw in catches(mutant)), None)


def catches(mutant: Mutant) -> Iterator[tuple[str, str]]:
    """Every check that notices the mutant; the one that most probably does comes first."""
    looks = {
        "bound": refused,
        "asked": above_budget,
        "lattice": off_lattice,
        "replay": distinguished,
        "noise": faulty_noise,
        "runs": above_claim,
    }
    for check in CHECKS if mutant.sampler is SeededNoise else SAMPLER_CHECKS:
        try:
            saw = looks[check](mutant)
        except Exception:  # whether a crash tells anything is for replay
            continue
        if saw is not None:
            yield check, saw


def refused(mutant: Mutant) -> str | None:
    pipeline = mutant.pipeline
    for pair in audit_pairs(pipeline)[:3]:  # at the cap, above it, and with a crowd
        noise = RecordingNoise(mutant.sampler(3), KEYS[0])
        events = event_table(pair.after())
        outcome = observe(lambda noise, events=events: pipeline(events, noise), noise)
        if outcome.error is not None and outcome.error[0] == "GuaranteeError":
            return f"{outcome.error[1]} ({pair.name})"
    return None


def above_budget(mutant: Mutant) -> str | None:
    return more_than_budget(mutant.pipeline.mechanism.loss(), mutant.epsilon, mutant.delta)


def more_than_budget(claim: Loss, epsilon: float, delta: float | None) -> str | None:
    """Whether a mechanism that was built for an epsilon claims to spend more."""
    if delta is None and claim.pure_epsilon_nano is None:
        return "claims a delta where none was asked for"
    claimed = claim.epsilon(delta or 0.5)  # a pure claim needs no delta
    if claimed > epsilon * (1 + ROUNDING):
        return f"claims epsilon = {claimed:.6g} where {epsilon:.6g} was asked for"
    return None


def distinguished(mutant: Mutant) -> str | None:
    pipeline = mutant.pipeline
    worst = Shown(*worst_shown(entry_of(mutant.mechanism)))
    cases = [(mutant.tight_pipeline, worst), *([(pipeline, mutant.bug.shown)] if mutant.bug.shown else [])]
    for broken, shown in cases:
        problems = shown_problems(broken, shown)
        if problems:
            return f"{problems[0]} ({shown.pair.name})"
    pairs = audit_pairs(pipeline, EXTRA_PAIRS)
    for finding in findings(pipeline, pairs, pipeline.mechanism.loss()):
        crashed = any(kind != "GuaranteeError" for kind in finding.raised)
        if crashed and not mutant.bug.raises:
            return None
        if not finding.problem.startswith(NOTHING_RELEASED):
            return f"{finding.problem} ({finding.pair})"
    return None


def shown_problems(pipeline: Pipeline, shown: Shown) -> tuple[str, ...]:
    """Problems in the replay of a pipeline on the pair and transcript that show a bug."""
    claim = pipeline.mechanism.loss()
    verdict = replay_pair(pipeline, shown.pair, claim, shown.source(), KEYS[0], swap=shown.swap)
    return () if verdict.raised else verdict.problems


def faulty_noise(mutant: Mutant) -> str | None:
    entry = entry_of(mutant.mechanism)
    drawn = draw_noise(queries_of(mutant.tight_pipeline, entry), mutant.sampler(13))
    return next((fault for each in drawn for fault in noise_faults(each)), None)


def off_lattice(mutant: Mutant) -> str | None:
    pipeline = mutant.pipeline
    if not on_cells(pipeline):
        return None
    pair = audit_pairs(pipeline)[1]
    noise = RecordingNoise(mutant.sampler(5), KEYS[0])
    noisy = pipeline.measure(pipeline.counted(event_table(pair.after()), KEYS[0]), noise)
    return None if on_lattice(noisy.values, pipeline.mechanism.lattice) else "a count is off the lattice"


def on_lattice(values: np.ndarray, lattice: int) -> bool:
    """Whether every value is a whole number of lattice units (exact: the lattice is a power of two)."""
    units = values * lattice
    return bool(np.all(units == np.rint(units)))


def above_claim(mutant: Mutant) -> str | None:
    """All spends together, then each alone; choices are left out, since they are drawn one by one."""
    entry = entry_of(mutant.mechanism)
    pipeline = mutant.tight_pipeline
    queries = [query for query in queries_of(pipeline, entry) if query.kind not in PICKS]
    claims = {None: pipeline.mechanism.loss(), **dict(pipeline.spends())}
    for name, claim in claims.items():
        mine = [query for query in queries if name in (None, query.name)]
        saw = _above(mine, claim, mutant) if mine else None
        if saw is not None:
            return saw
    return None


def _above(queries: list[Query], claim: Loss, mutant: Mutant) -> str | None:
    mu = all(query.has_mu for query in queries)
    lower = bounds(*sample(queries, mutant.sampler(11), RUNS), mutant.delta or 0.0, mu=mu)
    claimed = claim.epsilon(mutant.delta or 0.5)
    if lower.epsilon > claimed:
        return f"epsilon >= {lower.epsilon:.3f}, claimed {claimed:.3f}"
    claimed_mu = np.sqrt(2 * claim.rho)
    if lower.mu is not None and lower.mu > claimed_mu:
        return f"mu >= {lower.mu:.3f}, claimed {claimed_mu:.3f}"
    return None
