"""Movement as chances of the next symbol after a context, from noisy tables of grams or prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.postprocess.draws import pick, uniforms
from shoal.postprocess.fit_tables import onto_total
from shoal.postprocess.gram_walk import Visits, suffixes, visits_of, walk_grams
from shoal.postprocess.start_times import draw_starts, slot_weights
from shoal.space.gram_tables import Steps, Trie
from shoal.space.path_setting import PathSetting
from shoal.stages.synthetic import NoisyTable, SyntheticPaths

START_PURPOSE = 104


@dataclass(frozen=True, kw_only=True, eq=False)
class GramModel:
    """Noisy counts of what follows the contexts of a trie, whose states are cells."""

    setting: PathSetting
    trips: float
    hours: NoisyTable
    starts: NoisyTable  # [states]
    trie: Trie
    levels: tuple[NoisyTable, ...]  # [contexts of the level * symbols]: what follows each

    def numbers(self) -> dict[str, np.ndarray]:
        """Every noisy number, and the contexts that were chosen by them."""
        grams = {f"level_{i}": table.values for i, table in enumerate(self.levels, 1)}
        kept = {"hours": self.hours.values, "starts": self.starts.values, "contexts": self.trie.child}
        return {"trips": np.array([self.trips]), **kept, **grams}

    def generate(self, count: int, seed: int) -> SyntheticPaths:
        start = pick(start_weights(self.starts), uniforms(seed, START_PURPOSE, count))
        ends = np.cumsum(self.chances(), axis=1)
        walks = walk_grams(start, ends, self.trie.child, self.trie.steps.follow(), self.trie.levels, seed)
        return timed_paths(visits_of(walks), self.setting, self.hours, seed)

    def chances(self) -> np.ndarray:
        """float64 [contexts, symbols]: each row sums to 1, or is 0 where noise left nothing."""
        counts = likely_counts(self.levels[0], self.trie.steps)
        chance, edges = rows_to_one(counts), [*self.trie.level_first, self.trie.nodes]
        suffix = suffixes(self.trie.child, self.trie.state)
        for level in range(1, self.trie.levels):
            node, symbol = np.nonzero(self.trie.child[edges[level - 1] : edges[level]] >= 0)
            expected = counts[node, symbol][:, None] * chance[suffix[edges[level] : edges[level + 1]]]
            table = self.levels[level]
            noisy = table.values.reshape(expected.shape)
            # a unit has norm 1 on each level, however little of it is there
            expected *= max(float(noisy.sum()), 0.0) / max(float(expected.sum()), 1e-12)
            trust = expected**2 / (
                expected**2 + table.deviation**2
            )  # values scatter as far as they are large
            counts = np.maximum(expected + trust * (noisy - expected), 0.0)
            chance = np.concatenate([chance, rows_to_one(counts)])
        return chance


def likely_counts(table: NoisyTable, steps: Steps) -> np.ndarray:
    """float64 [states, symbols]: non-negative, nothing impossible, of the total that noise left.

    To every state a deviation of the noise is added of what is usual anywhere, and to that what its own noise
    may have hidden: so that trips come to an end, whatever the noise is.
    """
    may = steps.may()
    noisy = table.values.reshape(may.shape)
    fitted = np.zeros(noisy.shape)
    fitted[may] = onto_total(noisy[may], max(float(noisy[may].sum()), 0.0))
    usual = np.maximum((noisy * may).sum(axis=0), 0.0) + table.deviation * np.sqrt(may.shape[0])
    return fitted + table.deviation * may * usual / usual.sum()


def rows_to_one(counts: np.ndarray) -> np.ndarray:
    total = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)


def start_weights(starts: NoisyTable) -> np.ndarray:
    """The nearest non-negative starts of the same total; even where noise left nothing."""
    fitted = onto_total(starts.values, max(float(starts.values.sum()), 0.0))
    return fitted if fitted.sum() > 0 else np.ones(fitted.size)


def timed_paths(visits: Visits, setting: PathSetting, hours: NoisyTable, seed: int) -> SyntheticPaths:
    """Visits that start at hours of the noisy table."""
    first, cells, tick, stay = visits
    weights = slot_weights(setting, hours.values)
    return SyntheticPaths(
        grid=setting.grid,
        step_s=setting.step_s,
        first=first,
        cells=cells,
        tick=tick,
        stay=stay,
        start_us=draw_starts(setting, weights, first.size - 1, seed),
    )
