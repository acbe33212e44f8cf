"""Lower bounds on epsilon and mu from many runs on a worst-case pair of neighbours.

A run is turned into a few numbers (the log-likelihood ratio of the pair if the noise is what it claims to
be; total, least and largest cell for when it is not). On the first half of the runs one event "this number
is at least t" or "at most t" is chosen; on the other half its two probabilities are bounded by
Clopper-Pearson at alpha = 1e-6, half of it for each:
  epsilon >= log((P_low - delta) / Q_high)          for (epsilon, delta)-DP
  mu      >= Phi^-1(P_low) - Phi^-1(Q_high)         for Gaussian noise, on the trade-off curve
Both directions of the pair compete in the choice, so a single test is made and alpha is not split further.
Each bound exceeds a true claim with probability at most alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from shoal.mechanisms.registry import AuditSize, Entry
from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts

ALPHA = 1e-6
CANDIDATES = 400  # thresholds tried on the first half, per statistic
CHUNK_DRAWS = 400_000  # noise per call: enough to be worth a second process, small enough for progress

Advance = Callable[[int], None]
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


def sample(
    entry: Entry,
    epsilon: float,
    delta: float | None,
    noise: Noise,
    runs: int,
    *,
    kind: type | None = None,
    advance: Advance | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Statistics [runs, 4] of a mechanism on its worst-case pair: with the user, and without.

    Runs are drawn side by side: one call on an array whose slots are many runs after each other. That is
    legitimate because the mechanism is built with the same ell and so the same scale, adds its noise cell
    by cell, and the cells' noise is independent (tests/unit/audit/test_lower_bound.py and
    tests/statistical/test_independence.py check these three).
    """
    sides: list[list[np.ndarray]] = [[], []]
    size = entry.replica
    for chunk in _chunks(runs, size.zones * size.slots):
        mechanism = entry.build(epsilon, delta, size.side_by_side(chunk), kind or entry.mechanism)
        before, after = (tile(counts, chunk) for counts in entry.worst_pair(size))
        for side, counts in zip(sides, (after, before), strict=True):
            units = mechanism(counts, noise).values * size.lattice
            by_run = units.reshape(size.zones, chunk, size.slots).swapaxes(0, 1).reshape(chunk, -1)
            side.append(statistics(entry, by_run, size))
            if advance:
                advance(chunk)
    return np.concatenate(sides[0]), np.concatenate(sides[1])


def tile(counts: ExactCounts, replicas: int) -> ExactCounts:
    """The same counts many times over, as further slots."""
    return ExactCounts(
        units=np.tile(counts.units, (1, replicas)),
        lattice=counts.lattice,
        ell=counts.ell,
        column_l1=counts.column_l1,
        column_l2_squared=counts.column_l2_squared,
    )


def statistics(entry: Entry, units: np.ndarray, size: AuditSize) -> np.ndarray:
    """Numbers [runs, 4] of each run, units [runs, cells]: likelihood ratio, total, least, largest."""
    before, after = (counts.units.ravel() for counts in entry.worst_pair(size))
    change = (after - before).astype(np.float64)
    moved = (units - before)[:, change != 0] * np.sign(change[change != 0])
    change = np.abs(change[change != 0])
    ratio = np.clip(moved, 0, change).sum(axis=1) if entry.norm == "l1" else moved @ change
    # For Laplace noise each cell tells at most its own change; for Gaussian noise the ratio is linear.
    return np.column_stack([ratio, moved.sum(axis=1), moved.min(axis=1), moved.max(axis=1)])


def runs_for(entry: Entry, epsilon: float, delta: float | None) -> int:
    """Runs per side after which the bound should reach 0.9 of the claim, within reason.

    For mu both limits of Clopper-Pearson are about 6.2 / sqrt(n) off near the middle of the curve, and
    chance takes some 7.4 / sqrt(n) more of their sum at four standard deviations. Half of the
    runs only choose the event.
    """
    if not entry.has_mu:
        return 300_000
    mu = entry.build(epsilon, delta, entry.size).mu  # type: ignore[attr-defined]
    return int(np.clip(2 * (19.7 / (0.1 * mu)) ** 2, 100_000, 1_600_000))


def _chunks(runs: int, cells_per_run: int) -> Iterator[int]:
    each = max(1, CHUNK_DRAWS // cells_per_run)
    for start in range(0, runs, each):
        yield min(each, runs - start)
