"""Blocks of users: each a release of its own, together a release."""

import numpy as np
import pytest

from shoal.anonymise.kte import Kte
from shoal.attacks.tracker.evidence import verify_arrays
from shoal.kinds.trajectories.blocks import anonymise, blocks_of
from shoal.kinds.trajectories.build import record_ids
from shoal.stages.trajectories import LatticeSamples


def crowd(users, steps=36):
    rng = np.random.default_rng(users)
    rows = [
        (user, t, 10 * (t // 12) + rng.integers(3), rng.integers(3))
        for user in range(users)
        for t in range(steps)
        if rng.random() < 0.3
    ]
    rows += [(user, 0, 0, 0) for user in range(users)]
    return LatticeSamples.of(*np.array(rows).T, users=users, steps=steps)


@pytest.mark.parametrize("block_users", [7, 20, 33])
def test_the_union_of_blocks_holds(block_users, tmp_path):
    samples, anonymiser = crowd(70), Kte(k=3, tau_steps=6, epoch_steps=6)
    made = anonymise(anonymiser, samples, block_users, tmp_path / "kept")
    sizes = {"users": samples.users, "steps": samples.steps}
    assert verify_arrays(*samples.columns, *made.boxes.columns, **sizes, k=3, tau=6).passed
    assert made.boxes.count > 0
    again = anonymise(anonymiser, samples, block_users, tmp_path / "kept")  # goes on from what was kept
    assert (again.boxes.x0 == made.boxes.x0).all()
    assert (again.boxes.record == made.boxes.record).all()


def test_nobody_is_in_two_blocks_and_ids_are_new_permutations():
    for users in (5, 69, 70, 140, 141):
        blocks = blocks_of(users, 35)
        assert sorted(np.concatenate(blocks).tolist()) == list(range(users))
        assert min(map(len, blocks)) >= min(users, 35)
    one, two = record_ids(500, b"1" * 16), record_ids(500, b"2" * 16)
    assert sorted(one.tolist()) == sorted(two.tolist()) == list(range(1, 501))
    assert (one != two).any()
