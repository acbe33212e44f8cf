"""The error to expect of each density method, and the grade of a density: from the expected error before the
run, from the intervals of the published counts after it.

noise     exact, where a method's noise has a formula: of one count, before post-processing
error     against the true counts, for a declared number of users: an approximation,

              error / mean count = sqrt(model^2 + people^2 / mean count + (gain * noise ^ power)^2)

          with noise the deviation of plain noise over the mean count. Where the noise has a formula, the last
          term also stays below the exact noise, which it nears where counts are large: post-processing takes
          noise off counts near zero. The four constants of each method were fitted on simulated cities by
          benchmarks/expected_error.py, which writes them and notes how far off the fit is. `shoal density
          compare` measures instead.

The correlation of published and true counts follows from the published numbers. Shrunk counts vary less
than the true ones, by the mean variance that their intervals state; counts with plain noise, cut at zero, fit
the same formula. Fourier components that are not shrunk vary more than the true counts: of the squared
correlation UNSHRUNK is their noise. Below CORRELATION_OF_NOISE a release is mostly noise.
docs/methods.md says how often that was right.

Advice scales the error by the ratio of two expected errors, with and without the change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.kinds.density.plan import METHODS, DensityPlan, Method
from shoal.kinds.describe import Table
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
from shoal.mechanisms.density.counts import NoiseOfCount
from shoal.privacy.accounting import NANO, Budget
from shoal.space.clock import Clock
from shoal.space.geography import Setting
from shoal.stages.noisy import DensityEstimate

if TYPE_CHECKING:
    from shoal.kinds.density.prepare import PreparedDensity
    from shoal.postprocess.density.sums import Covariance
    from shoal.release.manifest import Manifest


LIMITS = (0.2, 0.45, 1.2)  # of the mean error over the mean count
CORRELATION_OF_NOISE = 0.25  # from intervals, which contain the error of the total
CORRELATION_WITHOUT_TOTAL = 0.33
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


def published_verdict(
    estimate: DensityEstimate, manifest: Manifest, covariance: Covariance | None = None
) -> Verdict:
    """From the published counts with their intervals, or the covariance, which leaves the total apart."""
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
    known = covariance if case.method == "best" else None
    error, correlation = error_of(estimate, known), correlation_of(estimate, case.method, known)
    if case.method in FITS and case.method != "best":  # plain intervals also cover what was cut off at zero
        error = min(error, case.error())
    grade = graded(error, LIMITS)
    if correlation < (CORRELATION_OF_NOISE if known is None else CORRELATION_WITHOUT_TOTAL):
        grade = NOISE
    elif correlation < CORRELATION_OF_ROUGH or grade == NOISE:
        grade = ROUGH
    return _verdict(grade, error, case, correlation=correlation)


def error_of(estimate: DensityEstimate, covariance: Covariance | None = None) -> float:
    """Mean error that the intervals or the covariance imply, over the mean count."""
    mean = max(float(estimate.people.mean()), SMALLEST_MEAN)
    if covariance is None:
        return PER_MEAN * float((estimate.high - estimate.low).mean()) / 2 / Z95 / mean
    own = float(np.sqrt(covariance.variances(estimate.people)).mean()) / mean
    low, high = covariance.total
    return PER_MEAN * math.hypot(own, min((high - low) / 2 / Z95, 1.0))


def correlation_of(estimate: DensityEstimate, method: str, covariance: Covariance | None = None) -> float:
    """Correlation of published and true counts over all zones and slots that the intervals imply.

    An error of the total moves all counts alike and does not lower it.
    """
    if covariance is None:
        doubt = float(np.square((estimate.high - estimate.people) / Z95).mean())
    else:
        doubt = float(covariance.variances(estimate.people).mean())
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


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """Expected distances of released from bounded counts before post-processing, in people."""

    mean_absolute: float  # of one zone and slot
    half_interval: float  # 95 %
    city_slot: float  # standard deviation of a slot's total over all zones


@dataclass(frozen=True, kw_only=True)
class ExpectedMethod:
    """One line of the dry run's list."""

    method: str
    words: str
    pure: bool
    noise_people: float | None  # exact: mean size of the noise in a count; None: no formula
    error_people: float | None  # approximate, against the true counts; None: not declared, or not measured
    error_share: float | None  # of the mean count
    off_by: float | None  # the fit was within this factor on the simulated cities


def expected_error(noise: NoiseOfCount, zones: int) -> ExpectedError:
    """Mean absolute noise: Gaussian E|z| = sigma sqrt(2 / pi), Laplace E|z| = b."""
    sigma = noise.deviation
    if noise.family == "gaussian":
        mean, half = sigma * math.sqrt(2 / math.pi), Z95 * sigma
    else:
        mean, half = sigma / math.sqrt(2), sigma / math.sqrt(2) * math.log(20)
    return ExpectedError(mean_absolute=mean, half_interval=half, city_slot=sigma * math.sqrt(zones))


def mean_count(users: int, setting: Setting, per_week: float | None = None) -> float:
    """Visits per zone and slot, by default if people are observed as often as in the simulated cities."""
    return visits_in(users, setting.clock, per_week) / (setting.zones * setting.slots)


def visits_in(users: int, clock: Clock, per_week: float | None = None) -> float:
    """Visits in the window of a clock."""
    return users * (per_week or VISITS_PER_WEEK) * float(clock.minutes.sum()) / (7 * 1440)


def expected_methods(plan: DensityPlan, setting: Setting) -> list[ExpectedMethod]:
    """Every method that can be released, at the plan's price."""
    return [_expected(method, plan, setting) for method in METHODS.values()]


def _expected(method: Method, plan: DensityPlan, setting: Setting) -> ExpectedMethod:
    budget, options = plan.budget(method), plan.options()
    noise = getattr(method.build(budget, setting, options), "noise_of_count", None)
    exact = None if noise is None else expected_error(noise, setting.zones).mean_absolute
    fit = FITS.get(method.name)
    share = people = None
    if options.users is not None and fit is not None:
        mean = mean_count(options.users, setting, plan.visits_per_user)
        plain = plain_deviation(noise, budget, min(options.ell, setting.slots))
        share = relative_error(fit, mean, plain / mean, None if exact is None else exact / mean)
        people = share * mean
    return ExpectedMethod(
        method=method.name,
        words=method.summary,
        pure=method.pure,
        noise_people=exact,
        error_people=people,
        error_share=share,
        off_by=None if share is None or fit is None else fit.off_by,
    )


def mean_share(fit: Fit, budget: Budget, touched: int, mean: float) -> float:
    """Mean error over mean count of a method with the noise of plain counts at its price.

    `touched` is the number of slots in which a user has a visit at most.
    """
    return relative_error(fit, mean, plain_deviation(None, budget, touched) / mean)


def plain_deviation(noise: NoiseOfCount | None, budget: Budget, touched: int) -> float:
    """The method's own noise where it has a formula, else that of plain counts at its price, in people."""
    if noise is not None:
        return noise.deviation
    if budget.pure:
        return math.sqrt(2) * touched / (budget.left / NANO)
    return math.sqrt(touched / (2 * budget.left / NANO))


def relative_error(fit: Fit, mean: float, noise: float, exact: float | None = None) -> float:
    """Mean error over mean count; `exact` is the mean size of the noise over it, where that is known.

    >>> round(relative_error(Fit(model=0.3, people=0.4, gain=1.0, power=0.5, off_by=1.2), 4.0, 0.04), 3)
    0.412
    """
    drawn = fit.gain * noise**fit.power
    if exact is not None:
        drawn = 1 / math.hypot(1 / drawn, 1 / exact)
    return math.sqrt(fit.model**2 + fit.people**2 / mean + drawn**2)


def methods_table(plan: DensityPlan, setting: Setting, methods: list[dict[str, Any]]) -> Table:
    """A line per method that can be released, best first where errors are known, the chosen one marked."""
    users = plan.users
    if users is not None:
        methods = sorted(methods, key=lambda each: (each["error_share"] is None, each["error_share"] or 0.0))
    rows = []
    for each in methods:
        figures = [_people(each["noise_people"])]
        if users is not None:
            share = each["error_share"]
            figures += [_people(each["error_people"]), "-" if share is None else f"{share:,.0%}"]
        mark = ">" if each["method"] == plan.method else ""
        rows.append((mark, each["method"], *figures, each["words"]))
    return Table(
        title="Methods at this epsilon" + ("" if users is None else f", for {users:,} users, as declared"),
        header=("", "method", "noise", *(() if users is None else ("error", "of mean")), ""),
        rows=rows,
        right=(2, 3, 4) if users is not None else (2,),
        marks={[each["method"] for each in methods].index(plan.method): "bold"},
        below=_assumed(plan, setting, methods),
    )


def _people(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _assumed(plan: DensityPlan, setting: Setting, methods: list[dict[str, Any]]) -> str:
    users, declared = plan.users, plan.visits_per_user
    noise = (
        "noise: exact, people per zone and slot, before post-processing; a method without a figure has no "
        "formula for it. "
    )
    if users is None:
        return noise + "--users N (an order of magnitude) adds the error to expect against the true counts."
    off = {each["method"]: each["off_by"] for each in methods if each["off_by"]} or {plan.method: 1.0}
    chosen = f"{off[plan.method]:.2g} with {plan.method}, and " if plan.method in off else ""
    visits = (
        f"{declared:g} visits per user and week, as declared"
        if declared
        else f"{VISITS_PER_WEEK:g} visits per user and week (the mean that was counted in those cities; "
        "`compare` shows the number its city is set to; --visits-per-user declares another)"
    )
    return noise + (
        "error: mean over zones and slots, after post-processing, against the true counts; approximate, "
        "fitted on simulated cities at ell 30 (nine of ten "
        f"there lie within a factor of {chosen}{min(off.values()):.2g} to {max(off.values()):.2g} over the "
        f"methods). Assumed: {visits}, "
        f"so {mean_count(users, setting, declared):,.3g} people per zone and slot on average. `shoal "
        "density compare` measures it on a simulated city on your zones. Pure methods are paid "
        "from the pure budget, where the population has one."
    )


VISITS_PER_WEEK = 13.59  # per user, once per site and slot, as counted in the simulated cities


@dataclass(frozen=True, kw_only=True)
class Fit:
    """See the top of this file; nine of ten simulated points lie within a factor `off_by` of it."""

    model: float
    people: float
    gain: float
    power: float
    off_by: float


FITS: dict[str, Fit] = {
    "best": Fit(model=0.000123, people=0.573, gain=0.0834, power=0.453, off_by=1.26),
    "efpag": Fit(model=0.132, people=0.607, gain=0.104, power=0.553, off_by=1.18),
    "efpag-basic": Fit(model=0.444, people=0.469, gain=0.137, power=0.467, off_by=1.05),
    "efpag-repaired": Fit(model=0.0944, people=0.567, gain=0.165, power=0.526, off_by=1.17),
    "efpa": Fit(model=0.204, people=0.64, gain=0.0718, power=0.499, off_by=1.15),
    "gaussian": Fit(model=0.0276, people=1.42, gain=1.06, power=0.213, off_by=1.38),
    "laplace": Fit(model=0.000123, people=1.83, gain=0.924, power=0.275, off_by=1.48),
    "fpa": Fit(model=0.134, people=1.2, gain=1.21, power=0.187, off_by=1.31),
    "fpa-laplace": Fit(model=0.245, people=1.93, gain=0.766, power=0.318, off_by=1.67),
    "scm-cap": Fit(model=0.0808, people=1.58, gain=0.956, power=0.27, off_by=1.46),
    "scm-full": Fit(model=1.72, people=0.000123, gain=0.000445, power=1.05, off_by=54.28),
}
