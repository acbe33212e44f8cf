"""Planted bugs in a density mechanism: the noise is too small, or is not where it should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


class ScaledCalls:
    """A noise that is asked for a part of the scale: the mechanism asks wrongly, the sampler is right."""

    publishable = False

    def __init__(self, inner: Noise, part: float) -> None:
        self._inner, self._part = inner, part

    def run_key(self) -> bytes:
        return self._inner.run_key()

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return self._inner.laplace(name, exact, scale * self._part)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return self._inner.gaussian(name, exact, sigma * self._part)

    def choose(self, name: str, scores: np.ndarray, scale: float) -> int:
        return self._inner.choose(name, scores, scale * self._part)


def mechanism_bugs(kind: type) -> list[tuple[str, type]]:
    """Name of the bug, and a subclass of the mechanism that has it."""
    calls = {
        "noise scale x 0.8": lambda true, exact, noise: true(exact, ScaledCalls(noise, 0.8)),
        "half the noise": lambda true, exact, noise: true(exact, ScaledCalls(noise, 0.5)),
        "noise reused for every slot": _reuse_noise,
        "float noise drawn outside the module": _float_noise,
        "low bits of the exact count in the output": _off_lattice,
        "empty cells get no noise": _skip_empty,
        "noise on visited cells only, by shape": _only_visited,
        "counts clipped at their median": _clip_at_median,
        "retry until nothing is negative": _retry,
        "mean of two noisy answers, charged once": _twice,
        "exception when a cell is empty": _refuse_empty,
        "exception that tells a count": _tell_count,
        "scale from the exact counts": _scale_from_counts,
        "half the noise above 50 visits": _thin_when_big,
    }
    visits_charged = {
        "sensitivity for ell - 1 visits": lambda visits: Fraction(max(visits - 1, 1)),
        "sqrt(ell) where ell is needed": lambda visits: Fraction(math.sqrt(visits)),
    }
    return [
        *((name, _other_call(kind, change)) for name, change in calls.items()),
        *((name, _other_sensitivity(kind, charged)) for name, charged in visits_charged.items()),
        ("a fifth of the noise asked for, and an honest claim", _honest_fifth(kind)),
    ]


def _other_call(kind: Any, change: Callable[..., NoisyCounts]) -> type:
    """The mechanism with another call; `change` gets the true call to start from."""

    def call(self, exact, noise):
        return change(lambda e, n: kind.__call__(self, e, n), exact, noise)

    return type(kind.__name__, (kind,), {"__call__": call})


def _other_sensitivity(kind: Any, charged: Callable[[int], Fraction]) -> type:
    """The mechanism with another idea of how many visits to charge: scale and claim both follow from it."""
    gaussian = hasattr(kind, "sensitivity_squared")
    bound, size = ("sensitivity_squared", "sigma") if gaussian else ("sensitivity", "scale")

    def sensitivity(self) -> Fraction:
        return charged(min(self.ell, self.slots)) * (self.column_l2_squared if gaussian else self.column_l1)

    def within(cls, amount_nano: int, **settings):
        true = kind.within(amount_nano, **settings)
        ratio = float(sensitivity(true) / getattr(true, bound))
        scale = getattr(true, size) * (math.sqrt(ratio) if gaussian else ratio)
        return cls(**{**asdict(true), size: math.nextafter(scale, math.inf)})

    return type(kind.__name__, (kind,), {bound: property(sensitivity), "within": classmethod(within)})


def _honest_fifth(kind: Any) -> type:
    """Built with too little noise, and says so in its loss(): more than was asked for."""

    def within(cls, amount_nano: int, **settings):
        true = asdict(kind.within(amount_nano, **settings))
        size = "sigma" if "sigma" in true else "scale"
        return cls(**{**true, size: true[size] / 5})

    return type(kind.__name__, (kind,), {"within": classmethod(within)})


def _reuse_noise(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    noisy = true(exact, noise)
    units = exact.units / exact.lattice
    drawn = noisy.values[:, :1] - units[:, :1]
    return replace(noisy, values=units + drawn)


def _float_noise(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    blank = true(exact, _Silent())
    normal = np.random.default_rng(1).normal(0.0, blank.scale, exact.units.shape)
    return replace(blank, values=exact.units / exact.lattice + normal)


class _Silent(ScaledCalls):
    """Returns the exact counts: what a mechanism releases when its noise is drawn elsewhere."""

    def __init__(self) -> None:
        pass

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return exact

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return exact


def _off_lattice(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    """Floats mixed into a right answer carry low bits of the exact count."""
    noisy = true(exact, noise)
    return replace(noisy, values=noisy.values + exact.units / exact.lattice * 2.0**-30 + 2.0**-31)


def _skip_empty(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    noisy = true(exact, noise)
    return replace(noisy, values=np.where(exact.units == 0, 0.0, noisy.values))


class _Masked(ScaledCalls):
    """Asks for noise at visited cells only."""

    def __init__(self, inner: Noise) -> None:
        self._inner = inner

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        noisy, visited = exact.copy(), exact != 0
        noisy[visited] = self._inner.laplace(name, exact[visited], scale)
        return noisy

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        noisy, visited = exact.copy(), exact != 0
        noisy[visited] = self._inner.gaussian(name, exact[visited], sigma)
        return noisy


def _only_visited(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    return true(exact, _Masked(noise))


def _clip_at_median(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    """One user may move the median, and with it half of the cells."""
    median = np.sort(exact.units, axis=None)[(exact.units.size - 1) // 2]
    return true(replace(exact, units=np.minimum(exact.units, median)), noise)


def _retry(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    for _ in range(20):
        noisy = true(exact, noise)
        if (noisy.values >= 0).all():
            break
    return noisy


def _twice(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    noisy, again = true(exact, noise), true(exact, noise)
    return replace(noisy, values=(noisy.values + again.values) / 2)


def _refuse_empty(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    if (exact.units.sum(axis=1) == 0).any():
        raise PlanError("empty-zone", "a zone has no visits.")
    return true(exact, noise)


def _tell_count(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    if exact.units.size > 1:
        raise PlanError("too-few", f"only {int(exact.units.sum()) // exact.lattice} visits.")
    return true(exact, noise)


def _scale_from_counts(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    """Noise in proportion to the busiest cell: the scale itself tells it."""
    busiest = max(1.0, exact.units.max(initial=0) / exact.lattice)
    return true(exact, ScaledCalls(noise, busiest))


def _thin_when_big(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    many = exact.units.sum() > 50 * exact.lattice
    return true(exact, ScaledCalls(noise, 0.5) if many else noise)
