"""Planted bugs inside the noise module: the call looks right, what is drawn is not.

Replay trusts the primitives, so only many runs and looks at the noise itself (and tests/statistical) can
tell these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from shoal.privacy.noise import Noise, SeededNoise

Draw = Callable[[np.ndarray, float], np.ndarray]  # (exact, scale) -> noisy
Change = Callable[[Draw, np.ndarray, float], np.ndarray]


class Broken(SeededNoise):
    """A sampler whose draws are changed, whichever of the two laws they are of."""

    def __init__(self, seed: int, *, change: Change) -> None:
        super().__init__(seed)
        self.change = change

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        draw = super().laplace
        return self.change(lambda e, s: draw(name, e, s), exact, scale)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        draw = super().gaussian
        return self.change(lambda e, s: draw(name, e, s), exact, sigma)


def _of_scale(part: float) -> Change:
    return lambda draw, exact, scale: draw(exact, scale * part)


def _changed(change: Callable[[np.ndarray, float], np.ndarray]) -> Change:
    """True noise of the right scale, changed as a whole; `change(noise, scale)`."""
    return lambda draw, exact, scale: exact + change(draw(np.zeros_like(exact), scale), scale)


class SameAtEveryCall(SeededNoise):
    """Two releases differ by their exact counts then."""

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return SeededNoise(5).laplace(name, exact, scale)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return SeededNoise(5).gaussian(name, exact, sigma)


CHANGES: dict[str, Change] = {
    "draws at 0.8 of the scale": _of_scale(0.8),
    "draws at half the scale": _of_scale(0.5),
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
        ("sampler draws the same at every call", SameAtEveryCall),
    ]
