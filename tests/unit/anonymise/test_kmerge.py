"""k-merge against all partitions, tried one by one."""

import itertools

import numpy as np
import pytest
from tests.loops import for_each

from shoal.anonymise.kmerge import k_merge
from shoal.errors import PlanError


def brute_force(trajectories):
    """Least cost over every way to cut the steps, and None where no way is complete."""
    rows = sorted((t, x, y, owner) for owner, part in enumerate(trajectories) for t, x, y in part)
    steps = sorted({row[0] for row in rows})
    best = None
    for cuts in itertools.product((False, True), repeat=len(steps) - 1):
        parts, now = [], [steps[0]]
        for step, cut in zip(steps[1:], cuts, strict=True):
            if cut:
                parts.append(now)
                now = []
            now.append(step)
        parts.append(now)
        total = 0
        for part in parts:
            held = [row for row in rows if row[0] in part]
            if {row[3] for row in held} != set(range(len(trajectories))):
                break
            dt, dx, dy = (max(r[i] for r in held) - min(r[i] for r in held) + 1 for i in range(3))
            total += dt * (dx + dy)
        else:
            best = total if best is None else min(best, total)
    return best


def draw(rng, k, most, steps=8, cells=6):
    parts = []
    for _ in range(k):
        rows = {
            (int(rng.integers(steps)), *map(int, rng.integers(cells, size=2)))
            for _ in range(rng.integers(1, most + 1))
        }
        parts.append(np.array(sorted(rows)))
    return parts


def holds(trajectories, merge):
    """Disjoint in time, every sample inside one box, every box with a sample of each."""
    boxes = merge.boxes
    assert (boxes[1:, 0] > boxes[:-1, 1]).all()
    for part in trajectories:
        inside = (
            (part[:, None, 0] >= boxes[None, :, 0])
            & (part[:, None, 0] <= boxes[None, :, 1])
            & (part[:, None, 1] >= boxes[None, :, 2])
            & (part[:, None, 1] <= boxes[None, :, 3])
            & (part[:, None, 2] >= boxes[None, :, 4])
            & (part[:, None, 2] <= boxes[None, :, 5])
        )
        assert (inside.sum(axis=1) == 1).all()
        assert inside.any(axis=0).all()


@for_each("block", range(10))
def test_equals_brute_force_on_500_random_inputs(block):
    rng = np.random.default_rng(block)
    for _ in range(500):
        k = int(rng.integers(1, 5))
        parts = draw(rng, k, most=4 if k > 2 else 5)
        merge = k_merge(parts)
        assert merge.cost == brute_force(parts)
        holds(parts, merge)
        spans = merge.boxes[:, 1::2] - merge.boxes[:, 0::2] + 1
        assert (spans[:, 0] * (spans[:, 1] + spans[:, 2])).sum() == merge.cost


def test_one_trajectory_stays_as_it_is():
    walk = np.array([[0, 1, 1], [3, 2, 2], [9, 5, 5]])
    assert k_merge([walk]).boxes[:, ::2].tolist() == walk.tolist()


@for_each("bad", [[], [np.zeros((0, 3), int)], [np.zeros((2, 2), int)], [np.zeros((2, 3))]])
def test_what_is_no_trajectory_is_refused(bad):
    with pytest.raises(PlanError):
        k_merge(bad)


@pytest.mark.parametrize("k", [2, 5, 10])
def test_a_thousand_samples_each(k):
    rng = np.random.default_rng(k)
    parts = [
        np.column_stack([np.sort(rng.choice(20_000, 1000, replace=False)), rng.integers(0, 90, (1000, 2))])
        for _ in range(k)
    ]
    holds(parts, k_merge(parts))


def test_infeasible_never_happens_but_for_missing_samples():
    """All samples in one box is always a way, so every merge of non-empty trajectories exists."""
    far = [np.array([[0, 0, 0]]), np.array([[50, 9, 9], [51, 9, 9]])]
    assert k_merge(far).boxes.tolist() == [[0, 51, 0, 9, 0, 9]]
