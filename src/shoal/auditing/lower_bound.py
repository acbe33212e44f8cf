"""Lower bounds on epsilon and mu from many runs with one user and without.

A run is turned into a few numbers (shoal/auditing/spend_runs.py). On the first half of the runs one event
"this number is at least t" or "at most t" is chosen; on the other half its two probabilities are bounded by
Clopper-Pearson at alpha = 1e-6, half of it for each:
  epsilon >= log((P_low - delta) / Q_high)          for (epsilon, delta)-DP
  mu      >= Phi^-1(P_low) - Phi^-1(Q_high)         for Gaussian noise, on the trade-off curve
Both directions of the pair compete in the choice, so a single test is made and alpha is not split further.
Each bound exceeds a true claim with probability at most alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

ALPHA = 1e-6
CANDIDATES = 400  # thresholds tried on the first half, per statistic

Gain = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (P_low, Q_high) -> epsilon or mu


@dataclass(frozen=True)
class Events:
    """Many events {statistic >= threshold} (where `upper`) or {statistic <= threshold}, side by side."""

    statistic: np.ndarray
    threshold: np.ndarray
    upper: np.ndarray

    def hits(self, runs: np.ndarray) -> np.ndarray:
        """How many of the runs [runs, statistics] fall into each event."""
        counts = np.empty(self.threshold.size, np.int64)
        for number, ordered in enumerate(np.sort(runs, axis=0).T):
            for upper in (True, False):
                mine = (self.statistic == number) & (self.upper == upper)
                below = np.searchsorted(ordered, self.threshold[mine], side="left" if upper else "right")
                counts[mine] = len(runs) - below if upper else below
        return counts

    def only(self, place: int) -> Events:
        one = slice(place, place + 1)
        return Events(self.statistic[one], self.threshold[one], self.upper[one])


@dataclass(frozen=True)
class Bounds:
    """What the runs show: epsilon at delta, and mu where it was asked for."""

    epsilon: float
    mu: float | None
    runs: int  # per side, both halves


def clopper_pearson(hits: np.ndarray, runs: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Limits (low, high) of proportions, each wrong with probability at most alpha."""
    hits = np.asarray(hits, dtype=float)
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, alpha), 0.0)
    # By symmetry; 1 - alpha itself would round away a small alpha.
    high = np.where(hits < runs, 1 - betaincinv(np.maximum(runs - hits, 1), hits + 1, alpha), 1.0)
    return low, high


def bounds(
    with_user: np.ndarray, without: np.ndarray, delta: float, *, mu: bool = False, alpha: float = ALPHA
) -> Bounds:
    """Lower bounds from statistics [runs] or [runs, statistics] with the user and without."""
    runs = min(len(with_user), len(without))
    half = runs // 2
    one, other = (side[:runs].reshape(runs, -1) for side in (with_user, without))
    events = _candidates(one[:half], other[:half])
    hits = events.hits(one[:half]), events.hits(other[:half])

    def best(gain: Gain, strictness: int) -> float:
        # The choice is made at a stricter alpha: chance favours rare events, and those test badly later.
        gains = [_gain(p, q, half, gain, alpha**strictness) for p, q in (hits, hits[::-1])]
        direction, place = np.unravel_index(np.argmax(gains), (2, hits[0].size))
        event = events.only(int(place))
        p, q = event.hits(one[half:]), event.hits(other[half:])
        proved = _gain(*((q, p) if direction else (p, q)), runs - half, gain, alpha)
        return max(float(proved[0]), 0.0)

    def epsilon(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(low - delta, 1e-300) / high)

    def separation(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return ndtri(np.maximum(low, 1e-300)) - ndtri(np.minimum(high, 1 - 1e-16))

    # On the trade-off curve all thresholds tell the same mu, so the middle, where counts are surest, is best.
    return Bounds(epsilon=best(epsilon, 2), mu=best(separation, 4) if mu else None, runs=runs)


def _gain(favoured: np.ndarray, other: np.ndarray, runs: int, gain: Gain, alpha: float) -> np.ndarray:
    """What the hits prove, where the first side is the one the event speaks for."""
    low, _ = clopper_pearson(favoured, runs, alpha / 2)
    _, high = clopper_pearson(other, runs, alpha / 2)
    return gain(low, high)


def _candidates(with_user: np.ndarray, without: np.ndarray) -> Events:
    """Quantiles of the first half, which include the atoms of a clipped statistic, from both ends."""
    shares = np.linspace(0, 1, CANDIDATES)
    columns = [
        np.unique(np.quantile(np.concatenate(both), shares, method="inverted_cdf"))
        for both in zip(with_user.T, without.T, strict=True)
    ]
    statistic = np.repeat(np.arange(len(columns)), [column.size for column in columns])
    threshold = np.concatenate(columns)
    return Events(
        np.tile(statistic, 2), np.tile(threshold, 2), np.arange(2 * threshold.size) < threshold.size
    )
