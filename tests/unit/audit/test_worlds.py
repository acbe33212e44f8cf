"""The second world of the audit: sites on borders of zones, uneven slots, an engine that spills."""

from dataclasses import replace

import numpy as np
import pytest

from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.replay import audit_pairs, findings
from shoal.engine.buckets import UserBuckets
from shoal.engine.engine import DuckEngine
from shoal.mechanisms.audit_size import SPLIT
from shoal.mechanisms.registry import REGISTRY
from shoal.space.setting import Questions


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
    assert found(uneven("query-laplace")) == []
    made = Questions.of

    def single(each, weights, *, slots, ell):
        right = made(each, weights, slots=slots, ell=ell)
        largest = [int(weights.matrix.toarray()[list(question.zones)].max()) for question in each]
        return replace(right, reach=tuple(largest))

    monkeypatch.setattr(Questions, "of", single)
    assert any("loss above the claim" in each.problem for each in found(uneven("query-laplace")))


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
