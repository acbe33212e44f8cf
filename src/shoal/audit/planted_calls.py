"""Planted bugs that any mechanism may have: it asks its noise wrongly, or not at all.

Each is a noise put between the mechanism and the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.audit.bugs import Bug, method_bug, noise_bug
from shoal.audit.pipeline import Pipeline
from shoal.errors import PlanError
from shoal.mechanisms.audit_size import AuditSize
from shoal.privacy.above import first_above
from shoal.privacy.noise import Noise

VISIT = AuditSize().lattice


class Between:
    """Passes everything on; a bug overrides `add`, `pick` or `test`. With `only`, other names pass."""

    publishable = False

    def __init__(self, inner: Noise, only: str | None = None) -> None:
        self.inner, self.only = inner, only

    def run_key(self) -> bytes:
        return self.inner.run_key()

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return self._turn(self.inner.laplace, name, exact, scale)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return self._turn(self.inner.gaussian, name, exact, sigma)

    def choose(self, name: str, scores: np.ndarray, scale: float) -> int:
        if self.only not in (None, name):
            return self.inner.choose(name, scores, scale)
        return self.pick(name, scores, scale)

    def first_above(self, name: str, margins: np.ndarray, scale: float) -> int:
        if self.only not in (None, name):
            return first_above(self.inner, name, margins, scale)
        return self.test(name, margins, scale)

    def _turn(self, draw: Callable, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        if self.only not in (None, name):
            return draw(name, exact, scale)
        return self.add(lambda e, s: draw(name, e, s), exact, scale)

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return draw(exact, scale)

    def pick(self, name: str, scores: np.ndarray, scale: float) -> int:
        return self.inner.choose(name, scores, scale)

    def test(self, name: str, margins: np.ndarray, scale: float) -> int:
        return first_above(self.inner, name, margins, scale)


class Scaled(Between):
    """Asks for a part of the scale: the mechanism asks wrongly, the sampler is right."""

    def __init__(self, inner: Noise, part: float, only: str | None = None) -> None:
        super().__init__(inner, only)
        self.part = part

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return draw(exact, scale * self.part)

    def pick(self, name: str, scores: np.ndarray, scale: float) -> int:
        return self.inner.choose(name, scores, scale * self.part)

    def test(self, name: str, margins: np.ndarray, scale: float) -> int:
        return first_above(self.inner, name, margins, scale * self.part)


class Bare(Between):
    """Returns the exact answer."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return exact

    def pick(self, name: str, scores: np.ndarray, scale: float) -> int:
        return int(np.argmax(scores))

    def test(self, name: str, margins: np.ndarray, scale: float) -> int:
        return int(np.argmax(np.append(margins, 0) >= 0))


class FloatNoise(Between):
    """Draws floating-point noise itself."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return exact + np.random.default_rng(1).normal(0.0, scale, exact.shape)


class ReusedNoise(Between):
    """One draw for all values of a query."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        noisy = draw(exact, scale)
        return exact + (noisy - exact).ravel()[:1] if exact.size else noisy


class OnlyVisited(Between):
    """Asks for noise at values above zero only."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        noisy, visited = exact.copy(), exact != 0
        noisy[visited] = draw(exact[visited], scale)
        return noisy


class ZeroWhereEmpty(Between):
    """Asks for all noise, and takes it back where nobody is."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return np.where(exact == 0, 0, draw(exact, scale))


class Twice(Between):
    """The mean of two answers, charged once."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return (draw(exact, scale) + draw(exact, scale)) // 2

    def test(self, name: str, margins: np.ndarray, scale: float) -> int:
        return min(first_above(self.inner, name, margins, scale) for _ in range(2))


class ScaleFromCounts(Between):
    """Noise in proportion to the largest value: the scale itself tells it."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return draw(exact, scale * (1.0 + float(np.abs(exact).max(initial=0))))


class ThinWhenBig(Between):
    """Half the noise where a value is above 50 visits."""

    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        return draw(exact, scale / 2 if float(np.abs(exact).max(initial=0)) > 50 * VISIT else scale)


class RefusesEmpty(Between):
    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        if not exact.any():
            raise PlanError("empty", "there are no visits.")
        return draw(exact, scale)


class TellsCount(Between):
    def add(self, draw: Callable, exact: np.ndarray, scale: float) -> np.ndarray:
        raise PlanError("too-few", f"only {int(exact.sum())} of something.")


def call_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of every mechanism, whatever it asks for."""
    plain = {
        "noise scale x 0.8": lambda noise, _: Scaled(noise, 0.8),
        "half the noise": lambda noise, _: Scaled(noise, 0.5),
        "exact values behind the noise's back": lambda noise, _: Bare(noise),
        "float noise drawn outside the module": lambda noise, _: FloatNoise(noise),
        "one draw for all values": lambda noise, _: ReusedNoise(noise),
        "noise on visited cells only, by shape": lambda noise, _: OnlyVisited(noise),
        "empty cells get no noise": lambda noise, _: ZeroWhereEmpty(noise),
        "mean of two noisy answers, charged once": lambda noise, _: Twice(noise),
        "scale from the exact counts": lambda noise, _: ScaleFromCounts(noise),
        "half the noise above 50 visits": lambda noise, _: ThinWhenBig(noise),
    }
    raising = {
        "exception when nobody is there": lambda noise, _: RefusesEmpty(noise),
        "exception that tells a count": lambda noise, _: TellsCount(noise),
    }
    return [
        *(noise_bug(name, wrap) for name, wrap in plain.items()),
        *(noise_bug(name, wrap, raises=True) for name, wrap in raising.items()),
    ]


def spend_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of one spend among several: too little noise, charged twice, not charged."""
    names = [name for name, _ in true.spends()]
    if len(names) < 2:
        return []
    drawn = [name for name in names if name != "select"]
    return [
        *(_scaled(f"{name}: scale x 0.8", 0.8, name) for name in drawn),
        *(noise_bug(f"{name}: drawn twice", _between(Twice, name)) for name in drawn),
        *(noise_bug(f"{name}: no noise", _between(Bare, name)) for name in drawn if name != "users"),
        *(_uncharged(name) for name in names),
    ]


def ell_bugs(true: Pipeline) -> list[Bug]:
    """Charged for fewer visits than a user may have, where every visit costs."""
    ell = min(true.world.ell, true.world.slots)
    gaussian = true.mechanism.loss().pure_epsilon_nano is None
    part = math.sqrt((ell - 1) / ell) if gaussian else (ell - 1) / ell
    root = math.sqrt(math.sqrt(ell) / ell) if gaussian else math.sqrt(ell) / ell
    return [
        noise_bug("sensitivity for ell - 1 visits", lambda noise, _: Scaled(noise, part)),
        noise_bug("sqrt(ell) where ell is needed", lambda noise, _: Scaled(noise, root)),
    ]


def scaled_bugs(true: Pipeline) -> list[Bug]:
    """Numbers of visits noised for fewer of them than a user may have."""
    ell, cap = min(true.world.ell, true.world.slots), true.world.cap
    return [
        _scaled("K noised for M - 1 visits", (cap - 1) / cap, "visits"),
        _scaled("kept visits noised for ell - 1", (ell - 1) / ell, "kept"),
        _scaled("counts for ell - 1 visits", (ell - 1) / ell, "counts"),
    ]


def _scaled(name: str, part: float, only: str) -> Bug:
    return noise_bug(name, lambda noise, _: Scaled(noise, part, only))


def _between(kind: type[Between], only: str) -> Callable[[Noise, Any], Noise]:
    return lambda noise, _: kind(noise, only)


def _uncharged(name: str) -> Bug:
    def spends(self):
        kind: Any = super(type(self), self)
        return tuple((step, loss) for step, loss in kind.spends() if step != name)

    return method_bug(f"{name}: not charged", spends=spends)
