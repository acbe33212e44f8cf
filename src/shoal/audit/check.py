"""Replay of a pipeline over pairs of neighbours: both directions, several kinds of transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shoal.audit.pairs import Pair, edge_pairs, random_pairs
from shoal.audit.pipelines import DensityPipeline, event_table
from shoal.audit.replay import ArbitraryNoise, Verdict, replay
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise, SeededNoise

KEYS = (bytes(16), bytes(range(16)))


@dataclass(frozen=True)
class Finding:
    """A pair whose neighbours could be told apart, or cost more than the claim."""

    pair: str
    transcript: str
    problem: str


def sources() -> list[tuple[str, Callable[[], Noise]]]:
    """Where transcripts come from: the true distribution, and arbitrary answers."""
    return [
        ("drawn", lambda: SeededNoise(7)),
        *((f"arbitrary {k}", lambda k=k: ArbitraryNoise(k)) for k in range(4)),
    ]


def replay_pair(
    pipeline: DensityPipeline, pair: Pair, claim: Loss, source: Noise, run_key: bytes, *, swap: bool = False
) -> Verdict:
    """Record on one of the two tables, replay on the other (`swap`: recorded on the larger one)."""
    before, after = event_table(pair.before()), event_table(pair.after())
    first, second = (after, before) if swap else (before, after)
    return replay(
        lambda noise: pipeline(first, noise), lambda noise: pipeline(second, noise), claim, source, run_key
    )


def findings(pipeline: DensityPipeline, pairs: Iterable[Pair], claim: Loss) -> Iterable[Finding]:
    """Everything replay holds against a pipeline, pair by pair."""
    for pair in pairs:
        for label, make in sources():
            for swap in (False, True):
                verdict = replay_pair(pipeline, pair, claim, make(), KEYS[swap], swap=swap)
                for problem in verdict.problems:
                    yield Finding(pair.name, label + (", from the larger table" if swap else ""), problem)


def audit_pairs(pipeline: DensityPipeline, extra: int = 0, seed: int = 1) -> list[Pair]:
    """The edge cases, and `extra` random pairs."""
    world = pipeline.world
    return edge_pairs(world.slots, world.ell, world.sites) + random_pairs(
        seed, extra, world.slots, world.sites
    )
