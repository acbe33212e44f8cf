"""What a release is good for, in four grades, from public and published numbers alone.

Each kind has two sources of the same verdict: `Prepared.verdict` before the run, from the expected error, and
`verdict` in its `published.py` after it, from the published files. Neither sees raw data, so the verdict is
published with the release and costs nothing. Advice is computed: the expected error is evaluated again with
each change, and the two changes that help most are listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.privacy.accounting import NANO, Budget

GOOD, USABLE, ROUGH, NOISE = GRADES = ("good", "usable", "rough", "mostly noise")
MOST_ADVICE = 2
MOST_EPSILON = 8.0  # advice names no larger one
EPSILONS = (2, 4)  # factors of epsilon that are tried
PER_MEAN = math.sqrt(2 / math.pi)  # mean size of a normal deviate, in deviations
Z95 = 1.959964
HELPS = 0.95  # advice lowers the error to at most this share of it


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A grade with one sentence, the changes that help most, and the figures behind them."""

    grade: str | None  # of GRADES; None: it depends on a size that was not declared
    summary: str
    advice: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """As manifests, dry runs and programs have it."""
        return {
            "grade": self.grade,
            "summary": self.summary,
            "advice": list(self.advice),
            "figures": {name: float(f"{value:.3g}") for name, value in self.figures.items()},
        }


Limits = tuple[float, float, float]  # the largest errors of the first three grades


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of the plan and the error that is expected with it."""

    lever: str  # changes of one lever exclude each other
    what: str
    error: float


def graded(error: float, limits: Limits) -> str:
    """The grade of an error: good up to the first limit, usable up to the second, rough up to the third.

    >>> graded(0.3, (0.2, 0.4, 1.0)), graded(7.0, (0.2, 0.4, 1.0))
    ('usable', 'mostly noise')
    """
    return GRADES[sum(error > limit for limit in limits)]


def advised(changes: Iterable[Change], error: float, limits: Limits) -> tuple[str, ...]:
    """The changes that help most, at most one per lever: the smallest that makes a release usable, or good.

    A good release needs none.

    >>> ways = [Change(lever="slots", what="slots of 2 hours", error=0.5)]
    >>> ways += [Change(lever="slots", what="slots of 6 hours", error=0.3)]
    >>> ways += [Change(lever="epsilon", what="epsilon 2", error=0.7)]
    >>> for way in advised(ways, 0.9, (0.2, 0.4, 1.0)):
    ...     print(way)
    slots of 6 hours: expected error 30 % instead of 90 %
    epsilon 2: expected error 70 % instead of 90 %
    """
    if error <= limits[0]:
        return ()
    wanted = limits[0] if error <= limits[1] else limits[1]
    best: dict[str, Change] = {}
    for change in changes:
        known = best.get(change.lever)
        if change.error <= HELPS * error and (known is None or known.error > max(wanted, change.error)):
            best[change.lever] = change
    ordered = sorted(best.values(), key=lambda each: each.error)
    return tuple(
        f"{each.what}: expected error {percent(each.error)} instead of {percent(error)}"
        for each in ordered[:MOST_ADVICE]
    )


def unit_noise(guarantee: Mapping[str, Any], epsilon: float | None = None) -> float:
    """Deviation of the noise of a count in which a unit counts once; at another epsilon, if given."""
    delta = guarantee["delta"]
    budget = Budget.of(epsilon or guarantee["epsilon"], delta or None)
    left = budget.left / NANO
    return math.sqrt(2) / left if budget.pure else 1 / math.sqrt(2 * left)


def with_epsilons(guarantee: Mapping[str, Any], error: Callable[[float], float]) -> list[Change]:
    """Larger values of epsilon, with the error as a function of the noise of a count."""
    return [
        Change(lever="epsilon", what=f"epsilon {each:g}", error=error(unit_noise(guarantee, each)))
        for factor in EPSILONS
        if (each := guarantee["epsilon"] * factor) <= MOST_EPSILON
    ]


def judged(
    error: float, limits: Limits, summary: str, changes: Iterable[Change] = (), **figures: float
) -> Verdict:
    """The verdict on an error; `summary` has a place for it."""
    return Verdict(
        grade=graded(error, limits),
        summary=summary.format(error=percent(error)),
        advice=advised(changes, error, limits),
        figures={"error_share": error, **figures},
    )


def percent(share: float) -> str:
    """A share as a whole percentage; below 3 % with one decimal, far above all of it as a factor.

    >>> percent(0.0123), percent(0.4), percent(12.0)
    ('1.2 %', '40 %', '12 times the mean')
    """
    if share >= 10:
        return f"{share:,.0f} times the mean"
    return f"{share:.1%}".replace("%", " %") if share < 0.03 else f"{share:.0%}".replace("%", " %")


def from_size(unit: str, flag: str, error: Callable[[float], float], limits: Limits) -> Verdict:
    """The verdict before a run where the size of the population was not declared."""
    usable, noise = (least_size(error, limit) for limit in limits[1:])
    return Verdict(
        grade=None,
        summary=f"Usable from about {usable:,.0f} {unit} on, mostly noise below about {noise:,.0f}."
        + (f" Declare their number with {flag} N." if flag else ""),
    )


def least_size(error: Callable[[float], float], limit: float) -> float:
    """Size from which the error, which falls with it, is at most `limit`; two digits.

    >>> least_size(lambda size: 100 / size, 0.3)
    340.0
    """
    low, high = 1.0, 1e12
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error(middle) <= limit else (middle, high)
    step = 10.0 ** (math.floor(math.log10(high)) - 1)
    return math.ceil(high / step - 0.01) * step
