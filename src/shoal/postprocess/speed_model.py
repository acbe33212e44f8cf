"""Movement on grids of several sizes, by speed: chances of the next step after a context of grams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.postprocess.draws import pick, uniforms
from shoal.postprocess.gram_model import START_PURPOSE, GramModel, likely_counts, start_weights, timed_paths
from shoal.postprocess.speed_walk import walk_speeds
from shoal.space.speed_steps import SpeedSteps
from shoal.stages.synthetic import SyntheticPaths


@dataclass(frozen=True, kw_only=True, eq=False)
class SpeedModel(GramModel):
    """Noisy counts of what follows the contexts of a trie, whose states are cells of several grids."""

    def generate(self, count: int, seed: int) -> SyntheticPaths:
        steps = self.trie.steps
        assert isinstance(steps, SpeedSteps)
        start = pick(start_weights(self.starts), uniforms(seed, START_PURPOSE, count))
        ends = np.cumsum(self.chances(), axis=1)
        child, follow, shape = self.trie.child, steps.follow(), np.array(steps.grids, np.int64)
        visits = walk_speeds(start, ends, child, follow, self.trie.levels, shape, self.visited(), seed)
        return timed_paths(visits, self.setting, self.hours, seed)

    def visited(self) -> np.ndarray:
        """float64 [cells]: how often slow steps begin in a cell, without what is added to leave a state."""
        table = self.levels[0]
        total = likely_counts(table, self.trie.steps).sum(axis=1)[: self.setting.grid.count]
        return np.maximum(total - table.deviation, 0.0)
