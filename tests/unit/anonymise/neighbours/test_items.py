"""Raw pseudonyms, coarsening and k^m-anonymity against brute force."""

import itertools
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.coarse import GridHours, HexagonHours
from shoal_baselines.anonymise.km import ItemSets, check_km, items_of
from shoal_baselines.anonymise.methods import RawPseudonyms

STEPS = 600
LATTICE = Lattice(start=datetime(2026, 3, 2, tzinfo=UTC), steps=STEPS, origin=(-4.4, 5.1))


def draw(seed, users=12, most=12, reach=60):
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.integers(0, most + 1, users))
    home = rng.integers(0, 4, (users, 2)) * (reach // 4)
    x, y = (home[user, axis] + rng.integers(0, 5, len(user)) for axis in (0, 1))
    return LatticeSamples.of(user, rng.integers(0, STEPS, len(user)), x, y, users=users, steps=STEPS)


def rows_of(boxes):
    return list(
        zip(
            boxes.record.tolist(),
            *(getattr(boxes, name).tolist() for name in ("t0", "t1", "x0", "x1", "y0", "y1")),
            strict=True,
        )
    )


def truthful_and_disjoint(samples, boxes):
    """Every box has an own sample and no own sample beside it in its time; none overlaps the next in time."""
    own = {}
    for u, t, x, y in zip(samples.user, samples.t, samples.x, samples.y, strict=True):
        own.setdefault(int(u), []).append((int(t), int(x), int(y)))
    last = {}
    for record, t0, t1, x0, x1, y0, y1 in rows_of(boxes):
        assert t0 > last.get(record, -1)
        assert t0 <= t1 < samples.steps
        last[record] = t1
        within = [(x, y) for t, x, y in own[record] if t0 <= t <= t1]
        assert within
        assert all(x0 <= x <= x1 and y0 <= y <= y1 for x, y in within)


def rare_sets(boxes, k, m):
    """Every set of 1 to m boxes of every record, one by one."""
    held = {}
    for record, *box in rows_of(boxes):
        held.setdefault(record, set()).add(tuple(box))
    rare = 0
    for size in range(1, m + 1):
        tally = Counter(s for items in held.values() for s in itertools.combinations(sorted(items), size))
        rare += sum(count < k for count in tally.values())
    return rare


METHODS = [
    RawPseudonyms(),
    GridHours(cell_m=1000),
    GridHours(cell_m=1000, k=3),
    HexagonHours(resolution=8),
    HexagonHours(resolution=7, k=2),
    ItemSets(k=2, m=1),
    ItemSets(k=3, m=2),
    ItemSets(k=2, m=2, slot_minutes=(60,), most_lost=0.5),
]


@for_each("method", METHODS, ids=str)
@for_each("seed", range(6))
def test_boxes_are_truthful_and_disjoint(method, seed):
    samples = draw(seed)
    boxes = method(samples, LATTICE)
    assert method.truthful
    assert boxes.records == samples.users
    truthful_and_disjoint(samples, boxes)


def test_raw_and_grid_by_hand():
    samples = LatticeSamples.of([0, 0, 1], [5, 5, 5], [1, 4, 2], [7, 6, 2], users=2, steps=STEPS)
    assert rows_of(RawPseudonyms()(samples, LATTICE)) == [(0, 5, 5, 1, 4, 6, 7), (1, 5, 5, 2, 2, 2, 2)]
    user, t = [0, 0, 1, 1, 2], [5, 50, 10, 70, 59]
    samples = LatticeSamples.of(user, t, [1, 12, 3, 3, 19], [1, 1, 2, 2, 9], users=3, steps=STEPS)
    wide, square = (0, 59, 0, 19, 0, 9), (0, 59, 0, 9, 0, 9)
    all_boxes = rows_of(GridHours(cell_m=1000)(samples, LATTICE))
    assert all_boxes == [(0, *wide), (1, *square), (1, 60, 119, 0, 9, 0, 9), (2, 0, 59, 10, 19, 0, 9)]
    assert rows_of(GridHours(cell_m=1000, k=2)(samples, LATTICE)) == []
    assert len(rows_of(GridHours(cell_m=2000, k=3)(samples, LATTICE))) == 3


@for_each("seed", range(5))
def test_threshold_is_k_to_the_one(seed):
    boxes = GridHours(cell_m=2000, k=3)(draw(seed, users=60), LATTICE)
    assert boxes.count
    assert rare_sets(boxes, 3, 1) == 0


def test_hexagons_hold_their_centres_on_the_lattice():
    samples = LatticeSamples.of([0], [5], [250], [100], users=1, steps=STEPS)
    ((_, _, _, x0, x1, y0, y1),) = rows_of(HexagonHours(resolution=7)(samples, LATTICE))
    assert x0 <= 250 <= x1
    assert y0 <= 100 <= y1
    assert 15 < x1 - x0 < 40
    assert 15 < y1 - y0 < 40
    planar = Lattice(start=LATTICE.start, steps=STEPS, origin=(0, 0), planar=True)
    with pytest.raises(PlanError, match="h3-planar"):
        HexagonHours()(samples, planar)


@for_each("k", [2, 3])
@for_each("m", [1, 2])
def test_sets_of_boxes_are_shared(k, m):
    kept = 0
    for seed in range(40):
        samples = draw(seed, users=14, most=8)
        lost = (0.0, 0.1, 0.6)[seed % 3]
        boxes = ItemSets(k=k, m=m, slot_minutes=((60,), (60, 240), (240,))[seed % 3], most_lost=lost)(
            samples, LATTICE
        )
        assert rare_sets(boxes, k, m) == 0
        assert check_km(boxes.record, items_of(boxes), k, m) == 0
        kept += boxes.count
    assert kept > 500


def test_squares_get_smaller_costs_are_said_and_nobody_is_possible():
    boxes = ItemSets(k=2, m=2)(draw(3, users=200, most=4), LATTICE)
    assert len(np.unique(boxes.x1 - boxes.x0)) > 2
    with pytest.raises(PlanError, match="km-pairs"):
        ItemSets(k=2, m=2, most_pairs=5)(draw(0), LATTICE)
    for bad in ({"k": 1, "m": 1}, {"k": 2, "m": 3}, {"k": 2, "m": 1, "sides_m": (100, 250)}):
        with pytest.raises(PlanError):
            ItemSets(**bad)
    with pytest.raises(PlanError, match="cell-metres"):
        GridHours(cell_m=150)(draw(0), LATTICE)
    nobody = LatticeSamples.of([], [], [], [], users=3, steps=STEPS)
    alone = LatticeSamples.of([1], [4], [2], [2], users=3, steps=STEPS)
    for method in METHODS:
        assert method(nobody, LATTICE).count == 0
    assert ItemSets(k=2, m=2)(alone, LATTICE).count == 0
    assert RawPseudonyms()(alone, LATTICE).count == 1


@pytest.mark.parametrize("m", [1, 2])
def test_the_check_counts_rare_sets(m):
    """On unprotected boxes there are many; the sorted count equals the one by one."""
    found = 0
    for seed in range(20):
        boxes = GridHours(cell_m=2000)(draw(seed), LATTICE)
        found += rare_sets(boxes, 3, m)
        assert check_km(boxes.record, items_of(boxes), 3, m) == rare_sets(boxes, 3, m)
    assert found > 50


@pytest.mark.parametrize("m", [1, 2])
def test_a_planted_violation_is_found(m):
    """One box of one record moved by a cell: its item is the record's own."""
    boxes = ItemSets(k=2, m=m)(draw(1, users=30), LATTICE)
    moved = boxes.x0.copy()
    moved[0] -= 1
    planted = Boxes.of(
        boxes.record, boxes.t0, boxes.t1, moved, boxes.x1, boxes.y0, boxes.y1, records=boxes.records
    )
    assert check_km(planted.record, items_of(planted), 2, m) > 0
