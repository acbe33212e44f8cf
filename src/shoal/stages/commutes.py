"""Tables of homes, work places and calls: exact and private, after the noise, and events drawn from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LATTICE = 2**20  # units of a contribution of norm 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactCommutes:
    """Sums over users, by name of the table; private.

    `norm` 1 or 2: the contribution of a user to each table has an L1 or L2 norm of at most LATTICE.
    """

    tables: dict[str, np.ndarray] = field(repr=False)  # int64
    norm: int


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCommutes:
    """The measured tables after noise, in users; values may be negative."""

    tables: dict[str, np.ndarray] = field(repr=False)  # float64
    deviations: dict[str, float]  # of the noise of each value


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticEvents:
    """Events of synthetic people, sorted by person and time."""

    people: int
    person: np.ndarray = field(repr=False)  # int64, non-decreasing
    time_us: np.ndarray = field(repr=False)  # int64, UTC microseconds
    site: np.ndarray = field(repr=False)  # int32, index into the public list

    @property
    def count(self) -> int:
        return self.person.size
