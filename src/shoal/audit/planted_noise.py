"""Planted bugs inside the noise module: the call looks right, what is drawn is not.

Replay trusts the primitives, so only many runs and looks at the noise itself (and tests/statistical) can
tell these.
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


class _OtherNoise(SeededNoise):
    """True noise of the right scale, changed as a whole by `change`."""

    def change(self, noise: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return exact + self.change(super().laplace(name, np.zeros_like(exact), scale))

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return exact + self.change(super().gaussian(name, np.zeros_like(exact), sigma))


class OneForAllZones(_OtherNoise):
    """Zones of a slot differ by their exact counts then, without noise."""

    def change(self, noise: np.ndarray) -> np.ndarray:
        return np.broadcast_to(noise[:1], noise.shape)


class EverySecondZoneAgain(_OtherNoise):
    def change(self, noise: np.ndarray) -> np.ndarray:
        return noise[np.arange(len(noise)) // 2 * 2]


class SameAtEveryCall(SeededNoise):
    """Two releases differ by their exact counts then."""

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return SeededNoise(5).laplace(name, exact, scale)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return SeededNoise(5).gaussian(name, exact, sigma)


class CoarseLattice(_OtherNoise):
    """Noise in steps of 2^14: the low bits of the exact count come out as they are."""

    def change(self, noise: np.ndarray) -> np.ndarray:
        return np.rint(noise / 2**14).astype(np.int64) * 2**14


class EvenOnly(_OtherNoise):
    """One bit of each count comes out as it is."""

    def change(self, noise: np.ndarray) -> np.ndarray:
        return noise // 2 * 2


def sampler_bugs() -> list[tuple[str, Callable[[int], Noise]]]:
    """Name of the bug, and the broken noise from a seed."""
    return [
        ("sampler draws at 0.8 of the scale", FourFifths),
        ("sampler draws at half the scale", Half),
        ("sampler adds noise on one side only", OneSided),
        ("sampler cuts the tails", CutTails),
        ("sampler draws once for all zones of a slot", OneForAllZones),
        ("sampler uses noise again in every second zone", EverySecondZoneAgain),
        ("sampler draws the same at every call", SameAtEveryCall),
        ("sampler rounds noise to 2^14 lattice steps", CoarseLattice),
        ("sampler draws even numbers only", EvenOnly),
    ]
