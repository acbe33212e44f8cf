"""Samples of people on a lattice, and the boxes they become. Record j is user j's until ids are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Seven = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
PRICE = 70.0  # of losing a sample: what a box of an epoch and so many cells of width costs


@dataclass(frozen=True, kw_only=True, eq=False)
class LatticeSamples:
    """Distinct samples (t, x, y) of users 0 .. users - 1, sorted by user, then t, x, y. int32 each.

    Exact: raw places of people. Several cells in one step may belong to the same user.
    """

    users: int
    steps: int  # t lies in 0 .. steps - 1
    user: np.ndarray = field(repr=False)
    t: np.ndarray = field(repr=False)
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, user, t, x, y, *, users: int, steps: int) -> LatticeSamples:
        """Sorted, each sample once."""
        columns = [np.asarray(column, np.int32) for column in (user, t, x, y)]
        key = columns[0].astype(np.int64) * steps + columns[1]
        order = np.argsort(key, kind="stable")
        key, columns = key[order], [column[order] for column in columns]
        same = np.zeros(len(key), np.bool_)  # several samples in one step: few, ordered among themselves
        same[1:] = key[1:] == key[:-1]
        same[:-1] |= same[1:]
        tied = np.flatnonzero(same)
        again = tied[np.lexsort((columns[3][tied], columns[2][tied], key[tied]))]
        for column in columns[2:]:
            column[tied] = column[again]
        new = np.ones(len(order), np.bool_)
        if len(order):
            new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
        user, t, x, y = (column[new] for column in columns)
        return cls(users=users, steps=steps, user=user, t=t, x=x, y=y)

    @property
    def count(self) -> int:
        return len(self.t)

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """user, t, x, y."""
        return self.user, self.t, self.x, self.y

    @property
    def start(self) -> np.ndarray:
        """int64 [users + 1]: user j's samples are start[j] .. start[j + 1]."""
        return np.searchsorted(self.user, np.arange(self.users + 1)).astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Boxes:
    """Generalised samples t0..t1, x0..x1, y0..y1, ends included, of records 0 .. records - 1; int32 each.

    Sorted by record, then t0. A record may have no box.
    """

    records: int
    record: np.ndarray = field(repr=False)
    t0: np.ndarray = field(repr=False)
    t1: np.ndarray = field(repr=False)
    x0: np.ndarray = field(repr=False)
    x1: np.ndarray = field(repr=False)
    y0: np.ndarray = field(repr=False)
    y1: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, record, t0, t1, x0, x1, y0, y1, *, records: int) -> Boxes:
        columns = [np.asarray(column, np.int32) for column in (record, t0, t1, x0, x1, y0, y1)]
        order = np.argsort(columns[0].astype(np.int64) * 2**32 + columns[1], kind="stable")
        record, t0, t1, x0, x1, y0, y1 = (column[order] for column in columns)
        return cls(records=records, record=record, t0=t0, t1=t1, x0=x0, x1=x1, y0=y0, y1=y1)

    @property
    def count(self) -> int:
        return len(self.t0)

    @property
    def columns(self) -> Seven:
        """record, t0, t1, x0, x1, y0, y1."""
        return self.record, self.t0, self.t1, self.x0, self.x1, self.y0, self.y1

    @property
    def start(self) -> np.ndarray:
        """int64 [records + 1]: record j's boxes are start[j] .. start[j + 1]."""
        return np.searchsorted(self.record, np.arange(self.records + 1)).astype(np.int64)
