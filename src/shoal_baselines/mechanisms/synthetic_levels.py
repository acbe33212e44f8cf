"""Common parts of generators from tables of next steps: starts, and a trie that grows level by level.

Every table is asked once, with a share of the budget of its own. A context goes on to the next level where
its noisy count is `passes` deviations of that level's noise, so levels compose adaptively.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from shoal.mechanisms.trip_totals import PathTotals, TableNoise, check_queries, tables_within
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Composed, Noise
from shoal.space.cell_paths import Hours
from shoal.space.trip_setting import PathSetting
from shoal.stages.synthetic import NoisyTable
from shoal.stages.trips import UserPaths
from shoal_baselines.postprocess.grams import GramModel
from shoal_baselines.space.gram_tables import CellSteps, Grams, Starts, Steps, Trie


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels(Composed):
    """Noise of the number of trips, the hours and places they start at, and of every level."""

    totals: PathTotals
    hours: TableNoise
    starts: TableNoise
    levels: tuple[TableNoise, ...]
    setting: PathSetting = field(repr=False)

    takes = "paths"
    shares: ClassVar[dict[str, float]]  # of what the number of trips leaves: hours, starts, every level
    passes: ClassVar[float]
    steps: ClassVar[type] = CellSteps  # how a trip is encoded
    grams: ClassVar[type] = Grams
    model: ClassVar[type] = GramModel

    @abstractmethod
    def describe(self) -> dict[str, Any]: ...

    def __call__(self, paths: UserPaths, noise: Noise) -> Any:
        return self.model(**self.measure(paths, noise))

    def measure(self, paths: UserPaths, noise: Noise) -> dict[str, Any]:
        """All noisy tables by the names that models have for them."""
        check_queries(paths, self.setting)
        steps: Steps = self.steps(self.setting.grid)
        trips = self.totals(paths, noise)
        hours = self.hours(paths, Hours(self.setting), noise)
        more = self.measure_more(paths, noise)
        starts = self.starts(paths, Starts(steps), noise)
        trie, measured = Trie.of(steps), list[NoisyTable]()
        for level in self.levels:
            if measured:
                trie = trie.grown(measured[-1].values, self.passes * level.deviation)
            measured.append(level(paths, self.grams(trie), noise))
        tables = {"hours": hours, "starts": starts, "levels": tuple(measured), **more}
        return {"setting": self.setting, "trips": trips, "trie": trie, **tables}

    def measure_more(self, paths: UserPaths, noise: Noise) -> dict[str, Any]:
        """Tables between the hours and the starts."""
        return {}

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        tables = (self.hours, self.starts, *self.levels)
        return (*self.totals.spends(), *(table.spend() for table in tables))

    @classmethod
    def within(cls, budget: Budget, setting: PathSetting) -> Self:
        """All of a budget: the number of trips, unless declared, and a share for every table."""
        totals, budget = PathTotals.within(budget, setting)
        hours, starts, *levels = tables_within(budget, cls.shares).values()
        return cls(totals=totals, hours=hours, starts=starts, levels=tuple(levels), setting=setting)
