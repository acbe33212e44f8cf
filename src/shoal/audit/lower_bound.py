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
CANDIDATES = 100  # thresholds tried on the first half, per statistic and side
CHUNK_DRAWS = 400_000  # noise per call: enough to be worth a second process, small enough for progress

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Event:
    """{statistic >= threshold} if `upper` (likelier with the user), else {statistic <= threshold}."""

    statistic: int
    threshold: float
    upper: bool


class Side:
    """Statistics of runs on one data set, sorted so that events are counted quickly."""

    def __init__(self, runs: np.ndarray) -> None:
        self.ordered = np.sort(runs, axis=0).T
        self.size = len(runs)

    def count(self, event: Event) -> int:
        ordered = self.ordered[event.statistic]
        if event.upper:
            return self.size - int(np.searchsorted(ordered, event.threshold, side="left"))
        return int(np.searchsorted(ordered, event.threshold, side="right"))


@dataclass(frozen=True)
class Bounds:
    """What the runs show: epsilon at delta, and mu where it was asked for."""

    epsilon: float
    mu: float | None
    runs: int  # per side, both halves


def clopper_pearson(hits: int, runs: int, alpha: float) -> tuple[float, float]:
    """Limits (low, high) of a proportion, each wrong with probability at most alpha."""
    low = 0.0 if hits == 0 else float(betaincinv(hits, runs - hits + 1, alpha))
    high = 1.0 if hits == runs else float(betaincinv(hits + 1, runs - hits, 1 - alpha))
    return low, high


def bounds(
    with_user: np.ndarray, without: np.ndarray, delta: float, *, mu: bool = False, alpha: float = ALPHA
) -> Bounds:
    """Lower bounds from statistics [runs] or [runs, statistics] with the user and without."""
    runs = min(len(with_user), len(without))
    first, second = slice(0, runs // 2), slice(runs // 2, runs)
    with_user, without = with_user.reshape(len(with_user), -1), without.reshape(len(without), -1)
    choose = Side(with_user[first]), Side(without[first])
    test = Side(with_user[second]), Side(without[second])
    events = _events(*choose)

    # The choice is made at a stricter alpha: chance favours rare events, and those test badly afterwards.
    def best(gain: Callable[[float, float], float]) -> float:
        event = max(events, key=lambda event: _gain(event, *choose, gain, alpha**2))
        return max(_gain(event, *test, gain, alpha), 0.0)

    def epsilon(low: float, high: float) -> float:
        return float(np.log((low - delta) / high)) if low > delta else 0.0

    def separation(low: float, high: float) -> float:
        return float(ndtri(low) - ndtri(high)) if low > 0 and high < 1 else 0.0

    return Bounds(epsilon=best(epsilon), mu=best(separation) if mu else None, runs=runs)


def _gain(
    event: Event, with_user: Side, without: Side, gain: Callable[[float, float], float], alpha: float
) -> float:
    favoured, other = (with_user, without) if event.upper else (without, with_user)
    low, _ = clopper_pearson(favoured.count(event), favoured.size, alpha / 2)
    _, high = clopper_pearson(other.count(event), other.size, alpha / 2)
    return gain(low, high)


def _events(with_user: Side, without: Side) -> list[Event]:
    """Candidate events: quantiles of the first half, which include the atoms of a clipped statistic."""
    events = []
    for number, (one, other) in enumerate(zip(with_user.ordered, without.ordered, strict=True)):
        places = [np.linspace(0, side.size - 1, CANDIDATES).astype(int) for side in (one, other)]
        for threshold in np.unique(np.concatenate([one[places[0]], other[places[1]]])):
            events += [Event(number, float(threshold), upper) for upper in (True, False)]
    return events


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
    chance takes some 6.2 / sqrt(n) more of their sum at three and a half standard deviations. Half of the
    runs only choose the event.
    """
    if not entry.has_mu:
        return 400_000
    mu = entry.build(epsilon, delta, entry.size).mu  # type: ignore[attr-defined]
    return int(np.clip(2 * (18.5 / (0.1 * mu)) ** 2, 100_000, 1_400_000))


def _chunks(runs: int, cells_per_run: int) -> Iterator[int]:
    each = max(1, CHUNK_DRAWS // cells_per_run)
    for start in range(0, runs, each):
        yield min(each, runs - start)
