"""Planted bugs that any mechanism may have: it asks its noise wrongly, or not at all.

Each is a noise put between the mechanism and the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.patches import Bug, method_bug, noise_bug
from shoal.auditing.replay import Answers, ask
from shoal.errors import PlanError
from shoal.mechanisms.audit_size import AuditSize
from shoal.privacy.noise import Noise

VISIT = AuditSize().lattice


Draw = Callable[[np.ndarray, float], Any]  # (exact, scale) -> the answer of the true noise
Change = Callable[[Draw, np.ndarray, float], Any]


def _passed(draw: Draw, exact: np.ndarray, scale: float) -> Any:
    return draw(exact, scale)


class Between(Answers):
    """Passes everything on but for what a bug changes: noise that is added, choices, tests.

    With `only`, other names pass.
    """

    def __init__(
        self,
        inner: Noise,
        only: str | Sequence[str] | None = None,
        *,
        add: Change = _passed,
        choose: Change = _passed,
        above: Change = _passed,
    ) -> None:
        self.inner, self.only = inner, (only,) if isinstance(only, str) else only
        self.changes = {"laplace": add, "gaussian": add, "choose": choose, "above": above}

    def run_key(self) -> bytes:
        return self.inner.run_key()

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        change = self.changes[kind] if self.only is None or name in self.only else _passed
        return change(lambda e, s: ask(self.inner, kind, name, e, s), exact, scale)


def scaled(noise: Noise, part: float, only: str | Sequence[str] | None = None) -> Noise:
    """Asks for a part of the scale: the mechanism asks wrongly, the sampler is right."""

    def change(draw: Draw, exact: np.ndarray, scale: float) -> Any:
        return draw(exact, scale * part)

    return Between(noise, only, add=change, choose=change, above=change)


def scaled_bug(name: str, part: float, only: str | Sequence[str] | None = None) -> Bug:
    return noise_bug(name, lambda noise: scaled(noise, part, only))


def bare(noise: Noise, only: str | None = None) -> Noise:
    """Returns the exact answer."""
    return Between(
        noise,
        only,
        add=lambda draw, exact, scale: exact,
        choose=lambda draw, scores, scale: int(np.argmax(scores)),
        above=lambda draw, margins, scale: int(np.argmax(np.append(margins, 0) >= 0)),
    )


def mean_of_two(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    return (draw(exact, scale) + draw(exact, scale)) // 2


def twice(noise: Noise, only: str | None = None) -> Noise:
    """The mean of two answers, charged once."""

    def first_of_two(draw: Draw, margins: np.ndarray, scale: float) -> int:
        return min(draw(margins, scale) for _ in range(2))

    return Between(noise, only, add=mean_of_two, above=first_of_two)


def _reused(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    noisy = draw(exact, scale)
    return exact + (noisy - exact).ravel()[:1] if exact.size else noisy


def _only_visited(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    noisy, visited = exact.copy(), exact != 0
    noisy[visited] = draw(exact[visited], scale)
    return noisy


def _refuses_empty(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    if not exact.any():
        raise PlanError("empty", "there are no visits.")
    return draw(exact, scale)


def _tells_count(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    raise PlanError("too-few", f"only {int(exact.sum())} of something.")


def _largest(exact: np.ndarray) -> float:
    return float(np.abs(exact).max(initial=0))


ADDED: dict[str, Change] = {
    "float noise drawn outside the module": lambda draw, exact, scale: (
        exact + np.random.default_rng(1).normal(0.0, scale, exact.shape)
    ),
    "one draw for all values": _reused,
    "noise on visited cells only, by shape": _only_visited,
    "empty cells get no noise": lambda draw, exact, scale: np.where(exact == 0, 0, draw(exact, scale)),
    "scale from the exact counts": lambda draw, exact, scale: draw(exact, scale * (1.0 + _largest(exact))),
    "half the noise above 50 visits": lambda draw, exact, scale: draw(
        exact, scale / 2 if _largest(exact) > 50 * VISIT else scale
    ),
}
RAISING = {
    "exception when nobody is there": _refuses_empty,
    "exception that tells a count": _tells_count,
}


def call_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of every mechanism, whatever it asks for."""
    return [
        scaled_bug("noise scale x 0.8", 0.8),
        scaled_bug("half the noise", 0.5),
        noise_bug("exact values behind the noise's back", bare),
        noise_bug("mean of two noisy answers, charged once", twice),
        *(noise_bug(name, partial(Between, add=add)) for name, add in ADDED.items()),
        *(noise_bug(name, partial(Between, add=add), raises=True) for name, add in RAISING.items()),
    ]


def spend_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of one spend among several: too little noise, charged twice, not charged."""
    names = [name for name, _ in true.spends()]
    if len(names) < 2:
        return []
    drawn = [name for name in names if name != "select"]
    return [
        *(scaled_bug(f"{name}: scale x 0.8", 0.8, name) for name in drawn),
        *(noise_bug(f"{name}: drawn twice", partial(twice, only=name)) for name in drawn),
        *(noise_bug(f"{name}: no noise", partial(bare, only=name)) for name in drawn if name != "users"),
        *(_uncharged(name) for name in names),
    ]


def ell_bugs(true: Pipeline) -> list[Bug]:
    """Charged for fewer visits than a user may have, where every visit costs."""
    ell = min(true.world.ell, true.world.slots)
    gaussian = true.mechanism.loss().pure_epsilon_nano is None
    part = math.sqrt((ell - 1) / ell) if gaussian else (ell - 1) / ell
    root = math.sqrt(math.sqrt(ell) / ell) if gaussian else math.sqrt(ell) / ell
    return [
        scaled_bug("sensitivity for ell - 1 visits", part),
        scaled_bug("sqrt(ell) where ell is needed", root),
    ]


def scaled_bugs(true: Pipeline) -> list[Bug]:
    """Numbers of visits noised for fewer of them than a user may have."""
    ell, cap = min(true.world.ell, true.world.slots), true.world.cap
    *_, (counts, _) = true.mechanism.spends()  # "counts", or "coefficients" of their waves
    return [
        scaled_bug("K noised for M - 1 visits", (cap - 1) / cap, "visits"),
        scaled_bug("kept visits noised for ell - 1", (ell - 1) / ell, "kept"),
        scaled_bug("counts for ell - 1 visits", (ell - 1) / ell, counts),
    ]


def _uncharged(name: str) -> Bug:
    def spends(self):
        kind: Any = super(type(self), self)
        return tuple((step, loss) for step, loss in kind.spends() if step != name)

    return method_bug(f"{name}: not charged", spends=spends)
