"""Many runs of each named spend of a mechanism, alone and together, on the user that costs the most.

The mechanism runs once on a city without the user and once with, both given the same answers (all
coefficients kept, else zeros). What it asked of the noise on either side, at which scale, are its queries.
They are then asked many times over, and a run of a spend is turned into a few numbers: the log-likelihood
ratio of the two sides if the noise is what it claims to be; total, least and largest cell for when it is not.

Queries that depend on earlier answers are so taken along one path: a bound above the claim of a spend, or of
all of them, shows a broken promise as well there. What a mechanism does with its answers is for replay.

Exact chances of the sparse vector primitive, by integration over the threshold's noise.

For the lower bounds and for tests of the primitive (shoal/privacy/above.py), written from its definition:

    P(i) = integral f(t) prod_{j < i} F(t - m_j) (1 - F(t - m_i)) dt

with f the density of Laplace(scale) and F the distribution of Laplace(2 scale). The lattice is far finer than
either, so the integral stands for the sum.

>>> above_chances(np.array([0]), 1000.0).round(6).tolist()           # above or below by symmetry
[0.5, 0.5]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax
from scipy.stats import laplace

from shoal.auditing.pairs import Pair, lone_pair
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.replay import PICKS, Answers, Call, RecordingNoise, ReplayNoise, ask
from shoal.auditing.tables import event_table
from shoal.errors import GuaranteeError
from shoal.mechanisms.registry import Entry
from shoal.privacy.noise import Noise

CHUNK_DRAWS = 400_000  # noise per call: enough to be worth a second process, small enough for progress
NEGLIGIBLE = 1e-6  # of the largest change: cells that tell nothing are not drawn
FINE = 4.0  # steps: from here a discrete Gaussian's mu is within a hundredth of the continuous one's
KEY = bytes(16)
MANY = 2**20  # users, whose values answers are made of where the worst user is followed

Advance = Callable[[int], None]
Sides = tuple[np.ndarray, np.ndarray]  # statistics [runs, numbers] with the user, and without


@dataclass(frozen=True, eq=False)
class Query:
    """What a mechanism asked of one primitive on the two sides; only the cells that differ."""

    kind: str
    name: str
    scale: float
    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, one: Call, other: Call) -> Query:
        before, after = one.exact.ravel(), other.exact.ravel()
        size = np.abs((after - before).astype(np.float64))
        told = np.arange(before.size) if one.kind in PICKS else size > NEGLIGIBLE * size.max(initial=1.0)
        return cls(one.kind, one.name, one.scale, before[told], after[told])

    @property
    def has_mu(self) -> bool:
        """Gaussian noise of many steps: below, its trade-off curve is not that of the continuous law."""
        return self.kind == "gaussian" and self.scale >= FINE

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
            with_user, without = (above_chances(side, self.scale) for side in (self.after, self.before))
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


class KeepsEverything(Answers):
    """Answers of zero, and of choices the last one: all coefficients are kept."""

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        if kind in PICKS:
            return exact.size - 1 if kind == "choose" else 0
        return self.values(name, exact)

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        return np.zeros_like(exact)


class Follows(KeepsEverything):
    """Answers as if very many did what is asked about: what only large values lead to is asked as well."""

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        return exact * MANY


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

    @property
    def count(self) -> int:
        return len(self.whole[0])


def run_spends(
    queries: list[Query], noise: Noise, runs: int, choices: int, advance: Advance | None = None
) -> Runs:
    """Many runs of all queries of a mechanism; choices fewer times, since they are drawn one by one."""
    drawn = [query for query in queries if query.kind not in PICKS]
    sides: list[list[list[np.ndarray]]] = [[], []]  # chunks of the statistics of each query
    for chunk in _chunks(runs, max(sum(query.before.size for query in drawn), 1)):
        for side, with_user in zip(sides, (True, False), strict=True):
            side.append([query.statistics(query.draw(noise, with_user, chunk)) for query in drawn])
            if advance:
                advance(chunk)
    seen = [[np.concatenate(parts) for parts in zip(*side, strict=True)] for side in sides]

    def together(chosen: Callable[[Query], bool]) -> Sides:
        with_user, without = (
            _together([part for query, part in zip(drawn, side, strict=True) if chosen(query)])
            for side in seen
        )
        return with_user, without

    names = dict.fromkeys(query.name for query in drawn)
    spends = {name: together(lambda query, name=name: query.name == name) for name in names}
    for name in dict.fromkeys(query.name for query in queries if query.kind in PICKS):
        spends[name] = sample([query for query in queries if query.name == name], noise, choices)
    mixed = any(query.has_mu for query in drawn)
    gaussian = together(lambda query: query.has_mu) if mixed else None
    return Runs(spends, together(lambda query: True), gaussian)


def sample(queries: list[Query], noise: Noise, runs: int, advance: Advance | None = None) -> Sides:
    """Statistics [runs, 4] of some queries together: with the user, and without.

    Of several queries ratios and totals add up; the least and the largest cell are over all of them.
    """
    sides: list[list[np.ndarray]] = [[], []]
    for chunk in _chunks(runs, max(sum(query.before.size for query in queries), 1)):
        for side, with_user in zip(sides, (True, False), strict=True):
            seen = [query.statistics(query.draw(noise, with_user, chunk)) for query in queries]
            side.append(_together(seen))
            if advance:
                advance(chunk)
    return np.concatenate(sides[0]), np.concatenate(sides[1])


def _together(seen: list[np.ndarray]) -> np.ndarray:
    cells = np.stack(seen)
    least, largest = cells[:, :, 2].min(axis=0), cells[:, :, 3].max(axis=0)
    return np.column_stack([*cells[:, :, :2].sum(axis=0).T, least, largest])


def _chunks(runs: int, cells_per_run: int) -> Iterator[int]:
    each = max(1, CHUNK_DRAWS // cells_per_run)
    for start in range(0, runs, each):
        yield min(each, runs - start)


POINTS, REACH = 20_001, 40.0  # of the grid over the threshold's noise, in scales


def above_chances(margins: np.ndarray, scale: float) -> np.ndarray:
    """Chance of each index, and of none as the last: float64 [values + 1]."""
    threshold = np.linspace(-REACH, REACH, POINTS) * scale
    weight = laplace.pdf(threshold, scale=scale)
    weight /= weight.sum()
    chances = []
    for margin in margins.astype(np.float64):
        below = laplace.cdf(threshold - margin, scale=2 * scale)
        chances.append(float((weight * (1 - below)).sum()))
        weight = weight * below
    return np.array([*chances, float(weight.sum())])
