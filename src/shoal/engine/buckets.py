"""Rows on their way from file order to user order: kept in buckets of users, spilled to disk when many.

All rows of a user fall into one bucket, which is then sorted by exact comparison of ids in linear time.
Memory is bounded by `spill_bytes` plus one bucket per thread. The spill folder is private and lies in the
system's temporary folder (shoal/scratch.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, uint64

from shoal.engine.prf import hash_integers, hash_strings, split_key
from shoal.errors import OutputError
from shoal.scratch import Scratch

BUCKETS = 64
BUCKET_PURPOSE = 4
COLUMNS = ["user", "time_us", "site"]  # of a density; other events take the general way


def in_bucket_order(batch: pa.RecordBatch, run_key: bytes) -> tuple[pa.RecordBatch, np.ndarray]:
    """The rows bucket by bucket, and where each bucket starts.

    A row's bucket is a function of the user's id alone; only memory depends on how even it is.
    """
    users = batch.column("user")
    if not pa.types.is_integer(users.type) or batch.schema.names != COLUMNS:
        bucket = (digest_users(users, run_key) % np.uint64(BUCKETS)).astype(np.int32)
        first, order = counting_sort(bucket, BUCKETS)
        return batch.take(pa.array(order)), first
    user, time_us, site = (batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS)
    key, _ = split_key(run_key, BUCKET_PURPOSE)
    first, *columns = _scatter(user.astype(np.int64, copy=False), time_us, site, key)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=COLUMNS), first


@njit(cache=True, nogil=True)
def _scatter(user, time_us, site, key):
    """Rows of integer ids in bucket order, in two passes: count, then copy."""
    bucket = np.empty(user.size, np.uint8)
    first = np.zeros(BUCKETS + 1, np.int64)
    for row in range(user.size):
        x = uint64(user[row]) ^ key  # bits mixed with the key by the finaliser of splitmix64
        x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
        bucket[row] = (x ^ (x >> uint64(31))) % uint64(BUCKETS)
        first[bucket[row] + 1] += 1
    for b in range(BUCKETS):
        first[b + 1] += first[b]
    place = first[:-1].copy()
    to_user, to_time, to_site = np.empty_like(user), np.empty_like(time_us), np.empty_like(site)
    for row in range(user.size):
        at = place[bucket[row]]
        to_user[at], to_time[at], to_site[at] = user[row], time_us[row], site[row]
        place[bucket[row]] = at + 1
    return first, to_user, to_time, to_site


class UserBuckets:
    """Takes batches in any order; gives back user-complete batches."""

    def __init__(self, run_key: bytes, *, spill_bytes: int, folder: str | None = None) -> None:
        self._run_key = run_key
        self._spill_bytes = spill_bytes
        self._parent = folder
        self._scratch: Scratch | None = None
        self._writers: dict[int, tuple[pa.OSFile, pa.RecordBatchFileWriter]] = {}
        self._pending: list[list[pa.RecordBatch]] = [[] for _ in range(BUCKETS)]
        self._pending_bytes = 0
        self.rows = 0

    def __enter__(self) -> UserBuckets:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close_writers()
        if self._scratch is not None:
            self._scratch.remove()

    def add(self, batch: pa.RecordBatch) -> None:
        """Sort the rows of a batch into their buckets."""
        ordered, first = in_bucket_order(batch, self._run_key)
        for b in range(BUCKETS):
            if first[b + 1] > first[b]:
                self._pending[b].append(ordered.slice(first[b], first[b + 1] - first[b]))
        self.rows += batch.num_rows
        self._pending_bytes += ordered.nbytes
        if self._pending_bytes > self._spill_bytes:
            self._spill(ordered.schema)

    def finish(self) -> None:
        """No more rows will come; the files can be read."""
        self._close_writers()

    def groups(self, rows: int, least: int) -> list[range]:
        """Buckets to be read together: about `rows` rows in each group, and at least `least` groups."""
        size = max(1, min(max(1, BUCKETS // least), BUCKETS * rows // max(self.rows, 1)))
        return [range(start, min(start + size, BUCKETS)) for start in range(0, BUCKETS, size)]

    def read(self, buckets: range) -> pa.RecordBatch | None:
        """All rows of the users of these buckets, or None where there are none."""
        parts = [part for bucket in buckets for part in (*self._spilled(bucket), *self._pending[bucket])]
        for bucket in buckets:
            self._pending[bucket] = []
        return pa.concat_batches(parts) if parts else None

    def _spill(self, schema: pa.Schema) -> None:
        try:
            if self._scratch is None:
                self._scratch = Scratch(self._parent)
            for b, batches in enumerate(self._pending):
                if not batches:
                    continue
                if b not in self._writers:
                    sink = pa.OSFile(str(self._scratch.path / f"{b}.arrow"), "wb")
                    self._writers[b] = (sink, pa.ipc.new_file(sink, schema))
                for batch in batches:
                    self._writers[b][1].write_batch(batch)
                batches.clear()
        except OSError as error:
            raise OutputError(
                "temp-folder",
                f"the temporary folder cannot take the events on their way ({error.strerror or 'no space'}).",
                "Free some space, or point TMPDIR at a larger disk.",
            ) from error
        self._pending_bytes = 0

    def _spilled(self, bucket: int) -> Iterator[pa.RecordBatch]:
        if self._scratch is None or not (path := self._scratch.path / f"{bucket}.arrow").exists():
            return
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)

    def _close_writers(self) -> None:
        for sink, writer in self._writers.values():
            writer.close()
            sink.close()
        self._writers = {}


USER_PURPOSE = 0


@dataclass(frozen=True)
class UserOrder:
    """Rows of user u are order[first[u]:first[u + 1]]; digest[u] is a keyed hash of the user's id."""

    digest: np.ndarray
    first: np.ndarray
    order: np.ndarray


def by_user(users: pa.Array, run_key: bytes) -> UserOrder:
    """Group rows by user. Ids are compared exactly; the digest only feeds the choices."""
    encoded = users.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    first, order = counting_sort(codes, len(encoded.dictionary))
    return UserOrder(digest_users(encoded.dictionary, run_key), first, order)


def same_as_before(users: pa.Array) -> np.ndarray:
    """bool per row: whether it is of the same user as the row before; ids are compared exactly."""
    same = np.zeros(len(users), bool)
    if len(users) > 1:
        same[1:] = pc.call_function("equal", [users[1:], users[:-1]]).to_numpy(zero_copy_only=False)
    return same


def digest_users(users: pa.Array, run_key: bytes) -> np.ndarray:
    """A 64-bit keyed digest per row of an int64 or string column."""
    k0, k1 = split_key(run_key, USER_PURPOSE)
    if pa.types.is_integer(users.type):
        return hash_integers(k0, k1, users.cast(pa.int64()).to_numpy(zero_copy_only=False))
    strings = users.cast(pa.large_string())
    if strings.offset:
        strings = pa.concat_arrays([strings])
    _, offsets, content = strings.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[: len(strings) + 1]
    text = np.frombuffer(content, dtype=np.uint8) if content is not None else np.empty(0, np.uint8)
    return hash_strings(k0, k1, text, bounds)


@njit(cache=True, nogil=True)
def counting_sort(codes, groups):
    """Stable order of rows by small integer code, and where each group starts."""
    first = np.zeros(groups + 1, dtype=np.int64)
    for code in codes:
        first[code + 1] += 1
    for g in range(groups):
        first[g + 1] += first[g]
    fill = first[:-1].copy()
    order = np.empty(codes.size, dtype=np.int64)
    for row in range(codes.size):
        code = codes[row]
        order[fill[code]] = row
        fill[code] += 1
    return first, order
