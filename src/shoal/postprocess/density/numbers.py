"""Noisy counts to released people per zone and slot, with 95 % intervals.

The interval is that of the noise alone, around the count of bounded visits: it does not cover what the
bound on visits per user leaves out, which the manifest says. Both ends are cut at zero, since counts are
not negative, and widened to hold the released value; neither can lower the coverage.

Non-negative counts that keep each slot's noisy total.

Setting negative counts to zero would add people on average. Instead, in each slot the same amount is
subtracted from all zones, and negatives are set to zero, such that the slot's total stays what it was
(the Euclidean projection onto the simplex; "norm-sub" in Wang et al. 2020).

>>> keep_totals(np.array([[5.0], [-2.0], [3.0]])).ravel().tolist()
[4.0, 0.0, 2.0]

Released numbers rounded to the declared decimals, the ends of intervals outwards.

Noisy counts of bounded visits to people: scaled up to all visits, with 95 % intervals.

A kept visit stands for r = K-hat / B-hat visits: r is at least 1, since the bound drops visits and adds none,
and 1 where the number of kept visits is not well above its own noise. The people that are left after
negative counts were removed are then scaled so that their total is K-hat, or the part of it inside the zones:
removing negative counts can add people where noise is large. Every rule looks at noisy numbers and public
scales only.

The interval is that of the noise times r, widened by the noise of r and by the chance of which visits were
kept. It does not cover that zones differ in how many of their visits the bound left out.

Released answers to queries are not negative and rounded, their intervals rounded outwards:

>>> noisy = NoisyAnswers(values=np.array([12.34, -3.0]), half=np.array([5.0, 5.0]), how=("noise", "noise"))
>>> made = finish_answers(noisy, 1)
>>> made.visits.tolist(), made.low.tolist(), made.high.tolist()
([12.3, 0.0], [7.3, 0.0], [17.4, 5.0])

The table of zones and slots that answers queries starts at a public guess. A noisy answer to a query
multiplies the query's cells by one factor and all others by another, so that the table keeps its total and
meets the answer up to one deviation of its noise: the multiplicative weights update with the step that meets
the answer at once. What lies within the noise changes nothing. Every new answer is followed by a few rounds
over all answers so far, since later ones disturb earlier ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from shoal.space.setting import Questions
from shoal.stages.noisy import Answers, DensityEstimate, NoisyAnswers, NoisyCounts, NoisyScaled


def estimate_density(noisy: NoisyCounts, decimals: int = 1) -> DensityEstimate:
    """Non-negative people with intervals, rounded to the declared decimals (ends rounded outwards)."""
    return round_density(plain_density(noisy), decimals)


def plain_density(noisy: NoisyCounts, *_public: object) -> DensityEstimate:
    """The same before rounding: non-negative people that keep each slot's total, intervals cut at zero."""
    half = half_width(noisy)
    people = keep_totals(noisy.values)
    low = np.minimum(np.maximum(noisy.values - half, 0.0), people)
    high = np.maximum(noisy.values + half, people)
    return DensityEstimate(people=people, low=low, high=high)


def half_width(noisy: NoisyCounts) -> np.ndarray | float:
    """Half a 95 % interval of the noise in a cell: b ln 20 for Laplace noise, else 1.96 standard deviations.

    Waves (FPA) add up many draws in each cell: normal, or near it. A lattice step is far below either.
    """
    reach = math.log(20.0) if noisy.family == "discrete laplace" else Z95
    return reach * noisy.scale * noisy.gain


Z95 = 1.959963984540054


def keep_totals(noisy: np.ndarray) -> np.ndarray:
    """Per slot (column): the nearest non-negative vector with the same total (zero if that is negative)."""
    zones, slots = noisy.shape
    totals = noisy.sum(axis=0)
    ordered = -np.sort(-noisy, axis=0)
    # With the j largest kept, each loses (their sum - total) / j; keep as many as stay positive.
    shift = (np.cumsum(ordered, axis=0) - totals) / np.arange(1, zones + 1)[:, None]
    kept = (ordered > shift).sum(axis=0)
    lost = shift[np.maximum(kept, 1) - 1, np.arange(slots)]
    result = np.maximum(noisy - lost, 0.0)
    result[:, totals <= 0] = 0.0
    return result


def round_density(estimate: DensityEstimate, decimals: int = 1) -> DensityEstimate:
    """People rounded, low rounded down, high rounded up; the interval holds the rounded value.

    >>> one = DensityEstimate(people=np.array([[1.26]]), low=np.array([[0.38]]), high=np.array([[2.11]]))
    >>> rounded = round_density(one, 1)
    >>> (rounded.people.item(), rounded.low.item(), rounded.high.item())
    (1.3, 0.3, 2.2)
    """
    unit = 10.0**decimals
    people = np.round(estimate.people, decimals)
    low = np.floor(estimate.low * unit) / unit
    high = np.ceil(estimate.high * unit) / unit
    return DensityEstimate(people=people, low=np.minimum(low, people), high=np.maximum(high, people))


CLEAR = 4.0  # deviations above zero from which a noisy number is divided by, or scaled down to


def scaled_density(noisy: NoisyScaled, *_public: object) -> DensityEstimate:
    """Non-negative people whose total is that of all visits, where noise allows to say so; not rounded."""
    ratio = per_kept_visit(noisy)
    people = keep_totals(noisy.counts.values)
    people = people * total_factor(noisy, float(people.sum()), ratio)
    centre = ratio * noisy.counts.values
    half = _half_width(noisy, ratio, np.maximum(centre, people))
    low = np.minimum(np.maximum(centre - half, 0.0), people)
    high = np.maximum(centre + half, people)
    return DensityEstimate(people=people, low=low, high=high)


def per_kept_visit(noisy: NoisyScaled) -> float:
    """Visits that one kept visit stands for: from 1 to the public `most`."""
    if noisy.kept < max(CLEAR * noisy.kept_deviation, 1.0):
        return 1.0
    return min(max(noisy.visits / noisy.kept, 1.0), max(noisy.most, 1.0))


def total_factor(noisy: NoisyScaled, total: float, ratio: float) -> float:
    """What people of this total are scaled by: to all visits inside the zones.

    Where the counts together are not clear of their noise, never by more than the ratio: that would be to
    divide by noise.
    """
    known = noisy.visits >= CLEAR * noisy.visits_deviation and noisy.kept >= CLEAR * noisy.kept_deviation
    if not known or total <= 0 or noisy.kept <= 0:
        return ratio
    counted = float(noisy.counts.values.sum())
    inside = min(max(counted / noisy.kept, noisy.inside[0]), noisy.inside[1])
    wanted = ratio * noisy.kept * inside
    if counted >= CLEAR * total_deviation(noisy.counts):
        return wanted / total
    return min(wanted / total, ratio)


def total_deviation(counts: NoisyCounts) -> float:
    """Of the noise in the sum of all counts: draws are independent, of counts or of orthonormal waves."""
    laplace = math.sqrt(2.0) if counts.family == "discrete laplace" else 1.0
    return laplace * counts.scale * math.sqrt(counts.values.size)


def _half_width(noisy: NoisyScaled, ratio: float, people: np.ndarray) -> np.ndarray:
    noise = ratio * half_width(noisy.counts)
    doubt = 0.0
    if ratio > 1.0:
        doubt = np.hypot(noisy.visits_deviation / max(noisy.visits, 1.0), noisy.kept_deviation / noisy.kept)
    chance = (ratio - 1.0) * np.maximum(
        people, 0.0
    )  # variance: each visit was kept with probability 1 / ratio
    return np.sqrt(noise**2 + Z95**2 * (chance + (min(doubt, 1.0) * people) ** 2))


def finish_answers(noisy: NoisyAnswers, decimals: int) -> Answers:
    """Cut at zero, since counts are not negative; an interval reaches up from zero as it does from an answer.

    Neither takes away what can be true, so neither lowers the coverage.
    """
    step = 10.0**decimals
    visits = np.round(np.maximum(noisy.values, 0.0), decimals)
    low = np.floor(np.maximum(noisy.values - noisy.half, 0.0) * step) / step
    high = np.ceil((np.maximum(noisy.values, 0.0) + noisy.half) * step) / step
    return Answers(
        visits=visits, low=np.minimum(low, visits), high=np.maximum(high, visits), how=tuple(noisy.how)
    )


ROUNDS = 3  # over all answers so far, after each new one
LARGEST_STEP = 1.0  # of the logarithm of the odds, per update: arbitrary answers stay harmless
SMALLEST = 2.0**-20  # of a total, in visits: noise may take a small one below zero
EDGE = 1e-6  # share of the total that a question's cells never go below, nor the others


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedTable:
    """Visits per zone and slot as the answers so far have it."""

    asked: Questions
    table: np.ndarray = field(repr=False)  # float64 [zones, slots], positive, sums to `total`
    total: float
    answers: dict[int, tuple[float, float]] = field(repr=False)  # question -> noisy answer, deviation

    @classmethod
    def start(cls, asked: Questions, prior: np.ndarray, total: float) -> LearnedTable:
        """The public guess `prior`, not negative, times a bought total."""
        total = max(total, SMALLEST)
        return cls(asked=asked, table=prior / prior.sum() * total, total=total, answers={})

    def values(self) -> np.ndarray:
        """What the table says to every question, in visits."""
        return self.asked.values(self.table)

    def after(self, question: int, answer: float, deviation: float) -> LearnedTable:
        """The table after one more noisy answer."""
        answers = {**self.answers, question: (answer, deviation)}
        table = self.table.copy()
        newest_first = list(answers.items())[::-1]
        for _ in range(ROUNDS):
            for number, (value, doubt) in newest_first:
                self._meet(table, number, value, doubt)
        return replace(self, table=table, answers=answers)

    def _meet(self, table: np.ndarray, question: int, answer: float, deviation: float) -> None:
        """Move the question's cells until they are within one deviation of the answer; in place."""
        zones, slots = self.asked.each[question].zones, self.asked.each[question].slots
        cells = np.ix_(zones, slots)
        inside = table[cells]
        said = float(inside.sum())
        target = said + math.copysign(max(abs(answer - said) - deviation, 0.0), answer - said)
        if target == said:
            return
        low, high = EDGE * self.total, (1 - EDGE) * self.total
        target, said = min(max(target, low), high), min(max(said, low), high)
        step = math.log(target / said) - math.log((self.total - target) / (self.total - said))
        table[cells] = inside * math.exp(min(max(step, -LARGEST_STEP), LARGEST_STEP))
        table *= self.total / table.sum()
