"""What a basis leaves out, from a noisy measurement of it: kept as far as it stands out of the noise.

The truth scatters around a smooth model like counts do, and a little more: variance phi q m + kappa^2 m^2 for
a model count m, q the squared area weights of a zone over its weights. phi and kappa come from the noisy
residuals themselves, by least squares on their squares less the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STANDS_OUT = 4.5  # standard deviations: a residual this large is an event of its own
KEEP = 0.9
GROSS = 20.0  # squared deviations beyond which a residual does not enter the fit


@dataclass(frozen=True)
class Scatter:
    """How the truth scatters around a smooth model: variance phi q m + (kappa m)^2."""

    phi: float
    kappa: float

    def variance(self, model: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return self.phi * spread[:, None] * model + (self.kappa * model) ** 2


COUNTS = Scatter(1.0, 0.05)  # assumed where nothing was measured: counts, and irregular by a twentieth


def fit_scatter(residual: np.ndarray, noise: np.ndarray, model: np.ndarray, spread: np.ndarray) -> Scatter:
    """phi and kappa from noisy residuals, all in people."""
    counts, squares = spread[:, None] * model, model**2
    expected = noise**2 + counts
    used = (residual**2 < GROSS * expected) / np.maximum(expected, 1e-300) ** 2
    excess = residual**2 - noise**2
    aa, ab, bb = ((used * x * y).sum() for x, y in ((counts, counts), (counts, squares), (squares, squares)))
    a, b = (used * counts * excess).sum(), (used * squares * excess).sum()
    determinant = aa * bb - ab * ab
    phi, square = 0.0, 0.0
    if determinant > 1e-12 * aa * bb:
        phi, square = (bb * a - ab * b) / determinant, (aa * b - ab * a) / determinant
    if phi < 0 or determinant <= 1e-12 * aa * bb:
        phi, square = 0.0, (b / bb if bb > 0 else 0.0)
    if square < 0:
        phi, square = (a / aa if aa > 0 else 0.0), 0.0
    return Scatter(float(np.clip(phi, 0.0, 3.0)), float(np.sqrt(np.clip(square, 0.0, 1.0))))


def keep_what_stands_out(residual: np.ndarray, noise: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Wiener's share of each residual, given its noise and the variance expected; large ones nearly whole."""
    total = signal + noise**2
    share = signal / np.maximum(total, 1e-300)
    large = np.abs(residual) > STANDS_OUT * np.sqrt(total)
    return residual * np.where(large, np.maximum(share, KEEP), share)
