"""Walks by the chances of contexts: symbol after symbol, until the end is drawn.

A walk by grams uses the longest context that the trie has for the latest symbols; a walk by prefixes the one
context that began with the trip, and ends where the trie does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.postprocess.draws import stream, uniform
from shoal.space.gram_tables import END, STAY

WALK_PURPOSE = 103
Visits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # first, cells, tick, stay
MOST_SYMBOLS = 1000  # a walk that has not ended by then does


@dataclass(frozen=True, eq=False)
class Walks:
    """Symbols of trip i are first[i] to first[i + 1], without the end; `state` is that after the symbol."""

    start: np.ndarray = field(repr=False)  # int32 [trips]
    first: np.ndarray = field(repr=False)  # int64 [trips + 1]
    state: np.ndarray = field(repr=False)  # int32
    symbol: np.ndarray = field(repr=False)  # int8


def walk_grams(start, ends, child, follow, levels: int, seed: int) -> Walks:
    """`ends` are running sums of each context's chances; a context without any is left to a shorter one."""
    return _walks(_grams, start, (ends, child, follow, levels), seed)


def walk_prefixes(start, ends, child, follow, seed: int) -> Walks:
    return _walks(_prefixes, start, (ends, child, follow), seed)


def _walks(kernel, start, model, seed) -> Walks:
    """Every walk is made twice: for its length, then to be kept."""
    start = start.astype(np.int32)
    size = np.zeros(start.size + 1, np.int64)
    none = np.empty(0, np.int32), np.empty(0, np.int8)
    kernel(start, *model, np.uint64(seed), size, *none, False)
    first = np.cumsum(size)
    state, symbol = np.empty(int(first[-1]), np.int32), np.empty(int(first[-1]), np.int8)
    kernel(start, *model, np.uint64(seed), first, state, symbol, True)
    return Walks(start, first, state, symbol)


@njit(cache=True, nogil=True)
def draw_symbol(ends, chance):
    """The place in running sums that a chance falls to."""
    goal = chance * ends[-1]
    for symbol in range(ends.size):
        if goal < ends[symbol]:
            return symbol
    return ends.size - 1


@njit(cache=True, nogil=True)
def _grams(start, ends, child, follow, levels, seed, first, out_state, out_symbol, fill):
    context = np.empty(levels, np.int64)
    for trip in range(start.size):
        chances = stream(seed, WALK_PURPOSE, trip)
        context[:] = -1
        context[0] = start[trip]
        said = 0
        while said < MOST_SYMBOLS:
            level = levels - 1
            while level >= 0 and (context[level] < 0 or ends[context[level], -1] <= 0.0):
                level -= 1
            if level < 0:
                break
            symbol = draw_symbol(ends[context[level]], uniform(chances, said))
            if symbol == END:
                break
            here = follow[context[0], symbol]
            for k in range(levels - 1, 0, -1):
                context[k] = child[context[k - 1], symbol] if context[k - 1] >= 0 else -1
            context[0] = here
            if fill:
                out_state[first[trip] + said], out_symbol[first[trip] + said] = here, symbol
            said += 1
        if not fill:
            first[trip + 1] = said


@njit(cache=True, nogil=True)
def _prefixes(start, ends, child, follow, seed, first, out_state, out_symbol, fill):
    for trip in range(start.size):
        chances = stream(seed, WALK_PURPOSE, trip)
        node, here = np.int64(start[trip]), np.int64(start[trip])
        said = 0
        while node >= 0 and ends[node, -1] > 0.0:
            symbol = draw_symbol(ends[node], uniform(chances, said))
            if symbol == END:
                break
            here, node = follow[here, symbol], child[node, symbol]
            if fill:
                out_state[first[trip] + said], out_symbol[first[trip] + said] = here, symbol
            said += 1
        if not fill:
            first[trip + 1] = said


def visits_of(walks: Walks) -> Visits:
    """first, cells, tick, stay of walks over cells: every symbol takes a step of time."""
    trips = walks.start.size
    moved = walks.symbol != STAY
    # one visit for the start of every trip, one for every move
    moves_before = np.concatenate([[0], np.cumsum(moved)])
    first = moves_before[walks.first] + np.arange(trips + 1)
    trip = np.repeat(np.arange(trips), np.diff(walks.first))
    step = np.arange(trip.size) - walks.first[trip] + 1
    visit = moves_before[1:] + trip  # which the symbol leads to, or stays in
    cells, tick = np.empty(int(first[-1]), np.int32), np.zeros(int(first[-1]), np.int32)
    cells[first[:-1]] = walks.start
    cells[visit[moved]], tick[visit[moved]] = walks.state[moved], step[moved]
    stay = np.bincount(visit[~moved], minlength=cells.size).astype(np.int32)
    return first, cells, tick, stay


@njit(cache=True, nogil=True)
def suffixes(child, state):
    """int64 [contexts]: the longest context that the trie has without the first state of this one; -1 for
    those of a state alone."""
    suffix = np.full(child.shape[0], -1, np.int64)
    for node in range(child.shape[0]):  # shorter contexts come first
        for symbol in range(child.shape[1]):
            longer = child[node, symbol]
            if longer < 0:
                continue
            suffix[longer] = state[longer]
            at = suffix[node]
            while at >= 0:
                if child[at, symbol] >= 0:
                    suffix[longer] = child[at, symbol]
                    break
                at = suffix[at]
    return suffix
