"""Linking of two releases, by published boxes alone; and what is left of k, against plain loops."""

import numpy as np
import pytest

from shoal.attacks.models.linking import Published, _impossible, link_records
from shoal.attacks.tracker.evidence import make_tables
from shoal.attacks.tracker.leakage import LinkedRelease, measure_combined
from shoal.attacks.tracker.quiet import faults_of

HOUR = 3_600_000_000
LATTICE = {"start_us": 0, "step_us": 60_000_000, "origin": (0.0, 0.0), "cell": (1.0, 1.0)}
DAY = 1440


def homes_and_work(rng, people):
    """[people, 2, 2]: two places each, on a map of 500 x 500 cells."""
    return rng.integers(0, 500, (people, 2, 2))


def week(rng, places, day):
    """Boxes of random size around where each person is, home at night and work by day: record, t0, ..."""
    rows = []
    for person, (home, work) in enumerate(places):
        for start in range(0, DAY, 120):
            if rng.random() < 0.3:
                continue
            t0 = day * DAY + start + rng.integers(0, 60)
            x, y = work if 480 <= start < 1080 else home
            west, east, south, north = rng.integers(0, 25, 4)
            rows.append((person, t0, t0 + rng.integers(5, 50), x - west, x + east, y - south, y + north))
    return np.array(rows)


def published(rows, rng):
    """The same under random ids; ids[j] is the id of person j's record."""
    ids = rng.permutation(rows[:, 0].max() + 1) + 1
    return Published.of(ids[rows[:, 0]], *rows[:, 1:].T, **LATTICE), ids


@pytest.mark.parametrize(("day", "least"), [(0, 0.95), (7, 0.6)])
def test_two_releases_about_the_same_people_are_linked(day, least):
    """The same day: nearly all. Another week: most, by their habits; blindly it would be one in a hundred."""
    rng = np.random.default_rng(1)
    places = homes_and_work(rng, 100)
    (one, mine), (two, theirs) = (published(week(rng, places, at), rng) for at in (0, day))
    links = link_records(one, two, same_time=day == 0)
    assert (links < 0).mean() < 0.2
    right = [theirs[np.flatnonzero(mine == one.ids[i])[0]] == two.ids[j] for i, j in enumerate(links)]
    assert np.mean(right) >= least
    assert len(np.unique(links[links >= 0])) == (links >= 0).sum()  # one to one


def test_what_cannot_be_the_same_person_is_as_defined():
    """A box within the time of the other record's box, and no place in common; against all pairs of boxes."""
    rng = np.random.default_rng(2)
    outcomes = set()
    for _ in range(400):
        pair = []
        for _ in range(2):
            times = np.sort(rng.choice(30, 2 * rng.integers(1, 5), replace=False)).reshape(-1, 2)
            low = rng.integers(0, 6, (len(times), 2))
            high = low + rng.integers(1, 5, low.shape)
            pair.append(np.column_stack([times, low[:, 0], high[:, 0], low[:, 1], high[:, 1]]).astype(float))
        a, b = pair
        truth = any(
            ((p[0] <= q[0] and q[1] <= p[1]) or (q[0] <= p[0] and p[1] <= q[1]))
            and (p[3] <= q[2] or q[3] <= p[2] or p[5] <= q[4] or q[5] <= p[4])
            for p in a
            for q in b
        )
        assert _impossible(a, 0, len(a), b, 0, len(b)) == truth
        outcomes.add(truth)
    assert outcomes == {True, False}


def test_a_window_fits_as_the_definition_says(cases):
    rng = np.random.default_rng(3)
    samples, boxes = cases.grouped(rng, groups=3, k=2, steps=20, epoch=5, cells=3, rate=0.4)
    tables = make_tables(*split(cases.arrays(samples, boxes)), users=len(samples), steps=20)
    found = set()
    for i in range(len(samples)):
        for r in range(len(samples)):
            for w in range(16):
                truth = cases.fits(samples[i], boxes[i], boxes[r], w, 5)
                assert (faults_of(tables.samples, tables.boxes, i, r, w, 5)[0] == 0) == truth
                found.add(truth)
    assert found == {True, False}


def split(columns):
    return columns[:4], columns[4:]


def test_a_release_composed_with_itself_keeps_k_and_with_other_groups_does_not(cases):
    """Four people in the same places: pairs (0 1)(2 3) in one release, (0 2)(1 3) in the other."""
    spots = [(0, 0), (0, 9), (9, 0), (9, 9)]
    samples = [[(5, x, y)] for x, y in spots]
    rows = {"across": [(0, 1), (0, 1), (2, 3), (2, 3)], "along": [(0, 2), (1, 3), (0, 2), (1, 3)]}
    made = {}
    for name, groups in rows.items():
        boxes = []
        for pair in groups:
            xs, ys = zip(*(spots[each] for each in pair), strict=True)
            boxes.append([(5, 5, min(xs), max(xs), min(ys), max(ys))])
        made[name] = make_tables(*split(cases.arrays(samples, boxes)), users=4, steps=20)
    clock, same = {"start_us": 0, "step_us": HOUR}, np.arange(4)
    for name, fewer in (("across", 0.0), ("along", 1.0)):
        earlier = LinkedRelease(tables=made[name], start_us=0, step_us=HOUR, user=same, record=same)
        found = measure_combined(made["across"], [earlier], **clock, k=2, tau=3)
        assert (found["fewer_than_k_share"], found["own_record_alone_share"]) == (fewer, fewer)
    unlinked = LinkedRelease(
        tables=made["along"], start_us=0, step_us=HOUR, user=same, record=np.full(4, -1, np.int64)
    )
    assert measure_combined(made["across"], [unlinked], **clock, k=2, tau=3)["fewer_than_k_share"] == 0
