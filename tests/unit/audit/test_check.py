"""Pairs that wait for a number of people, and a replay that cannot pass by doing nothing.
The second world of the audit: sites on borders of zones, uneven slots, an engine that spills.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.loops import for_each

from shoal.auditing.pairs import CROWDS, NEW, crowd_pairs, tie_pairs
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.planted.bug import drop, round_to, suppress
from shoal.auditing.planted.counts import blank_from, changed
from shoal.auditing.replay import NOTHING_RELEASED, audit_pairs, counted_once, findings, replay_pair
from shoal.engine.buckets import UserBuckets
from shoal.engine.engine import DuckEngine
from shoal.errors import SourceError
from shoal.mechanisms.audit_size import SPLIT
from shoal.mechanisms.registry import REGISTRY
from shoal.privacy.noise import SeededNoise
from shoal.space.setting import Questions

TRUE = {
    "laplace": pipeline_of("density-laplace", 1.0, None),
    "gaussian": pipeline_of("density-gaussian", 1.0, 1e-6),
}


def test_crowds_have_every_size_at_both_sites_and_one_user_more():
    pairs = crowd_pairs(2)
    sizes = Counter()
    for pair in pairs:
        users = {user for user, _, _ in pair.before()}
        (site,) = {site for _, _, site in pair.after()}
        assert {user for user, _, _ in pair.after()} - users == {NEW}
        assert set(Counter(user for user, _, _ in pair.after()).values()) == {2}  # everyone at the cap
        sizes[site, len(users)] += 1
    assert sizes == Counter((site, m) for site in (0, 1) for m in (*range(65), 99, 100, 127, 128, 255))
    assert len(CROWDS) == 70
    weights = TRUE["laplace"].world.size.setting.weights
    weights = weights.matrix.toarray() / weights.lattice
    assert weights[:, 0].tolist() == [1.0, 0.0, 0.0]  # a whole visit
    assert weights[:, 1].tolist() == [0.5, 0.5, 0.0]  # shared by two zones


def test_ties_are_ties_until_the_new_user_comes():
    for pair in tie_pairs(6):
        where = 1 if "slots" in pair.name else 2
        before, after = (
            Counter(row[where] // 3_600_000_000 if where == 1 else row[where] for row in rows)
            for rows in (pair.before(), pair.after())
        )
        assert set(before.values()) == {8}
        assert sorted(after.values()) == [8] * (len(before) - 1) + [9]


@for_each("noise", sorted(TRUE))
@for_each("threshold", [2, 17, 64])
@for_each("rule", [suppress, drop])
def test_a_rule_on_raw_counts_is_seen_whatever_its_threshold(rule, threshold, noise):
    broken = changed(rule(threshold))(TRUE[noise])
    found = next(findings(broken, crowd_pairs(2), broken.mechanism.loss()))
    assert "loss above the claim" in found.problem


@pytest.mark.parametrize("step", [2, 5, 50])
def test_rounded_raw_counts_are_seen(step):
    broken = changed(round_to(step))(TRUE["laplace"])
    assert next(findings(broken, crowd_pairs(2), broken.mechanism.loss()), None)


@for_each("users", [1, 31, 64, 100, 128, 256])
def test_a_rule_on_the_number_of_users_is_seen(users):
    broken = blank_from(users).plant(TRUE["gaussian"])
    found = list(findings(broken, crowd_pairs(2), broken.mechanism.loss()))
    assert {one.problem for one in found} == {"released bytes differ"}
    assert {one.pair for one in found} == {
        f"{users - 1} users and one more at site {site}" for site in (0, 1)
    }


@pytest.mark.parametrize("noise", sorted(TRUE))
def test_crowds_and_ties_hold_on_true_pipelines(noise):
    true = TRUE[noise]
    assert list(findings(true, [*tie_pairs(6), *crowd_pairs(2)], true.mechanism.loss())) == []


def full_disk(*_):
    raise SourceError("disk-full", "the disk is full.")


@for_each("step", ["bound", "spread", "estimate", "write"])
def test_two_equal_errors_are_not_a_pass(step):
    broken = replace(TRUE["laplace"], **{step: full_disk})
    pairs = audit_pairs(broken)[:2]
    found = list(findings(broken, pairs, broken.mechanism.loss()))
    assert {one.pair for one in found} == {pair.name for pair in pairs}
    assert {one.problem for one in found} == {f"{NOTHING_RELEASED}: SourceError"}
    assert all(one.raised == ("SourceError", "SourceError") for one in found)


def test_bounding_once_gives_what_the_whole_pipeline_gives():
    """A replay from kept visits and a run from the rows release the same bytes."""
    true = TRUE["laplace"]
    for pair in (*audit_pairs(true)[:8], crowd_pairs(2)[5]):
        for larger, rows in enumerate(pair.tables):
            key = SeededNoise(3).run_key()
            kept = counted_once(true.count, true.kernel, true.bound, true.world, pair, bool(larger), key)

            class Keyed(SeededNoise):
                def run_key(self, key=key):
                    return key

            assert true.release(kept, Keyed(4)) == true(rows, Keyed(4))
            assert not kept.bounded.counts.flags.writeable


def test_kept_visits_are_those_of_their_key_and_kernel():
    true = TRUE["laplace"]
    pair = next(pair for pair in audit_pairs(true) if pair.name == "user above the cap in a crowd")
    broken = replace(
        true, bound=lambda engine, events, kernel: replace(true.bound(engine, events, kernel), users=-1)
    )
    keys = [bytes([k] * 16) for k in range(6)]
    counts = {
        counted_once(true.count, true.kernel, true.bound, true.world, pair, True, k).bounded.counts.tobytes()
        for k in keys
    }
    assert len(counts) > 1
    assert (
        counted_once(true.count, true.kernel, broken.bound, true.world, pair, True, keys[0]).bounded.users
        == -1
    )
    assert replay_pair(true, pair, true.mechanism.loss(), SeededNoise(1), keys[0]).raised == ()


def uneven(name):
    return pipeline_of(name, 1.0, None if REGISTRY[name].pure else 1e-6, uneven=True)


def found(pipeline):
    return list(findings(pipeline, audit_pairs(pipeline)[:7], pipeline.mechanism.loss(), quick=True))


def test_no_site_lies_wholly_in_one_zone():
    assert ((np.array(SPLIT) > 0).sum(axis=0) >= 2).all()
    assert np.array(SPLIT).sum(axis=0).max() == 12  # a visit counts whole over all zones
    for name in ("density-gaussian", "density-efpag", "density-best", "query-laplace"):
        assert uneven(name).world.size.layout is SPLIT


def test_a_reach_of_the_largest_single_weight_shows_there(monkeypatch):
    """Of weights, whose noise is for what one user can change; parts of users are clipped whatever it is."""
    assert found(uneven("query-weights")) == []
    made = Questions.of

    def single(each, weights, *, slots, ell):
        right = made(each, weights, slots=slots, ell=ell)
        largest = [int(weights.matrix.toarray()[list(question.zones)].max()) for question in each]
        return replace(right, reach=tuple(largest))

    monkeypatch.setattr(Questions, "of", single)
    assert any("loss above the claim" in each.problem for each in found(uneven("query-weights")))


@pytest.mark.parametrize("name", ["density-gaussian", "density-best"])
def test_users_are_bounded_by_the_engine_with_rows_on_disk_and_in_memory(name, monkeypatch):
    partly, read = [], UserBuckets.read

    def watched(self, buckets):
        pending = any(self._pending[bucket] for bucket in buckets)
        partly.append(self._scratch is not None and pending)
        return read(self, buckets)

    monkeypatch.setattr(UserBuckets, "read", watched)
    pipeline = uneven(name)
    pair = audit_pairs(pipeline)[6]  # a user above the cap in a crowd
    counted = pipeline.counted(pair.tables[1], bytes(16))
    assert partly == [True]
    if name == "density-best":
        assert isinstance(counted.visits.engine, DuckEngine)
