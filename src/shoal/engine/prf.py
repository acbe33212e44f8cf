"""SipHash-2-4 in compiled form: the keyed function behind every choice a kernel makes.

A choice is a pseudo-random function of (secret run key, what is chosen), so the same run key gives the
same choice whatever the order of rows, the split into files or the number of threads, and nobody
without the key can predict it. Source: Aumasson and Bernstein 2012; checked against their test vector.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

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
