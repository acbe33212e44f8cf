"""Planted bugs inside the noise module: the call looks right, what is drawn is not.

Replay trusts the primitives, so only many runs (and tests/statistical) can tell these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.privacy.noise import Noise, SeededNoise


class _OtherScale(SeededNoise):
    """Draws at a part of the scale it was asked for."""

    part = 1.0

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return super().laplace(name, exact, scale * self.part)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return super().gaussian(name, exact, sigma * self.part)


class FourFifths(_OtherScale):
    part = 0.8


class Half(_OtherScale):
    part = 0.5


class OneSided(SeededNoise):
    """Adds the size of the noise, never subtracts: a count is then never below the truth."""

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return exact + np.abs(super().laplace(name, exact, scale) - exact)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return exact + np.abs(super().gaussian(name, exact, sigma) - exact)


class CutTails(SeededNoise):
    """Noise cut off at one scale: what lies beyond is impossible, which tells the neighbours apart."""

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return exact + np.clip(super().laplace(name, exact, scale) - exact, -int(scale), int(scale))

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return exact + np.clip(super().gaussian(name, exact, sigma) - exact, -int(sigma), int(sigma))


def sampler_bugs() -> list[tuple[str, Callable[[int], Noise]]]:
    """Name of the bug, and the broken noise from a seed."""
    return [
        ("sampler draws at 0.8 of the scale", FourFifths),
        ("sampler draws at half the scale", Half),
        ("sampler adds noise on one side only", OneSided),
        ("sampler cuts the tails", CutTails),
    ]
