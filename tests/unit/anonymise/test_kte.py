"""The anonymiser keeps its promise on small populations; the judge is the verifier of the tracker.
k-merge against all partitions, tried one by one.
"""

import itertools

import numpy as np
import pytest
from tests.loops import for_each

from shoal.anonymise.carriers import NearPairs, choose_carriers
from shoal.anonymise.kmerge import EpochSamples, k_merge
from shoal.anonymise.kte import Kte
from shoal.attacks.tracker.evidence import verify_arrays
from shoal.errors import PlanError
from shoal.stages.trajectories import LatticeSamples


def population(seed, users, steps, rate, places=5, crowd=3):
    """People who wander between a few places, with quiet periods and busy ones."""
    rng = np.random.default_rng(seed)
    spots = rng.integers(0, 60, (places, 2))
    rows = []
    for user in range(users):
        busy = rng.random() < 0.5
        for t in range(steps):
            if rng.random() < rate * (2 if busy else 0.5):
                x, y = spots[(user + t // 12) % places if rng.random() < 0.8 else rng.integers(places)]
                rows.append((user, t, x + rng.integers(crowd), y + rng.integers(crowd)))
    rows += [(user, int(rng.integers(steps)), 5, 5) for user in range(users)]  # everybody is seen once
    return LatticeSamples.of(*np.array(rows).T, users=users, steps=steps)


def verified(samples, boxes, k, tau):
    columns = (boxes.record, boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1)
    seen = (samples.user, samples.t, samples.x, samples.y)
    return verify_arrays(*seen, *columns, users=samples.users, steps=samples.steps, k=k, tau=tau)


@for_each("k", [2, 3, 5])
@for_each(("tau", "epoch"), [(6, 6), (12, 6), (6, 3), (15, 5), (10, 10)])
@for_each("users", [5, 9, 40, 120])
def test_every_window_has_k_records(k, tau, epoch, users):
    for seed, rate in enumerate((0.02, 0.1, 0.4)):
        samples = population(seed, users, 47, rate)
        seen = verified(samples, Kte(k=k, tau_steps=tau, epoch_steps=epoch)(samples), k, tau)
        assert seen.passed, seen.to_plain()


def test_a_crowd_is_published_twice_alike_and_memory_may_fade():
    samples = population(1, 150, 48, 0.3)
    boxes = Kte(k=2, tau_steps=6, epoch_steps=6)(samples)
    assert boxes.count > samples.count / 4
    samples = population(5, 80, 48, 0.2)
    one, two = (Kte(k=3, tau_steps=6, epoch_steps=6)(samples) for _ in range(2))
    assert (one.t0 == two.t0).all()
    assert (one.x1 == two.x1).all()
    assert (one.record == two.record).all()
    samples = population(2, 30, 60, 0.5, places=2)
    anonymiser = Kte(k=2, tau_steps=6, epoch_steps=6, forget_steps=12)
    assert verified(samples, anonymiser(samples), 2, 6).passed


@pytest.mark.parametrize("k", [2, 4])
def test_full_length_is_the_special_case(k):
    """tau and the epoch span the data: k-anonymity of whole trajectories."""
    samples = population(4, 30, 40, 0.2)
    boxes = Kte(k=k, tau_steps=40, epoch_steps=40)(samples)
    assert verified(samples, boxes, k, 40).passed
    halves = Kte(k=k, tau_steps=20, epoch_steps=20)(samples)  # tau + epoch spans the data
    assert verified(samples, halves, k, 40).passed


def test_pairs_are_not_used_twice_while_there_are_others():
    samples = population(2, 120, 60, 0.3)
    anonymiser = Kte(k=2, tau_steps=6, epoch_steps=6)
    state = anonymiser.begin(samples)
    list(anonymiser.windows(state))
    went_on = 0
    for me, carried in enumerate(state.carries):
        for window, other in enumerate(carried.tolist()):
            earlier = np.flatnonzero(carried[:window] == other) if other >= 0 else []
            if len(earlier):  # a pair may only go on, where it hides nothing that it did not hide before
                went_on += 1
                assert (carried[earlier[0] : window] == other).all()
                assert not state.retained[window + state.n, [me, other]].any()
    assert went_on
    assert state.reused == 0


@pytest.mark.parametrize("k", [2, 3])
def test_who_has_met_everybody_meets_again(k):
    """The past cannot be switched off any more: then pairs recur, and are counted."""
    samples = LatticeSamples.of([0, 1, 2, 3], [0, 1, 2, 3], [5] * 4, [5] * 4, users=4, steps=6)
    members = np.arange(4)
    near = NearPairs(
        samples=EpochSamples.of(samples, 6),
        members=members,
        epochs=np.array([0]),
        used=np.tile(np.arange(4, dtype=np.int32), (4, 1)),
        group=members[:, None, None].copy(),
        longer=0,
    )
    chosen = choose_carriers(near, k=k, alone=None)
    assert chosen.reused == 4 * (k - 1)
    assert all(len(set(row)) == k - 1 and me not in row for me, row in enumerate(chosen.carries.tolist()))


def test_carrying_is_regular():
    samples = population(3, 90, 48, 0.2)
    k, anonymiser = 4, Kte(k=4, tau_steps=6, epoch_steps=6)
    state = anonymiser.begin(samples)
    list(anonymiser.windows(state))
    for window in range(state.windows):
        carries = state.carries[:, window * (k - 1) : (window + 1) * (k - 1)]
        active = state.retained[window : window + state.n + 1].any(axis=0)
        assert ((carries >= 0).all(axis=1) == active).all()
        carried = carries[active]
        assert (np.bincount(carried.ravel(), minlength=90)[active] == k - 1).all()
        assert (carried != np.flatnonzero(active)[:, None]).all()
        assert all(len(set(row)) == k - 1 for row in carried.tolist())


def test_absence_is_shared_and_few_people_run_out_of_partners():
    """One person is away in the third epoch while all others are seen: somebody has to be away with them."""
    rows = [(user, t, 3, 3) for user in range(6) for t in range(24) if not (user == 0 and 12 <= t < 18)]
    samples = LatticeSamples.of(*np.array(rows).T, users=6, steps=24)
    boxes = Kte(k=2, tau_steps=6, epoch_steps=6)(samples)
    assert verified(samples, boxes, 2, 6).passed
    away = set(range(6)) - set(boxes.record[(boxes.t0 >= 12) & (boxes.t0 < 18)].tolist())
    assert len(away) >= 2
    samples = population(2, 4, 90, 0.9, places=1)
    anonymiser = Kte(k=2, tau_steps=6, epoch_steps=6)
    state = anonymiser.begin(samples)
    list(anonymiser.windows(state))
    assert state.retained[0].all()
    assert not state.retained[-1].any()
    assert verified(samples, anonymiser.merge(state), 2, 6).passed


@for_each("wrong", [{"k": 1}, {"tau_steps": 7}, {"tau_steps": 0}, {"epoch_steps": 0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(PlanError):
        Kte(**{"k": 2, "tau_steps": 6, "epoch_steps": 6, **wrong})


def test_k_above_the_number_of_people():
    with pytest.raises(PlanError, match="fewer people"):
        Kte(k=9, tau_steps=6, epoch_steps=6)(population(1, 5, 12, 0.5))


@pytest.mark.parametrize("n", [63, 65, 72])
def test_many_epochs_in_tau(n):
    """A past longer than a machine word: people with different ones are never taken for alike."""
    rows = [(user, t, 5, 5) for user in range(40) for t in range(n + 2) if user % 2 or t >= n - 60]
    samples = LatticeSamples.of(*np.array(rows).T, users=40, steps=n + 2)
    assert verified(samples, Kte(k=2, tau_steps=n, epoch_steps=1)(samples), 2, n).passed


def test_prices_that_are_no_round_numbers():
    """Fractions that do not add up exactly made the assignment run for ever."""
    samples = population(7, 60, 30, 0.4)
    for price in (0.1, 0.3, 1.1):
        boxes = Kte(k=2, tau_steps=2, epoch_steps=1, price=price)(samples)
        assert verified(samples, boxes, 2, 2).passed


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


def test_one_trajectory_stays_and_infeasible_never_happens():
    walk = np.array([[0, 1, 1], [3, 2, 2], [9, 5, 5]])
    assert k_merge([walk]).boxes[:, ::2].tolist() == walk.tolist()
    # All samples in one box is always a way, so every merge of non-empty trajectories exists.
    far = [np.array([[0, 0, 0]]), np.array([[50, 9, 9], [51, 9, 9]])]
    assert k_merge(far).boxes.tolist() == [[0, 51, 0, 9, 0, 9]]


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
