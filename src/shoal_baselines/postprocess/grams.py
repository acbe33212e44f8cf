"""Movement as probabilities of the next symbol after a context, from noisy tables of grams or prefixes.

Walks by the probabilities of contexts: symbol after symbol, until the end is drawn.

A walk by grams uses the longest context that the trie has for the latest symbols; a walk by prefixes the one
context that began with the trip, and ends where the trie does.

When synthetic trips start: hours by a noisy table, or evenly over the window; evenly within a slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.postprocess.synthetic.numbers import onto_total, pick, stream, uniform, uniforms
from shoal.space.clock import HOUR_KINDS
from shoal.space.trip_setting import PathSetting
from shoal.stages.synthetic import NoisyTable, SyntheticPaths
from shoal_baselines.space.gram_tables import END, STAY, Steps, Trie

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
        tables = {"hours": self.hours.values, "starts": self.starts.values, "contexts": self.trie.child}
        return {"trips": np.array([self.trips]), **tables, **grams}

    def generate(self, count: int, seed: int) -> SyntheticPaths:
        start = pick(start_weights(self.starts), uniforms(seed, START_PURPOSE, count))
        ends = np.cumsum(self.probabilities(), axis=1)
        walks = walk_grams(start, ends, self.trie.child, self.trie.steps.follow(), self.trie.levels, seed)
        return timed_paths(visits_of(walks), self.setting, self.hours, seed)

    def probabilities(self) -> np.ndarray:
        """float64 [contexts, symbols]: each row sums to 1, or is 0 where noise left nothing."""
        counts = shrunk_counts(self.levels[0], self.trie.steps)
        probability, edges = rows_to_one(counts), [*self.trie.level_first, self.trie.nodes]
        suffix = suffixes(self.trie.child, self.trie.state)
        for level in range(1, self.trie.levels):
            node, symbol = np.nonzero(self.trie.child[edges[level - 1] : edges[level]] >= 0)
            expected = counts[node, symbol][:, None] * probability[suffix[edges[level] : edges[level + 1]]]
            table = self.levels[level]
            noisy = table.values.reshape(expected.shape)
            # a unit has norm 1 on each level, however little of it is there
            expected *= max(float(noisy.sum()), 0.0) / max(float(expected.sum()), 1e-12)
            # shrinkage: the prior standard deviation of a value is its expectation
            trust = expected**2 / (expected**2 + table.deviation**2)
            counts = np.maximum(expected + trust * (noisy - expected), 0.0)
            probability = np.concatenate([probability, rows_to_one(counts)])
        return probability


def shrunk_counts(table: NoisyTable, steps: Steps) -> np.ndarray:
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
    """`ends` are running sums of probabilities per context; a shorter context replaces one without any."""
    return _walks(_grams, start, (ends, child, follow, levels), seed)


def walk_prefixes(start, ends, child, follow, seed: int) -> Walks:
    return _walks(_prefixes, start, (ends, child, follow), seed)


def _walks(kernel, start, model, seed) -> Walks:
    """Every walk is made twice: for its length, then to be stored."""
    start = start.astype(np.int32)
    size = np.zeros(start.size + 1, np.int64)
    none = np.empty(0, np.int32), np.empty(0, np.int8)
    kernel(start, *model, np.uint64(seed), size, *none, False)
    first = np.cumsum(size)
    state, symbol = np.empty(int(first[-1]), np.int32), np.empty(int(first[-1]), np.int8)
    kernel(start, *model, np.uint64(seed), first, state, symbol, True)
    return Walks(start, first, state, symbol)


@njit(cache=True, nogil=True)
def draw_symbol(ends, uniform_number):
    """The symbol of a uniform number between 0 and 1, by running sums."""
    goal = uniform_number * ends[-1]
    for symbol in range(ends.size):
        if goal < ends[symbol]:
            return symbol
    return ends.size - 1


@njit(cache=True, nogil=True)
def _grams(start, ends, child, follow, levels, seed, first, out_state, out_symbol, fill):
    context = np.empty(levels, np.int64)
    for trip in range(start.size):
        random_stream = stream(seed, WALK_PURPOSE, trip)
        context[:] = -1
        context[0] = start[trip]
        length = 0
        while length < MOST_SYMBOLS:
            level = levels - 1
            while level >= 0 and (context[level] < 0 or ends[context[level], -1] <= 0.0):
                level -= 1
            if level < 0:
                break
            symbol = draw_symbol(ends[context[level]], uniform(random_stream, length))
            if symbol == END:
                break
            here = follow[context[0], symbol]
            for k in range(levels - 1, 0, -1):
                context[k] = child[context[k - 1], symbol] if context[k - 1] >= 0 else -1
            context[0] = here
            if fill:
                out_state[first[trip] + length], out_symbol[first[trip] + length] = here, symbol
            length += 1
        if not fill:
            first[trip + 1] = length


@njit(cache=True, nogil=True)
def _prefixes(start, ends, child, follow, seed, first, out_state, out_symbol, fill):
    for trip in range(start.size):
        random_stream = stream(seed, WALK_PURPOSE, trip)
        node, here = np.int64(start[trip]), np.int64(start[trip])
        length = 0
        while node >= 0 and ends[node, -1] > 0.0:
            symbol = draw_symbol(ends[node], uniform(random_stream, length))
            if symbol == END:
                break
            here, node = follow[here, symbol], child[node, symbol]
            if fill:
                out_state[first[trip] + length], out_symbol[first[trip] + length] = here, symbol
            length += 1
        if not fill:
            first[trip + 1] = length


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


SLOT_PURPOSE, INSTANT_PURPOSE = 101, 102


def slot_weights(setting: PathSetting, noisy_hours: np.ndarray | None = None) -> np.ndarray:
    """float64 [slots]: trips that start in each slot, where hours of a kind are alike on all days.

    By length alone where no hours were measured, or the noise left nothing of them.
    """
    minutes, kind = setting.clock.minutes, setting.kind_of_slot
    if noisy_hours is None:
        return minutes
    length = np.bincount(kind, minutes, HOUR_KINDS)
    met = length > 0
    of_kind = np.zeros(HOUR_KINDS)
    of_kind[met] = onto_total(noisy_hours[met], max(float(noisy_hours[met].sum()), 0.0))
    if not of_kind.sum() > 0:
        return minutes
    return of_kind[kind] * minutes / length[kind]


def draw_starts(setting: PathSetting, weights: np.ndarray, count: int, seed: int) -> np.ndarray:
    """int64 [count]: microseconds since 1970."""
    slot = pick(weights, uniforms(seed, SLOT_PURPOSE, count))
    edges = setting.clock.edges_us
    within = uniforms(seed, INSTANT_PURPOSE, count) * np.diff(edges)[slot]
    return edges[slot] + within.astype(np.int64)
