"""Never Walk Alone and full-length merges keep what they promise; their checks find what is planted."""

import itertools
import math
from datetime import UTC, datetime
from importlib import import_module

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.full_length import FullLength, check_equal_records, merge_cost
from shoal_baselines.anonymise.methods import BASELINES
from shoal_baselines.anonymise.nwa import NeverWalkAlone, check_nwa, hourly_places

STEPS = 480
LATTICE = Lattice(start=datetime(2026, 3, 2, tzinfo=UTC), steps=STEPS, origin=(-4.4, 5.1))


def draw(seed, users=15, most=9, reach=120):
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.integers(0, most + 1, users))
    x, y = rng.integers(0, reach, (2, len(user)))
    return LatticeSamples.of(user, rng.integers(0, STEPS, len(user)), x, y, users=users, steps=STEPS)


def changed(boxes, row, **values):
    columns = {name: getattr(boxes, name).copy() for name in ("record", "t0", "t1", "x0", "x1", "y0", "y1")}
    for name, value in values.items():
        columns[name][row] += value
    return Boxes.of(*columns.values(), records=boxes.records)


def records(boxes):
    held = {}
    for row in range(boxes.count):
        box = tuple(int(getattr(boxes, name)[row]) for name in ("t0", "t1", "x0", "x1", "y0", "y1"))
        held.setdefault(int(boxes.record[row]), []).append(box)
    return held


def disjoint(boxes):
    return all(a[1] < b[0] for held in records(boxes).values() for a, b in itertools.pairwise(held))


def walks_alone(boxes, k, delta, period=STEPS):
    """One by one: records of a period without k - 1 others near at all their times."""
    bad = 0
    for part in range(-(-STEPS // period)):
        held = {r: [b for b in own if b[0] // period == part] for r, own in records(boxes).items()}
        for own in held.values():
            near = 0
            for other in held.values():
                places = {b[:2]: ((b[2] + b[3]) / 2, (b[4] + b[5]) / 2) for b in other}
                near += len(own) == len(other) and all(
                    b[:2] in places
                    and math.dist(places[b[:2]], ((b[2] + b[3]) / 2, (b[4] + b[5]) / 2)) <= delta
                    for b in own
                )
            bad += bool(own) and near < k
    return bad


@for_each(("k", "period"), [(2, None), (3, None), (2, 120), (4, 240)])
@for_each("seed", range(4))
def test_nobody_walks_alone(k, period, seed):
    method = NeverWalkAlone(k=k, delta_m=1500, period_minutes=period, most_trash=0.3)
    samples = draw(seed)
    boxes = method(samples, LATTICE)
    assert boxes.count
    assert disjoint(boxes)
    assert walks_alone(boxes, k, 15, period or STEPS) == 0
    assert check_nwa(boxes, k, 15, period=period) == 0
    assert (boxes.x1 - boxes.x0 == 14).all()


@for_each("seed", range(6))
def test_the_check_of_walks_is_the_one_by_one(seed):
    """On boxes of nobody's making: some alone, some not."""
    rng = np.random.default_rng(seed)
    record = np.repeat(np.arange(8), 3)
    t0 = np.tile([0, 60, 120], 8)
    x, y = rng.integers(0, 12, (2, 24))
    keep = rng.random(24) < 0.9
    boxes = Boxes.of(*(c[keep] for c in (record, t0, t0 + 59, x, x, y, y)), records=8)
    for k in (2, 3):
        assert check_nwa(boxes, k, 9) == walks_alone(boxes, k, 9)
        assert check_nwa(boxes, k, 9, period=60) == walks_alone(boxes, k, 9, 60)
    assert check_nwa(boxes, 3, 9) > 0


def test_one_step_aside_or_a_record_that_differs_is_found():
    boxes = NeverWalkAlone(k=2, delta_m=1000)(draw(1), LATTICE)
    assert check_nwa(boxes, 2, 10) == 0
    assert check_nwa(changed(boxes, 5, x0=40, x1=40), 2, 10) > 0
    boxes = FullLength(k=2, candidates=8)(draw(0), LATTICE)
    assert check_equal_records(changed(boxes, 0, x1=1), 2) > 0


def test_walks_are_filled_in_between_and_not_truthful():
    samples = LatticeSamples.of([0, 0, 0], [70, 75, 190], [10, 20, 30], [0, 0, 8], users=2, steps=STEPS)
    users, places = hourly_places(samples, 60, 0, 5)
    assert users.tolist() == [0]
    assert places.tolist() == [[15, 15, 22.5, 30, 30, 0, 0, 4, 8, 8]]
    far = LatticeSamples.of([0, 1], [5, 5], [0, 100], [0, 0], users=2, steps=60)
    method = NeverWalkAlone(k=2, delta_m=1000)
    boxes = method(far, LATTICE)
    assert not method.truthful
    assert "moved" in method.promise
    assert boxes.x0.min() > 0
    with pytest.raises(PlanError, match="nwa-users"):
        NeverWalkAlone(k=2, most_users=1)(far, LATTICE)


@for_each("k", [2, 3, 5])
@for_each("seed", range(5))
def test_whole_records_are_equal(k, seed):
    samples = draw(seed, users=23)
    boxes = FullLength(k=k, candidates=8)(samples, LATTICE)
    held = records(boxes)
    assert len(held) == len(np.unique(samples.user))  # the limit is far off
    assert disjoint(boxes)
    assert check_equal_records(boxes, k) == 0
    assert all(sum(other == own for other in held.values()) >= k for own in held.values())
    own = list(zip(samples.user, samples.t, samples.x, samples.y, strict=True))
    for record, rows in held.items():
        for t0, t1, x0, x1, y0, y1 in rows:
            inside = [(x, y) for u, t, x, y in own if u == record and t0 <= t <= t1]
            assert inside
            assert all(x0 <= x <= x1 and y0 <= y <= y1 for x, y in inside)


def test_a_user_who_is_too_far_is_suppressed_as_a_whole():
    user, t, x = [0, 0, 1, 1, 2], [0, 100, 1, 101, 50], [0, 5, 0, 5, 900]
    samples = LatticeSamples.of(user, t, x, [0] * 5, users=3, steps=STEPS)
    assert set(records(FullLength(k=2, most_span_m=2000)(samples, LATTICE))) == {0, 1}
    assert set(records(FullLength(k=2)(samples, LATTICE))) == {0, 1, 2}
    assert records(FullLength(k=2, most_span_m=0.1)(samples, LATTICE)) == {}


def test_merge_cost_is_the_cost_of_k_merge():
    from shoal.anonymise.kmerge import k_merge

    samples = draw(2, users=6, most=12)
    columns = [column.astype(np.int64) for column in (samples.t, samples.x, samples.y)]
    held = np.unique(samples.user)
    for members in ([held[0], held[2]], [held[1], held[2], held[4]]):
        parts = [np.stack([c[samples.user == u] for c in columns], axis=1) for u in members]
        assert merge_cost(np.array(members, np.int64), samples.start, *columns) == k_merge(parts).cost


def test_every_neighbour_has_its_header_and_its_words():
    made = {name: make(3) for name, (make, _) in BASELINES.items()}
    samples = draw(7, users=30)
    nobody = LatticeSamples.of([], [], [], [], users=0, steps=STEPS)
    for name, method in made.items():
        header = import_module(type(method).__module__).__doc__
        assert all(f"\n{word} " in header for word in ("Promise", "Truthful", "Source", "Deviations", "Cost"))
        assert method.promise, name
        boxes = method(samples, LATTICE)
        assert disjoint(boxes)
        assert method.broken(boxes, LATTICE) == (None if name in ("raw", "grid", "h3") else 0)
        assert method(nobody, LATTICE).count == 0
        raw = made["raw"](samples, LATTICE)
        assert method.broken(raw, LATTICE) != 0  # nothing promised, or broken by raw records
    with pytest.raises(PlanError, match="k-range"):
        BASELINES["km1"][0](1)
