"""Synthetic trips from grams of up to four cells: what trips do next after the one to three latest cells.

Guarantee    epsilon-DP (or rho-zCDP) for the model, so for any number of trips drawn from it: the sum of
             "trips" (unless declared), "hours", "starts" and one share for each length of gram.
Unit         one user, or one trip where the setting says so.   Neighbours   add or remove one unit.
Requires     trips behind the query interface `UserPaths`, which scales every unit to norm 1 in every table.
Sensitivity  trips: the cap. Each table: 1 in L1 (pure) or L2 (zCDP). Which grams are made longer follows from
             noisy counts alone, so lengths compose adaptively.
Public       grid, step, window, cap, shares, the threshold, the longest gram, the longest recorded stay of
             a visit (60 steps).
Source       Chen, Acs and Castelluccia 2012, "Differentially private sequential data publication via
             variable-length n-grams".
Deviations   a unit's grams of one length are scaled to norm 1, where the paper cuts trips at a longest length
             and pays for it; every length has a share of its own, where the paper divides by the height it
             expects of each branch. Cells go on to touching cells, themselves (a step stayed) or the end: ten
             symbols, all of which get noise below a gram that is kept. Grams of one cell are not measured:
             all are kept. What follows a gram is shrunk towards what follows its end (free), where the paper
             takes the shorter gram if the longer one is not there.

>>> from shoal.mechanisms.audit_size import path_setting
>>> from shoal.privacy.accounting import Budget
>>> mechanism = SyntheticNgram.within(Budget.of(1.0, None), path_setting(trips=100))
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()][1:]
[('starts', 220000000), ('grams_2', 350000000), ('grams_3', 250000000), ('grams_4', 150000000)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shoal_baselines.mechanisms.synthetic_levels import Levels


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticNgram(Levels):
    """Starts, and grams of 2, 3 and 4 cells, which are made longer where their noisy count is large."""

    name = "synthetic-ngram"
    shares: ClassVar = {"hours": 0.03, "starts": 0.22, "grams_2": 0.35, "grams_3": 0.25, "grams_4": 0.15}
    passes: ClassVar = 4.0

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "start_deviation": self.starts.deviation,
            "gram_deviations": [table.deviation for table in self.levels],
            "threshold_deviations": self.passes,
        }
