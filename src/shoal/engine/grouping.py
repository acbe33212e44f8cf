"""Rows of a batch brought into user order: exact comparison of ids, linear time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from shoal.engine.prf import hash_integers, hash_strings, split_key

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
