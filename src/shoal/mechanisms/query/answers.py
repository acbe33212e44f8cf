"""Answers to counting questions, each with its own discrete Gaussian or discrete Laplace noise.

Guarantee    for all answers together, rho-zCDP with rho = sum over questions of Delta_i^2 / (2 sigma_i^2)
             (Gaussian), or epsilon-DP with epsilon = sum over questions of Delta_i / b_i (Laplace).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  Delta_i <= min(ell, |T_i|) max_s W_s(S_i): a user has at most one visit in each slot of T_i and
             at most ell in all; a visit at place s adds the share of its area weights that falls into S_i.
Public       questions, zones, slots, W, ell, the family and all scales of the noise.
Source       Acs, Biczok and Castelluccia 2018, section 3.1.2: independent noise per query.
Deviations   discrete instead of continuous noise (Canonne, Kamath, Steinke 2020: the same rho; Ghosh,
             Roughgarden, Sundararajan 2009: the same epsilon); zCDP instead of advanced composition; every
             question has the same share of the budget.

>>> from shoal.privacy.noise import GAUSSIAN, LAPLACE
>>> from shoal.space.setting import Question
>>> from shoal.space.geography import AreaWeights
>>> each = [Question(zones=(0,), slots=(8,)), Question(zones=(0, 1), slots=tuple(range(168)))]
>>> questions = Questions.of(each, AreaWeights.identity(2), slots=168, ell=30)
>>> mechanism = QueryAnswers.within(GAUSSIAN, 1_000_000, questions)
>>> mechanism.loss().rho_nano, [round(adder.scale / 2**20, 1) for adder in mechanism.adders]  # in visits
(1000000, [31.6, 948.7])
>>> mechanism = QueryAnswers.within(LAPLACE, 10**9, questions)
>>> mechanism.loss().pure_epsilon_nano, [adder.scale / 2**20 for adder in mechanism.adders]
(1000000000, [2.0, 60.0])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.density.counts import check_input
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Family, Noise, family_of
from shoal.space.geography import Setting
from shoal.space.setting import Question, Questions
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyAnswers


@dataclass(frozen=True, kw_only=True)
class QueryAnswers:
    """Every question's sum plus independent discrete noise, in lattice units."""

    family: Family
    questions: Questions
    adders: tuple[Adder, ...]

    takes = "counts"

    @property
    def name(self) -> str:
        return f"query-{self.family.name}"

    def loss(self) -> Loss:
        return self.spends()[0][1]

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """All answers as one release, as the ledger charges it."""
        each = zip(self.adders, self.questions.sensitivity, strict=True)
        whole = sum(adder.amount(delta) for adder, delta in each)
        return (("answers", self.family.as_loss(whole)),)

    @property
    def ell(self) -> int:
        return self.questions.ell

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
        check_table(exact, self.questions)
        values, noisy = self.questions.values(exact.units), np.zeros(self.questions.count, np.int64)
        together: dict[Adder, list[int]] = {}  # equal scales are drawn in one call; their order is public
        for number, adder in enumerate(self.adders):
            together.setdefault(adder, []).append(number)
        for adder, numbers in together.items():
            noisy[numbers] = adder.add(noise, "answers", values[numbers])
        half = np.array([adder.half for adder in self.adders])
        lattice = self.questions.lattice
        return NoisyAnswers(values=noisy / lattice, half=half / lattice, how=("noise",) * len(noisy))

    @classmethod
    def within(cls, family: Family, amount: int, questions: Questions) -> QueryAnswers:
        """The least noise whose loss stays within `amount`, the same share for every question."""
        share = amount // questions.count
        if share == 0:
            raise PlanError("query-many", "the budget is too small for so many queries.", "Raise --epsilon.")
        adders = tuple(Adder.within(family, share, delta) for delta in questions.sensitivity)
        return cls(family=family, questions=questions, adders=adders)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, questions: list[Question], ell: int) -> QueryAnswers:
        """All of the budget, for questions on a setting."""
        each = Questions.of(questions, setting.weights, slots=setting.slots, ell=ell)
        return cls.within(family_of(budget), budget.left, each)


def check_table(exact: ExactCounts, questions: Questions) -> None:
    """Refuses a table with looser bounds than the sensitivities of the questions assume."""
    check_input(exact, ell=questions.ell, slots=questions.slots, lattice=questions.lattice)
    if exact.column_l1 > questions.column_l1 or exact.column_l2_squared > questions.column_l2_squared:
        raise GuaranteeError("sensitivity", "the area weights are larger than the mechanism was built for.")
