"""Planted bugs: pipelines that break the promise, each of which the audit must catch.

A mutant replaces one step of a correct pipeline. `catches` asks every check whether it notices:
  bound    the package's own checks refuse to go on (GuaranteeError) where the true pipeline runs
  asked    loss() claims more than was asked for
  lattice  a noisy count is not a whole number of lattice units
  replay   neighbours can be told apart, or a transcript costs more than loss() claims
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

from shoal.audit.check import KEYS, NOTHING_RELEASED, audit_pairs, findings
from shoal.audit.lower_bound import bounds, sample
from shoal.audit.noise_faults import draw_noise, noise_faults
from shoal.audit.pipelines import Pipeline, event_table, pipeline_of
from shoal.audit.planted_counts import count_bugs
from shoal.audit.planted_mechanisms import mechanism_bugs
from shoal.audit.planted_noise import sampler_bugs
from shoal.audit.planted_steps import step_bugs
from shoal.audit.replay import RecordingNoise, observe
from shoal.mechanisms.registry import entry_of
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise, SeededNoise

CHECKS = ("bound", "asked", "lattice", "replay", "noise", "runs")
SAMPLER_CHECKS = ("noise", "runs", "bound", "asked", "lattice", "replay")  # the likely ones first
EXTRA_PAIRS = 20  # random ones, beside those with a name
ROUNDING = 1e-9  # of a conversion to epsilon, relative
RUNS = 100_000  # per side: enough for a scale that is a fifth too small, at the epsilon below


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A planted bug in the pipeline of one mechanism."""

    mechanism: str
    name: str
    pipeline: Pipeline
    sampler: Callable[[int], Noise] = SeededNoise  # from a seed; a bug may sit inside the noise module
    delta: float | None
    raises: bool = False  # the bug is an exception

    @property
    def epsilon(self) -> float:
        """Claims at which a wrong scale shows after few runs."""
        return 1.0 if self.delta is None else 4.0


def planted(name: str) -> list[Mutant]:
    """Every planted bug of a registered mechanism."""
    entry = entry_of(name)
    delta = 1e-6 if entry.has_mu else None
    epsilon = 1.0 if delta is None else 4.0
    true = pipeline_of(name, epsilon, delta)
    mutants = [
        Mutant(mechanism=name, name=bug, pipeline=broken, delta=delta)
        for bug, broken in (*step_bugs(true), *count_bugs(true))
    ]
    for bug, kind in mechanism_bugs(entry.mechanism):
        broken = Pipeline(mechanism=entry.build(epsilon, delta, entry.size, kind), world=true.world)
        raises = bug.startswith("exception ")
        mutants.append(Mutant(mechanism=name, name=bug, pipeline=broken, delta=delta, raises=raises))
    mutants += [
        Mutant(mechanism=name, name=bug, pipeline=true, sampler=sampler, delta=delta)
        for bug, sampler in sampler_bugs()
    ]
    return mutants


def catch(mutant: Mutant) -> str | None:
    """How the mutant is caught: the first check that notices, with what it saw; None if it survives."""
    return next((f"{check}: {saw}" for check, saw in catches(mutant)), None)


def catches(mutant: Mutant) -> Iterator[tuple[str, str]]:
    """Every check that notices the mutant; the one most likely to comes first."""
    looks = {
        "bound": refused,
        "asked": above_asked,
        "lattice": off_lattice,
        "replay": told_apart,
        "noise": faulty_noise,
        "runs": above_claim,
    }
    for check in CHECKS if mutant.sampler is SeededNoise else SAMPLER_CHECKS:
        saw = looks[check](mutant)
        if saw is not None:
            yield check, saw


def refused(mutant: Mutant) -> str | None:
    for pair in audit_pairs(mutant.pipeline)[:3]:  # at the cap, above it, and with a crowd
        noise = RecordingNoise(mutant.sampler(3), KEYS[0])
        events = event_table(pair.after())
        seen = observe(lambda noise, events=events: mutant.pipeline(events, noise), noise)
        if seen.error is not None and seen.error[0] == "GuaranteeError":
            return f"{seen.error[1]} ({pair.name})"
    return None


def above_asked(mutant: Mutant) -> str | None:
    return more_than_asked(mutant.pipeline.mechanism.loss(), mutant.epsilon, mutant.delta)


def more_than_asked(claim: Loss, epsilon: float, delta: float | None) -> str | None:
    """Whether a mechanism that was built for an epsilon claims to spend more."""
    if delta is None and claim.pure_epsilon_nano is None:
        return "claims a delta where none was asked for"
    claimed = claim.epsilon(delta or 0.5)  # a pure claim needs no delta
    if claimed > epsilon * (1 + ROUNDING):
        return f"claims epsilon = {claimed:.6g} where {epsilon:.6g} was asked for"
    return None


def told_apart(mutant: Mutant) -> str | None:
    pairs = audit_pairs(mutant.pipeline, EXTRA_PAIRS)
    for found in findings(mutant.pipeline, pairs, mutant.pipeline.mechanism.loss()):
        crashed = any(kind != "GuaranteeError" for kind in found.raised)
        if crashed and not mutant.raises:
            return None
        if not found.problem.startswith(NOTHING_RELEASED):
            return f"{found.problem} ({found.pair})"
    return None


def faulty_noise(mutant: Mutant) -> str | None:
    kind = type(mutant.pipeline.mechanism)
    try:
        entry = entry_of(mutant.mechanism)
        drawn = draw_noise(entry, mutant.epsilon, mutant.delta, mutant.sampler(13), kind=kind)
    except Exception:  # another check's business
        return None
    return next(noise_faults(drawn), None)


def off_lattice(mutant: Mutant) -> str | None:
    pair = audit_pairs(mutant.pipeline)[0]
    try:
        noise = RecordingNoise(mutant.sampler(5), KEYS[0])
        bounded = mutant.pipeline.bounded(event_table(pair.after()), KEYS[0])
        noisy = mutant.pipeline.measure(bounded, noise)
    except Exception:  # another check's business
        return None
    return (
        None if on_lattice(noisy.values, mutant.pipeline.mechanism.lattice) else "a count is off the lattice"
    )


def on_lattice(values: np.ndarray, lattice: int) -> bool:
    """Whether every value is a whole number of lattice units (exact: the lattice is a power of two)."""
    units = values * lattice
    return bool(np.all(units == np.rint(units)))


def above_claim(mutant: Mutant) -> str | None:
    entry = entry_of(mutant.mechanism)
    mechanism = mutant.pipeline.mechanism
    claim = entry.build(mutant.epsilon, mutant.delta, entry.replica, type(mechanism))
    try:
        found = bounds(
            *sample(entry, mutant.epsilon, mutant.delta, mutant.sampler(11), RUNS, kind=type(mechanism)),
            mutant.delta or 0.0,
            mu=entry.has_mu,
        )
    except Exception:  # another check's business
        return None
    claimed = claim.loss().epsilon(mutant.delta or 0.5)
    if found.epsilon > claimed:
        return f"epsilon >= {found.epsilon:.3f}, claimed {claimed:.3f}"
    claimed_mu = np.sqrt(2 * claim.loss().rho)
    if found.mu is not None and found.mu > claimed_mu:
        return f"mu >= {found.mu:.3f}, claimed {claimed_mu:.3f}"
    return None
