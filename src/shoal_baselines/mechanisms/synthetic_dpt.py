"""Synthetic trips from chains on grids of four sizes, each for its own range of speeds.

Guarantee    epsilon-DP (or rho-zCDP) for the model, so for any number of trips drawn from it: the sum of
             "trips" (unless declared), "hours", "starts" and one share for each level of the trees.
Unit         one user, or one trip where the setting says so.   Neighbours   add or remove one unit.
Requires     trips behind the query interface `UserPaths`, which scales every unit to norm 1 in every table.
Sensitivity  trips: the cap. Each level: 1 in L1 (pure) or L2 (zCDP), over the trees of all grids together.
             Which contexts go on follows from noisy counts alone, so levels compose adaptively.
Public       grid, its multiples, step, window, cap, shares, the threshold, the height of the trees, the
             longest stay of a visit that is told (60 steps), the weights of directions.
Source       He, Cormode, Machanavajjhala, Procopiuc and Srivastava 2015, "DPT: differentially private
             trajectory synthesis using hierarchical reference systems".
Deviations   the grids are public (1, 2, 4 and 8 cells), where the paper buys a choice among many; a step on a
             grid, up or down are symbols of one alphabet, so that one table holds all trees and a trip is
             shared among them, where the paper has a share for each; a step stayed is a symbol.
             Trees have two levels, and what follows a context is shrunk towards what follows its end. Fine
             cells of a coarse one are drawn by noisy visits (free), where the paper draws them evenly.

>>> from shoal.mechanisms.audit_size import path_setting
>>> mechanism = SyntheticDpt.within(Budget.of(1.0, None), path_setting(trips=100))
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('hours', 30000000), ('starts', 220000000), ('level_1', 450000000), ('level_2', 300000000)]
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
from shoal_baselines.postprocess.speeds import AHEAD, WINDOW, SpeedModel
from shoal_baselines.space.gram_tables import Grams, Starts, Trie
from shoal_baselines.space.speed_steps import GRIDS, SpeedSteps

# Of what the number of trips leaves.
SHARES = {"hours": 0.03, "starts": 0.22, "level_1": 0.45, "level_2": 0.30}
PASSES = 4.0  # deviations of the next level's noise, from which a context goes on


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticDpt:
    """Starts, and trees of two levels on every grid."""

    totals: PathTotals
    hours: TableNoise
    starts: TableNoise
    levels: tuple[TableNoise, ...]
    setting: PathSetting = field(repr=False)

    name = "synthetic-dpt"
    takes = "paths"

    def __call__(self, paths: UserPaths, noise: Noise) -> SpeedModel:
        check_queries(paths, self.setting)
        trips = self.totals(paths, noise)
        steps = SpeedSteps(self.setting.grid)
        hours = self.hours(paths, Hours(self.setting), noise)
        starts = self.starts(paths, Starts(steps), noise)
        trie = Trie.of(steps)
        bought = [self.levels[0](paths, Grams(trie), noise)]
        for level in self.levels[1:]:
            trie = trie.grown(bought[-1].values, PASSES * level.deviation)
            bought.append(level(paths, Grams(trie), noise))
        return SpeedModel(
            setting=self.setting, trips=trips, hours=hours, starts=starts, trie=trie, levels=tuple(bought)
        )

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        tables = (self.hours, self.starts, *self.levels)
        return (*self.totals.spends(), *(table.spend() for table in tables))

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "grids": GRIDS,
            "start_deviation": self.starts.deviation,
            "level_deviations": [table.deviation for table in self.levels],
            "threshold_deviations": PASSES,
            "direction_weight": AHEAD,
            "direction_window": WINDOW,
        }

    @classmethod
    def within(cls, budget: Budget, setting: PathSetting) -> SyntheticDpt:
        totals, budget = PathTotals.within(budget, setting)
        hours, starts, *levels = tables_within(budget, SHARES).values()
        return cls(totals=totals, hours=hours, starts=starts, levels=tuple(levels), setting=setting)
