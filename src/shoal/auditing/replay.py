"""Replay: the answers given on one data set, handed out again on its neighbour.

A run is recorded: every value a noise primitive returned (the outputs, not the noise). The neighbour then
runs with the same run key and is given those values. If anything else tells the two apart (another call,
shape, scale, exception or released byte), something of the data bypassed the noise. If nothing does, the
exact privacy loss of this transcript follows from the difference of the queries alone:
  gaussian  |dq|_2^2 / (2 sigma^2)  (rho)        laplace  |dq|_1 / b  (pure)
  choose    r^2 / 8 (rho), r (pure), r = range of the score change / scale
  above     2 |dq|_inf / scale (pure): the first value above a threshold (shoal/privacy/noise.py)
  and, under GDP, rho = mu^2 / 2 of each: of Gaussian noise the same, of the others as gaussian.py has it
and its sum must not exceed what the mechanism's loss() claims, nor the calls of a name what spends() claims
under that name. It holds whatever the control flow does with noisy answers, since it holds for every
transcript that was tried, also for arbitrary ones. `findings` tries a pipeline on pairs of neighbours, in
both directions and with several kinds of transcript.

Replay trusts the primitives; that they draw what they say is for the lower bounds and tests/statistical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from shoal.auditing.pairs import Pair, crowd_pairs, edge_pairs, random_pairs, tie_pairs
from shoal.auditing.pipelines.pipeline import Pipeline, World
from shoal.privacy.accounting import NANO, TAU, Loss
from shoal.privacy.gaussian import PURE_TO_GDP, mu_of_pure
from shoal.privacy.noise import Noise, SeededNoise, first_above

Parts = Mapping[str, Loss]
PICKS = ("choose", "above")  # answered by an index
Run = Callable[[Noise], bytes]  # a whole pipeline on one data set, to released bytes


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a noise primitive: exact values, scale and answer."""

    kind: str
    name: str
    exact: np.ndarray
    scale: float
    answer: np.ndarray | int

    @property
    def signature(self) -> tuple:
        return self.kind, self.name, self.exact.shape, self.scale


@dataclass(frozen=True)
class Verdict:
    """Result of a replay: the exact loss of the transcript, and the problems, if any."""

    rho: Fraction
    pure_epsilon: Fraction | None
    problems: tuple[str, ...]
    raised: tuple[str, ...] = ()  # kinds of exception that ended a side: nothing was released there

    @property
    def passed(self) -> bool:
        return not self.problems


class Answers:
    """A noise that nobody may publish: every primitive goes through `answer`, whatever its kind."""

    publishable = False
    key = bytes(16)

    def run_key(self) -> bytes:
        return self.key

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return self.answer("laplace", name, exact, scale)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return self.answer("gaussian", name, exact, sigma)

    def choose(self, name: str, scores: np.ndarray, scale: float) -> int:
        return self.answer("choose", name, scores, scale)

    def first_above(self, name: str, margins: np.ndarray, scale: float) -> int:
        return self.answer("above", name, margins, scale)

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        """An array like `exact`; the index of a choice or test where `kind` is in PICKS."""
        raise NotImplementedError


def ask(noise: Noise, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
    """The answer of another noise to the same call."""
    if kind == "above":
        return first_above(noise, name, exact, scale)
    return getattr(noise, kind)(name, exact, scale)


class RecordingNoise(Answers):
    """Passes every call on and keeps the answers."""

    def __init__(self, inner: Noise, run_key: bytes) -> None:
        self._inner, self.key = inner, run_key
        self.calls: list[Call] = []

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        answer = ask(self._inner, kind, name, exact, scale)
        # Copies: the caller may change its arrays afterwards.
        self.calls.append(Call(kind, name, exact.copy(), float(scale), copy(answer)))
        return answer


class CallsDiffer(BaseException):
    """The neighbour asked for something else: no code under test may catch this."""


class ReplayNoise(Answers):
    """Hands out recorded answers and keeps the queries of the neighbour."""

    def __init__(self, recorded: list[Call], run_key: bytes) -> None:
        self._recorded, self.key = recorded, run_key
        self.calls: list[Call] = []

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        position = len(self.calls)
        if position >= len(self._recorded):
            raise CallsDiffer(f"call {position + 1} ({kind} {name}) was not made on the neighbour")
        recorded = self._recorded[position]
        call = Call(kind, name, exact.copy(), float(scale), copy(recorded.answer))
        if call.signature != recorded.signature:
            raise CallsDiffer(f"call {position + 1} is {call.signature}, was {recorded.signature}")
        self.calls.append(call)
        return call.answer


@dataclass
class Outcome:
    """Outcome of a run as an outsider sees it, and (for the audit) the calls behind it."""

    released: bytes | None = None
    error: tuple[str, str] | None = None
    differs: str | None = None
    calls: list[Call] = field(default_factory=list)


def observe(run: Run, noise: RecordingNoise | ReplayNoise) -> Outcome:
    """Run to the released bytes or to the exception an outsider would see."""
    outcome = Outcome()
    try:
        outcome.released = run(noise)
    except CallsDiffer as differs:
        outcome.differs = str(differs)
    except Exception as error:  # any exception is an output
        outcome.error = (type(error).__name__, str(error))
    outcome.calls = noise.calls
    return outcome


def replay(
    first: Run, second: Run, claim: Loss, source: Noise, run_key: bytes, parts: Parts | None = None
) -> Verdict:
    """Record `first` with answers from `source`, replay on `second`, and hold the loss against the claim.

    `parts` are claims by the names of the calls, which must then all be named there.
    """
    recorded = observe(first, RecordingNoise(source, run_key))
    again = observe(second, ReplayNoise(recorded.calls, run_key))
    problems = []
    if again.differs:
        problems.append(f"calls differ: {again.differs}")
    elif len(again.calls) < len(recorded.calls):
        problems.append("calls differ: fewer calls than on the neighbour")
    if not again.differs and again.error != recorded.error:
        problems.append(f"exceptions differ: {recorded.error} and {again.error}")
    if not again.differs and again.released != recorded.released:
        problems.append("released bytes differ")
    rho, pure = transcript_loss(recorded.calls, again.calls)
    raised = tuple(side.error[0] for side in (recorded, again) if side.error)
    problems += [*over_claim(rho, pure, claim), *under_gdp(recorded.calls, again.calls, claim)]
    if parts is not None:
        problems += over_parts(recorded.calls, again.calls, parts)
    return Verdict(rho, pure, tuple(problems), raised)


def transcript_loss(first: list[Call], second: list[Call]) -> tuple[Fraction, Fraction | None]:
    """Exact loss of the calls both runs made: rho, and pure epsilon while every part is pure."""
    rho, pure = Fraction(0), Fraction(0)
    for one, other in zip(first, second, strict=False):
        change = _changes(one.exact.ravel(), other.exact.ravel())
        scale = Fraction(one.scale)
        if one.kind == "gaussian":
            rho += Fraction(sum(c * c for c in change)) / (2 * scale**2)
            pure = None if any(change) else pure
            continue
        if one.kind == "laplace":
            epsilon = Fraction(sum(abs(c) for c in change)) / scale
            rho += epsilon**2 / 2
        elif one.kind == "above":
            epsilon = 2 * Fraction(max((abs(c) for c in change), default=0)) / scale
            rho += epsilon**2 / 2
        else:
            epsilon = Fraction(max(change, default=0) - min(change, default=0)) / scale
            rho += epsilon**2 / 8
        pure = None if pure is None else pure + epsilon
    return rho, pure


def transcript_gdp(first: list[Call], second: list[Call]) -> Fraction:
    """mu^2 / 2 of the calls both runs made."""
    total = Fraction(0)
    for one, other in zip(first, second, strict=False):
        rho, pure = transcript_loss([one], [other])
        if one.kind == "gaussian" or not rho:
            total += rho
        elif one.kind == "choose":
            total += rho * Fraction(PURE_TO_GDP)
        elif pure is not None:
            total += Fraction(mu_of_pure(float(pure) * (1 - 1e-12)) ** 2 / 2)
    return total


def under_gdp(first: list[Call], second: list[Call], claim: Loss) -> list[str]:
    """Problems where a claim under GDP is below the loss, or leaves out the slack of Gaussian noise."""
    if claim.gdp_nano is None:
        return []
    problems = []
    if (rho := transcript_gdp(first, second)) > Fraction(claim.gdp_nano, NANO):
        problems.append(f"loss above the claim: mu^2 / 2 = {float(rho):.6g} of {claim.gdp_nano / NANO:.6g}")
    if claim.tau < TAU * len({call.name for call in first if call.kind == "gaussian"}):
        problems.append("loss above the claim: the slack of Gaussian noise is left out")
    return problems


def _changes(one: np.ndarray, other: np.ndarray) -> list[int]:
    """The changes of cells that differ, exactly; and one 0 where some do not, which a choice can see."""
    differs = one != other
    changes = [int(b) - int(a) for a, b in zip(one[differs], other[differs], strict=True)]
    return changes if differs.all() else [*changes, 0]


def over_claim(rho: Fraction, pure: Fraction | None, claim: Loss) -> list[str]:
    """Problems where the loss exceeds the claim: the pure epsilon where one is claimed, rho always."""
    problems = []
    if claim.pure_epsilon_nano is not None and (
        pure is None or pure > Fraction(claim.pure_epsilon_nano, NANO)
    ):
        spent = "no pure loss" if pure is None else f"epsilon = {float(pure):.6g}"
        problems.append(f"loss above the claim: {spent} of {claim.pure_epsilon_nano / NANO:.6g}")
    elif rho > Fraction(claim.rho_nano, NANO):
        problems.append(f"loss above the claim: rho = {float(rho):.6g} of {claim.rho:.6g}")
    return problems


def over_parts(first: list[Call], second: list[Call], parts: Parts) -> list[str]:
    """Problems where the loss of a name exceeds its claim, or has none."""
    problems = []
    for name in dict.fromkeys(call.name for call in first):
        if name not in parts:
            problems.append(f"loss above the claim: nothing is charged for {name}")
            continue
        calls = [(one, other) for one, other in zip(first, second, strict=False) if one.name == name]
        sides = [one for one, _ in calls], [other for _, other in calls]
        rho, pure = transcript_loss(*sides)
        excesses = [*over_claim(rho, pure, parts[name]), *under_gdp(*sides, parts[name])]
        problems += [f"{excess} ({name})" for excess in excesses]
    return problems


class ArbitraryNoise(Answers):
    """Answers that have nothing to do with the query, from a cycle of extremes: any transcript may occur."""

    def __init__(self, offset: int = 0) -> None:
        self._turn = offset

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        if kind not in PICKS:
            return self._anything(exact)
        self._turn += 1
        return self._turn % (exact.size + (kind == "above"))

    def _anything(self, exact: np.ndarray) -> np.ndarray:
        cells = np.arange(exact.size, dtype=np.int64).reshape(exact.shape)
        visit = 2**20
        kinds = (-(cells + 1) * visit, cells * 0, (cells % 3 - 1) * 7 * visit + cells, (cells + 1) * 2**35)
        self._turn += 1
        return kinds[(self._turn - 1) % len(kinds)]


MANY = 2**20  # users, whose values answers are made of where the worst user is followed


class KeepsEverything(Answers):
    """Answers of zero, and of choices the last one: all coefficients are kept."""

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        if kind in PICKS:
            return exact.size - 1 if kind == "choose" else 0
        return self.values(name, exact)

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        return np.zeros_like(exact)


class Follows(KeepsEverything):
    """Answers as if very many did what is asked about: what only large values lead to is asked as well."""

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        return exact * MANY


SCALED_UP = {"kept", "all_trips"}  # spends of mechanisms whose releases are scaled up by two noisy numbers


class LargeCity(KeepsEverything):
    """Answers far above their noise, as of a large city; 7 visits were made for every 5 that were kept.

    Where a release is scaled up, this is the ordinary case. Other transcripts hardly ever contain it.
    """

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        if exact.size == 1:  # a number of visits or trips
            return np.full_like(exact, MANY * (7 if name in ("visits", "all_trips") else 5))
        cells = np.arange(exact.size, dtype=np.int64).reshape(exact.shape)
        return (cells % 7 + 1) * 2**35  # in parts of a visit: some ten thousand people in each


KEYS = (bytes(16), bytes(range(16)))
NOTHING_RELEASED = "nothing was released"


@dataclass(frozen=True)
class Finding:
    """A pair whose neighbours could be distinguished, cost more than the claim, or were not released."""

    pair: str
    transcript: str
    problem: str
    raised: tuple[str, ...] = ()


def sources() -> list[tuple[str, Callable[[], Noise]]]:
    """Sources of transcripts: the true distribution, and arbitrary answers."""
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
            steps = type(pipeline).count, pipeline.kernel, pipeline.bound, pipeline.world
            return pipeline.release(counted_once(*steps, pair, larger, noise.run_key()), noise)

        return run

    return replay(side(swap), side(not swap), claim, source, run_key, dict(pipeline.spends()))


@lru_cache(maxsize=8192)
def counted_once(
    count: Callable,
    kernel: Callable,
    bound: Callable,
    world: World,
    pair: Pair,
    larger: bool,
    run_key: bytes,
) -> Any:
    """Visits of one side of a pair. They come before the noise, so transcripts and mechanisms share them."""
    counted = count(world, kernel, bound, pair.tables[larger], run_key)
    counted.freeze()  # shared from here on
    return counted


def findings(
    pipeline: Pipeline, pairs: Iterable[Pair], claim: Loss, *, quick: bool = False
) -> Iterator[Finding]:
    """Everything replay holds against a pipeline: first one transcript of every pair, then the others.

    `quick`: two others of each pair, in turn, and none of crowds and ties. Last, where the release is scaled
    up by two noisy numbers, that of a large city.
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
    for pair in pairs if SCALED_UP & {name for name, _ in pipeline.spends()} else ():
        yield from _replayed(pipeline, pair, claim, "large city", LargeCity, False)


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


def audit_pairs(pipeline: Pipeline, extra: int = 0) -> list[Pair]:
    """The edge cases, ties, crowds, and `extra` random pairs."""
    world = pipeline.world
    return _pairs(world.slots, world.size.ell, world.size.places, extra)


@lru_cache(maxsize=64)
def _pairs(slots: int, ell: int, sites: int, extra: int) -> list[Pair]:
    return [
        *edge_pairs(slots, ell, sites),
        *tie_pairs(slots, sites),
        *random_pairs(1, extra, slots, sites),
        *crowd_pairs(ell),
    ]
