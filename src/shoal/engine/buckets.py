"""Rows on their way from file order to user order: kept in buckets of users, spilled to disk when many.

All rows of a user fall into one bucket. Memory is bounded by `spill_bytes` plus one bucket per thread.
The spill folder is private (0700), lives in the system's temporary folder and is removed at the end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numba import njit, uint64

from shoal.engine.grouping import counting_sort, digest_users
from shoal.engine.prf import split_key
from shoal.errors import OutputError

BUCKETS = 64
BUCKET_PURPOSE = 4


def bucket_of(users: pa.Array, run_key: bytes) -> np.ndarray:
    """The bucket of each row: a function of the user's id alone. Only memory depends on how even it is."""
    if not pa.types.is_integer(users.type):
        return (digest_users(users, run_key) % np.uint64(BUCKETS)).astype(np.int32)
    numbers = users.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return _mix(numbers, split_key(run_key, BUCKET_PURPOSE)[0])


@njit(cache=True, nogil=True)
def _mix(numbers, key):
    """Bits of each number mixed with the key (the finaliser of splitmix64), as a bucket."""
    bucket = np.empty(numbers.size, np.int32)
    for i in range(numbers.size):
        x = uint64(numbers[i]) ^ key
        x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
        bucket[i] = (x ^ (x >> uint64(31))) % uint64(BUCKETS)
    return bucket


class UserBuckets:
    """Takes batches in any order; gives back one user-complete batch per bucket."""

    def __init__(self, run_key: bytes, *, spill_bytes: int, folder: str | None = None) -> None:
        self._run_key = run_key
        self._spill_bytes = spill_bytes
        self._parent = folder
        self._folder: Path | None = None
        self._writers: dict[int, tuple[pa.OSFile, pa.RecordBatchFileWriter]] = {}
        self._pending: list[list[pa.RecordBatch]] = [[] for _ in range(BUCKETS)]
        self._pending_bytes = 0

    def __enter__(self) -> UserBuckets:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close_writers()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Sort the rows of a batch into their buckets."""
        first, order = counting_sort(bucket_of(batch.column("user"), self._run_key), BUCKETS)
        ordered = batch.take(pa.array(order))
        for b in range(BUCKETS):
            if first[b + 1] > first[b]:
                self._pending[b].append(ordered.slice(first[b], first[b + 1] - first[b]))
        self._pending_bytes += ordered.nbytes
        if self._pending_bytes > self._spill_bytes:
            self._spill(batch.schema)

    def finish(self) -> None:
        """No more rows will come; the files can be read."""
        self._close_writers()

    def read(self, bucket: int) -> pa.RecordBatch | None:
        """All rows of one bucket's users, or None where there are none."""
        parts = list(self._spilled(bucket)) + self._pending[bucket]
        self._pending[bucket] = []
        if not parts:
            return None
        return pa.concat_batches(parts)

    def _spill(self, schema: pa.Schema) -> None:
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="shoal-", dir=self._parent))
            for b, batches in enumerate(self._pending):
                if not batches:
                    continue
                if b not in self._writers:
                    sink = pa.OSFile(str(self._folder / f"{b}.arrow"), "wb")
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
        if self._folder is None or not (path := self._folder / f"{bucket}.arrow").exists():
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
