"""SipHash-2-4 against the authors' vectors and a plain Python version.

The public cap of a user's events: the smallest keyed hashes, however the events come.
"""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each

from shoal.engine.buckets import StreamCut, by_user, cut_users, digest_users, hash3, hash_bytes, split_key
from shoal.engine.engine import DuckEngine

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


def test_users_are_digested_by_value_with_keys_by_purpose():
    keys = [split_key(KEY, purpose) for purpose in range(4)]
    assert len({half for key in keys for half in key}) == 8
    assert all(isinstance(half, np.uint64) for key in keys for half in key)
    strings = pa.array(["", "a", "zürich", "x" * 40, "a"])
    digests = digest_users(strings, KEY)
    assert digests[1] == digests[4]
    assert len(set(digests.tolist())) == 4
    assert digest_users(strings.slice(2, 2), KEY).tolist() == digests[2:4].tolist()
    assert digest_users(strings.cast(pa.large_string()), KEY).tolist() == digests.tolist()
    small = digest_users(pa.array([5, -1], pa.int32()), KEY)
    assert small.tolist() == digest_users(pa.array([5, -1], pa.int64()), KEY).tolist()
    words = np.array([3, 2**63 + 1, 2**64 - 1], dtype=np.uint64)
    assert hash3(K0, K1, *words) == siphash(KEY, words.tobytes())


@pytest.mark.parametrize("letters", [40, 64, 255, 4096, 65_500])
def test_ids_that_differ_in_the_last_letter_alone_are_of_two_users(letters):
    users = by_user(pa.array(["x" * letters + last for last in "abab"]), KEY)
    assert users.first.tolist() == [0, 2, 4]
    assert users.digest[0] != users.digest[1]


def table(seed=0, rows=600, text=False):
    """User 1 has about half of the events, others few; some events are equal in all columns."""
    rng = np.random.default_rng(seed)
    user = np.where(rng.random(rows) < 0.5, 1, rng.integers(2, 40, rows))
    columns = {
        "user": pa.array([f"u{value}" for value in user]) if text else pa.array(user),
        "time_us": rng.integers(0, 50, rows),
        "site": pa.array(rng.integers(0, 4, rows), pa.int32()),
    }
    return pa.record_batch(columns)


def rows_of(batch):
    return sorted(zip(*batch.to_pydict().values(), strict=True))


def plain_cut(batch, most):
    """Sort each user's events by their hash, then by their columns, and keep the first."""
    k0, k1 = split_key(KEY, 9)
    kept = []
    users = sorted(set(batch["user"].to_pylist()))
    for name in users:
        digest = digest_users(pa.array([name], batch["user"].type), KEY)[0]
        mine = [row for row in zip(*batch.to_pydict().values(), strict=True) if row[0] == name]

        def rank(row, digest=digest):
            by_site = np.uint64(hash3(k0, k1, digest, np.uint64(row[2]), np.uint64(0)))
            return int(hash3(k0, k1, by_site, np.uint64(row[1]), np.uint64(0))), row[2], row[1]

        kept += sorted(mine, key=rank)[:most]
    return sorted(kept)


@for_each("most", [1, 7, 100])
@for_each("text", [False, True])
def test_the_smallest_hashes_are_kept(most, text):
    batch = table(text=text)
    found = cut_users(batch, KEY, most)
    assert rows_of(found) == plain_cut(batch, most)
    assert found.num_rows < batch.num_rows


def test_few_events_are_left_alone_and_another_key_keeps_others():
    batch = table()
    assert cut_users(batch, KEY, 600) is batch
    assert cut_users(batch, KEY, 599) is batch
    batch = table(rows=3_000)
    assert rows_of(cut_users(batch, KEY, 50)) != rows_of(cut_users(batch, bytes(16), 50))


def test_order_and_split_do_not_matter():
    batch = table(rows=3_000)
    whole = rows_of(cut_users(batch, KEY, 50))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        mixed = batch.take(pa.array(rng.permutation(batch.num_rows)))
        cuts = np.sort(rng.integers(0, batch.num_rows, 4))
        parts = [mixed.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, batch.num_rows], strict=True)]
        assert rows_of(cut_users(pa.concat_batches(parts), KEY, 50)) == whole
        streams = [StreamCut(KEY, 50), StreamCut(KEY, 50)]
        passed = [streams[at % 2](part) for at, part in enumerate(parts) if part.num_rows]
        assert rows_of(cut_users(pa.concat_batches(passed), KEY, 50)) == whole


@pytest.mark.parametrize("share", [1.0, 0.25, 0.02])
def test_a_stream_lets_little_more_than_the_cap_through(share):
    """However small a user's share of the rows is, once they are many."""
    rng = np.random.default_rng(1)
    stream, passed, came = StreamCut(KEY, 100), 0, 0
    for _ in range(200):
        user = np.where(rng.random(1_000) < share, 1, rng.integers(2, 10**9, 1_000))
        batch = pa.record_batch({"user": user, "time_us": rng.integers(0, 2**40, 1_000)})
        came += int((user == 1).sum())
        passed += int((stream(batch)["user"].to_numpy() == 1).sum())
    assert came > 3_000
    assert 100 <= passed < 100 * (3 + np.log(came / 100))


def test_more_busy_users_than_are_watched_lose_nothing():
    rng = np.random.default_rng(4)
    batches = [
        pa.record_batch({"user": rng.integers(0, 200, 2_000), "time_us": rng.integers(0, 2**40, 2_000)})
        for _ in range(20)
    ]
    stream = StreamCut(KEY, 30)
    passed = pa.concat_batches([stream(batch) for batch in batches])
    assert passed.num_rows < 40_000
    whole = cut_users(pa.concat_batches(batches), KEY, 30)
    assert rows_of(cut_users(passed, KEY, 30)) == rows_of(whole)


def test_points_are_distinguished_by_all_columns():
    """x, y, trip and flag enter the hash; minus zero is zero."""
    rng = np.random.default_rng(3)
    rows = 400
    batch = pa.record_batch(
        {
            "user": np.ones(rows, np.int64),
            "trip": pa.array([hashlib.sha256(bytes([i % 250])).hexdigest()[:5] for i in range(rows)]),
            "time_us": np.zeros(rows, np.int64),
            "x": np.where(np.arange(rows) % 2, 0.0, -0.0),
            "y": rng.normal(0, 1, rows),
            "flag": rng.random(rows) < 0.5,
        }
    )
    kept = cut_users(batch, KEY, 40)
    assert kept.num_rows == 40
    plus = batch.set_column(3, "x", pa.array(np.zeros(rows)))
    assert kept["y"].to_pylist() == cut_users(plus, KEY, 40)["y"].to_pylist()
    for name, value in (("trip", pa.array(["a"] * rows)), ("flag", pa.array([True] * rows))):
        at = batch.schema.get_field_index(name)
        other = cut_users(batch.set_column(at, name, value), KEY, 40)
        assert other["y"].to_pylist() != kept["y"].to_pylist()


def test_the_engine_cuts_before_the_kernel(monkeypatch):
    """What a kernel is given of a user is at most the cap."""
    import shoal.engine.engine as engine_module

    monkeypatch.setattr(engine_module, "cut_users", lambda batch, key: cut_users(batch, key, 20))
    seen = []

    class Kernel:
        run_key = KEY

        def zero(self):
            return {"rows": np.zeros((), np.int64)}

        def __call__(self, batch):
            seen.append(max(np.bincount(batch["user"].to_numpy())))
            return {"rows": np.array(batch.num_rows, np.int64)}

    sums = DuckEngine(threads=1).sum_users([table(), table(1)], Kernel())
    assert max(seen) == 20
    assert int(sums["rows"]) == len(plain_cut(pa.concat_batches([table(), table(1)]), 20))
