"""Synthetic trips by TGM, with the noise the thesis prints; claims epsilon for each generated trip.

Exact counts of trips by prefix are the model (tgm_model.py). A trip is drawn cell by cell by the exponential
mechanism: the first cell of all visited ones, then one of eight neighbours, a stay or the end, until the end
is drawn or a step's budget is at most eta. epsilon_1 = r epsilon is for choices: a third for the first cell,
the rest by the series 1/3, 1/6, 1/10, ...; epsilon_2 is for noise on the threshold theta.

Source  Ghane's thesis, chapter 5: algorithms 7 to 9, sections 5.4.1 to 5.4.4.

Switches of section 5.6.3: adaptive=False is "fixed", restoring=False "ndbr", private=False "np", window=0.
  line_13    "printed": a choice that turns more than theta is replaced by a step straight on, and paid for.
             "text" (5.4.3): one that does not turn so far is replaced, and its budget kept for the next step.
  utilities  "probabilities": equations 5.1 to 5.4 as printed. "counts": their numerators.

Where the thesis is silent or says two things:
  threshold  noise of scale 1 / epsilon_2: Lap(epsilon_2) in line 13 would be a scale by its notation, and
             more budget more noise. Once for each generated trip, as the proof has it; theta_once=False: at
             each comparison, as line 13 has it.
  direction  a stay and the end do not turn and are never replaced; nor is the first move, nor a move where
             straight on leaves the grid. Straight on is the direction of the last move, stays left out.
  weights    multiply utilities. A corner direction counts for both its sides and has the better one's weight;
             stays are a direction; the end has weight 1.
  prefix     not in the model, after a choice by noise: what all trips did at the cell, the shortest end of
             the prefix. Longer ends have smaller counts and gave worse trips. In a cell nobody visited all
             options are equal. A prefix that is left is not found again.
  fixed      `portion` of what is left of epsilon_1 for each step, the first cell too. It is not said; 0.1
             lasts about as long as the series.
  np         no budget, so no eta and nothing to restore: options are drawn in proportion to their utility.
  times      are not in the model: all trips start at 0. One step is one tick.

What the claim misses, and what is true instead, for one trip (more for a user with several):
  data set     each generated trip is another run on the same trips: N of them claim N epsilon.
  support      only visited cells can be first. A cell that one trip alone has visited gives it away.
  theta        what it is compared with is drawn already: its noise hides nothing, and is no cost either.
  weights      utilities times up to alpha^m move by as much: a choice costs up to that many times its budget.
  restoring    as printed, the step counter moves on and nothing is restored. By the text, a choice that is
               withdrawn has been made, and is not paid for.
  counts       a trip that stays for k steps moves a count by k, and one that makes a prefix known replaces
               the counts of a whole cell by its own: nothing bounds a choice.
  replay       long prefixes have one trip: the more budget, the more of it is told again, step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.errors import PlanError
from shoal.postprocess.synthetic.numbers import pick, uniforms
from shoal.privacy.noise import Noise
from shoal.stages.synthetic import SyntheticPaths
from shoal.stages.trips import ExactPaths
from shoal_baselines.comparators.tgm_kernels import Rules, fill, parts, prefixes, sizes

FIRST_CELL = 1  # purpose of a stream; those of walks are in the kernels


@dataclass(frozen=True, kw_only=True)
class PublishedTgm:
    """Trips drawn step by step from exact counts of prefixes."""

    epsilon: float = 0.5  # claimed, for each generated trip
    ratio: float = 0.25  # r: the part for choices
    theta: float = 0.707
    eta: float = 1e-4
    alpha: float = 1.4
    window: int = 10  # m; 0: no weights
    adaptive: bool = True
    portion: float = 0.1  # of what is left, where not adaptive
    restoring: bool = True
    line_13: str = "printed"
    theta_once: bool = True
    utilities: str = "probabilities"
    private: bool = True

    name = "published-tgm"
    takes = "paths"

    def __post_init__(self) -> None:
        for name, known in (("line_13", ("printed", "text")), ("utilities", ("probabilities", "counts"))):
            if getattr(self, name) not in known:
                raise PlanError("tgm-switch", f"{name} must be {known[0]} or {known[1]}.")
        positive = self.epsilon > 0 and self.eta > 0 and 0 < self.ratio < 1 and 0 < self.portion < 1
        if not (positive and self.alpha >= 1 and self.window >= 0):
            raise PlanError("tgm-range", "epsilon, ratio, eta, portion, alpha or window is out of range.")

    def __call__(self, exact: ExactPaths, noise: Noise, count: int) -> SyntheticPaths:
        """`count` trips; none where there is no trip to learn from."""
        seed = np.uint64(int.from_bytes(noise.run_key()[:8], "little"))
        starts = self.first_cells(exact, seed, count)
        model = prefixes(exact), parts(exact, longest=2)
        rules = self.rules(exact.grid.columns, exact.grid.rows)
        first = sizes(*model, rules, seed, starts)
        cells, tick, stay = (np.zeros(int(first[-1]), np.int32) for _ in range(3))
        fill(*model, rules, seed, starts, first, cells, tick, stay)
        return SyntheticPaths(
            grid=exact.grid,
            step_s=exact.step_s,
            first=first,
            cells=cells,
            tick=tick,
            stay=stay,
            start_us=np.zeros(starts.size, np.int64),
        )

    def first_cells(self, exact: ExactPaths, seed: np.uint64, count: int) -> np.ndarray:
        """int64 [count]: lines 5 and 6, equation 5.1. Visited cells only, also those where no trip starts."""
        visited = np.unique(exact.cells).astype(np.int64)
        if not visited.size:
            return visited
        utility = np.bincount(exact.starts, minlength=exact.grid.count)[visited].astype(float)
        if self.utilities == "probabilities":
            utility /= utility.sum()
        if self.private:
            utility = np.exp(self.budget(0) * (utility - utility.max()) / 2)
        return visited[pick(utility, uniforms(int(seed), FIRST_CELL, count))]

    def rules(self, columns: int, rows: int) -> Rules:
        return Rules(
            columns=columns,
            rows=rows,
            private=self.private,
            probabilities=self.utilities == "probabilities",
            budgets=self.budgets(),
            compares=self.restoring and self.private,
            printed=self.line_13 == "printed",
            theta=self.theta,
            theta_scale=1 / (self.epsilon - self.epsilon_1),
            theta_once=self.theta_once,
            powers=self.alpha ** np.arange(self.window + 1.0),
        )

    @property
    def epsilon_1(self) -> float:
        return self.ratio * self.epsilon

    @property
    def withdraws(self) -> bool:
        """Whether a choice can be made and not paid for."""
        return self.restoring and self.line_13 == "text"

    def budget(self, step: int) -> float:
        """Of the first cell (step 0) or of a later step: `Rtn`."""
        if not self.adaptive:
            return self.portion * (1 - self.portion) ** step * self.epsilon_1
        if step == 0:
            return self.epsilon_1 / 3
        return 2 / ((step + 1) * (step + 2)) * 2 * self.epsilon_1 / 3

    def budgets(self) -> np.ndarray:
        """float64: of steps 1, 2, ..., while above eta; as many steps as can be paid for."""
        found = []
        while (budget := self.budget(len(found) + 1)) > self.eta:
            found.append(budget)
        return np.array(found, float)

    def trip_epsilon(self) -> float:
        return math.inf

    def paid_epsilon(self) -> float:
        """What the choices of one generated trip cost a real one, if visited cells and prefixes were public.

        Step i has i - 1 steps before it, and by the text any number of withdrawn ones from i = 2 on, so its
        utilities, probabilities, are of weight alpha^min(i - 1, m) or alpha^m at most. Choices that are
        withdrawn are not in it.
        """
        budgets = self.budgets()
        before = np.arange(budgets.size)
        if self.withdraws:
            before[1:] = self.window
        return self.budget(0) + float(budgets @ self.alpha ** np.minimum(before, self.window))

    def true_guarantee(self, count: int) -> str:
        """In words, for a data set of `count` generated trips."""
        if not self.private:
            return "No guarantee, and none is claimed: trips are drawn from exact counts without noise."
        claim = (
            f"No guarantee as published, which claims epsilon {self.epsilon:g} for each generated trip: by "
            f"its own sum {count * self.epsilon:,g} for {count:,} of them. Trips start in visited cells "
            "only, so a cell that one trip alone has visited gives it away, whatever epsilon is."
        )
        if self.utilities == "counts":
            return f"{claim} With counts for utilities nothing bounds what one trip moves a choice by."
        cost = (
            "If visited cells were public, choices would cost a trip up to epsilon "
            f"{self.paid_epsilon():.3g} for each generated trip, {count * self.paid_epsilon():,.6g} for all; "
            "the noise on theta hides nothing."
        )
        if self.withdraws:
            cost += " Choices that are withdrawn come on top: they are made and not paid for."
        return f"{claim} {cost}"
