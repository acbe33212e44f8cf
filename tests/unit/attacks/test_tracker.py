"""The tracker's check against its definition in plain loops, on clean, tampered and senseless releases."""

import numpy as np
import pytest

from shoal.attacks.tracker.evidence import verify_arrays
from shoal.attacks.tracker.quiet import quiet_and_loose
from shoal.errors import PlanError


def check(cases, samples, boxes, *, steps, k, tau, rng=None):
    return verify_arrays(*cases.arrays(samples, boxes, rng), users=len(samples), steps=steps, k=k, tau=tau)


def drawn(cases, rng):
    k, steps = int(rng.integers(2, 4)), int(rng.integers(4, 26))
    samples, boxes = cases.grouped(
        rng,
        groups=int(rng.integers(1, 4)),
        k=k,
        steps=steps,
        epoch=int(rng.integers(2, 8)),
        cells=int(rng.integers(1, 4)),
        rate=rng.choice([0.1, 0.4, 1.0]),
    )
    return samples, boxes, {"steps": steps, "k": k, "tau": int(rng.integers(1, 9))}


def senseless(rng, users, steps):
    """Boxes that have nothing to do with the samples; they overlap in time, too."""
    return [
        sorted(
            (a, min(steps - 1, a + da), x, x + dx, y, y + dy)
            for a, x, y, da, dx, dy in zip(
                *(rng.integers(most, size=n).tolist() for most in (steps, 3, 3, 4, 3, 3)), strict=True
            )
        )
        for n in rng.poisson(steps / 8, size=users)
    ]


def agrees(cases, samples, boxes, claim, rng):
    """Whether the check and the loops find the same; and how many violations there are."""
    found = check(cases, samples, boxes, **claim, rng=rng)
    truth = cases.naive(samples, boxes, **claim)
    assert found.violations == len(truth)
    assert found.users_hit == len({user for user, _ in truth})
    assert found.pairs_checked == len(samples) * (claim["steps"] + claim["tau"] - 1)
    broken = cases.naive_structure(samples, boxes)
    assert {name: found.structure[name] for name in broken} == broken
    assert found.passed == (not truth and not any(broken.values()))
    assert len(found.examples) == min(10, found.users_hit)
    for example in found.examples:
        assert truth[example.user, example.start] == example.fits
    return len(truth)


def test_clean_releases_pass_as_the_definition_says(cases):
    for seed in range(80):
        rng = np.random.default_rng(seed)
        samples, boxes, claim = drawn(cases, rng)
        assert agrees(cases, samples, boxes, claim, rng) == 0


@pytest.mark.parametrize("kind", ["tampered", "senseless"])
def test_other_releases_fail_where_the_definition_says(cases, kind):
    violating = 0
    for seed in range(130):
        rng = np.random.default_rng(1000 + seed)
        samples, boxes, claim = drawn(cases, rng)
        if kind == "tampered":
            boxes = cases.tampered(rng, samples, boxes, claim["steps"])
        else:
            boxes = senseless(rng, len(samples), claim["steps"])
        violating += agrees(cases, samples, boxes, claim, rng) > 0
    assert 25 < violating < 128  # both outcomes are tried


def test_fitting_is_monotone_so_windows_that_stick_out_fit_more(cases):
    """What fits on a window fits on every window inside it: by loops, on releases of all kinds."""
    seen = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        samples, boxes, claim = drawn(cases, rng)
        if seed % 2:
            boxes = senseless(rng, len(samples), claim["steps"])
        for _ in range(30):
            i, r = rng.integers(len(samples), size=2)
            start, length = int(rng.integers(-3, claim["steps"])), int(rng.integers(1, 12))
            inner = int(rng.integers(length))
            within = start + int(rng.integers(length - inner))
            if cases.fits(samples[i], boxes[i], boxes[r], start, length):
                seen += 1
                assert cases.fits(samples[i], boxes[i], boxes[r], within, inner)
    assert seen > 100


def test_quiet_and_loose_records_are_counted_start_by_start(cases):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        steps, tau = int(rng.integers(2, 20)), int(rng.integers(1, 7))
        boxes = senseless(rng, 5, steps)
        rows = np.array([b for of in boxes for b in of], np.int32).reshape(-1, 6)
        start = np.cumsum([0, *(len(of) for of in boxes)])
        reach = np.concatenate([np.maximum.accumulate([b[1] for b in of]) for of in boxes if of] or [[]])
        quiet, loose = quiet_and_loose(start, rows, reach.astype(np.int32), steps, tau)
        for w in range(1 - tau, steps):
            touching = [any(b[0] < w + tau and b[1] >= w for b in of) for of in boxes]
            inside = [any(b[0] >= w and b[1] < w + tau for b in of) for of in boxes]
            assert quiet[w + tau - 1] == touching.count(False)
            assert loose[w + tau - 1] == inside.count(False)


def test_records_without_a_box_and_absence_count(cases):
    samples = [[(2, 0, 0)], [(7, 0, 0)], []]
    assert check(cases, samples, [[], [], []], steps=10, k=3, tau=4).passed
    assert check(cases, samples, [[], [], []], steps=10, k=4, tau=4).violations == 3 * 13
    # Both records hold the sample at 2; the second shows a box at 4 where the first person was not.
    samples = [[(2, 0, 0)], [(2, 0, 0), (4, 5, 5)]]
    boxes = [[(2, 2, 0, 0, 0, 0)], [(2, 2, 0, 0, 0, 0), (4, 4, 5, 5, 5, 5)]]
    found = check(cases, samples, boxes, steps=6, k=2, tau=3)
    assert found.violations == len(cases.naive(samples, boxes, 6, 2, 3)) > 0
    assert "holds no published sample" in found.examples[0].near_misses[0].why
    samples = [[(2, 0, 0)], [(2, 0, 0)]]
    boxes = [[(2, 2, 0, 0, 0, 0), (5, 4, 0, 0, 0, 0)], [(2, 2, 0, 0, 0, 0), (9, 10, 0, 0, 0, 0)]]
    found = check(cases, samples, boxes, steps=10, k=2, tau=3)
    assert found.structure["malformed_boxes"] == 1
    assert found.structure["boxes_outside_window"] == 1
    assert not found.passed
    assert found.violations == 0
    samples, boxes = [[(2, 0, 0), (2, 0, 0)], [(2, 0, 0)]], [[(2, 2, 0, 0, 0, 0)], [(2, 2, 0, 0, 0, 0)]]
    assert check(cases, samples, boxes, steps=4, k=2, tau=2).passed


@pytest.mark.parametrize("claim", [{"k": 1, "tau": 2}, {"k": 2, "tau": 0}])
def test_claims_that_make_no_sense_are_refused(cases, claim):
    with pytest.raises(PlanError):
        check(cases, [[(0, 0, 0)]], [[]], steps=4, **claim)


def test_samples_out_of_range_are_refused(cases):
    with pytest.raises(PlanError, match="tracker-range"):
        check(cases, [[(4, 0, 0)]], [[]], steps=4, k=2, tau=2)


@pytest.mark.parametrize(
    ("users", "records", "name"),
    [
        (["a", "a"], [7, 9], "users_twice_in_key"),
        (["a", "b"], [7, 7], "records_twice_in_key"),
        (["a", "c"], [7, 9], "users_without_key"),
        (["a", "b", "c"], [7, 9, 8], "key_users_without_sample"),
        (["a", "b"], [7, 8], "records_without_key"),
    ],
)
def test_a_key_that_is_no_bijection_fails(cases, users, records, name):
    one = ([3, 3], [4, 4], [7, 7], [7, 7], [5, 5], [6, 6])
    samples = (["a", "b"], [3, 4], [7, 7], [5, 6])
    assert cases.verify_release(samples, ([7, 9], *one), (["b", "a"], [9, 7]), steps=9, k=2, tau=3).passed
    found = cases.verify_release(samples, ([7, 9], *one), (users, records), steps=9, k=2, tau=3)
    assert found.structure[name] == 1
    assert not found.passed


def test_a_manifest_with_other_records_than_the_key_fails(cases):
    boxes = ([7, 9], [3, 3], [4, 4], [7, 7], [7, 7], [5, 5], [6, 6])
    samples = (["a", "b"], [3, 4], [7, 7], [5, 6])
    found = cases.verify_release(samples, boxes, (["a", "b"], [7, 9]), steps=9, k=2, tau=3, records=3)
    assert found.structure["records_not_as_said"] == 1
    assert not found.passed
