"""Blocks of people hidden and verified as Spark tasks: the same boxes, the same verdict."""

from functools import partial

import numpy as np
import pytest

from shoal.anonymise.kte import Kte
from shoal.kinds.run import Silent
from shoal.kinds.trajectories.blocks import anonymise, blocks_of, verify_blocks
from shoal.stages.trajectories import LatticeSamples

KTE = Kte(k=2, tau_steps=12, epoch_steps=12)


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(3)
    users, steps = 90, 36
    user = np.repeat(np.arange(users), 12)
    t = rng.integers(0, steps, user.size)
    x, y = (rng.integers(0, 9, user.size) + 3 * (user % 5) for _ in range(2))
    return LatticeSamples.of(user, t, x, y, users=users, steps=steps)


def columns(boxes):
    return [getattr(boxes, name) for name in ("record", "t0", "t1", "x0", "x1", "y0", "y1")]


@pytest.mark.parametrize("block_users", [None, 20])
def test_the_boxes_are_those_of_one_machine(engine, crowd, block_users):
    here = anonymise(KTE, crowd, block_users)
    there = anonymise(KTE, crowd, block_users, engine=engine())
    assert there.pairs_again == here.pairs_again
    assert there.boxes.count > 50
    for one, other in zip(columns(here.boxes), columns(there.boxes), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_that_stopped_does_not_do_its_blocks_again(engine, crowd, tmp_path):
    first = anonymise(KTE, crowd, 20, keeping=tmp_path, engine=engine())
    assert len(list(tmp_path.rglob("block.npz"))) == len(blocks_of(90, 20)) == 4

    class Nobody:
        def each(self, work, items, count):
            assert not list(items)
            return iter(())

    again = anonymise(KTE, crowd, 20, keeping=tmp_path, engine=Nobody())
    np.testing.assert_array_equal(again.boxes.x1, first.boxes.x1)
    next(tmp_path.rglob("block.npz")).write_bytes(b"damaged")
    repaired = anonymise(KTE, crowd, 20, keeping=tmp_path, engine=engine())
    np.testing.assert_array_equal(repaired.boxes.x1, first.boxes.x1)


def test_the_verifier_looks_at_every_block(engine, crowd):
    boxes = columns(anonymise(KTE, crowd, 20).boxes)
    samples = [crowd.user, crowd.t, crowd.x, crowd.y]
    blocks = blocks_of(90, 20)
    verify = partial(verify_blocks, engine(), samples, steps=36, k=2, tau=12, progress=Silent())
    found = list(verify(boxes, blocks))
    assert [each.passed for each in found] == [True] * 4
    assert sum(each.users for each in found) == 90
    narrow = [*boxes[:3], *(np.where(boxes[0] == 5, cells - 1, cells) for cells in boxes[3:5]), *boxes[5:]]
    assert [each.passed for each in verify(narrow, blocks)] == [True, False, True, True]


def test_items_larger_than_a_piece_come_whole(engine, monkeypatch):
    import shoal.engine.spark.engine as blocks

    monkeypatch.setattr(blocks, "PIECE_BYTES", 1_000)
    items = [np.random.default_rng(seed).integers(0, 9, 5_000) for seed in range(3)]
    sums = list(engine().each(np.sum, iter(items), len(items)))
    assert sums == [item.sum() for item in items]
