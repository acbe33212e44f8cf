"""Trips as sequences of symbols, and tables of the symbols that follow a context.

A trip begins in a state and goes on by symbols, the last of which is the end. `CellSteps` is the plain way:
states are cells, symbols the eight directions, one step stayed, and the end.

A `Trie` holds the contexts: a state, or a state and the symbols after it. Which contexts it has must be
public: all states, then those whose noisy count passed. A table has a place for every deepest context and
every symbol, so also for what no trip ever did.

>>> grid = CellGrid(box=(0, 0, 3, 2), columns=3, rows=2, planar=True)
>>> paths = CellPaths.of(grid, 60, [[(0, 0, 2), (4, 3, 0)]])
>>> steps = CellSteps(grid)
>>> steps.sequences(paths).symbol.tolist(), Grams(Trie.of(steps)).entries(paths).index.tolist()
([8, 8, 1, 9], [8, 8, 1, 49])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shoal.space.cell_paths import DIRECTIONS, DX, DY, CellPaths, Entries
from shoal.space.cells import CellGrid

STAY, END = DIRECTIONS, DIRECTIONS + 1
CELL_SYMBOLS = DIRECTIONS + 2
MOST_STAY = 60  # steps of one visit that a sequence tells


@dataclass(frozen=True, eq=False)
class Sequences:
    """Symbols of trip i are first[i] to first[i + 1], the last one the end."""

    first: np.ndarray = field(repr=False)  # int64 [trips + 1]
    state: np.ndarray = field(repr=False)  # int64: in which each symbol occurs
    symbol: np.ndarray = field(repr=False)  # int64


class Steps(Protocol):
    """States and symbols, both public, and how a path is encoded by them."""

    @property
    def states(self) -> int: ...

    @property
    def symbols(self) -> int:
        """The last one is the end."""
        ...

    def sequences(self, paths: CellPaths) -> Sequences:
        """Each a function of one path."""
        ...

    def follow(self) -> np.ndarray:
        """int32 [states, symbols]: the state after a symbol, -1 where there is none."""
        ...

    def may(self) -> np.ndarray:
        """bool [states, symbols]: what a trip can do."""
        ...


@dataclass(frozen=True)
class CellSteps:
    """States are cells; symbols are 8 directions, a step stayed, the end."""

    grid: CellGrid
    symbols = CELL_SYMBOLS

    @property
    def states(self) -> int:
        return self.grid.count

    def sequences(self, paths: CellPaths) -> Sequences:
        size = np.minimum(paths.stay, MOST_STAY).astype(np.int64) + 1  # symbols of each visit
        ends = np.cumsum(size)
        symbol = np.full(int(ends[-1]) if ends.size else 0, STAY, np.int64)
        last = np.full(paths.cells.size, END, np.int64)
        last[paths.move_at] = paths.directions
        symbol[ends - 1] = last
        state = np.repeat(paths.cells.astype(np.int64), size)
        return Sequences(np.concatenate([[0], ends])[paths.first], state, symbol)

    def follow(self) -> np.ndarray:
        return np.column_stack([neighbours(self.grid), np.arange(self.states), np.full(self.states, -1)])

    def may(self) -> np.ndarray:
        may = self.follow() >= 0
        may[:, END] = True
        return may


@dataclass(frozen=True)
class MoveSteps(CellSteps):
    """The same symbols without the steps stayed."""

    def sequences(self, paths: CellPaths) -> Sequences:
        symbol = np.full(paths.cells.size, END, np.int64)
        symbol[paths.move_at] = paths.directions
        return Sequences(paths.first, paths.cells.astype(np.int64), symbol)

    def follow(self) -> np.ndarray:
        follow = super().follow()
        follow[:, STAY] = -1
        return follow


@dataclass(frozen=True, eq=False)
class Trie:
    """Contexts level by level; node i of the first level is state i."""

    steps: Steps
    child: np.ndarray = field(repr=False)  # int32 [nodes, symbols]: the longer context, -1 where it is none
    state: np.ndarray = field(repr=False)  # int32 [nodes]: in which the context ends
    level_first: tuple[int, ...]  # where each level begins

    @classmethod
    def of(cls, steps: Steps) -> Trie:
        """One level: all states."""
        child = np.full((steps.states, steps.symbols), -1, np.int32)
        return cls(steps, child, np.arange(steps.states, dtype=np.int32), (0,))

    @property
    def nodes(self) -> int:
        return self.child.shape[0]

    @property
    def levels(self) -> int:
        return len(self.level_first)

    @property
    def deepest(self) -> slice:
        """Contexts of the last level."""
        return slice(self.level_first[-1], self.nodes)

    @property
    def size(self) -> int:
        """Places of a table of what follows the deepest contexts."""
        return (self.nodes - self.level_first[-1]) * self.steps.symbols

    def grown(self, counts: np.ndarray, threshold: float) -> Trie:
        """A level more, where a noisy count of the deepest contexts passes and a state follows."""
        follow = self.steps.follow()[self.state[self.deepest]]
        node, symbol = np.nonzero((counts.reshape(follow.shape) > threshold) & (follow >= 0))
        child = np.concatenate([self.child, np.full((node.size, self.steps.symbols), -1, np.int32)])
        child[self.level_first[-1] + node, symbol] = self.nodes + np.arange(node.size, dtype=np.int32)
        state = np.concatenate([self.state, follow[node, symbol]])
        return Trie(self.steps, child, state.astype(np.int32), (*self.level_first, self.nodes))


@dataclass(frozen=True, eq=False)
class Starts:
    """The state in which a trip begins."""

    steps: Steps

    @property
    def size(self) -> int:
        return self.steps.states

    def entries(self, paths: CellPaths) -> Entries:
        sequences = self.steps.sequences(paths)
        return Entries(np.arange(paths.count + 1, dtype=np.int64), sequences.state[sequences.first[:-1]])


@dataclass(frozen=True, eq=False)
class Grams:
    """Deepest context * symbols + the symbol that follows it, wherever in a trip."""

    trie: Trie = field(repr=False)

    @property
    def size(self) -> int:
        return self.trie.size

    def entries(self, paths: CellPaths) -> Entries:
        sequences = self.trie.steps.sequences(paths)
        return _after(sequences, self.begin(sequences), self.trie)

    def begin(self, sequences: Sequences) -> np.ndarray:
        """Where contexts may begin."""
        return np.arange(sequences.symbol.size)


class Prefixes(Grams):
    """As `Grams`, at the beginning of a trip only: one entry at most."""

    def begin(self, sequences: Sequences) -> np.ndarray:
        return sequences.first[:-1]


def _after(sequences: Sequences, begin: np.ndarray, trie: Trie) -> Entries:
    """What follows the deepest contexts that begin at these places. No context holds an end, so a symbol
    that follows one is of the same trip."""
    node = sequences.state[begin]
    for level in range(1, trie.levels):
        node = trie.child[node, sequences.symbol[begin + level - 1]]
        begin, node = begin[node >= 0], node[node >= 0]
    symbol = sequences.symbol[begin + trie.levels - 1]
    place = (node.astype(np.int64) - trie.level_first[-1]) * trie.child.shape[1] + symbol
    return Entries(np.searchsorted(begin, sequences.first).astype(np.int64), place)


def neighbours(grid: CellGrid) -> np.ndarray:
    """int32 [cells, 8]: the cell in each direction, -1 outside the grid."""
    cell = np.arange(grid.count)[:, None]
    x, y = cell % grid.columns + DX, cell // grid.columns + DY
    inside = (x >= 0) & (x < grid.columns) & (y >= 0) & (y < grid.rows)
    return np.where(inside, y * grid.columns + x, -1).astype(np.int32)
