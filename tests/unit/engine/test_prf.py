"""SipHash-2-4 against the authors' vectors and a plain Python version."""

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each

from shoal.engine.buckets import digest_users, hash3, hash_bytes, split_key

MASK = 2**64 - 1
KEY = bytes(range(16))
K0, K1 = (np.uint64(int.from_bytes(KEY[i : i + 8], "little")) for i in (0, 8))


def siphash(key: bytes, message: bytes) -> int:
    """The published algorithm in Python integers, written from the paper."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def left(x, b):
        return ((x << b) | (x >> (64 - b))) & MASK

    def sip_round():
        v[0] = (v[0] + v[1]) & MASK
        v[2] = (v[2] + v[3]) & MASK
        v[1], v[3] = left(v[1], 13) ^ v[0], left(v[3], 16) ^ v[2]
        v[0] = left(v[0], 32)
        v[2] = (v[2] + v[1]) & MASK
        v[0] = (v[0] + v[3]) & MASK
        v[1], v[3] = left(v[1], 17) ^ v[2], left(v[3], 21) ^ v[0]
        v[2] = left(v[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        sip_round()
        sip_round()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        sip_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize(("length", "digest"), [(0, 0x726FDB47DD0E0E31), (15, 0xA129CA6149BE45E5)])
def test_published_vectors(length, digest):
    content = np.arange(length, dtype=np.uint8)
    assert hash_bytes(K0, K1, content, 0, length) == digest
    assert siphash(KEY, bytes(range(length))) == digest


@for_each("length", [1, 7, 8, 9, 23, 24, 64, 255, 256, 300])
def test_any_length_equals_the_plain_version(length):
    content = np.random.default_rng(length).integers(0, 256, length + 5).astype(np.uint8)
    assert hash_bytes(K0, K1, content, 3, 3 + length) == siphash(KEY, content[3 : 3 + length].tobytes())


def test_three_words_are_their_bytes():
    words = np.array([3, 2**63 + 1, 2**64 - 1], dtype=np.uint64)
    assert hash3(K0, K1, *words) == siphash(KEY, words.tobytes())


def test_keys_of_purposes_differ_and_keep_all_bits():
    keys = [split_key(KEY, purpose) for purpose in range(4)]
    assert len({half for key in keys for half in key}) == 8
    assert all(isinstance(half, np.uint64) for key in keys for half in key)


def test_users_are_digested_by_value_whatever_the_arrow_layout():
    strings = pa.array(["", "a", "zürich", "x" * 40, "a"])
    digests = digest_users(strings, KEY)
    assert digests[1] == digests[4]
    assert len(set(digests.tolist())) == 4
    assert digest_users(strings.slice(2, 2), KEY).tolist() == digests[2:4].tolist()
    assert digest_users(strings.cast(pa.large_string()), KEY).tolist() == digests.tolist()
    small = digest_users(pa.array([5, -1], pa.int32()), KEY)
    assert small.tolist() == digest_users(pa.array([5, -1], pa.int64()), KEY).tolist()
