"""Lower bounds on epsilon and mu from many runs of each spend, on the user that costs the most.

The mechanism runs once on a city without the user and once with, both given the same answers (all
coefficients kept, else zeros). What it asked of the noise on either side, at which scale, are its queries.
They are then asked many times over, and a run of a spend is turned into a few numbers: the log-likelihood
ratio of the two sides if the noise is what it claims to be; total, least and largest cell for when it is not.
Queries that depend on earlier answers are so taken along one path: a bound above the claim of a spend, or of
all of them, shows a broken promise as well there. What a mechanism does with its answers is for replay.

On the first half of the runs one event "this number is at least t" or "at most t" is chosen; on the other
half its two probabilities are bounded by Clopper-Pearson at alpha = 1e-6, half of it for each:
  epsilon >= log((P_low - delta) / Q_high)          for (epsilon, delta)-DP
  mu      >= Phi^-1(P_low) - Phi^-1(Q_high)         for Gaussian noise, on the trade-off curve
Both directions of the pair compete in the choice, so a single test is made and alpha is not split further.
Each bound exceeds a true claim with probability at most alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, log_softmax, ndtri
from scipy.stats import laplace

from shoal.auditing.pairs import Pair, event_table, lone_pair
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.replay import PICKS, Call, Follows, KeepsEverything, RecordingNoise, ReplayNoise, ask
from shoal.errors import GuaranteeError
from shoal.mechanisms.registry import Entry
from shoal.privacy.noise import Noise

CHUNK_DRAWS = 400_000  # noise per call: enough to be worth a second process, small enough for progress
NEGLIGIBLE = 1e-6  # of the largest change: cells that tell nothing are not drawn
KEY = bytes(16)

Advance = Callable[[int], None]
Sides = tuple[np.ndarray, np.ndarray]  # statistics [runs, numbers] with the user, and without


@dataclass(frozen=True, eq=False)
class Query:
    """A call of one noise primitive on the two sides; only the cells that differ."""

    kind: str
    name: str
    scale: float
    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, one: Call, other: Call) -> Query:
        before, after = one.exact.ravel(), other.exact.ravel()
        size = np.abs((after - before).astype(np.float64))
        moved = np.arange(before.size) if one.kind in PICKS else size > NEGLIGIBLE * size.max(initial=1.0)
        return cls(one.kind, one.name, one.scale, before[moved], after[moved])

    @property
    def has_mu(self) -> bool:
        """Gaussian noise, a rounded normal at any scale, so its mu can be refuted."""
        return self.kind == "gaussian"

    def draw(self, noise: Noise, with_user: bool, runs: int) -> np.ndarray:
        """Answers [runs, cells], less the query without the user; of a choice or test [runs, 1] indices."""
        exact = self.after if with_user else self.before
        call = noise, self.kind, self.name
        if self.kind in PICKS:
            return np.array([[ask(*call, exact, self.scale)] for _ in range(runs)])
        return ask(*call, np.repeat(exact[None, :], runs, axis=0), self.scale) - self.before

    def log_ratio(self, answers: np.ndarray) -> np.ndarray:
        """log P(answer with the user) / P(answer without), [runs]."""
        if self.kind == "choose":
            scores = np.stack([self.after, self.before]) / self.scale
            with_user, without = log_softmax(scores, axis=1)
            return (with_user - without)[answers[:, 0]]
        if self.kind == "above":
            with_user, without = (above_probabilities(side, self.scale) for side in (self.after, self.before))
            return np.log(with_user / without)[answers[:, 0]]
        change = (self.after - self.before).astype(np.float64)
        if self.kind == "laplace":
            return (np.abs(answers) - np.abs(answers - change)).sum(axis=1) / self.scale
        return (answers - change / 2) @ change / self.scale**2

    def statistics(self, answers: np.ndarray) -> np.ndarray:
        """Numbers [runs, 4] that may tell the sides apart: ratio, and total, least, largest cell."""
        ratio = self.log_ratio(answers)
        if self.kind in PICKS or not answers.shape[1]:
            return np.column_stack([ratio] * 4)
        moved = answers * np.sign(self.after - self.before)
        return np.column_stack([ratio, moved.sum(axis=1), moved.min(axis=1), moved.max(axis=1)])


def worst_shown(entry: Entry) -> tuple[Pair, Callable[[], Noise], bool]:
    """The worst user, the answers to record, and whether they are recorded where the user is."""
    return lone_pair(entry.worst), Follows if entry.follows else KeepsEverything, entry.follows


def queries_of(pipeline: Pipeline, entry: Entry) -> list[Query]:
    """Every query of the mechanism on the entry's worst user, in order. `pipeline` is of the tight size."""
    pair, source, swap = worst_shown(entry)
    sides = [[], event_table(pair.after())]
    recorded = RecordingNoise(source(), KEY)
    pipeline.measure(pipeline.counted(sides[swap], KEY), recorded)
    replayed = ReplayNoise(recorded.calls, KEY)
    pipeline.measure(pipeline.counted(sides[not swap], KEY), replayed)
    if len(replayed.calls) != len(recorded.calls):
        raise GuaranteeError("audit-path", "the mechanism asks other things with the user than without.")
    before, after = (replayed, recorded) if swap else (recorded, replayed)
    return [Query.of(*calls) for calls in zip(before.calls, after.calls, strict=True)]


@dataclass(frozen=True, eq=False)
class Runs:
    """Statistics of many runs: of every spend, of all spends together, and of those with a mu."""

    spends: dict[str, Sides]
    whole: Sides  # without choices
    gaussian: Sides | None


def run_spends(
    queries: list[Query], noise: Noise, runs: int, choices: int, advance: Advance | None = None
) -> Runs:
    """Many runs of all queries of a mechanism; choices fewer times, since they are drawn one by one."""
    drawn = [query for query in queries if query.kind not in PICKS]
    sides = _statistics(drawn, noise, runs, advance)

    def together(chosen: Callable[[Query], bool]) -> Sides:
        with_user, without = (
            _together([part for query, part in zip(drawn, side, strict=True) if chosen(query)])
            for side in sides
        )
        return with_user, without

    names = dict.fromkeys(query.name for query in drawn)
    spends = {name: together(lambda query, name=name: query.name == name) for name in names}
    for name in dict.fromkeys(query.name for query in queries if query.kind in PICKS):
        spends[name] = sample([query for query in queries if query.name == name], noise, choices)
    mixed = any(query.has_mu for query in drawn)
    gaussian = together(lambda query: query.has_mu) if mixed else None
    return Runs(spends, together(lambda query: True), gaussian)


def sample(queries: list[Query], noise: Noise, runs: int) -> Sides:
    """Statistics [runs, 4] of some queries together: with the user, and without.

    The ratios and totals of several queries add up; the least and largest cell are over all queries.
    """
    with_user, without = map(_together, _statistics(queries, noise, runs))
    return with_user, without


def _statistics(
    queries: list[Query], noise: Noise, runs: int, advance: Advance | None = None
) -> list[list[np.ndarray]]:
    """Statistics [runs, 4] of each query, with the user and without."""
    sides: list[list[list[np.ndarray]]] = [[], []]  # chunks
    for chunk in _chunks(runs, max(sum(query.before.size for query in queries), 1)):
        for side, with_user in zip(sides, (True, False), strict=True):
            side.append([query.statistics(query.draw(noise, with_user, chunk)) for query in queries])
            if advance:
                advance(chunk)
    return [[np.concatenate(parts) for parts in zip(*side, strict=True)] for side in sides]


def _together(parts: list[np.ndarray]) -> np.ndarray:
    cells = np.stack(parts)
    least, largest = cells[:, :, 2].min(axis=0), cells[:, :, 3].max(axis=0)
    return np.column_stack([*cells[:, :, :2].sum(axis=0).T, least, largest])


def _chunks(runs: int, cells_per_run: int) -> Iterator[int]:
    each = max(1, CHUNK_DRAWS // cells_per_run)
    for start in range(0, runs, each):
        yield min(each, runs - start)


POINTS, REACH = 20_001, 40.0  # of the grid over the threshold's noise, in scales


def above_probabilities(margins: np.ndarray, scale: float) -> np.ndarray:
    """Probability of each index of a sparse vector test, and of none as the last: float64 [values + 1].

    Written from the definition of the primitive (shoal/privacy/noise.py), for its tests as well:

        P(i) = integral f(t) prod_{j < i} F(t - m_j) (1 - F(t - m_i)) dt

    with f the density of Laplace(scale) and F the distribution of Laplace(2 scale). The lattice is far finer
    than either, so the integral stands for the sum.

    >>> above_probabilities(np.array([0]), 1000.0).round(6).tolist()   # above or below by symmetry
    [0.5, 0.5]
    """
    threshold = np.linspace(-REACH, REACH, POINTS) * scale
    weight = laplace.pdf(threshold, scale=scale)
    weight /= weight.sum()
    probabilities = []
    for margin in margins.astype(np.float64):
        below = laplace.cdf(threshold - margin, scale=2 * scale)
        probabilities.append(float((weight * (1 - below)).sum()))
        weight = weight * below
    return np.array([*probabilities, float(weight.sum())])


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
    """Lower bounds from the runs: epsilon at delta, and mu where it was requested."""

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
        # The choice is made at a stricter alpha: it favours rare events, which test badly later.
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
    """Lower bound that the hits prove, where the event is more frequent on the first side."""
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
