"""Noisy counts to released people per zone and slot, with 95 % intervals.

Intervals. The interval is that of the noise alone, around the count of sampled visits: it does not cover
visits that the bound per user leaves out, as the manifest states. Both ends are cut at zero, since counts are
not negative, and widened to contain the released value; neither can lower the coverage.

Non-negative counts. Setting negative counts to zero would add people on average. Instead, in each slot the
same amount is subtracted from all zones and negatives are set to zero, such that the slot's total is
preserved (Euclidean projection onto the simplex; "norm-sub" in Wang et al. 2020).

>>> keep_totals(np.array([[5.0], [-2.0], [3.0]])).ravel().tolist()
[4.0, 0.0, 2.0]

Rounding. Numbers are rounded to the declared decimals, the ends of intervals outwards.

Scaling up. A sampled visit stands for r = K-hat / B-hat visits: r is at least 1, since the bound drops visits
and adds none, and 1 where the number of sampled visits is not well above its noise. After negative counts
were removed, people are scaled so that their total is K-hat, or the part of it inside the zones, since
removing negative counts can add people where noise is large. All rules use noisy numbers and public scales
only. The interval is that of the noise times r, widened by the noise of r and by the sampling variance. It
does not cover that the bound drops a larger share of visits in some zones than in others.

Answers to queries are cut at zero and rounded, their intervals rounded outwards:

>>> each = {"low": np.array([7.34, -8.0]), "high": np.array([17.34, 2.0]), "clip": np.array([4.0, 4.0])}
>>> noisy = NoisyAnswers(values=np.array([12.34, -3.0]), how=("noise", "noise"), **each)
>>> answers = finish_answers(noisy, 1)
>>> answers.visits.tolist(), answers.low.tolist(), answers.high.tolist()
([12.3, 0.0], [7.3, 0.0], [17.4, 5.0])

Multiplicative weights. The table of zones and slots starts at a public prior. A noisy answer to a query
multiplies the query's cells by one factor and all others by another, such that the total is preserved and the
table meets the answer up to one deviation of its noise; differences within that deviation change nothing.
Every new answer is followed by rounds over all answers so far, since later updates disturb earlier ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from shoal.space.setting import Questions
from shoal.stages.noisy import Answers, CountDoubt, DensityEstimate, NoisyAnswers, NoisyCounts, NoisyScaled


def estimate_density(noisy: NoisyCounts, decimals: int = 1) -> DensityEstimate:
    """Non-negative people with intervals, rounded to the declared decimals (ends rounded outwards)."""
    return round_density(plain_density(noisy), decimals)


def plain_density(noisy: NoisyCounts, *_public: object) -> DensityEstimate:
    """Non-negative people that preserve each slot's total, with intervals cut at zero; not rounded."""
    half = half_width(noisy)
    people = keep_totals(noisy.values)
    low = np.minimum(np.maximum(noisy.values - half, 0.0), people)
    high = np.maximum(noisy.values + half, people)
    variance = np.broadcast_to(deviation(noisy) ** 2, people.shape)
    doubt = CountDoubt(centre=noisy.values, variance=variance, relative=0.0)
    return DensityEstimate(people=people, low=low, high=high, doubt=doubt)


def deviation(noisy: NoisyCounts) -> np.ndarray | float:
    """Standard deviation of the noise of a count."""
    laplace = math.sqrt(2.0) if noisy.family == "discrete laplace" else 1.0
    return laplace * noisy.scale * noisy.gain


def half_width(noisy: NoisyCounts) -> np.ndarray | float:
    """Half a 95 % interval of the noise in a cell: b ln 20 for Laplace noise, else 1.96 standard deviations.

    With Fourier components (FPA) the noise of a cell is a sum of many draws, so nearly normal. The lattice
    step is negligible against either.
    """
    reach = math.log(20.0) if noisy.family == "discrete laplace" else Z95
    return reach * noisy.scale * noisy.gain


Z95 = 1.959963984540054


def keep_totals(noisy: np.ndarray) -> np.ndarray:
    """Per slot (column): the nearest non-negative vector with the same total (zero if that is negative)."""
    zones, slots = noisy.shape
    totals = noisy.sum(axis=0)
    ordered = -np.sort(-noisy, axis=0)
    # If the j largest stay positive, each loses (their sum - total) / j; j is the largest possible.
    shift = (np.cumsum(ordered, axis=0) - totals) / np.arange(1, zones + 1)[:, None]
    positive = (ordered > shift).sum(axis=0)
    lost = shift[np.maximum(positive, 1) - 1, np.arange(slots)]
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
    return replace(estimate, people=people, low=np.minimum(low, people), high=np.maximum(high, people))


CLEAR = 4.0  # deviations above zero that a noisy number needs to serve as a divisor or a target


def scaled_density(noisy: NoisyScaled, *_public: object) -> DensityEstimate:
    """Non-negative people, scaled to the total of all visits where the noise allows; not rounded."""
    ratio = per_sampled_visit(noisy)
    people = keep_totals(noisy.counts.values)
    people = people * total_factor(noisy, float(people.sum()), ratio)
    centre = ratio * noisy.counts.values
    most = np.maximum(centre, people)
    sampling = (ratio - 1.0) * most  # each visit was sampled with probability 1 / ratio
    relative = min(_ratio_deviation(noisy, ratio), 1.0)
    noise = ratio * half_width(noisy.counts)
    half = np.sqrt(noise**2 + Z95**2 * (sampling + (relative * most) ** 2))
    low = np.minimum(np.maximum(centre - half, 0.0), people)
    high = np.maximum(centre + half, people)
    variance = (ratio * deviation(noisy.counts)) ** 2 + sampling
    doubt = CountDoubt(centre=centre, variance=variance, relative=relative)
    return DensityEstimate(people=people, low=low, high=high, doubt=doubt)


def per_sampled_visit(noisy: NoisyScaled) -> float:
    """Visits that one sampled visit stands for: from 1 to the public `most`."""
    if noisy.sampled < max(CLEAR * noisy.sampled_deviation, 1.0):
        return 1.0
    return min(max(noisy.visits / noisy.sampled, 1.0), max(noisy.most, 1.0))


def total_factor(noisy: NoisyScaled, total: float, ratio: float) -> float:
    """Factor that scales people of this total to all visits inside the zones.

    If the sum of the counts is not well above its noise, the factor is at most the ratio, since the sum would
    otherwise serve as a divisor.
    """
    known = (
        noisy.visits >= CLEAR * noisy.visits_deviation and noisy.sampled >= CLEAR * noisy.sampled_deviation
    )
    if not known or total <= 0 or noisy.sampled <= 0:
        return ratio
    counted = float(noisy.counts.values.sum())
    inside = min(max(counted / noisy.sampled, noisy.inside[0]), noisy.inside[1])
    wanted = ratio * noisy.sampled * inside
    if counted >= CLEAR * total_deviation(noisy.counts):
        return wanted / total
    return min(wanted / total, ratio)


def total_deviation(counts: NoisyCounts) -> float:
    """Deviation of the noise of the sum of all counts; draws are independent per count or coefficient."""
    laplace = math.sqrt(2.0) if counts.family == "discrete laplace" else 1.0
    return laplace * counts.scale * math.sqrt(counts.values.size)


def _ratio_deviation(noisy: NoisyScaled, ratio: float) -> float:
    """Relative deviation of the ratio by which counts are scaled up."""
    if ratio <= 1.0:
        return 0.0
    return math.hypot(
        noisy.visits_deviation / max(noisy.visits, 1.0), noisy.sampled_deviation / noisy.sampled
    )


def finish_answers(noisy: NoisyAnswers, decimals: int) -> Answers:
    """Answers cut at zero, since counts are not negative, and rounded; an upper end keeps its distance.

    Neither excludes a possible value, so the coverage does not decrease.
    """
    step = 10.0**decimals
    visits = np.round(np.maximum(noisy.values, 0.0), decimals)
    low = np.floor(np.maximum(noisy.low, 0.0) * step) / step
    high = np.ceil((noisy.high + np.maximum(-noisy.values, 0.0)) * step) / step
    return Answers(
        visits=visits,
        low=np.minimum(low, visits),
        high=np.maximum(high, visits),
        clip=np.ceil(noisy.clip * 1000) / 1000,
        how=tuple(noisy.how),
    )


ROUNDS = 3  # over all answers so far, after each new one
LARGEST_STEP = 1.0  # largest change of the log-odds per update, so that arbitrary answers are harmless
SMALLEST = 2.0**-20  # smallest total, in visits: noise may make a small one negative
EDGE = 1e-6  # least share of the total for a question's cells, and for all others


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedTable:
    """Table of visits per zone and slot, fitted to the answers so far."""

    questions: Questions
    table: np.ndarray = field(repr=False)  # float64 [zones, slots], positive, sums to `total`
    total: float
    answers: dict[int, tuple[float, float]] = field(repr=False)  # question -> noisy answer, deviation

    @classmethod
    def start(cls, questions: Questions, prior: np.ndarray, total: float) -> LearnedTable:
        """The public, non-negative `prior`, scaled to a measured total."""
        total = max(total, SMALLEST)
        return cls(questions=questions, table=prior / prior.sum() * total, total=total, answers={})

    def values(self) -> np.ndarray:
        """Answers every query from the table, in visits."""
        return self.questions.values(self.table)

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
        """Scales the query's cells until their sum is within one deviation of the answer; in place."""
        zones, slots = self.questions.each[question].zones, self.questions.each[question].slots
        cells = np.ix_(zones, slots)
        inside = table[cells]
        before = float(inside.sum())
        target = before + math.copysign(max(abs(answer - before) - deviation, 0.0), answer - before)
        if target == before:
            return
        low, high = EDGE * self.total, (1 - EDGE) * self.total
        target, before = min(max(target, low), high), min(max(before, low), high)
        step = math.log(target / before) - math.log((self.total - target) / (self.total - before))
        table[cells] = inside * math.exp(min(max(step, -LARGEST_STEP), LARGEST_STEP))
        table *= self.total / table.sum()
