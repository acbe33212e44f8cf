"""Movement as a tree of prefixes: how many trips begin with a cell and go on by these moves; stays apart.

Stays for trips that only move: their number by the number of moves, their places at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from shoal.postprocess.synthetic.numbers import onto_total, onto_totals, pick, stream, uniform, uniforms
from shoal.space.cell_paths import MOVE_CLASSES, STAY_BINS, class_of_moves
from shoal.stages.synthetic import NoisyTable, SyntheticPaths
from shoal_baselines.postprocess.grams import (
    START_PURPOSE,
    GramModel,
    Visits,
    draw_symbol,
    rows_to_one,
    start_weights,
    timed_paths,
    visits_of,
    walk_prefixes,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrefixModel(GramModel):
    """Noisy counts of prefixes, level by level; a trip ends where the tree does. Its states are cells."""

    stays: NoisyTable  # [classes of moves * steps stayed]

    def numbers(self) -> dict[str, np.ndarray]:
        return {**super().numbers(), "stays": self.stays.values}

    def generate(self, count: int, seed: int) -> SyntheticPaths:
        starts, counts = self.consistent()
        start = pick(starts, uniforms(seed, START_PURPOSE, count))
        ends = np.cumsum(rows_to_one(counts), axis=1)
        walks = walk_prefixes(start, ends, self.trie.child, self.trie.steps.follow(), seed)
        return timed_paths(with_stays(visits_of(walks), self.stays, seed), self.setting, self.hours, seed)

    def consistent(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts [cells] that sum to the number of trips, and counts [prefixes, symbols] that sum to that of
        their prefix: non-negative, from the top down, each the nearest to its noisy counts.

        Where units are users, a level is first scaled to the trips that reach it: a user has norm 1 in each.
        """
        starts = self._starts()
        edges = [*self.trie.level_first, self.trie.nodes]
        may = self.trie.steps.may()[self.trie.state]
        mass, counts = starts, np.zeros(may.shape)
        for level, table in enumerate(self.levels):
            part = slice(edges[level], edges[level + 1])
            counts[part] = _below(mass, table, may[part], self.setting.each_trip)
            mass = counts[part][self.trie.child[part] >= 0]
        return starts, counts

    def _starts(self) -> np.ndarray:
        if self.setting.each_trip:
            return onto_total(self.starts.values, self.trips)
        weights = start_weights(self.starts)
        return weights * (self.trips / weights.sum())


def _below(mass: np.ndarray, table: NoisyTable, may: np.ndarray, same_scale: bool) -> np.ndarray:
    """float64 [prefixes, symbols]: what follows prefixes of known counts, nothing impossible."""
    noisy = table.values.reshape(may.shape)
    total, wanted = float(noisy[may].sum()), float(mass.sum())
    scale = 1.0 if same_scale or min(total, wanted) <= 0 else wanted / total
    counts = np.zeros(may.shape)
    if mass.size:
        counts[may] = onto_totals(noisy[may] * scale, np.nonzero(may)[0], mass)
    return counts


TOTAL_PURPOSE, PLACE_PURPOSE = 105, 106


def with_stays(visits: Visits, stays: NoisyTable, seed: int) -> Visits:
    """Draws each trip's steps stayed from the noisy table of its class of moves; later visits begin later.

    The open bin stands for its least number of steps. A class that noise left nothing of takes that of all.
    """
    first, cells, tick, _ = visits
    noisy = stays.values.reshape(MOVE_CLASSES.size + 1, STAY_BINS)
    fitted = onto_total(noisy, max(float(noisy.sum()), 0.0))
    usual = fitted.sum(axis=0) + 1e-9 * (np.arange(STAY_BINS) == 0)
    ends = np.cumsum(np.where(fitted.sum(axis=1, keepdims=True) > 0, fitted, usual), axis=1)
    kind = class_of_moves(np.diff(first) - 1)
    total = np.empty(kind.size, np.int64)
    _totals(ends, kind, uniforms(seed, TOTAL_PURPOSE, kind.size), total)
    stay = np.zeros(cells.size, np.int32)
    _place(first, total, np.uint64(seed), stay)
    earlier = np.cumsum(stay) - stay  # steps stayed before a visit, in its own trip from the next line on
    earlier -= np.repeat(earlier[first[:-1]], np.diff(first))
    return first, cells, (tick + earlier).astype(np.int32), stay


@njit(cache=True, nogil=True)
def _totals(ends, kind, numbers, out):
    for trip in range(kind.size):
        out[trip] = draw_symbol(ends[kind[trip]], numbers[trip])


@njit(cache=True, nogil=True)
def _place(first, total, seed, stay):
    for trip in range(total.size):
        random_stream, visits = stream(seed, PLACE_PURPOSE, trip), first[trip + 1] - first[trip]
        for step in range(total[trip]):
            stay[first[trip] + np.int64(uniform(random_stream, step) * visits)] += 1
