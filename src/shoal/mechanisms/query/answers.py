"""Answers to counting queries: all visits, each user clipped, with independent noise for every query.

Guarantee    for all answers together, rho-zCDP with rho = sum over queries of 1 / (2 s_i^2) + c_i^2 / (2
             sigma_i^2) (Gaussian), or epsilon-DP with epsilon = sum of 1 / b'_i + c_i / b_i (Laplace).
Unit         one user.        Neighbours   add or remove one user.
Requires     every user in at most one class of sizes of a query, adding at most the clip to each clipped sum
             (done in the kernel, checked on its output).
Sensitivity  sizes: 1 in norm 1 and 2, since a user is in one class. Answer: the clip c_i, which follows from
             the noisy sizes and public numbers; the steps compose adaptively.
Public       queries, zones, slots, W, the classes and clips to choose from, shares, the family of the noise.
Source       own; clipping as in private mean estimation, with a clip chosen from a noisy histogram; Acs,
             Biczok and Castelluccia 2018, section 3.1.2: independent noise per query.
Deviations   discrete instead of continuous noise (Canonne, Kamath, Steinke 2020: the same rho; Ghosh,
             Roughgarden, Sundararajan 2009: the same epsilon); zCDP instead of advanced composition; every
             query has the same share of the budget. What the clip removes is estimated from the noisy sizes.

>>> from shoal.privacy.noise import GAUSSIAN, LAPLACE
>>> from shoal.space.setting import Question
>>> from shoal.space.geography import AreaWeights
>>> each = [Question(zones=(0,), slots=(8,)), Question(zones=(0, 1), slots=tuple(range(168)))]
>>> queries = Questions.of(each, AreaWeights.identity(2), slots=168, ell=30)
>>> mechanism = QueryAnswers.within(GAUSSIAN, 1_000_000, queries)
>>> [(name, loss.rho_nano) for name, loss in mechanism.spends()]
[('sizes', 166666), ('answers', 833334)]
>>> round(mechanism.adder(2**20).scale / 2**20, 1)       # noise of an answer under a clip of one visit
34.6
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.density.counts import check_input
from shoal.postprocess.query.totals import Z95, Parts
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Composed, Family, Noise, family_of
from shoal.space.geography import Setting
from shoal.space.setting import Question, Questions
from shoal.stages.exact import ExactCounts, UserSums
from shoal.stages.noisy import NoisyAnswers

SIZES = 6  # one part in so many of a query's budget is for the sizes


@dataclass(frozen=True, kw_only=True)
class QueryAnswers(Composed):
    """Noisy users by size, from which each query's clip follows, and noisy clipped sums."""

    family: Family
    questions: Questions
    sizes: int  # of each query, in 1e-9 of rho or epsilon
    answers: int  # the same

    takes = "user sums"

    @property
    def name(self) -> str:
        return f"query-{self.family.name}"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """The shares, which add up to the price; noise is scaled to stay within them."""
        count = self.questions.count
        shares = (("sizes", self.sizes), ("answers", self.answers))
        return tuple((name, self.family.as_loss(count * share)) for name, share in shares)

    def adder(self, clip: int) -> Adder:
        """The noise of an answer under a clip, in lattice units."""
        return Adder.within(self.family, self.answers, clip)

    def __call__(self, exact: UserSums, noise: Noise) -> NoisyAnswers:
        if not isinstance(exact, UserSums):
            raise GuaranteeError("wrong-stage", "this mechanism takes sums of clipped users only.")
        clips, lattice, numbers = self.questions.clips, self.questions.lattice, range(len(exact.clips))
        if not np.array_equal(exact.clips, clips):
            raise GuaranteeError("sensitivity", "the sums have other clips than the mechanism was built for.")
        counter = Adder.within(self.family, self.sizes, 1)
        users = counter.add(noise, "sizes", exact.sizes)
        unit = self.adder(lattice)
        parts = [
            Parts.learn(users[i], sigma=_sigma(counter), clips=clips[i] / lattice, slots=len(each.slots))
            for i, each in enumerate(self.questions.each)
        ]
        chosen = np.array([each.clip(_sigma(unit) / lattice) for each in parts])
        bounds = clips[list(numbers), chosen]
        adders = [self.adder(int(bound)) for bound in bounds]
        noisy = np.zeros(len(parts), np.int64)
        for adder, together in _alike(adders):  # equal scales are drawn in one call
            noisy[together] = adder.add(noise, "answers", exact.sums[together, chosen[together]])
        limits = [
            parts[i].total(noisy[i] / lattice, sigma=_sigma(adders[i]) / lattice, clip=int(chosen[i]))
            for i in numbers
        ]
        low, middle, high = np.array(limits).T
        how = ("noise",) * len(parts)
        return NoisyAnswers(values=middle, low=low, high=high, clip=bounds / lattice, how=how)

    @classmethod
    def within(cls, family: Family, amount: int, questions: Questions) -> QueryAnswers:
        """The least noise whose loss stays within `amount`, the same share for every query."""
        share = amount // questions.count
        if share < SIZES:
            raise PlanError("query-many", "the budget is too small for so many queries.", "Raise --epsilon.")
        return cls(family=family, questions=questions, sizes=share // SIZES, answers=share - share // SIZES)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, questions: list[Question], ell: int = 1) -> QueryAnswers:
        """All of the budget, for queries on a setting."""
        each = Questions.of(questions, setting.weights, slots=setting.slots, ell=ell)
        return cls.within(family_of(budget), budget.left, each)


def _sigma(adder: Adder) -> float:
    """Deviation of the normal distribution with the noise's 95 % interval."""
    return adder.half / Z95


def _alike(adders: list[Adder]) -> Iterator[tuple[Adder, list[int]]]:
    together: dict[Adder, list[int]] = {}  # in order of the queries
    for number, adder in enumerate(adders):
        together.setdefault(adder, []).append(number)
    yield from together.items()


def check_table(exact: ExactCounts, questions: Questions) -> None:
    """Refuses a table with looser bounds than the sensitivities of the queries assume."""
    check_input(exact, ell=questions.ell, slots=questions.slots, lattice=questions.lattice)
    if exact.column_l1 > questions.column_l1 or exact.column_l2_squared > questions.column_l2_squared:
        raise GuaranteeError("sensitivity", "the area weights are larger than the mechanism was built for.")
