"""The error to expect of each density method, from public parameters alone.

noise     exact, where a method's noise has a formula: of one count, before post-processing
error     against the true counts, for a declared number of users: an approximation,

              error / mean count = sqrt(model^2 + people^2 / mean count + (gain * noise ^ power)^2)

          with noise the deviation of plain noise over the mean count. Where the noise has a formula, the last
          term also stays below the exact noise, which it nears where counts are large: post-processing takes
          noise off counts near zero. The four constants of each method were fitted on simulated cities by
          benchmarks/expected_error.py, which also notes how far off the fit is. `shoal density compare`
          measures instead.

Constants of the expected errors, written by benchmarks/expected_error.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from shoal.kinds.density.plan import METHODS, DensityPlan, Method
from shoal.kinds.describe import Table
from shoal.mechanisms.density.counts import NoiseOfCount
from shoal.privacy.accounting import NANO, Budget
from shoal.space.clock import Clock
from shoal.space.geography import Setting

Z95 = 1.959964


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
    off = [each["off_by"] for each in methods if each["off_by"]] or [1.0]
    visits = (
        f"{declared:g} visits per user and week, as declared"
        if declared
        else f"{VISITS_PER_WEEK:g} visits per user and week (the mean that was counted in those cities; "
        "`compare` shows the number its city is set to; --visits-per-user declares another)"
    )
    return noise + (
        "error: mean over zones and slots, after post-processing, against the true counts; approximate, "
        "fitted on simulated cities at ell 30 (nine of ten "
        f"there lie within a factor of {min(off):.2g} to {max(off):.2g}, by method). Assumed: {visits}, "
        f"so {mean_count(users, setting, declared):,.3g} people per zone and slot on average. `shoal "
        "density compare` measures it on a simulated city on your zones. Pure methods cost a larger "
        "rho at the same epsilon."
    )


VISITS_PER_WEEK = 13.59  # per user, once per site and slot, as counted in the simulated cities


@dataclass(frozen=True, kw_only=True)
class Fit:
    """See kinds/density/expected.py; nine of ten simulated points lie within a factor `off_by` of it."""

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
