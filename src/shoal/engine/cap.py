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

from shoal.engine.grouping import UserOrder, by_user, digest_users
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

    What is let through holds the `most` smallest of every user; of a user with many events little more:
    the smallest hashes so far are remembered, and nothing above them passes.
    """

    run_key: bytes = field(repr=False)
    most: int = MOST_EVENTS
    _seen: dict[object, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        watched = self.most // 4
        if not self._seen and not _some_class_above(batch["user"], self.run_key, watched):
            return batch
        users = by_user(batch["user"], self.run_key)
        kept = np.ones(batch.num_rows, bool)
        for u in self._busy(batch, users, watched):
            rows = users.order[users.first[u] : users.first[u + 1]]
            name = batch["user"][int(rows[0])].as_py()
            rank = ranks(batch, users, u, self.run_key)
            smallest = np.sort(np.concatenate([self._seen.get(name, np.empty(0, np.uint64)), rank]))
            self._seen[name] = smallest = smallest[: self.most]
            if smallest.size == self.most:
                kept[rows] = rank <= smallest[-1]
        return batch if kept.all() else batch.filter(pa.array(kept))

    def _busy(self, batch: pa.RecordBatch, users: UserOrder, watched: int) -> list[int]:
        """Numbers of users with many events here, or before."""
        many = np.flatnonzero(np.diff(users.first) > watched).tolist()[: max(0, WATCHED - len(self._seen))]
        if not self._seen:
            return many
        first = batch["user"].take(pa.array(users.order[users.first[:-1]]))
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
    if len(users) <= most:
        return False
    if pa.types.is_integer(users.type):
        ids = users.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64)
    else:
        ids = digest_users(users, run_key)
    return int(_classes(ids).max()) > most


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
    counts = np.zeros(CLASSES, np.int64)
    for each in ids:
        x = each * uint64(0x9E3779B97F4A7C15)
        counts[x >> uint64(50)] += 1
    return counts
