"""Parts of the bridge generator: switches for ablations, distributions of lengths and stays, counts of moves.

Lengths of trips are noisy classes by class of the distance between their ends; so are stays. Moves of drawn
trips are counted as those of real ones were: each trip scaled to norm 1, or all alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from shoal.postprocess.shrinkage import shrunk
from shoal.postprocess.synthetic.draws import conditional, onto_total, onto_totals, uniforms
from shoal.space.cell_paths import DIRECTIONS, direction_between
from shoal.stages.synthetic import NoisyMovement, NoisyTable


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Public switches."""

    flows: bool = True  # flows between regions; else starts and ends are independent
    levels: bool = True  # places by blocks of several sizes; else by cells alone
    by_distance: bool = True  # moves beyond the distance, given the distance; else one distribution for all
    turns: bool = True  # memory of the direction; else moves are independent of it
    corners: bool = True  # turns by cell, where noise allows
    shrink: bool = True  # noisy moves, places and flows shrunk to what is expected; else cut at 0 alone
    calibrate: bool = True
    times: bool = True  # days, hours, tides, durations and paces; else evenly spread, a step per move
    tides: bool = True  # parts of the week by regions of the ends; else hours are independent of places


ALL_PARTS = Parts()


NEIGHBOURS = np.array([0.3, 0.7, 1.0, 0.7, 0.3])  # weight of nearby classes in what a class is expected to be
GUESS_DEVIATION = 0.7  # of a distribution around a public guess, relative
TAIL_BINS = 8  # from whose fall the open end is guessed
MOST_TAIL = 400


def by_class(noisy: NoisyTable, guess: np.ndarray, *, alike: bool = False) -> np.ndarray:
    """float64 [classes, bins]: the distribution over bins in every class.

    A class is drawn to those nearby, these to that of all, and that to a public guess, as far as noise asks
    for it. `alike`: one distribution for all classes.
    """
    bins = guess.size
    values = noisy.values.reshape(-1, bins)
    classes = values.shape[0]
    whole = _whole(values, guess, noisy.deviation)
    if alike:
        return np.tile(whole / whole.sum(), (classes, 1))
    near = np.stack([np.convolve(column, NEIGHBOURS, mode="same") for column in values.T], axis=1)
    near_noise = noisy.deviation * np.sqrt((NEIGHBOURS**2).sum())
    near_total = np.maximum(near.sum(axis=1), 1e-9)
    usual = near_total[:, None] * whole / whole.sum()
    drawn_near = shrunk(NoisyTable(near.ravel(), near_noise), usual.ravel()).reshape(near.shape)
    near = np.maximum(drawn_near, 0.0) + 1e-9
    total = np.maximum(values.sum(axis=1), 1e-9)
    expected = total[:, None] * near / near.sum(axis=1, keepdims=True)
    found = shrunk(noisy, expected.ravel())
    found = onto_totals(found, np.repeat(np.arange(classes), bins), total).reshape(classes, bins)
    return conditional(found, near)


def _whole(values: np.ndarray, guess: np.ndarray, deviation: float) -> np.ndarray:
    """All classes together, drawn to the guess."""
    summed = NoisyTable(values.sum(axis=0), deviation * np.sqrt(values.shape[0]))
    total = max(float(summed.values.sum()), 1.0)
    guess = total * guess / guess.sum()
    return onto_total(shrunk(summed, guess, GUESS_DEVIATION), total) + 1e-6 * guess


def falling(bins: int, fall: float) -> np.ndarray:
    """A guess: each bin has `fall` times the one before, the last all that would follow."""
    guess = fall ** np.arange(bins)
    guess[-1] /= 1 - fall
    return guess / guess.sum()


def fall_of(noisy: NoisyTable, bins: int) -> float:
    """How much is left from bin to bin towards the open end, all classes together."""
    whole = noisy.values.reshape(-1, bins).sum(axis=0)
    tail = whole[-1 - TAIL_BINS : -1]
    half = TAIL_BINS // 2
    noise = noisy.deviation * np.sqrt(half * noisy.values.size / bins)
    early, late = tail[:half].sum(), tail[half:].sum()
    if early < 3 * noise or late <= 0:
        return 0.8
    return float(np.clip((late / early) ** (1 / half), 0.3, 0.95))


def drawn(rows: np.ndarray, which: np.ndarray, fall: float, seed: int, purpose: int) -> np.ndarray:
    """int64: a bin of the row `which` for each thing; the last bin is open and goes on with its fall."""
    ends = np.cumsum(rows, axis=1)
    chance = uniforms(seed, purpose, which.size) * ends[which, -1]
    place = (ends[which] <= chance[:, None]).sum(axis=1)
    last = rows.shape[1] - 1
    more = np.log1p(-uniforms(seed, purpose + 1000, which.size)) / np.log(fall)
    return np.where(place >= last, last + np.minimum(more, MOST_TAIL).astype(np.int64), place)


def counted_moves(first: np.ndarray, cells: np.ndarray, noisy: NoisyMovement, count: int) -> np.ndarray:
    """float64 [cells, 8].

    A unit with many trips adds about the moves of all of them, scaled: trips of synthetic units are not known
    apart, so there all moves count alike.
    """
    way = direction_between(cells[:-1], cells[1:], noisy.setting.grid.columns)
    out = np.zeros(count * DIRECTIONS)
    norm = noisy.norm if noisy.setting.each_trip else 0
    _count(first, cells, way, norm, out)
    return out.reshape(count, DIRECTIONS)


@njit(cache=True, nogil=True)
def _count(first, cells, way, norm, out):
    for trip in range(first.size - 1):
        begin, end = first[trip], first[trip + 1] - 1
        size = end - begin
        if size == 0:
            continue
        squares = 0.0
        if norm == 2:  # moves come again in few trips: then the same place counts its square
            for i in range(begin, end):
                same = 0
                for j in range(begin, end):
                    if cells[i] == cells[j] and way[i] == way[j]:
                        same += 1
                squares += same
        scale = 1.0 if norm == 0 else (1.0 / size if norm == 1 else 1.0 / np.sqrt(squares))
        for i in range(begin, end):
            out[cells[i] * 8 + way[i]] += scale
