"""Planted faults are found every time, and a pair that hides each other everywhere is shown."""

import numpy as np
import pytest

from shoal.attacks.tracker.evidence import verify_arrays
from shoal.attacks.tracker.leakage import measure

STEPS, EPOCH, TAU = 60, 10, 10


def clean(cases, seed, k=2, groups=6, apart=True):
    """Groups far from each other, everyone with samples in every epoch but for whole groups."""
    rng = np.random.default_rng(seed)
    samples, boxes = cases.grouped(rng, groups=groups, k=k, steps=STEPS, epoch=EPOCH, rate=0.4)
    shift = [100 * (i // k) * apart for i in range(len(samples))]
    samples = [[(t, x + s, y) for t, x, y in of] for of, s in zip(samples, shift, strict=True)]
    boxes = [
        [(t0, t1, x0 + s, x1 + s, y0, y1) for t0, t1, x0, x1, y0, y1 in of]
        for of, s in zip(boxes, shift, strict=True)
    ]
    return rng, samples, boxes


def found(cases, samples, boxes, k=2, tau=TAU):
    return verify_arrays(*cases.arrays(samples, boxes), users=len(samples), steps=STEPS, k=k, tau=tau)


def some_box(rng, boxes):
    r = int(rng.choice([r for r in range(len(boxes)) if boxes[r]]))
    return r, int(rng.integers(len(boxes[r])))


def shrink(rng, samples, boxes):
    """One cell off a side that some sample of the group needs."""
    r, b = some_box(rng, boxes)
    box = list(boxes[r][b])
    side = int(rng.choice([2, 3, 4, 5]))
    box[side] += 1 if side % 2 == 0 else -1
    boxes[r][b] = tuple(box)


def suppress_epoch(rng, samples, boxes):
    r, b = some_box(rng, boxes)
    epoch = boxes[r][b][0] // EPOCH
    boxes[r] = [box for box in boxes[r] if box[0] // EPOCH != epoch]


def move_sample(rng, samples, boxes):
    r, b = some_box(rng, boxes)
    t0, _, _, x1, y0, _ = boxes[r][b]
    samples[r] = sorted([*samples[r], (t0, x1 + 1, y0)])


def add_empty_box(rng, samples, boxes):
    r, b = some_box(rng, boxes)
    boxes[r][b] = tuple(v + (50 if place in (2, 3) else 0) for place, v in enumerate(boxes[r][b]))


def overlap(rng, samples, boxes):
    r, b = some_box(rng, boxes)
    boxes[r].append(boxes[r][b])


FAULTS = {
    shrink: None,  # a violation, a sample outside its box, or both
    suppress_epoch: "violations",
    move_sample: "samples_outside_own_box",
    add_empty_box: "boxes_without_own_sample",
    overlap: "overlapping_boxes",
}


@pytest.mark.parametrize("fault", list(FAULTS), ids=lambda fault: fault.__name__)
def test_every_planted_fault_is_found(cases, fault):
    for seed in range(25):
        rng, samples, boxes = clean(cases, seed)
        assert found(cases, samples, boxes).passed
        fault(rng, samples, boxes)
        after = found(cases, samples, boxes)
        assert not after.passed
        name = FAULTS[fault]
        if name == "violations":
            assert after.violations > 0
            assert 0 < len(after.examples) <= 10
        elif name is not None:
            assert after.structure[name] > 0


def test_one_record_too_few_in_a_place_is_found(cases):
    """k - 1 records left: a member of a group of three vanishes, with its samples."""
    for seed in range(20):
        rng, samples, boxes = clean(cases, seed, k=3, groups=4)
        assert found(cases, samples, boxes, k=3).passed
        r, _ = some_box(rng, boxes)
        samples[r], boxes[r] = [], []
        after = found(cases, samples, boxes, k=3)
        assert after.violations == len(cases.naive(samples, boxes, STEPS, 3, TAU)) > 0
        assert any(example.fits == 2 for example in after.examples)


def test_a_swapped_pair_in_the_key_is_found(cases):
    for seed in range(20):
        _, samples, boxes = clean(cases, seed)
        columns = cases.arrays(samples, boxes)
        users = [f"u{i}" for i in range(len(samples))]
        named = ([users[i] for i in columns[0]], *columns[1:4])
        claim = {"steps": STEPS, "k": 2, "tau": TAU}
        released = (columns[4] + 1000, *columns[5:])
        records = np.arange(len(users)) + 1000
        assert cases.verify_release(named, released, (users, records), **claim).passed
        records[[0, 2]] = records[[2, 0]]
        assert not cases.verify_release(named, released, (users, records), **claim).passed


def shuffled_groups(cases, seed, users=12):
    """Partners change every epoch, but users 0 and 1 stay together."""
    rng = np.random.default_rng(seed)
    samples = cases.random_samples(rng, users, STEPS, 3, 0.6)
    samples = [sorted({*of, *((e, 1, 1) for e in range(0, STEPS, EPOCH))}) for of in samples]
    boxes = [[] for _ in samples]
    for begin in range(0, STEPS, EPOCH):
        others = rng.permutation(np.arange(2, users)).reshape(-1, 2)
        for pair in [(0, 1), *others]:
            parts = [[s for s in samples[i] if begin <= s[0] < begin + EPOCH] for i in pair]
            for i in pair:
                boxes[i] += cases.merged(parts)
    return samples, boxes


def test_a_pair_that_always_hides_each_other_is_shown(cases):
    for seed in range(5):
        samples, boxes = shuffled_groups(cases, seed)
        seen = measure(
            *cases.arrays(samples, boxes), users=12, steps=STEPS, epoch=EPOCH, k=2, tau=5, seed=seed
        )
        pairs = seen["same_record"]
        always = {frozenset((p["user"], p["record"])) for p in pairs["worst"] if p["share"] == p["back"] == 1}
        assert always == {frozenset((0, 1))}
        assert pairs["always_same"] == 2
        assert pairs["worst"][0]["share"] == 1


def test_measured_figures_equal_plain_loops(cases):
    """The same windows, followed by the definition."""
    from shoal.attacks.tracker.evidence import make_tables
    from shoal.attacks.tracker.fits import WindowDraw

    samples, boxes = shuffled_groups(cases, 3)
    columns = cases.arrays(samples, boxes)
    seen = measure(*columns, users=12, steps=STEPS, epoch=EPOCH, k=2, tau=5, seed=9, windows=60)
    tables = make_tables(columns[:4], columns[4:], users=12, steps=STEPS)
    drawn = WindowDraw(tables, 5).anywhere(np.random.default_rng(9), 60)
    counts, lags = [], {}
    for i, w in zip(drawn.user.tolist(), drawn.start.tolist(), strict=True):
        fitting = cases.candidates(samples, boxes, i, w, 5)
        counts.append(len(fitting))
        for s in samples[i]:
            away = w - s[0] if s[0] < w else s[0] - (w + 4)
            if away > 0:
                bin_ = int(np.floor(np.log2(max((away - 1) // EPOCH, 0.5)))) + 1
                lag = lags.setdefault(bin_, [0, 0])
                lag[0] += 1
                lag[1] += all(any(cases.holds(b, s) for b in boxes[r]) for r in fitting)
    assert seen["candidates_quartiles"] == tuple(np.quantile(counts, (0.25, 0.5, 0.75)))
    shares = [lag["share"] for lag in seen["leakage_by_lag"]]
    assert shares == [lags[b][1] / lags[b][0] for b in sorted(lags)]
    for known, times in zip(seen["more_knowledge"][2:], (2, 3, 4), strict=True):
        tried = [(i, w) for i, w in zip(drawn.user, drawn.start, strict=True) if 0 <= w <= STEPS - 5 * times]
        few = [len(cases.candidates(samples, boxes, i, w, 5 * times)) < 2 for i, w in tried]
        assert (known["windows"], known["fewer_than_k"]) == (len(few), sum(few))


def test_drawn_windows_are_even_over_all_with_a_retained_sample(cases):
    from shoal.attacks.tracker.evidence import make_tables
    from shoal.attacks.tracker.fits import WindowDraw

    _, samples, boxes = clean(cases, 4, groups=2)
    columns = cases.arrays(samples, boxes)
    tables = make_tables(columns[:4], columns[4:], users=4, steps=STEPS)
    draw = WindowDraw(tables, TAU)
    every = {
        (i, w)
        for i in range(4)
        for w in range(1 - TAU, STEPS)
        for s in samples[i]
        if w <= s[0] < w + TAU and any(cases.holds(b, s) for b in boxes[i])
    }
    assert draw.count_by_user().tolist() == [sum(i == user for i, _ in every) for user in range(4)]
    drawn = draw.anywhere(np.random.default_rng(0), 20_000)
    assert set(zip(drawn.user.tolist(), drawn.start.tolist(), strict=True)) == every


def test_two_windows_apart_leave_those_who_fit_both(cases):
    from shoal.attacks.tracker.evidence import make_tables
    from shoal.attacks.tracker.fits import WindowDraw
    from shoal.attacks.tracker.index import build_index
    from shoal.attacks.tracker.leakage import count_both, windows_apart

    samples, boxes = shuffled_groups(cases, 1)
    columns = cases.arrays(samples, boxes)
    tables = make_tables(columns[:4], columns[4:], users=12, steps=STEPS)
    draw, rng = WindowDraw(tables, 5), np.random.default_rng(2)
    one, two = windows_apart(draw, draw.anywhere(rng, 80), 5, rng)
    assert len(one) > 70
    assert (abs(one.start - two.start) >= 5).all()
    both = count_both(
        *(tables.samples, tables.boxes, build_index(tables)),
        *(one.user, one.first, one.start, two.user, two.first, two.start, 5),
    )
    for i, w, v, count in zip(one.user, one.start, two.start, both, strict=True):
        first, second = (set(cases.candidates(samples, boxes, i, at, 5)) for at in (w, v))
        assert count == len(first & second)
    seen = measure(*columns, users=12, steps=STEPS, epoch=EPOCH, k=2, tau=5, seed=1)
    assert seen["more_knowledge"][0]["only_one"] < seen["more_knowledge"][1]["only_one"]
    assert "no composition" in seen["limits"]
