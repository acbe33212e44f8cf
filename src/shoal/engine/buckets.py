"""Users brought together: keyed choices, buckets of users, and the public cap on a user's events.

Choices. A choice is a pseudo-random function of (secret run key, what is chosen): SipHash-2-4, compiled.
So the same run key gives the same choice whatever the order of rows, the split into files or the number of
threads, and nobody without the key can predict it. Source: Aumasson and Bernstein 2012; checked against their
test vector.

Buckets. Rows on their way from file order to user order are kept in buckets of users, spilled to disk when
many. All rows of a user fall into one bucket, which is then sorted by exact comparison of ids in linear time.
Memory is bounded by `spill_bytes` plus one bucket per thread. The spill folder is private and lies in the
system's temporary folder (shoal/scratch.py).

Cap. At most MOST_EVENTS events of a user enter at all, so that every user fits into memory. Users with
more keep the events with the smallest F(user, event): F is SipHash keyed by the run key, an event is all its
columns. The smallest of many are the smallest of the smallest, so parts of a user can be cut where they lie
and cut again when they come together. Events that are equal in all columns are indistinguishable; different
ones with the same hash are ordered by their columns. So every engine and any split keep the same events. The
choice is a function of one user's events; it is public that it is made, and no bound of a mechanism rests on
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, uint64

from shoal.errors import OutputError
from shoal.scratch import Scratch

_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)


def split_key(run_key: bytes, purpose: int) -> tuple[np.uint64, np.uint64]:
    """An independent key for one purpose, derived from the run key by the same function."""
    k0 = np.uint64(int.from_bytes(run_key[:8], "little"))
    k1 = np.uint64(int.from_bytes(run_key[8:16], "little"))
    halves = (hash3(k0, k1, np.uint64(purpose), np.uint64(half), np.uint64(0)) for half in (1, 2))
    return tuple(np.uint64(half) for half in halves)  # type: ignore[return-value]


@njit(cache=True, inline="always")
def _rotate(x, bits):
    return (x << uint64(bits)) | (x >> uint64(64 - bits))


@njit(cache=True, inline="always")
def _round(v0, v1, v2, v3):
    v0 += v1
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 += v3
    v3 = _rotate(v3, 16) ^ v2
    v0 += v3
    v3 = _rotate(v3, 21) ^ v0
    v2 += v1
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True, inline="always")
def _absorb(v0, v1, v2, v3, word):
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@njit(cache=True, inline="always")
def _finish(v0, v1, v2, v3):
    v2 ^= uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@njit(cache=True, nogil=True)
def hash3(k0, k1, a, b, c):
    """64 pseudo-random bits of three words (24 bytes)."""
    v0, v1, v2, v3 = uint64(_V0) ^ k0, uint64(_V1) ^ k1, uint64(_V2) ^ k0, uint64(_V3) ^ k1
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, uint64(a))
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, uint64(b))
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, uint64(c))
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, uint64(24) << uint64(56))
    return _finish(v0, v1, v2, v3)


@njit(cache=True, nogil=True)
def hash_bytes(k0, k1, content, start, stop):
    """SipHash-2-4 of content[start:stop]."""
    v0, v1, v2, v3 = uint64(_V0) ^ k0, uint64(_V1) ^ k1, uint64(_V2) ^ k0, uint64(_V3) ^ k1
    length = stop - start
    whole = length // 8
    for i in range(whole):
        word = uint64(0)
        for j in range(8):
            word |= uint64(content[start + 8 * i + j]) << uint64(8 * j)
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
    word = uint64(length & 0xFF) << uint64(56)
    for j in range(length - 8 * whole):
        word |= uint64(content[start + 8 * whole + j]) << uint64(8 * j)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
    return _finish(v0, v1, v2, v3)


@njit(cache=True, nogil=True)
def hash_integers(k0, k1, numbers):
    """One digest per int64 user id."""
    digests = np.empty(numbers.size, dtype=np.uint64)
    for i in range(numbers.size):
        digests[i] = hash3(k0, k1, uint64(numbers[i]), uint64(0), uint64(0))
    return digests


@njit(cache=True, nogil=True)
def hash_strings(k0, k1, content, offsets):
    """One digest per string user id, from the buffers of an Arrow string array."""
    digests = np.empty(offsets.size - 1, dtype=np.uint64)
    for i in range(offsets.size - 1):
        digests[i] = hash_bytes(k0, k1, content, offsets[i], offsets[i + 1])
    return digests


# Events of a user in a release; public, stated in the manifest: a position every second of a week.
MOST_EVENTS = 1_000_000
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
        self.finish()
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
        for sink, writer in self._writers.values():
            writer.close()
            sink.close()
        self._writers = {}

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
    return _digest_texts(users, k0, k1)


def _digest_texts(column: pa.Array, k0: np.uint64, k1: np.uint64) -> np.ndarray:
    texts = column.cast(pa.large_string())
    if texts.offset:
        texts = pa.concat_arrays([texts])
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[: len(texts) + 1]
    letters = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    return hash_strings(k0, k1, letters, bounds)


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


CAP_PURPOSE = 9
TEXT_PURPOSE = 10
CLASSES = 1 << 14
WATCHED = 64  # users remembered at a time by a stream


def cut_users(batch: pa.RecordBatch, run_key: bytes, most: int = MOST_EVENTS) -> pa.RecordBatch:
    """The batch with at most `most` events of a user; it is user-complete."""
    if batch.num_rows <= most or int(_classes(_ids(batch["user"], run_key)).max()) <= most:
        return batch  # where no class of users has more rows, no user has
    users = by_user(batch["user"], run_key)
    keep = np.ones(batch.num_rows, bool)
    for u in np.flatnonzero(np.diff(users.first) > most).tolist():
        rows = users.order[users.first[u] : users.first[u + 1]]
        keep[rows] = False
        keep[rows[_smallest(batch, rows, ranks(batch, users, u, run_key), most)]] = True
    return batch if keep.all() else batch.filter(pa.array(keep))


@dataclass(eq=False)
class StreamCut:
    """Cuts batches that come one after the other, of users that may go on elsewhere.

    The batches passed on contain the `most` smallest of every user. Once the users of a class have more rows
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
        keep = np.ones(batch.num_rows, bool)
        for u in self._busy(batch, users):
            rows = users.order[users.first[u] : users.first[u + 1]]
            name = batch["user"][int(rows[0])].as_py()
            rank = ranks(batch, users, u, self.run_key)
            smallest = np.sort(np.concatenate([self._seen.get(name, np.empty(0, np.uint64)), rank]))
            self._seen[name] = smallest = smallest[: self.most]
            if smallest.size == self.most:
                keep[rows] = rank <= smallest[-1]
        return batch if keep.all() else batch.filter(pa.array(keep))

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
        names = sorted(set(batch.schema.names) - {"user"})
        columns = [batch[name].take(pa.array(rows[at])) for name in names]
        at = at[np.lexsort([np.asarray(column.to_pylist()) for column in reversed(columns)])]
    return np.concatenate([below, at[: most - below.size]])


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
    return _digest_texts(column, *split_key(run_key, TEXT_PURPOSE))


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
