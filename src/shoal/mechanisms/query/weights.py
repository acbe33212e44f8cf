"""Answers to many counting queries by private multiplicative weights: only c of them use noisy counts.

Guarantee    rho-zCDP for all answers together, rho = D^2 / (2 s^2) + c (eps^2 / 2) + c Delta^2 / (2 sigma^2)
             + E^2 / (2 s'^2): the total, c tests of eps = 2 E / b each, c answers, one error quantile.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  of a question Delta_i <= min(ell, |T_i|) max_s W_s(S_i), E = max_i Delta_i; of the total
             D = min(ell, slots) max_s W_s. A test uses |exact - predicted| - threshold of all remaining
             questions; each changes by at most E. The error is an order statistic of |exact - answered|, each
             of which changes by at most E, so the order statistic does too.
Public       questions and their order, zones, slots, W, ell, c, threshold, all scales, the prior.
Source       Hardt and Rothblum 2010 (private multiplicative weights); Acs, Biczok and Castelluccia 2018,
             section 3.1.2; AboveThreshold of Dwork and Roth 2014, algorithm 1, started anew for every update.
Deviations   the table has a measured total instead of a known number of people; a question whose test exceeds
             the threshold is answered with fresh noise of its own budget, not by its noisy comparison; the
             update meets the answer exactly (postprocess.density.numbers); after c updates the remaining
             questions are answered without the data; questions that were not measured are answered by the
             final table, not by that of their turn, which is post-processing. The error quantile is new. None
             of this changes the guarantee.

>>> from shoal.space.setting import Question
>>> from shoal.space.geography import AreaWeights
>>> from shoal.privacy.accounting import Budget
>>> each = [Question(zones=(0,), slots=(hour,)) for hour in range(24)]
>>> questions = Questions.of(each, AreaWeights.identity(2), slots=24, ell=5)
>>> mechanism = QueryWeights.within(Budget.of(1.0, 1e-6), questions, np.ones((2, 24)), updates=4)
>>> [name for name, _ in mechanism.spends()]
['total', 'test', 'answers', 'error']
>>> 0.99 * Budget.of(1.0, 1e-6).left < mechanism.loss().gdp_nano <= Budget.of(1.0, 1e-6).left
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.query.answers import check_table
from shoal.postprocess.density.numbers import LearnedTable
from shoal.privacy.accounting import NANO, Budget, Loss, compose
from shoal.privacy.noise import GAUSSIAN, LAPLACE, Adder, Composed, Noise, first_above
from shoal.space.geography import Setting
from shoal.space.setting import Question, Questions, activity
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyAnswers

TOTAL_SHARE = Fraction(1, 50)  # of the budget
ERROR_SHARE = Fraction(1, 20)  # of what is left then
TEST_SHARE = Fraction(1, 2)  # of what is left then; the rest is for answers
QUANTILE = 0.975  # of the errors: with 97.5 % for its own noise, intervals hold for 95 of 100 answers


@dataclass(frozen=True, kw_only=True)
class QueryWeights(Composed):
    """Answers from a learned table; a sparse vector test selects at most c questions to measure."""

    questions: Questions
    prior: np.ndarray = field(repr=False, compare=False)  # float64 [zones, slots], public
    updates: int  # c
    threshold: int  # in lattice units
    test_scale: float  # b of the threshold's noise, in lattice units
    total: Adder
    answers: tuple[Adder, ...] = field(repr=False)
    error: Adder

    name = "query-weights"
    takes = "counts"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """All c tests and answers are charged, whether they are needed or not."""
        costs = [a.cost(delta) for a, delta in zip(self.answers, self.questions.sensitivity, strict=True)]
        dearest = max(costs, key=lambda loss: loss.rho_nano)
        test = LAPLACE.cost(self.test_scale, 2 * self.largest)
        return (
            ("total", self.total.cost(self.questions.whole_sensitivity)),
            ("test", compose([test] * self.updates)),
            ("answers", compose([dearest] * self.updates)),
            ("error", self.error.cost(self.largest)),
        )

    @property
    def ell(self) -> int:
        return self.questions.ell

    @property
    def largest(self) -> int:
        """E: largest sensitivity of the questions, in lattice units."""
        return max(self.questions.sensitivity)

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
        check_table(exact, self.questions)
        lattice, values = self.questions.lattice, self.questions.values(exact.units)
        whole = self.total.add(noise, "total", exact.units.sum(keepdims=True).ravel())
        learned = LearnedTable.start(self.questions, self.prior, float(whole[0]) / lattice)
        turn = 0
        while turn < len(values) and len(learned.answers) < self.updates:
            margins = np.abs(values - on_lattice(learned.values(), lattice))[turn:] - self.threshold
            above = turn + first_above(noise, "test", margins, self.test_scale)
            if above == len(values):
                break
            adder = self.answers[above]
            noisy = adder.add(noise, "answers", values[above : above + 1])
            learned = learned.after(above, float(noisy[0]) / lattice, adder.deviation / lattice)
            turn = above + 1
        return self._answered(values, learned, noise)

    def _answered(self, values: np.ndarray, learned: LearnedTable, noise: Noise) -> NoisyAnswers:
        """Measured answers as they are, the others from the table, with a measured interval."""
        lattice, answers = self.questions.lattice, learned.values()
        predicted = [number for number in range(len(answers)) if number not in learned.answers]
        half = np.zeros(len(answers))
        if predicted:
            errors = np.sort(np.abs(values - on_lattice(answers, lattice))[predicted])
            middle = errors[math.ceil(QUANTILE * len(errors)) - 1]
            noisy = self.error.add(noise, "error", np.array([middle], np.int64))
            half[predicted] = max(float(noisy[0]) + self.error.half, 0.0) / lattice
        for number, (answer, deviation) in learned.answers.items():
            answers[number], half[number] = answer, deviation * GAUSSIAN.half
        how = tuple("noise" if number in learned.answers else "weights" for number in range(len(answers)))
        clip = np.array(self.questions.sensitivity) / lattice
        return NoisyAnswers(values=answers, low=answers - half, high=answers + half, clip=clip, how=how)

    @classmethod
    def within(cls, budget: Budget, questions: Questions, prior: np.ndarray, *, updates: int) -> QueryWeights:
        """All of the budget, in public shares."""
        if budget.pure:
            raise PlanError("not-pure", "multiplicative weights are in rho; a pure budget has none.")
        if (
            prior.shape != (questions.zones, questions.slots)
            or not (prior >= 0).all()
            or not 0 < prior.sum() < np.inf
        ):
            raise GuaranteeError("query-prior", "the prior must be a table of zones and slots, not negative.")
        updates = min(updates, questions.count)
        total, budget = budget.take("total", TOTAL_SHARE)
        error, budget = budget.take("error", ERROR_SHARE)
        test, budget = budget.take("test", TEST_SHARE)
        answers, _ = budget.take("answers", 1)
        largest = max(questions.sensitivity)
        # eps^2 / 2 for each of c tests, rounded up to 1e-9: the largest whole eps within the share
        epsilon_nano = math.isqrt(2 * (test.step_rho_nano // updates) * NANO)
        share = answers.amount // updates
        if not epsilon_nano or not share:
            raise PlanError("query-many", "the budget is too small for so many updates.", "Lower --updates.")
        scale = LAPLACE.scale(epsilon_nano, 2 * largest)
        return cls(
            questions=questions,
            prior=prior,
            updates=updates,
            # noise alone exceeds it for about half a question per update
            threshold=int(2 * scale * math.log(questions.count / updates)),
            test_scale=scale,
            total=Adder.within(GAUSSIAN, total.amount, questions.whole_sensitivity),
            answers=tuple(Adder.within(GAUSSIAN, share, delta) for delta in questions.sensitivity),
            error=Adder.within(GAUSSIAN, error.amount, largest),
        )

    @classmethod
    def of(
        cls, budget: Budget, setting: Setting, *, questions: list[Question], ell: int, updates: int
    ) -> QueryWeights:
        """The same for questions on a setting, with the public prior."""
        each = Questions.of(questions, setting.weights, slots=setting.slots, ell=ell)
        return cls.within(budget, each, public_prior(setting), updates=updates)


def public_prior(setting: Setting) -> np.ndarray:
    """float64 [zones, slots]: equal mass per place, spread over zones by area, times the public profile."""
    by_zone = np.asarray(setting.weights.matrix.sum(axis=1)).ravel() / setting.weights.lattice
    return np.outer(by_zone, activity(setting.clock))


def on_lattice(visits: np.ndarray, lattice: int) -> np.ndarray:
    """Visits in whole lattice units, capped far below the overflow of added noise."""
    return np.rint(np.minimum(visits * lattice, 2.0**59)).astype(np.int64)
