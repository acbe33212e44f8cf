"""Planted bugs that any mechanism may have: it asks its noise wrongly, or the noise itself is wrong.

The first kind is a noise put between the mechanism and the true one. The second is a broken noise module: the
call looks right, what is drawn is not. Replay trusts the primitives, so only many runs and looks at the noise
(and tests/statistical) can tell these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.visits import (
    ClippedPipeline,
    CountsPipeline,
    PartsPipeline,
    QueryPipeline,
    ScaledPipeline,
    VisitsPipeline,
)
from shoal.auditing.planted.bug import Bug, Families, call_bug, method_bug, noise_bug, result_bug
from shoal.auditing.replay import Answers, ask
from shoal.errors import PlanError
from shoal.mechanisms.audit_size import AuditSize
from shoal.privacy.noise import Noise, SeededNoise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts

VISIT = AuditSize().lattice


Draw = Callable[[np.ndarray, float], Any]  # (exact, scale) -> the answer of the true noise
Change = Callable[[Draw, np.ndarray, float], Any]


def _unchanged(draw: Draw, exact: np.ndarray, scale: float) -> Any:
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
        add: Change = _unchanged,
        choose: Change = _unchanged,
        above: Change = _unchanged,
    ) -> None:
        self.inner, self.only = inner, (only,) if isinstance(only, str) else only
        self.changes = {"laplace": add, "gaussian": add, "choose": choose, "above": above}

    def run_key(self) -> bytes:
        return self.inner.run_key()

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        change = self.changes[kind] if self.only is None or name in self.only else _unchanged
        return change(partial(ask, self.inner, kind, name), exact, scale)


def of_scale(part: float) -> Change:
    """Draws at a part of the scale."""
    return lambda draw, exact, scale: draw(exact, scale * part)


def scaled_bug(name: str, part: float, only: str | Sequence[str] | None = None) -> Bug:
    """Asks for a part of the scale: the mechanism asks wrongly, the sampler is right."""
    less = of_scale(part)
    return noise_bug(name, partial(Between, only=only, add=less, choose=less, above=less))


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
    return Between(
        noise,
        only,
        add=mean_of_two,
        above=lambda draw, margins, scale: min(draw(margins, scale) for _ in range(2)),
    )


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


def _reveals_count(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    raise PlanError("too-few", f"only {int(exact.sum())} of something.")


def _largest(exact: np.ndarray) -> float:
    return float(np.abs(exact).max(initial=0))


ONE_DRAW, THIN_CROWDS = "one draw for all values", "half the noise above 50 visits"
ADDED: dict[str, Change] = {
    "float noise drawn outside the module": lambda draw, exact, scale: (
        exact + np.random.default_rng(1).normal(0.0, scale, exact.shape)
    ),
    ONE_DRAW: _reused,
    "noise on visited cells only, by shape": _only_visited,
    "empty cells get no noise": lambda draw, exact, scale: np.where(exact == 0, 0, draw(exact, scale)),
    "scale from the exact counts": lambda draw, exact, scale: draw(exact, scale * (1.0 + _largest(exact))),
    THIN_CROWDS: lambda draw, exact, scale: draw(exact, scale / 2 if _largest(exact) > 50 * VISIT else scale),
}
RAISING = {
    "exception when nobody is there": _refuses_empty,
    "exception that tells a count": _reveals_count,
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


def _uncharged(name: str) -> Bug:
    def spends(self):
        kind: Any = super(type(self), self)
        return tuple((step, loss) for step, loss in kind.spends() if step != name)

    return method_bug(f"{name}: not charged", spends=spends)


def ell_bugs(true: Pipeline) -> list[Bug]:
    """Charged for fewer visits than a user may have, where every visit costs."""
    ell = min(true.world.size.ell, true.world.slots)
    power = 0.5 if true.mechanism.loss().pure_epsilon_nano is None else 1.0  # of norm 2 under Gaussian noise
    return [
        scaled_bug("sensitivity for ell - 1 visits", ((ell - 1) / ell) ** power),
        scaled_bug("sqrt(ell) where ell is needed", (1 / math.sqrt(ell)) ** power),
    ]


def scaled_bugs(true: Pipeline) -> list[Bug]:
    """Numbers of visits noised for fewer of them than a user may have."""
    ell, cap = min(true.world.size.ell, true.world.slots), true.world.size.cap
    *_, (counts, _) = true.mechanism.spends()  # "counts", or their Fourier "coefficients"
    return [
        scaled_bug("K noised for M - 1 visits", (cap - 1) / cap, "visits"),
        scaled_bug("kept visits noised for ell - 1", (ell - 1) / ell, "kept"),
        scaled_bug("counts for ell - 1 visits", (ell - 1) / ell, counts),
    ]


class Broken(SeededNoise):
    """A sampler whose draws are changed, whichever of the two laws they are of.

    With `again` every call draws from the same seed.
    """

    def __init__(self, seed: int, *, change: Change = _unchanged, again: bool = False) -> None:
        super().__init__(seed)
        self.change, self.again = change, again

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        draw = SeededNoise(5).laplace if self.again else super().laplace
        return self.change(partial(draw, name), exact, scale)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        draw = SeededNoise(5).gaussian if self.again else super().gaussian
        return self.change(partial(draw, name), exact, sigma)


def _changed(change: Callable[[np.ndarray, float], np.ndarray]) -> Change:
    """True noise of the right scale, changed as a whole; `change(noise, scale)`."""
    return lambda draw, exact, scale: exact + change(draw(np.zeros_like(exact), scale), scale)


CHANGES: dict[str, Change] = {
    "draws at 0.8 of the scale": of_scale(0.8),
    "draws at half the scale": of_scale(0.5),
    # A count is then never below the truth.
    "adds noise on one side only": _changed(lambda noise, _: np.abs(noise)),
    # What lies beyond one scale is impossible, which tells the neighbours apart.
    "cuts the tails": _changed(lambda noise, scale: np.clip(noise, -int(scale), int(scale))),
    # Zones of a slot differ by their exact counts then, without noise.
    "draws once for all zones of a slot": _changed(lambda noise, _: np.broadcast_to(noise[:1], noise.shape)),
    "uses noise again in every second zone": _changed(lambda noise, _: noise[np.arange(len(noise)) // 2 * 2]),
    # The low bits of the exact count come out as they are.
    "rounds noise to 2^14 lattice steps": _changed(
        lambda noise, _: np.rint(noise / 2**14).astype(np.int64) * 2**14
    ),
    "draws even numbers only": _changed(lambda noise, _: noise // 2 * 2),
}


def sampler_bugs() -> list[tuple[str, Callable[[int], Noise]]]:
    """Name of the bug, and the broken noise from a seed."""
    return [
        *((f"sampler {name}", partial(Broken, change=change)) for name, change in CHANGES.items()),
        # Two releases differ by their exact counts then.
        ("sampler draws the same at every call", partial(Broken, again=True)),
    ]


def value_bugs(true: Pipeline) -> list[Bug]:
    """Bugs between the noise and the values of a cell."""
    bugs = [
        call_bug("retry until nothing is negative", _retry),
        call_bug("exception when a zone is empty", _refuse_empty_zone, raises=True),
    ]
    if on_cells(true):
        # Floats mixed into a right answer carry low bits of the exact count.
        low_bits = result_bug(
            "low bits of the exact count in the output",
            values=lambda noisy, exact: noisy.values + exact.units / exact.lattice * 2.0**-30 + 2.0**-31,
        )
        bugs.append(low_bits)
    return bugs


def on_cells(pipeline: Pipeline) -> bool:
    """Whether noise is added to the counts themselves, so that noisy ones stay on the lattice."""
    return tuple(dict(pipeline.spends())) == ("counts",)


def _retry(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    for _ in range(20):
        noisy = true(exact, noise)
        if (noisy.values >= 0).all():
            break
    return noisy


def _refuse_empty_zone(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    if (exact.units.sum(axis=1) == 0).any():
        raise ValueError("a zone has no visits.")
    return true(exact, noise)


FAMILIES: Families = {
    CountsPipeline: (call_bugs, ell_bugs, value_bugs),
    ScaledPipeline: (call_bugs, spend_bugs, scaled_bugs),
    ClippedPipeline: (call_bugs,),
    VisitsPipeline: (call_bugs, spend_bugs),
    QueryPipeline: (spend_bugs,),
    PartsPipeline: (spend_bugs,),
}
