"""Synthetic trips from a chain over cells: where trips start, and what they do next in each cell.

Guarantee    epsilon-DP (or rho-zCDP) for the model, so for any number of trips drawn from it: the sum of
             "trips" (unless declared), "hours", "starts" and "steps".
Unit         one user, or one trip where the setting says so.   Neighbours   add or remove one unit.
Requires     trips behind the query interface `UserPaths`, which scales every unit to norm 1 in every table.
Sensitivity  trips: the cap. Each table: 1 in L1 (pure) or L2 (zCDP).
Public       grid, step, window, cap, shares, the longest stay of a visit that is told (60 steps).
Source       the plain chain that published generators build on (He et al. 2015, Gursoy et al. 2018), here on
             one grid.
Deviations   a stay is a move of a cell to itself, once for every step; an end is a move to nowhere. Noise is
             on all places of the table, also where no trip was. A unit's steps are scaled to norm 1, so that
             short trips weigh as much as long ones: ends come too often, and nothing corrects it here.
Left out     anything before the present cell: trips turn around as they like.

>>> from shoal.mechanisms.audit_size import path_setting
>>> mechanism = SyntheticMarkov.within(Budget.of(1.0, None), path_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 20000000), ('hours', 29400000), ('starts', 245000000), ('steps', 705600000)]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.mechanisms.synthetic.path_totals import PathTotals, TableNoise, check_queries, tables_within
from shoal.privacy.accounting import Budget, Loss, compose
from shoal.privacy.noise import Noise
from shoal.space.path_setting import PathSetting
from shoal.space.path_tables import Hours
from shoal.stages.trips import UserPaths
from shoal_baselines.postprocess.grams import GramModel
from shoal_baselines.space.gram_tables import CellSteps, Grams, Starts, Trie

SHARES = {"hours": 0.03, "starts": 0.25, "steps": 0.72}  # of what the number of trips leaves


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticMarkov:
    """A first-order chain: starts, and moves, stays and ends per cell."""

    totals: PathTotals
    hours: TableNoise
    starts: TableNoise
    steps: TableNoise
    setting: PathSetting = field(repr=False)

    name = "synthetic-markov"
    takes = "paths"

    def __call__(self, paths: UserPaths, noise: Noise) -> GramModel:
        check_queries(paths, self.setting)
        cells = CellSteps(self.setting.grid)
        trie = Trie.of(cells)
        return GramModel(
            setting=self.setting,
            trips=self.totals(paths, noise),
            hours=self.hours(paths, Hours(self.setting), noise),
            starts=self.starts(paths, Starts(cells), noise),
            trie=trie,
            levels=(self.steps(paths, Grams(trie), noise),),
        )

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (*self.totals.spends(), self.hours.spend(), self.starts.spend(), self.steps.spend())

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "start_deviation": self.starts.deviation,
            "step_deviation": self.steps.deviation,
        }

    @classmethod
    def within(cls, budget: Budget, setting: PathSetting) -> SyntheticMarkov:
        totals, budget = PathTotals.within(budget, setting)
        return cls(totals=totals, setting=setting, **tables_within(budget, SHARES))
