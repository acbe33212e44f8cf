"""The rules of the end-to-end replay and their findings.

bytes     with the answers of one run, any other table gives the same calls, files, spends and errors
loss      for a neighbour, the exact loss of the transcript is within every claim of ledger and manifest
key       other run keys change the choices made under them: the key comes from the noise, from nowhere else
again     the same plan after the table changed by one unit returns the stored release for free
released  something was released: two equal errors hide whatever comes after them
noise     of real runs: no key or draw comes again, the spread is that of the scale, in child processes too
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shoal.auditing.end_to_end.driver import Outcome, differences, loss_problems, run, run_again
from shoal.auditing.end_to_end.trip_worlds import call_world, trip_world
from shoal.auditing.end_to_end.worlds import World, event_world
from shoal.auditing.noise_faults import scale_faults
from shoal.auditing.replay import ArbitraryNoise, Call, LargeCity, RecordingNoise, ReplayNoise
from shoal.auditing.run import Progress, Silent, in_processes
from shoal.errors import PlanError
from shoal.kinds import KINDS
from shoal.privacy.noise import OsNoise, SeededNoise

# Every method of every kind that promises an epsilon; trajectories have none. And what is looked at in the
# noise of real runs, whatever their kind.
METHODS: dict[str, tuple[str, ...]] = {
    **{name: tuple(kind.methods) for name, kind in KINDS.items() if kind.is_private},
    "noise": ("repeats", "scale"),
}
WATCHED = (("density", "gaussian"), ("query", "laplace"))
# Kinds with methods that scale their release up by two noisy numbers.
SCALED_UP = ("density", "histogram")
# A single query of some thirty people has the same answer under two keys with a probability of a few percent.
OTHER_KEYS = 8


@dataclass(frozen=True)
class Finding:
    """A counter-example: the world, reproduced by kind, method, its number and the seed; and what differs."""

    kind: str
    method: str
    world: str
    seed: int
    rule: str
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.method} [{self.rule}] {self.problem} (seed {self.seed}, world {self.world})"
        )


@dataclass
class Result:
    """One method: pairs that were tried, the largest share of the claim that was reached, findings.

    `cases` has the share of each audit case that the releases named.
    """

    kind: str
    method: str
    pairs: int = 0
    share: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    cases: dict[str, float] = field(default_factory=dict)


class WildNoise(ArbitraryNoise):
    """Answers of any size from a seed, which have nothing to do with the query."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._generator = np.random.default_rng(seed)

    def _anything(self, exact: np.ndarray) -> np.ndarray:
        size = 2.0 ** self._generator.uniform(0, 38)
        shift = self._generator.choice([0.0, 1.0, -1.0]) * size
        return np.rint(shift + size * self._generator.standard_normal(exact.shape)).astype(np.int64)


SOURCES: tuple[tuple[str, Callable[[int], Any]], ...] = (
    ("drawn", SeededNoise),
    ("arbitrary", ArbitraryNoise),
    ("wild", WildNoise),
)


def check(
    kind: str, method: str | None = None, *, pairs: int = 6, seed: int = 1, first: int = 0
) -> list[Finding]:
    """Everything that the replay holds against a kind of release, or one method of it."""
    results = examine(kind, method, pairs=pairs, seed=seed, first=first)
    return [finding for result in results for finding in result.findings]


def examine(
    kind: str, method: str | None = None, *, pairs: int = 6, seed: int = 1, first: int = 0
) -> list[Result]:
    """`pairs` worlds per method from number `first` on, each with one transcript."""
    if kind not in METHODS or (method is not None and method not in METHODS[kind]):
        raise PlanError("audit-end-to-end", f"the end-to-end replay has no {kind} {method or ''}.")
    numbers = range(first, first + pairs)
    return [_method(kind, each, numbers, seed) for each in ([method] if method else METHODS[kind])]


def examine_many(
    names: Sequence[str] = (),
    *,
    pairs: int,
    seed: int = 1,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> list[Result]:
    """One result per method, of all kinds or of those named: "density", "density-gaussian"."""
    every = [(kind, method) for kind, methods in METHODS.items() for method in methods]
    chosen = [each for each in every if not names or {each[0], "-".join(each)} & set(names)]
    known = {*METHODS, *("-".join(each) for each in every)}
    if unknown := [name for name in names if name not in known]:
        raise PlanError(
            "audit-end-to-end",
            f"the end-to-end replay knows no {unknown[0]!r}.",
            f"Pass --mechanism with a kind ({', '.join(METHODS)}) or a method such as density-gaussian.",
        )
    tell = progress or Silent()
    tell.stage(f"{len(chosen)} methods, end to end", len(chosen))
    return in_processes(partial(_one, pairs=pairs, seed=seed), chosen, tell, jobs)


def _one(each: tuple[str, str], *, pairs: int, seed: int) -> Result:
    return _method(*each, range(pairs), seed)


def _method(kind: str, method: str, numbers: Iterable[int], seed: int) -> Result:
    result = Result(kind, method)
    if kind == "noise":
        result.findings += [
            Finding(kind, method, world, seed, "noise", problem) for world, problem in _noise(method, seed)
        ]
        return result
    with tempfile.TemporaryDirectory(prefix="shoal-audit-") as scratch:
        for number in numbers:
            world = WORLDS[kind](kind, method, number, seed)
            _pair(result, world, number, seed, Path(scratch) / "run")
    return result


def _noise(method: str, seed: int) -> Iterator[tuple[str, str]]:
    if method == "scale":
        yield from (("no world", problem) for problem in scale_faults())
        return
    for kind, watched in WATCHED:
        world = WORLDS[kind](kind, watched, 0, seed)
        yield from ((f"{kind} {watched} {world.name}", each) for each in repeated(kind, world))


def _pair(result: Result, world: World, number: int, seed: int, folder: Path) -> None:
    # Where the number of synthetic trips is not declared, arbitrary answers would ask for millions.
    declared = result.kind not in ("synthetic", "commute") or "count" in world.settings
    label, source = SOURCES[number % len(SOURCES) if declared else 0]
    key = np.random.default_rng([seed, number]).bytes(16)
    sides = (world.table, world.larger())[:: 1 if number % 2 else -1]

    def report(label: str, rule: str, problems: list[str]) -> None:
        where = f"{world.name}, {label} answers"
        result.findings += [
            Finding(result.kind, result.method, where, seed, rule, problem) for problem in problems
        ]

    def replayed(label: str, noise: Any) -> Outcome:
        first = run(result.kind, world, sides[0], RecordingNoise(noise, key), folder)
        if not first.files:
            report(label, "released", [f"nothing was released: {first.error}"])
        elif not first.calls:
            report(label, "released", ["it was released without asking for noise"])
        if number == 0:
            again = run_again(result.kind, world, sides[1], ReplayNoise([], key), folder)
            changes = differences(replace(first, calls=[]), again)
            report(label, "again", [f"on a second run {change}" for change in changes])
        second = run(result.kind, world, sides[1], ReplayNoise(first.calls, key), folder)
        report(label, "bytes", differences(first, second))
        problems, share = loss_problems(first, second)
        report(label, "loss", problems)
        result.share = max(result.share, share)
        if first.manifest and first.manifest.audit_case:
            case = first.manifest.audit_case
            result.cases[case] = max(result.cases.get(case, 0.0), share)
        far = run(result.kind, world, world.far, ReplayNoise(first.calls, key), folder)
        report(label, "bytes", differences(first, far))
        return first

    result.pairs += 1
    first = replayed(label, source(seed + number))
    if number == 0:  # a crowd with users above the bounds
        other_keys = (np.random.default_rng([seed, number, turn + 1]).bytes(16) for turn in range(OTHER_KEYS))
        others = (
            run(result.kind, world, sides[0], ReplayNoise(first.calls, other), folder) for other in other_keys
        )
        report(label, "key", _same_under_other_keys(world, first, others))
    if number % 6 == 1 and result.kind in SCALED_UP:  # nobody and one user, whose visits are all kept
        replayed("large city", LargeCity())


def _same_under_other_keys(world: World, first: Outcome, others: Iterable[Outcome]) -> list[str]:
    """What should change with the run key and is the same under all others; as few are tried as will do."""
    same = set(world.keyed)
    for other in others:
        if other.differs or any(
            not np.array_equal(one.exact, two.exact)
            for one, two in zip(first.calls, other.calls, strict=False)
        ):
            same.discard("queries")
        if first.files != other.files:
            same.discard("files")
        if not same:
            break
    return [f"the {what} do not depend on the secret run key" for what in sorted(same)]


WORLDS: dict[str, Callable[[str, str, int, int], World]] = {
    "density": event_world,
    "query": event_world,
    "histogram": trip_world,
    "synthetic": trip_world,
    "commute": call_world,
}


RUNS = 4
WIDE = 1e5  # from this scale on, three equal draws among hundreds have a probability below 1e-9 per triple


class WatchedNoise(RecordingNoise):
    """OsNoise as it is, with every draw and run key recorded; built before the run is driven."""

    def __init__(self) -> None:
        real = OsNoise(processes=1)
        super().__init__(_Bound(real), b"")
        self.keys: list[bytes] = []

    def run_key(self) -> bytes:
        self.keys.append(self._inner.run_key())
        return self.keys[-1]


class _Bound:
    """The methods of a noise as they are now, whatever is put in their place later."""

    publishable = True

    def __init__(self, real: OsNoise) -> None:
        self.run_key, self.laplace = real.run_key, real.laplace
        self.gaussian, self.choose = real.gaussian, real.choose


def repeated(kind: str, world: World) -> Iterator[str]:
    """Run keys and draws that come again, from one run to the next or from one question to another."""
    keys: list[bytes] = []
    drawn: list[list[Call]] = []
    with tempfile.TemporaryDirectory(prefix="shoal-audit-") as scratch:
        for _ in range(RUNS):
            watched = WatchedNoise()
            run(kind, world, world.table, watched, Path(scratch) / "run")
            keys += watched.keys
            drawn.append(watched.calls)
    if len(set(keys)) < len(keys) or any(len(key) < 16 for key in keys):
        yield "a run key comes again in another run, or is shorter than 16 bytes"
    for calls in zip(*drawn, strict=False):
        noise = [_noise_of(call) for call in calls]
        first = noise[0]
        same = first is not None and all(each is not None and np.array_equal(first, each) for each in noise)
        if same and _surprising(calls[0]):
            yield f"the noise of {calls[0].name} is the same in {RUNS} runs"
    single = Counter(
        int(noise.ravel()[0])
        for calls in drawn
        for call in calls
        if (noise := _noise_of(call)) is not None and noise.size == 1 and call.scale >= WIDE
    )
    yield from (f"{count} questions got the same noise" for _, count in single.most_common(1) if count > 2)


def _noise_of(call: Call) -> np.ndarray | None:
    return call.answer - call.exact if isinstance(call.answer, np.ndarray) else None


def _surprising(call: Call) -> bool:
    """Whether the same noise in all runs has a probability below 1e-9."""
    return call.exact.size * (RUNS - 1) * math.log(max(call.scale, 1.0)) > math.log(1e9)
