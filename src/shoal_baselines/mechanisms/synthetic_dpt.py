"""Synthetic trips from chains on grids of four sizes, each for its own range of speeds.

Guarantee    epsilon-DP (or rho-zCDP) for the model, so for any number of trips drawn from it: the sum of
             "trips" (unless declared), "hours", "starts" and one share for each level of the trees.
Unit         one user, or one trip where the setting says so.   Neighbours   add or remove one unit.
Requires     trips behind the query interface `UserPaths`, which scales every unit to norm 1 in every table.
Sensitivity  trips: the cap. Each level: 1 in L1 (pure) or L2 (zCDP), over the trees of all grids together.
             Which contexts go on follows from noisy counts alone, so levels compose adaptively.
Public       grid, its multiples, step, window, cap, shares, the threshold, the height of the trees, the
             longest recorded stay of a visit (60 steps), the weights of directions.
Source       He, Cormode, Machanavajjhala, Procopiuc and Srivastava 2015, "DPT: differentially private
             trajectory synthesis using hierarchical reference systems".
Deviations   the grids are public (1, 2, 4 and 8 cells), where the paper pays for a choice of grids; a step on
             a grid, up or down are symbols of one alphabet, so that one table holds all trees and a trip is
             shared among them, where the paper has a share for each; a step stayed is a symbol.
             Trees have two levels, and what follows a context is shrunk towards what follows its end. Fine
             cells of a coarse one are drawn by noisy visits (free), where the paper draws them evenly.

>>> from shoal.mechanisms.audit_size import path_setting
>>> from shoal.privacy.accounting import Budget
>>> mechanism = SyntheticDpt.within(Budget.of(1.0, None), path_setting(trips=100))
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('hours', 30000000), ('starts', 220000000), ('level_1', 450000000), ('level_2', 300000000)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shoal_baselines.mechanisms.synthetic_levels import Levels
from shoal_baselines.postprocess.speeds import AHEAD, WINDOW, SpeedModel
from shoal_baselines.space.speed_steps import GRIDS, SpeedSteps


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticDpt(Levels):
    """Starts, and trees of two levels on every grid."""

    name = "synthetic-dpt"
    shares: ClassVar = {"hours": 0.03, "starts": 0.22, "level_1": 0.45, "level_2": 0.30}
    passes: ClassVar = 4.0
    steps: ClassVar = SpeedSteps
    model: ClassVar = SpeedModel

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "grids": GRIDS,
            "start_deviation": self.starts.deviation,
            "level_deviations": [table.deviation for table in self.levels],
            "threshold_deviations": self.passes,
            "direction_weight": AHEAD,
            "direction_window": WINDOW,
        }
