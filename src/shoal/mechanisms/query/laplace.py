"""Answers to counting questions, each with its own discrete Laplace noise.

Guarantee    epsilon-DP for all answers together, epsilon = sum over questions of Delta_i / b_i.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  Delta_i <= min(ell, |T_i|) max_s W_s(S_i): a user has at most one visit in each slot of T_i and
             at most ell in all; a visit at place s adds the share of its area weights that falls into S_i.
Public       questions, zones, slots, W, ell, all b.
Source       Acs, Biczok and Castelluccia 2018, section 3.1.2: independent noise per query.
Deviations   discrete instead of continuous noise (Ghosh, Roughgarden, Sundararajan 2009: the same epsilon);
             every question has the same share of epsilon.

>>> from shoal.space.question import Question
>>> from shoal.space.weights import AreaWeights
>>> asked = Questions.of([Question(zones=(0,), slots=(8,)), Question(zones=(0, 1), slots=tuple(range(168)))],
...                      AreaWeights.identity(2), slots=168, ell=30)
>>> mechanism = QueryLaplace.within(10**9, asked)
>>> mechanism.loss().pure_epsilon_nano
1000000000
>>> [adder.scale / 2**20 for adder in mechanism.adders]             # in visits
[2.0, 60.0]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.adders import LaplaceAdder
from shoal.mechanisms.query.input import add_each, check_table, questions_on
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.question import Question, Questions
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyAnswers


@dataclass(frozen=True, kw_only=True)
class QueryLaplace:
    """Every question's sum plus independent discrete Laplace noise, in lattice units."""

    asked: Questions
    adders: tuple[LaplaceAdder, ...]

    name = "query-laplace"
    takes = "counts"

    def loss(self) -> Loss:
        return self.spends()[0][1]

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """All answers as one pure release, as the ledger charges it."""
        each = zip(self.adders, self.asked.sensitivity, strict=True)
        whole = sum(adder.cost(delta).pure_epsilon_nano or 0 for adder, delta in each)
        return (("answers", Loss.pure(whole)),)

    @property
    def ell(self) -> int:
        return self.asked.ell

    @property
    def deviations(self) -> np.ndarray:
        """Of the noise of each answer, in lattice units."""
        return np.array([adder.deviation for adder in self.adders])

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
        check_table(exact, self.asked)
        noisy = add_each(noise, "answers", self.asked.values(exact.units), self.adders)
        lattice = self.asked.lattice
        half = np.array([adder.scale for adder in self.adders]) * math.log(20.0)
        return NoisyAnswers(values=noisy / lattice, half=half / lattice, how=("noise",) * len(noisy))

    @classmethod
    def within(cls, epsilon_nano: int, asked: Questions) -> QueryLaplace:
        """The least noise whose loss stays within epsilon, the same share for every question."""
        share = epsilon_nano // asked.count
        if share == 0:
            raise PlanError("query-many", "the budget is too small for so many queries.", "Raise --epsilon.")
        return cls(
            asked=asked, adders=tuple(LaplaceAdder.within(share, delta) for delta in asked.sensitivity)
        )

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, questions: list[Question], ell: int) -> QueryLaplace:
        """All of the budget, for questions on a setting."""
        return cls.within(budget.left, questions_on(setting, questions, ell))
