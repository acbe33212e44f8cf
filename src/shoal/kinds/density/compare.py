"""Several density methods on the same counts: utility against epsilon.

Events are counted once per bound and used for all methods, epsilons and repetitions. Nothing here is a
release: on a simulated city nothing private is touched; on private data the page is the owner's alone, and a
choice made by it is not covered by any promise.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import gcd, isfinite
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.kinds.counting import Counting
from shoal.kinds.density.method import Method, MethodOptions
from shoal.kinds.density.methods import METHODS, any_method
from shoal.kinds.density.stage import stage_for
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.kinds.progress import Progress, Silent
from shoal.metrics.density import BoxFigures, density_utility
from shoal.metrics.emd import MAX_ZONES, emd_m
from shoal.postprocess.rounding import round_density
from shoal.privacy.accounting import check_delta, check_epsilon
from shoal.privacy.budget import Budget
from shoal.privacy.guarantee import bound_sentence
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate

SHOWN_FIRST = ("best", "efpag", "gaussian", "laplace")
EMD_SLOTS = 12  # slots whose map distance is computed in each run: exact, and slow on many zones


@dataclass(frozen=True, kw_only=True)
class ComparePlan:
    """What is compared; `options` as they would be released with."""

    methods: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0)
    delta: float = DEFAULT_DELTA
    repetitions: int = 3
    seed: int | None = None  # None: noise of the operating system
    options: MethodOptions = field(default_factory=MethodOptions)
    emd_slots: int = EMD_SLOTS

    def __post_init__(self) -> None:
        named = tuple(dict.fromkeys(self.methods)) or tuple(m for m in SHOWN_FIRST if m in METHODS)
        object.__setattr__(self, "methods", named)
        for name in self.methods:
            any_method(name)
        if not self.epsilons:
            raise PlanError("compare-epsilon", "a comparison needs at least one epsilon.", "Pass 0.1,0.3,1.")
        object.__setattr__(self, "epsilons", tuple(sorted({check_epsilon(e) for e in self.epsilons})))
        check_delta(self.delta)
        if not 1 <= self.repetitions <= 1000:
            raise PlanError(
                "compare-repetitions",
                f"repetitions must be from 1 to 1000; got {self.repetitions}.",
                "Pass --repetitions 3, say.",
            )


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One method at one epsilon, once. `set_at` shaped the noise; `epsilon` is None where it has none."""

    method: str
    set_at: float
    epsilon: float | None
    delta: float | None
    repetition: int
    mre: float | None
    pc: float | None
    emd_m: float | None
    bias: float | None  # of the total, as a share of it
    mae: float | None  # people per zone and slot
    coverage: float | None  # of the 95 % intervals
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All runs, what each method truly promises, and series and boxes of the middle epsilon for the page."""

    runs: tuple[ComparedRun, ...]
    guarantees: dict[str, str]
    exact: np.ndarray = field(repr=False)
    shown: dict[str, np.ndarray] = field(repr=False)  # people of the first repetition at `shown_epsilon`
    shown_epsilon: float
    boxes: tuple[tuple[str, float, BoxFigures, BoxFigures], ...] = field(repr=False)


def compare(counting: Counting, plan: ComparePlan, progress: Progress | None = None) -> Comparison:
    """Every method at every epsilon, `repetitions` times, against the raw counts."""
    tell = progress or Silent()
    setting = counting.setting
    counting.bounded(plan.options.ell, plan.options.cap)  # what most methods take: one pass gives both
    exact = counting.people()
    middle = plan.epsilons[len(plan.epsilons) // 2]
    runs: list[ComparedRun] = []
    shown: dict[str, np.ndarray] = {}
    boxes = []
    guarantees = {}
    for name in plan.methods:
        method = any_method(name)
        tell.stage(f"compare {name}", len(plan.epsilons) * plan.repetitions)
        for epsilon in plan.epsilons:
            for repetition, mechanism, estimate, seconds in _runs(counting, plan, method, epsilon):
                run, utility = _measured(setting, plan, method, epsilon, exact, estimate)
                runs.append(replace(run, repetition=repetition, seconds=round(seconds, 3)))
                guarantees[name] = guarantee_words(method, mechanism, plan)
                if repetition == 1:
                    boxes.append((name, epsilon, utility.boxes["mre"], utility.boxes["pearson"]))
                    if epsilon == middle:
                        shown[name] = estimate.people
                tell.advance(1)
    return Comparison(
        runs=tuple(runs),
        guarantees=guarantees,
        exact=exact,
        shown=shown,
        shown_epsilon=middle,
        boxes=tuple(boxes),
    )


def _runs(
    counting: Counting, plan: ComparePlan, method: Method, epsilon: float
) -> Iterator[tuple[int, Any, DensityEstimate, float]]:
    setting, options = counting.setting, plan.options
    mechanism = method.build(Budget.of(epsilon, None if method.pure else plan.delta), setting, options)
    stage = stage_for(mechanism, counting, setting, options)
    for repetition in range(1, plan.repetitions + 1):
        noise = _noise(plan.seed, method.name, epsilon, repetition)
        start = time.perf_counter()
        estimate = method.finish(mechanism(stage, noise), setting, options)
        yield repetition, mechanism, round_density(estimate, options.decimals), time.perf_counter() - start


def _noise(seed: int | None, *run: object) -> Noise:
    """A stream of its own for each run, so that a figure does not depend on what else was compared."""
    if seed is None:
        return OsNoise()
    digest = hashlib.sha256(repr((seed, *run)).encode()).digest()
    return SeededNoise(int.from_bytes(digest[:8], "little"))


def _measured(setting: Setting, plan: ComparePlan, method: Method, epsilon: float, exact, estimate):
    utility = density_utility(exact, estimate.people, estimate.low, estimate.high)
    distances = _emd(setting, plan.emd_slots, exact, estimate.people)
    released = method.kind == "release"
    return ComparedRun(
        method=method.name,
        set_at=epsilon,
        epsilon=epsilon if released else None,
        delta=plan.delta if released and not method.pure else None,
        repetition=0,
        mre=_plain(utility.mean_relative_error),
        pc=_plain(utility.pearson),
        emd_m=_plain(distances),
        bias=_plain(utility.total_bias_share),
        mae=_plain(utility.mean_absolute_error),
        coverage=utility.coverage if _has_intervals(estimate, plan.options.decimals) else None,
        seconds=0.0,
    ), utility


def _emd(setting: Setting, most: int, exact: np.ndarray, people: np.ndarray) -> float:
    """Mean over some slots, no hour of the day favoured."""
    if most < 1 or setting.zones > MAX_ZONES:
        return float("nan")
    step = max(1, setting.slots // most)
    while gcd(step, 24) > 1:
        step += 1
    found = emd_m(exact, people, setting.zone_xy_m, np.arange(0, setting.slots, step))
    return float(np.nanmean(found)) if np.isfinite(found).any() else float("nan")


def _has_intervals(estimate: DensityEstimate, decimals: int) -> bool:
    """Whether any interval is wider than rounding makes it; some comparators come without."""
    return bool((estimate.high > estimate.low + 2 / 10**decimals).any())


def guarantee_words(method: Method, mechanism: Any, plan: ComparePlan) -> str:
    """One line of what a method truly promises, for any of the epsilons it was run at."""
    if method.kind != "release":
        return mechanism.true_guarantee()
    delta = 0.0 if method.pure else plan.delta
    return bound_sentence("e^epsilon", delta, "user")


def _plain(value: float) -> float | None:
    """JSON has no word for a figure that does not exist."""
    return float(value) if isfinite(value) else None
