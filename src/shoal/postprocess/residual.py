"""How the truth scatters around a smooth model, and what of a noisy residual is kept.

Counts scatter like counts do, and a little more: variance phi q m + kappa^2 m^1.5 M^0.5 for a model count m
in a zone of mean M, q the squared area weights of a zone over its weights. phi and kappa^2 come from noisy
residuals, by least squares on their squares less the noise, and from what is usual: the less the residuals
tell, the more of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STANDS_OUT = 4.5  # standard deviations: a residual this large is an event of its own
KEEP = 0.9
GROSS = 20.0  # squared deviations beyond which a residual does not enter the fit
USUAL = (1.5, 0.19**2)  # phi and kappa^2, and how far off they are: chosen with the constants of `best`
USUAL_OFF = (0.4, 0.1**2)
LEAST_PHI = 1.0  # no counts scatter less
CONTRADICTS = 5.0  # deviations
ROUNDS = 3


@dataclass(frozen=True)
class Scatter:
    """How the truth scatters around a smooth model: variance phi q m + kappa^2 m^1.5 M^0.5."""

    phi: float
    kappa: float

    def variance(self, model: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return self.phi * spread[:, None] * model + self.kappa**2 * uneven_squares(model)


def uneven_squares(model: np.ndarray) -> np.ndarray:
    """m^1.5 M^0.5, M a zone's mean: quiet hours are further from smooth than busy ones, relatively."""
    return np.sqrt(model**3 * model.mean(axis=1, keepdims=True))


def fit_scatter(
    residual: np.ndarray, noise: float | np.ndarray, counts: np.ndarray, squares: np.ndarray
) -> Scatter:
    """phi and kappa of residuals of variance noise^2 + phi counts + kappa^2 squares, all in people."""
    usual, off = np.array(USUAL), np.array(USUAL_OFF)
    found = usual
    for _ in range(ROUNDS):
        expected = np.maximum(noise**2 + found[0] * counts + found[1] * squares, 1e-300)
        known = (residual**2 < GROSS * expected) / (2 * expected**2)  # a square has twice its mean squared
        excess = residual**2 - noise**2
        parts = (counts, squares)
        fisher = np.array([[(known * x * y).sum() for x in parts] for y in parts])
        told = np.array([(known * x * excess).sum() for x in parts])
        prior = np.diag(1.0 / np.square([off[0], _off(fisher, told)]))
        found = np.linalg.solve(fisher + prior, told + prior @ usual)
        found = np.clip(found, (LEAST_PHI, 0.0), (20.0, 1.0))
    return Scatter(float(found[0]), float(np.sqrt(found[1])))


def _off(fisher: np.ndarray, told: np.ndarray) -> float:
    """How far kappa^2 may be from what is usual: as far as residuals say that clearly contradict it."""
    if fisher[1, 1] <= 0:
        return USUAL_OFF[1]
    alone = (told[1] - fisher[0, 1] * USUAL[0]) / fisher[1, 1]
    further = alone - USUAL[1]
    clear = further > CONTRADICTS * np.hypot(USUAL_OFF[1], 1.0 / np.sqrt(fisher[1, 1]))
    return float(further) if clear else USUAL_OFF[1]


def keep_what_stands_out(residual: np.ndarray, noise: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Wiener's share of each residual, given its noise and the variance expected; large ones nearly whole."""
    total = signal + noise**2
    share = signal / np.maximum(total, 1e-300)
    large = np.abs(residual) > STANDS_OUT * np.sqrt(total)
    return residual * np.where(large, np.maximum(share, KEEP), share)
