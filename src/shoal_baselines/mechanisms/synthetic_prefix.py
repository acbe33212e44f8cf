"""Synthetic trips from a tree of prefixes: how many trips begin with a cell and go on by these steps.

Guarantee    epsilon-DP (or rho-zCDP) for the model, so for any number of trips drawn from it: the sum of
             "trips" (unless declared), "hours", "stays", "starts" and one share for each level of the tree.
Unit         one user, or one trip where the setting says so.   Neighbours   add or remove one unit.
Requires     trips behind the query interface `UserPaths`, which scales every unit to norm 1 in every table.
Sensitivity  trips: the cap. Each level: 1 in L1 (pure) or L2 (zCDP); a trip is in one place of it at most.
             Which prefixes go on follows from noisy counts alone, so levels compose adaptively.
Public       grid, step, window, cap, height, shares, the threshold.
Source       Chen, Fung, Desai and Sossou 2012, "Differentially private transit data publication: a case study
             on the Montreal transportation system".
Deviations   trips go on by moves to touching cells and the end, where the paper has stations, and groups of
             them on levels in between. All get noise below a prefix that is kept. Stays are measured
             separately (steps stayed in all, by number of moves) and put evenly over the visits of a trip.
             Counts are made consistent from the top down (the nearest that are non-negative and sum to their
             prefix), where the paper orders them along each branch. Trips end where the tree does, as there.

>>> from shoal.mechanisms.audit_size import path_setting
>>> mechanism = SyntheticPrefix.within(Budget.of(1.0, None), path_setting(trips=100))
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()][:3], len(mechanism.levels)
([('hours', 30000000), ('stays', 70000000), ('starts', 90000000)], 9)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.mechanisms.trip_totals import PathTotals, TableNoise, tables_within
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.cell_paths import Stays
from shoal.space.trip_setting import PathSetting
from shoal.stages.trips import UserPaths
from shoal_baselines.mechanisms.synthetic_levels import Levels
from shoal_baselines.postprocess.prefix import PrefixModel
from shoal_baselines.space.gram_tables import MoveSteps, Prefixes

HEIGHT = 9  # levels below the starts
HOURS_SHARE, STAYS_SHARE = 0.03, 0.07  # of what the number of trips leaves; starts and levels share the rest


def _shares() -> dict[str, float]:
    share = (1 - HOURS_SHARE - STAYS_SHARE) / (HEIGHT + 1)
    levels = {f"level_{i + 1}": share for i in range(HEIGHT)}
    return {"hours": HOURS_SHARE, "stays": STAYS_SHARE, "starts": share, **levels}


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticPrefix(Levels):
    """Starts, and prefixes that go on where their noisy count is large."""

    stays: TableNoise

    name = "synthetic-prefix"
    shares: ClassVar = _shares()
    passes: ClassVar = 1.5  # at one, noise alone would make more prefixes on every level than on the last
    steps: ClassVar = MoveSteps
    grams: ClassVar = Prefixes
    model: ClassVar = PrefixModel

    def measure_more(self, paths: UserPaths, noise: Noise) -> dict[str, Any]:
        return {"stays": self.stays(paths, Stays(), noise)}

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        tables = (self.hours, self.stays, self.starts, *self.levels)
        return (*self.totals.spends(), *(table.spend() for table in tables))

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "height": len(self.levels),
            "level_deviation": self.levels[0].deviation,
            "threshold_deviations": self.passes,
        }

    @classmethod
    def within(cls, budget: Budget, setting: PathSetting) -> SyntheticPrefix:
        totals, budget = PathTotals.within(budget, setting)
        hours, stays, starts, *levels = tables_within(budget, cls.shares).values()
        tables = {"hours": hours, "stays": stays, "starts": starts, "levels": tuple(levels)}
        return cls(totals=totals, setting=setting, **tables)
