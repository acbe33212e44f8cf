"""Noisy answers to released ones, and the table that answers queries by multiplicative weights.

Released answers are not negative and rounded, their intervals rounded outwards:

>>> from shoal.stages.noisy import NoisyAnswers
>>> noisy = NoisyAnswers(values=np.array([12.34, -3.0]), half=np.array([5.0, 5.0]), how=("noise", "noise"))
>>> made = finish_answers(noisy, 1)
>>> made.visits.tolist(), made.low.tolist(), made.high.tolist()
([12.3, 0.0], [7.3, 0.0], [17.4, 5.0])

The table of zones and slots starts at a public guess. A noisy answer to a query multiplies the query's cells
by one factor and all others by another, so that the table keeps its total and meets the answer up to one
deviation of its noise: the multiplicative weights update with the step that meets the answer at once. What
lies within the noise changes nothing. Every new answer is followed by a few rounds over all answers so far,
since later ones disturb earlier ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from shoal.space.setting import Questions
from shoal.stages.noisy import Answers, NoisyAnswers


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
