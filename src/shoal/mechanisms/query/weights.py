"""Answers to many counting questions by private multiplicative weights: only surprising questions cost.

Guarantee    rho-zCDP for all answers together, rho = D^2 / (2 s^2) + c (eps^2 / 2) + c Delta^2 / (2 sigma^2)
             + E^2 / (2 s'^2): the total, c tests of eps = 2 E / b each, c answers, one figure of the error.
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  of a question Delta_i <= min(ell, |T_i|) max_s W_s(S_i), E = max_i Delta_i; of the total
             D = min(ell, slots) max_s W_s. A test sees |exact - said| - threshold of all questions that are
             left: each moves by at most E. The error is an order statistic of |exact - answered|: each of
             them moves by at most E, so it does as well.
Public       questions and their order, zones, slots, W, ell, c, threshold, all scales, the prior.
Source       Hardt and Rothblum 2010 (private multiplicative weights); Acs, Biczok and Castelluccia 2018,
             section 3.1.2; AboveThreshold of Dwork and Roth 2014, algorithm 1, started anew for every update.
Deviations   the table has a bought total instead of a known number of people; a surprising question is
             answered with fresh noise of its own budget, not by its noisy comparison; the update meets
             the answer (postprocess.density.numbers); after c updates the rest is answered without the data;
             questions that were not bought are answered by the last table, not by that of their turn: all of
             it post-processing. The error figure is new. None changes the guarantee.

>>> from shoal.space.setting import Question
>>> from shoal.space.geography import AreaWeights
>>> from shoal.privacy.accounting import Budget
>>> asked = Questions.of([Question(zones=(0,), slots=(hour,)) for hour in range(24)],
...                      AreaWeights.identity(2), slots=24, ell=5)
>>> mechanism = QueryWeights.within(Budget.of(1.0, 1e-6), asked, np.ones((2, 24)), updates=4)
>>> [name for name, _ in mechanism.spends()]
['total', 'test', 'answers', 'error']
>>> mechanism.loss().rho_nano <= Budget.of(1.0, 1e-6).left
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
from shoal.space.setting import Question, Questions, Setting, activity
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyAnswers

TOTAL_SHARE = Fraction(1, 50)  # of the budget
ERROR_SHARE = Fraction(1, 20)  # of what is left then
TEST_SHARE = Fraction(1, 2)  # of what is left then; the rest is for answers
QUANTILE = 0.975  # of the errors: with 97.5 % for its own noise, intervals hold for 95 of 100 answers


@dataclass(frozen=True, kw_only=True)
class QueryWeights(Composed):
    """A learned table answers; a sparse vector test finds the questions it is wrong about, c at most."""

    asked: Questions
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
        costs = [a.cost(delta) for a, delta in zip(self.answers, self.asked.sensitivity, strict=True)]
        dearest = max(costs, key=lambda loss: loss.rho_nano)
        test = LAPLACE.cost(self.test_scale, 2 * self.largest)
        return (
            ("total", self.total.cost(self.asked.whole_sensitivity)),
            ("test", compose([test] * self.updates)),
            ("answers", compose([dearest] * self.updates)),
            ("error", self.error.cost(self.largest)),
        )

    @property
    def ell(self) -> int:
        return self.asked.ell

    @property
    def largest(self) -> int:
        """E: what one user can change any of the questions by, in lattice units."""
        return max(self.asked.sensitivity)

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
        check_table(exact, self.asked)
        lattice, values = self.asked.lattice, self.asked.values(exact.units)
        whole = self.total.add(noise, "total", exact.units.sum(keepdims=True).ravel())
        learned = LearnedTable.start(self.asked, self.prior, float(whole[0]) / lattice)
        turn = 0
        while turn < len(values) and len(learned.answers) < self.updates:
            margins = np.abs(values - on_lattice(learned.values(), lattice))[turn:] - self.threshold
            found = turn + first_above(noise, "test", margins, self.test_scale)
            if found == len(values):
                break
            adder = self.answers[found]
            noisy = adder.add(noise, "answers", values[found : found + 1])
            learned = learned.after(found, float(noisy[0]) / lattice, adder.deviation / lattice)
            turn = found + 1
        return self._answered(values, learned, noise)

    def _answered(self, values: np.ndarray, learned: LearnedTable, noise: Noise) -> NoisyAnswers:
        """Bought answers as they are, the others from the table, with a bought interval."""
        lattice, said = self.asked.lattice, learned.values()
        unbought = [number for number in range(len(said)) if number not in learned.answers]
        half = np.zeros(len(said))
        if unbought:
            errors = np.sort(np.abs(values - on_lattice(said, lattice))[unbought])
            middle = errors[math.ceil(QUANTILE * len(errors)) - 1]
            noisy = self.error.add(noise, "error", np.array([middle], np.int64))
            half[unbought] = max(float(noisy[0]) + self.error.half, 0.0) / lattice
        for number, (answer, deviation) in learned.answers.items():
            said[number], half[number] = answer, deviation * GAUSSIAN.half
        how = tuple("noise" if number in learned.answers else "weights" for number in range(len(said)))
        return NoisyAnswers(values=said, half=half, how=how)

    @classmethod
    def within(cls, budget: Budget, asked: Questions, prior: np.ndarray, *, updates: int) -> QueryWeights:
        """All of the budget, in public shares."""
        if budget.pure:
            raise PlanError("not-pure", "multiplicative weights are in rho; a pure budget has none.")
        if (
            prior.shape != (asked.zones, asked.slots)
            or not (prior >= 0).all()
            or not 0 < prior.sum() < np.inf
        ):
            raise GuaranteeError("query-prior", "the prior must be a table of zones and slots, not negative.")
        updates = min(updates, asked.count)
        total, budget = budget.take("total", TOTAL_SHARE)
        error, budget = budget.take("error", ERROR_SHARE)
        test, budget = budget.take("test", TEST_SHARE)
        answers, _ = budget.take("answers", 1)
        largest = max(asked.sensitivity)
        # eps^2 / 2 for each of c tests, rounded up to 1e-9: the largest whole eps within the share
        epsilon_nano = math.isqrt(2 * (test.amount // updates) * NANO)
        share = answers.amount // updates
        if not epsilon_nano or not share:
            raise PlanError("query-many", "the budget is too small for so many updates.", "Lower --updates.")
        scale = LAPLACE.scale(epsilon_nano, 2 * largest)
        return cls(
            asked=asked,
            prior=prior,
            updates=updates,
            # where the noise alone would pass for a surprise in half a question per update
            threshold=int(2 * scale * math.log(asked.count / updates)),
            test_scale=scale,
            total=Adder.within(GAUSSIAN, total.amount, asked.whole_sensitivity),
            answers=tuple(Adder.within(GAUSSIAN, share, delta) for delta in asked.sensitivity),
            error=Adder.within(GAUSSIAN, error.amount, largest),
        )

    @classmethod
    def of(
        cls, budget: Budget, setting: Setting, *, questions: list[Question], ell: int, updates: int
    ) -> QueryWeights:
        """The same for questions on a setting."""
        asked = Questions.of(questions, setting.weights, slots=setting.slots, ell=ell)
        return cls.within(budget, asked, public_prior(setting), updates=updates)


def public_prior(setting: Setting) -> np.ndarray:
    """Every place as busy as any other, spread over zones by area, times the public curve of a day."""
    by_zone = np.asarray(setting.weights.matrix.sum(axis=1)).ravel() / setting.weights.lattice
    return np.outer(by_zone, activity(setting.clock))


def on_lattice(visits: np.ndarray, lattice: int) -> np.ndarray:
    """Visits in whole lattice units; far below what noise can take."""
    return np.rint(np.minimum(visits * lattice, 2.0**59)).astype(np.int64)
