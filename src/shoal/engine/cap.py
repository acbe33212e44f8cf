"""At most MOST_EVENTS events of a user enter at all, so that one user fits where the others do.

Of a user with more, those with the smallest F(user, event) are kept: F is SipHash keyed by the run key, an
event is all its columns. The smallest of many are the smallest of the smallest, so parts of a user can be cut
where they lie and cut again when they come together. Events that are equal in all columns cannot be told
apart; different ones with the same hash are settled by their columns. So every engine and any split keep the
same events. The choice is a function of one user's events; it is public that it is made, and no bound of a
mechanism rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, uint64

from shoal.engine.buckets import UserOrder, by_user, digest_users
from shoal.engine.prf import hash3, hash_strings, split_key
from shoal.engine.protocol import MOST_EVENTS

CAP_PURPOSE = 9
TEXT_PURPOSE = 10
CLASSES = 1 << 14
WATCHED = 64  # users remembered at a time by a stream


def cut_users(batch: pa.RecordBatch, run_key: bytes, most: int = MOST_EVENTS) -> pa.RecordBatch:
    """The batch with at most `most` events of a user; it is user-complete."""
    if batch.num_rows <= most or not _some_class_above(batch["user"], run_key, most):
        return batch
    users = by_user(batch["user"], run_key)
    kept = np.ones(batch.num_rows, bool)
    for u in np.flatnonzero(np.diff(users.first) > most).tolist():
        rows = users.order[users.first[u] : users.first[u + 1]]
        kept[rows] = False
        kept[rows[_smallest(batch, rows, ranks(batch, users, u, run_key), most)]] = True
    return batch if kept.all() else batch.filter(pa.array(kept))


@dataclass(eq=False)
class StreamCut:
    """Cuts batches that come one after the other, of users that may go on elsewhere.

    What is let through holds the `most` smallest of every user. Once the users of a class have more rows
    than that, the busiest of them are watched: their smallest hashes are remembered, and nothing above the
    last of these passes.
    """

    run_key: bytes = field(repr=False)
    most: int = MOST_EVENTS
    _seen: dict[object, np.ndarray] = field(default_factory=dict, init=False, repr=False)
    _rows: np.ndarray = field(init=False, repr=False)  # so far, per class of users

    def __post_init__(self) -> None:
        self._rows = np.zeros(CLASSES, np.int64)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows == 0:
            return batch
        self._rows += _classes(_ids(batch["user"], self.run_key))
        if int(self._rows.max()) <= self.most:  # nobody can have more yet
            return batch
        users = by_user(batch["user"], self.run_key)
        kept = np.ones(batch.num_rows, bool)
        for u in self._busy(batch, users):
            rows = users.order[users.first[u] : users.first[u + 1]]
            name = batch["user"][int(rows[0])].as_py()
            rank = ranks(batch, users, u, self.run_key)
            smallest = np.sort(np.concatenate([self._seen.get(name, np.empty(0, np.uint64)), rank]))
            self._seen[name] = smallest = smallest[: self.most]
            if smallest.size == self.most:
                kept[rows] = rank <= smallest[-1]
        return batch if kept.all() else batch.filter(pa.array(kept))

    def _busy(self, batch: pa.RecordBatch, users: UserOrder) -> list[int]:
        """Numbers of users who are watched, and of the busiest others in full classes."""
        first = batch["user"].take(pa.array(users.order[users.first[:-1]]))
        full = self._rows[_class_of(_ids(first, self.run_key))] > self.most
        rows = np.diff(users.first)
        others = np.flatnonzero(full & (rows * WATCHED > batch.num_rows / 16))
        many = others[np.argsort(-rows[others], kind="stable")][: max(0, WATCHED - len(self._seen))].tolist()
        if not self._seen:
            return many
        names = pc.SetLookupOptions(value_set=pa.array(list(self._seen), first.type))
        known = pc.call_function("is_in", [first], names).to_numpy(zero_copy_only=False)
        return sorted({*many, *np.flatnonzero(known).tolist()})


def ranks(batch: pa.RecordBatch, users: UserOrder, u: int, run_key: bytes) -> np.ndarray:
    """uint64 per event of user number u, in the order of their rows: F(user, event)."""
    rows = pa.array(users.order[users.first[u] : users.first[u + 1]])
    key = split_key(run_key, CAP_PURPOSE)
    rank = np.full(len(rows), users.digest[u], np.uint64)
    for name in sorted(set(batch.schema.names) - {"user"}):
        _stir(rank, _words(batch[name].take(rows), run_key), *key)
    return rank


def _smallest(batch: pa.RecordBatch, rows: np.ndarray, rank: np.ndarray, most: int) -> np.ndarray:
    """Places in `rows` of the `most` smallest ranks; equal ones by their columns."""
    last = np.partition(rank, most - 1)[most - 1]
    below, at = np.flatnonzero(rank < last), np.flatnonzero(rank == last)
    if below.size + at.size > most:
        columns = [
            batch[name].take(pa.array(rows[at])) for name in sorted(set(batch.schema.names) - {"user"})
        ]
        at = at[np.lexsort([np.asarray(column.to_pylist()) for column in reversed(columns)])]
    return np.concatenate([below, at[: most - below.size]])


def _some_class_above(users: pa.Array, run_key: bytes, most: int) -> bool:
    """Whether any class of users has more than `most` rows; where none has, no user has."""
    return len(users) > most and int(_classes(_ids(users, run_key)).max()) > most


def _ids(users: pa.Array, run_key: bytes) -> np.ndarray:
    """64 bits per row that are equal for a user's rows."""
    if pa.types.is_integer(users.type):
        return users.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64)
    return digest_users(users, run_key)


def _words(column: pa.Array, run_key: bytes) -> np.ndarray:
    """64 bits that stand for each value; of text a keyed hash."""
    if pa.types.is_floating(column.type):
        return (column.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0).view(np.uint64)  # -0 is 0
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    text = pa.concat_arrays([column.cast(pa.large_string())])
    _, offsets, content = text.buffers()
    bounds = np.frombuffer(offsets, np.int64)[: len(text) + 1]
    letters = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    return hash_strings(*split_key(run_key, TEXT_PURPOSE), letters, bounds)


@njit(cache=True, nogil=True)
def _stir(rank, words, k0, k1):
    for i in range(rank.size):
        rank[i] = hash3(k0, k1, rank[i], words[i], uint64(0))


@njit(cache=True, nogil=True)
def _classes(ids):
    """Rows per class of users."""
    counts = np.zeros(CLASSES, np.int64)
    for each in _class_of(ids):
        counts[each] += 1
    return counts


@njit(cache=True, nogil=True)
def _class_of(ids):
    classes = np.empty(ids.size, np.int64)
    for i in range(ids.size):
        classes[i] = (ids[i] * uint64(0x9E3779B97F4A7C15)) >> uint64(50)
    return classes
