"""Synthetic trips from a chain over cells: where trips start, and what they do next in each cell.

Guarantee    epsilon-DP (or rho-zCDP) for the model, so for any number of trips drawn from it: the sum of
             "trips" (unless declared), "hours", "starts" and "steps".
Unit         one user, or one trip where the setting says so.   Neighbours   add or remove one unit.
Requires     trips behind the query interface `UserPaths`, which scales every unit to norm 1 in every table.
Sensitivity  trips: the cap. Each table: 1 in L1 (pure) or L2 (zCDP).
Public       grid, step, window, cap, shares, the longest recorded stay of a visit (60 steps).
Source       the plain chain that published generators build on (He et al. 2015, Gursoy et al. 2018), here on
             one grid.
Deviations   a stay is a move of a cell to itself, once for every step; an end is a move to nowhere. Noise is
             on all places of the table, also where no trip was. A unit's steps are scaled to norm 1, so that
             short trips weigh as much as long ones: ends come too often, and nothing corrects it here.
Left out     anything before the present cell: trips turn around as they like.

>>> from shoal.mechanisms.audit_size import path_setting
>>> from shoal.privacy.accounting import Budget
>>> mechanism = SyntheticMarkov.within(Budget.of(1.0, None), path_setting())
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()]
[('trips', 20000000), ('hours', 29400000), ('starts', 245000000), ('steps', 705600000)]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal_baselines.mechanisms.synthetic_levels import Levels


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticMarkov(Levels):
    """A first-order chain: starts, and moves, stays and ends per cell."""

    name = "synthetic-markov"
    shares: ClassVar = {"hours": 0.03, "starts": 0.25, "steps": 0.72}
    passes: ClassVar = math.inf  # there is one level

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "start_deviation": self.starts.deviation,
            "step_deviation": self.levels[0].deviation,
        }
