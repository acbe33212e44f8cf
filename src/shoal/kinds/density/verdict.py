"""The grade of a density: expected error before the run, intervals of the published counts after it.

The correlation of published and true counts follows from the published numbers. Shrunk counts vary less
than the true ones, by the mean variance that their intervals state; counts with plain noise, cut at zero, fit
the same formula. Fourier components that are not shrunk vary more than the true counts: of the squared
correlation UNSHRUNK is their noise. Below CORRELATION_OF_NOISE a release is mostly noise.
benchmarks/verdict.py counts how often that is right, on cities that were not used to set the limits.

Advice scales the error by the ratio of two expected errors, with and without the change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shoal.kinds.density.expected import FITS, mean_share, visits_in
from shoal.kinds.verdict import (
    EPSILONS,
    MOST_EPSILON,
    NOISE,
    PER_MEAN,
    ROUGH,
    Z95,
    Change,
    Verdict,
    advised,
    from_size,
    graded,
    percent,
)
from shoal.privacy.accounting import Budget
from shoal.stages.noisy import DensityEstimate

if TYPE_CHECKING:
    from shoal.kinds.density.prepare import PreparedDensity
    from shoal.release.manifest import Manifest

LIMITS = (0.2, 0.45, 1.2)  # of the mean error over the mean count
CORRELATION_OF_NOISE = 0.25
CORRELATION_OF_ROUGH = 0.7
SHRUNK = ("best", "gaussian", "laplace")  # or plain counts
UNSHRUNK = 0.2
SMALLEST_MEAN = 1e-3  # people: of a release of nobody
LONGER = (120, 180, 240, 360, 480, 720, 1440)  # minutes of the slots that advice tries
FEWER = (2, 4, 10, 20)  # factors of the number of zones
USUAL_ELL = 30  # where the method keeps no sample

OFF = "A count of a single zone and slot is off by about {error} of the mean count"
SUMMARY = {
    "good": f"{OFF}.",
    "usable": f"{OFF}; sums over zones or slots are closer.",
    "rough": f"{OFF}: read sums over many zones or slots, and no single count.",
    "mostly noise": "Differences between single zones and slots are mostly noise: use totals over many of "
    "them, if anything.",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """The public numbers that the expected error depends on."""

    method: str
    epsilon: float
    delta: float
    ell: int
    zones: int
    slots: int
    slot_minutes: int
    visits: float  # in the window

    def error(self) -> float:
        """Expected mean error over the mean count."""
        budget = Budget.of(self.epsilon, self.delta or None)
        mean = max(self.visits, 1.0) / (self.zones * self.slots)
        return mean_share(FITS[self.method], budget, min(self.ell, self.slots), mean)


def expected_verdict(prepared: PreparedDensity) -> Verdict:
    """From the declared number of users; without one, the numbers of users from which grades hold."""
    plan, setting = prepared.plan, prepared.setting
    if plan.method not in FITS:
        return Verdict(grade=None, summary="The error of this method was not measured.")
    clock = setting.clock
    case = Case(
        method=plan.method,
        epsilon=prepared.guarantee.epsilon,
        delta=prepared.guarantee.delta or 0.0,
        ell=plan.ell,
        zones=setting.zones,
        slots=setting.slots,
        slot_minutes=clock.slot_minutes,
        visits=visits_in(plan.users or 1, clock, plan.visits_per_user),
    )
    if plan.users is not None:
        error = case.error()
        return _verdict(graded(error, LIMITS), error, case)
    return from_size(
        "users", "--users", lambda users: replace(case, visits=case.visits * users).error(), LIMITS
    )


def published_verdict(estimate: DensityEstimate, manifest: Manifest) -> Verdict:
    """From the published counts and their intervals."""
    public = manifest.public
    case = Case(
        method=public["method"],
        epsilon=manifest.guarantee["epsilon"],
        delta=manifest.guarantee["delta"],
        ell=public.get("ell", USUAL_ELL),
        zones=public["zones"]["count"],
        slots=public["slots"],
        slot_minutes=public["slot_minutes"],
        visits=float(estimate.people.sum()),
    )
    error, correlation = error_of(estimate), correlation_of(estimate, public["method"])
    if case.method in FITS and case.method != "best":  # plain intervals also cover what was cut off at zero
        error = min(error, case.error())
    grade = graded(error, LIMITS)
    if correlation < CORRELATION_OF_NOISE:
        grade = NOISE
    elif correlation < CORRELATION_OF_ROUGH or grade == NOISE:
        grade = ROUGH
    return _verdict(grade, error, case, correlation=correlation)


def error_of(estimate: DensityEstimate) -> float:
    """Mean error that the intervals imply, over the mean count."""
    half = float((estimate.high - estimate.low).mean()) / 2
    return PER_MEAN * half / Z95 / max(float(estimate.people.mean()), SMALLEST_MEAN)


def correlation_of(estimate: DensityEstimate, method: str) -> float:
    """Correlation of published and true counts over all zones and slots that the intervals imply."""
    doubt = float(np.square((estimate.high - estimate.people) / Z95).mean())
    varies = float(estimate.people.var())
    explained = varies / (varies + doubt) if varies > 0 else 0.0
    if method not in SHRUNK:
        explained = max(explained - UNSHRUNK, 0.0) / (1 - UNSHRUNK)
    return math.sqrt(explained)


def _verdict(grade: str, error: float, case: Case, **figures: float) -> Verdict:
    changes: list[Change] = []
    if case.method in FITS:
        now = case.error()
        changes = [
            Change(lever=lever, what=what, error=error * other.error() / now)
            for lever, what, other in _changed(case)
        ]
    return Verdict(
        grade=grade,
        summary=SUMMARY[grade].format(error=percent(error)),
        advice=advised(changes, error, LIMITS),
        figures={"error_share": error, **figures},
    )


def _changed(case: Case) -> Iterator[tuple[str, str, Case]]:
    """Cases that differ in one setting: its name, what it would be, the case."""
    for minutes in LONGER:
        slots = case.slots * case.slot_minutes // minutes
        if minutes > case.slot_minutes and slots:
            what = "slots of a day" if minutes == 1440 else f"slots of {minutes // 60} hours"
            yield "slots", what, replace(case, slots=slots, slot_minutes=minutes)
    for factor in FEWER:
        zones = case.zones // factor
        if zones >= 2:
            what = f"about {zones:,} larger zones instead of {case.zones:,}"
            yield "zones", what, replace(case, zones=zones)
    for factor in EPSILONS:
        epsilon = factor * case.epsilon
        if epsilon > MOST_EPSILON:
            break
        yield "epsilon", f"epsilon {epsilon:g}", replace(case, epsilon=epsilon)
    if case.method != "best" and case.delta:
        yield "method", "the method best", replace(case, method="best")
