"""Stays for trips that only move: how many steps by the number of moves, where by chance."""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.postprocess.draws import stream, uniform, uniforms
from shoal.postprocess.fit_tables import onto_total
from shoal.postprocess.gram_walk import Visits, draw_symbol
from shoal.space.path_tables import MOVE_CLASSES, STAY_BINS, class_of_moves
from shoal.stages.synthetic import NoisyTable

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
def _totals(ends, kind, chance, out):
    for trip in range(kind.size):
        out[trip] = draw_symbol(ends[kind[trip]], chance[trip])


@njit(cache=True, nogil=True)
def _place(first, total, seed, stay):
    for trip in range(total.size):
        chances, visits = stream(seed, PLACE_PURPOSE, trip), first[trip + 1] - first[trip]
        for step in range(total[trip]):
            stay[first[trip] + np.int64(uniform(chances, step) * visits)] += 1
