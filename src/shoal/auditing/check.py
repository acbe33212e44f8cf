"""Replay of a pipeline over pairs of neighbours: both directions, several kinds of transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shoal.auditing.pairs import Pair, crowd_pairs, edge_pairs, random_pairs, tie_pairs
from shoal.auditing.pipelines.pipeline import Pipeline, World
from shoal.auditing.replay import ArbitraryNoise, Verdict, replay
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise, SeededNoise

KEYS = (bytes(16), bytes(range(16)))
NOTHING_RELEASED = "nothing was released"


@dataclass(frozen=True)
class Finding:
    """A pair whose neighbours could be told apart, cost more than the claim, or were not released."""

    pair: str
    transcript: str
    problem: str
    raised: tuple[str, ...] = ()


def sources() -> list[tuple[str, Callable[[], Noise]]]:
    """Where transcripts come from: the true distribution, and arbitrary answers."""
    return [
        ("drawn", lambda: SeededNoise(7)),
        *((f"arbitrary {k}", lambda k=k: ArbitraryNoise(k)) for k in range(4)),
    ]


def replay_pair(
    pipeline: Pipeline, pair: Pair, claim: Loss, source: Noise, run_key: bytes, *, swap: bool = False
) -> Verdict:
    """Record on one of the two tables, replay on the other (`swap`: recorded on the larger one)."""

    def side(larger: bool) -> Callable[[Noise], bytes]:
        def run(noise: Noise) -> bytes:
            steps = pipeline.kernel, pipeline.bound, pipeline.world
            return pipeline.release(counted_once(*steps, pair, larger, noise.run_key()), noise)

        return run

    return replay(side(swap), side(not swap), claim, source, run_key, dict(pipeline.spends()))


@lru_cache(maxsize=8192)
def counted_once(
    kernel: Callable, bound: Callable, world: World, pair: Pair, larger: bool, run_key: bytes
) -> Any:
    """Visits of one side of a pair. They come before the noise, so transcripts and mechanisms share them."""
    counted = world.count(kernel, bound, pair.tables[larger], run_key)
    counted.freeze()  # shared from here on
    return counted


def findings(
    pipeline: Pipeline, pairs: Iterable[Pair], claim: Loss, *, quick: bool = False
) -> Iterator[Finding]:
    """Everything replay holds against a pipeline: first one transcript of every pair, then the others.

    `quick`: two others of each pair, in turn, and none of crowds and ties.
    """
    pairs = list(pairs)
    turns = [(label, make, swap) for label, make in sources() for swap in (False, True)]
    for pair in pairs:
        yield from _replayed(pipeline, pair, claim, *turns[0])
    others = turns[1:]
    for number, pair in enumerate(pairs):
        one, another = others[number % len(others)], others[(number + 4) % len(others)]
        few, many = ([one, another], others) if pair.thorough else ([], [one])
        for turn in few if quick else many:
            yield from _replayed(pipeline, pair, claim, *turn)


def _replayed(
    pipeline: Pipeline, pair: Pair, claim: Loss, label: str, make: Callable[[], Noise], swap: bool
) -> Iterator[Finding]:
    run_key = KEYS[swap and pair.thorough]  # a number of people is the same under every key
    verdict = replay_pair(pipeline, pair, claim, make(), run_key, swap=swap)
    problems = list(verdict.problems)
    if verdict.raised and not problems:  # two equal errors hide whatever comes after them
        problems = [f"{NOTHING_RELEASED}: {verdict.raised[0]}"]
    for problem in problems:
        yield Finding(pair.name, label + (", from the larger table" if swap else ""), problem, verdict.raised)


def audit_pairs(pipeline: Pipeline, extra: int = 0, seed: int = 1) -> list[Pair]:
    """The edge cases, ties, crowds, and `extra` random pairs."""
    world = pipeline.world
    return _pairs(world.slots, world.ell, world.sites, extra, seed)


@lru_cache(maxsize=64)
def _pairs(slots: int, ell: int, sites: int, extra: int, seed: int) -> list[Pair]:
    return [
        *edge_pairs(slots, ell, sites),
        *tie_pairs(slots, sites),
        *random_pairs(seed, extra, slots, sites),
        *crowd_pairs(ell),
    ]
