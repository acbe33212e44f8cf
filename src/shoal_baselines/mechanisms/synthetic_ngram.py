"""Synthetic trips from grams of up to four cells: what trips do next after the one to three latest cells.

Guarantee    epsilon-DP (or rho-zCDP) for the model, so for any number of trips drawn from it: the sum of
             "trips" (unless declared), "hours", "starts" and one share for each length of gram.
Unit         one user, or one trip where the setting says so.   Neighbours   add or remove one unit.
Requires     trips behind the query interface `UserPaths`, which scales every unit to norm 1 in every table.
Sensitivity  trips: the cap. Each table: 1 in L1 (pure) or L2 (zCDP). Which grams are made longer follows from
             noisy counts alone, so lengths compose adaptively.
Public       grid, step, window, cap, shares, the threshold, the longest gram, the longest stay of a visit
             that is told (60 steps).
Source       Chen, Acs and Castelluccia 2012, "Differentially private sequential data publication via
             variable-length n-grams".
Deviations   a unit's grams of one length are scaled to norm 1, where the paper cuts trips at a longest length
             and pays for it; every length has a share of its own, where the paper divides by the height it
             expects of each branch. Cells go on to touching cells, themselves (a step stayed) or the end: ten
             symbols, all of which get noise below a gram that is kept. Grams of one cell are not bought: all
             are kept. What follows a gram is shrunk towards what follows its end (free), where the paper
             takes the shorter gram if the longer one is not there.

>>> from shoal.mechanisms.audit_size import path_setting
>>> mechanism = SyntheticNgram.within(Budget.of(1.0, None), path_setting(trips=100))
>>> [(name, loss.pure_epsilon_nano) for name, loss in mechanism.spends()][1:]
[('starts', 220000000), ('grams_2', 350000000), ('grams_3', 250000000), ('grams_4', 150000000)]
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

# Of what the number of trips leaves.
SHARES = {"hours": 0.03, "starts": 0.22, "grams_2": 0.35, "grams_3": 0.25, "grams_4": 0.15}
PASSES = 4.0  # deviations of the longer grams' noise, from which a gram is made longer


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticNgram:
    """Starts, and grams that are made longer where their noisy count is large."""

    totals: PathTotals
    hours: TableNoise
    starts: TableNoise
    grams: tuple[TableNoise, ...]  # of 2, 3 and 4 cells
    setting: PathSetting = field(repr=False)

    name = "synthetic-ngram"
    takes = "paths"

    def __call__(self, paths: UserPaths, noise: Noise) -> GramModel:
        check_queries(paths, self.setting)
        trips = self.totals(paths, noise)
        cells = CellSteps(self.setting.grid)
        hours = self.hours(paths, Hours(self.setting), noise)
        starts = self.starts(paths, Starts(cells), noise)
        trie = Trie.of(cells)
        levels = [self.grams[0](paths, Grams(trie), noise)]
        for longer in self.grams[1:]:
            trie = trie.grown(levels[-1].values, PASSES * longer.deviation)
            levels.append(longer(paths, Grams(trie), noise))
        return GramModel(
            setting=self.setting, trips=trips, hours=hours, starts=starts, trie=trie, levels=tuple(levels)
        )

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        tables = (self.hours, self.starts, *self.grams)
        return (*self.totals.spends(), *(table.spend() for table in tables))

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "start_deviation": self.starts.deviation,
            "gram_deviations": [table.deviation for table in self.grams],
            "threshold_deviations": PASSES,
        }

    @classmethod
    def within(cls, budget: Budget, setting: PathSetting) -> SyntheticNgram:
        totals, budget = PathTotals.within(budget, setting)
        hours, starts, *grams = tables_within(budget, SHARES).values()
        return cls(totals=totals, hours=hours, starts=starts, grams=tuple(grams), setting=setting)
