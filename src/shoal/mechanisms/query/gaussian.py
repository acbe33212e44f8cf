"""Answers to counting questions, each with its own discrete Gaussian noise.

Guarantee    rho-zCDP for all answers together, rho = sum over questions of Delta_i^2 / (2 sigma_i^2).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  Delta_i <= min(ell, |T_i|) max_s W_s(S_i): a user has at most one visit in each slot of T_i and
             at most ell in all; a visit at place s adds the share of its area weights that falls into S_i.
Public       questions, zones, slots, W, ell, all sigma.
Source       Acs, Biczok and Castelluccia 2018, section 3.1.2: independent noise per query.
Deviations   discrete instead of continuous noise (Canonne, Kamath, Steinke 2020: the same rho); zCDP instead
             of advanced composition; every question has the same share of rho.

>>> from shoal.space.question import Question
>>> from shoal.space.weights import AreaWeights
>>> asked = Questions.of([Question(zones=(0,), slots=(8,)), Question(zones=(0, 1), slots=tuple(range(168)))],
...                      AreaWeights.identity(2), slots=168, ell=30)
>>> mechanism = QueryGaussian.within(1_000_000, asked)
>>> mechanism.loss().rho_nano
1000000
>>> (mechanism.deviations / 2**20).round(1).tolist()                # in visits
[31.6, 948.7]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.adders import GaussianAdder
from shoal.mechanisms.query.input import add_each, check_table, questions_on
from shoal.postprocess.density.numbers import Z95
from shoal.privacy.accounting import Budget, Loss, compose
from shoal.privacy.noise import Noise
from shoal.space.question import Question, Questions
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyAnswers


@dataclass(frozen=True, kw_only=True)
class QueryGaussian:
    """Every question's sum plus independent discrete Gaussian noise, in lattice units."""

    asked: Questions
    adders: tuple[GaussianAdder, ...]

    name = "query-gaussian"
    takes = "counts"

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        each = zip(self.adders, self.asked.sensitivity, strict=True)
        return (("answers", compose(adder.cost(delta) for adder, delta in each)),)

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
        return NoisyAnswers(
            values=noisy / lattice, half=Z95 * self.deviations / lattice, how=("noise",) * len(noisy)
        )

    @classmethod
    def within(cls, rho_nano: int, asked: Questions) -> QueryGaussian:
        """The least noise whose loss stays within rho, the same share for every question."""
        share = rho_nano // asked.count
        if share == 0:
            raise PlanError("query-many", "the budget is too small for so many queries.", "Raise --epsilon.")
        return cls(
            asked=asked, adders=tuple(GaussianAdder.within(share, delta) for delta in asked.sensitivity)
        )

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, questions: list[Question], ell: int) -> QueryGaussian:
        """All of the budget, for questions on a setting."""
        return cls.within(budget.left, questions_on(setting, questions, ell))
