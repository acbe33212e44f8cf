"""Rounds of choosing the rectangle that a model is most wrong about and measuring it; part of mechanisms.

One round: the exponential mechanism over |exact - estimate| of all rectangles not asked yet, then the exact
answer of the chosen one with noise. A unit moves each answer by at most S, so each score by -S to S: a
bounded range of 2 S / scale, which costs 2 S / scale (pure) or (2 S / scale)^2 / 8 (zCDP).

>>> budget = Budget.of(1.0, None)
>>> rounds = Rounds.within(budget, 1, rounds=5, given=20)
>>> [(name, loss.pure_epsilon_nano) for name, loss in rounds.spends()]
[('select', 500000000), ('answers', 500000000)]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from shoal.errors import PlanError
from shoal.privacy.accounting import Budget, Loss, compose
from shoal.privacy.noise import Adder, Noise, adder_within, family_of, whole_estimates

SELECT_SHARE = Fraction(1, 2)  # of the budget of the rounds; the rest is for answers


class Learner(Protocol):
    """A model that is made from noisy answers alone."""

    def estimates(self) -> np.ndarray:
        """float64 [given]: what the model says of every rectangle, in units of the answers."""
        ...

    def learn(self, chosen: int, answer: float) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """`count` rounds of one choice and one noisy answer each."""

    count: int
    sensitivity: int  # S: of every answer, in units of the lattice
    select_scale: float
    answers: Adder

    def __call__(self, exact: np.ndarray, learner: Learner, noise: Noise) -> None:
        """int64 [given] exact answers; what is chosen and measured goes to the learner, one by one."""
        for chosen, answer in self._asked(exact, learner, noise):
            learner.learn(chosen, answer)

    def _asked(self, exact: np.ndarray, learner: Learner, noise: Noise) -> Iterator[tuple[int, float]]:
        left = np.arange(exact.size)
        for _ in range(self.count):
            estimates = whole_estimates(learner.estimates())
            place = noise.choose("select", np.abs(exact - estimates)[left], self.select_scale)
            chosen = int(left[place])
            left = np.delete(left, place)
            yield chosen, float(self.answers.add(noise, "answers", exact[chosen : chosen + 1])[0])

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        family = self.answers.family
        one = family.choice_cost(self.select_scale, family.choice(self.sensitivity))
        return (
            ("select", compose([one] * self.count)),
            ("answers", compose([self.answers.cost(self.sensitivity)] * self.count)),
        )

    def describe(self) -> dict[str, float]:
        return {
            "rounds": self.count,
            "select_scale": self.select_scale / self.sensitivity,
            "answer_scale": self.answers.scale / self.sensitivity,
        }

    @classmethod
    def within(cls, budget: Budget, sensitivity: int, *, rounds: int, given: int) -> Rounds:
        """All of the budget; no more rounds than there are rectangles to choose from."""
        if rounds < 1 or given < 1:
            raise PlanError(
                "histogram-rounds",
                f"rounds need at least one round and one given rectangle; got {rounds} and {given}.",
                "Pass --rounds 5, say, and rectangles to serve.",
            )
        count = min(rounds, given)
        select, budget = budget.take("select", SELECT_SHARE)
        answers, _ = budget.take("answers", 1)
        each = [replace(part, amount=part.amount // count) for part in (select, answers)]
        if not all(part.amount for part in each):
            raise PlanError(
                "histogram-rounds", "the budget is too small for so many rounds.", "Lower --rounds."
            )
        family = family_of(budget)
        return cls(
            count=count,
            sensitivity=sensitivity,
            select_scale=family.choice_scale(each[0], family.choice(sensitivity)),
            answers=adder_within(each[1], sensitivity),
        )
