"""Tables of homes, work places and calls: exact and private, after the noise, and events drawn from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LATTICE = 2**20  # units of a contribution of norm 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactCommutes:
    """Sums over users, by name of the table; private.

    `norm` 1: a user adds at most LATTICE to each table in all. 2: the root of the sum of squares of what a
    user adds to a table is at most LATTICE.
    """

    tables: dict[str, np.ndarray] = field(repr=False)  # int64
    norm: int


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCommutes:
    """The tables after noise, in users; values may be negative. A table that was not bought is not here."""

    tables: dict[str, np.ndarray] = field(repr=False)  # float64
    deviations: dict[str, float]  # of the noise of each value


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticEvents:
    """Events of people who do not exist, by person and time."""

    people: int
    person: np.ndarray = field(repr=False)  # int64, never falling
    time_us: np.ndarray = field(repr=False)  # int64, UTC microseconds
    site: np.ndarray = field(repr=False)  # int32, index into the public list

    @property
    def count(self) -> int:
        return self.person.size
