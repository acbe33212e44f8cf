"""Samples and boxes come in any order: sorted and counted once, against sets of Python."""

import numpy as np
from tests.loops import for_each

from shoal.stages.trajectories import Boxes, LatticeSamples


def drawn(rng, count, users, steps, cells):
    return np.column_stack(
        [
            rng.integers(users, size=count),
            rng.integers(steps, size=count),
            rng.integers(-cells, cells + 1, count),
            rng.integers(-cells, cells + 1, count),
        ]
    )


@for_each("seed", range(40))
def test_samples_are_a_sorted_set(seed):
    rng = np.random.default_rng(seed)
    users, steps = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    rows = drawn(rng, int(rng.integers(0, 120)), users, steps, int(rng.integers(0, 3)))
    made = LatticeSamples.of(*rows.T, users=users, steps=steps)
    expected = sorted({tuple(row) for row in rows.tolist()})
    columns = (made.user, made.t, made.x, made.y)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert all(column.dtype == np.int32 for column in columns)
    assert (made.count, made.users, made.steps) == (len(expected), users, steps)
    for user in range(users):
        mine = [row for row in expected if row[0] == user]
        own = slice(made.start[user], made.start[user + 1])
        assert list(zip(made.t[own].tolist(), made.x[own].tolist(), strict=True)) == [r[1:3] for r in mine]


def test_samples_and_boxes_of_large_numbers_do_not_collide():
    """The last steps of one user and the first of the next, cells at the ends of what is allowed."""
    steps, users, far = 2**24, 100_000, 2**24 - 1
    rows = [
        (users - 1, steps - 1, far, -far),
        (users - 1, 0, -far, far),
        (users - 2, steps - 1, far, far),
        (users - 2, steps - 1, -far, far),
        (users - 2, steps - 1, far, far),
        (0, 0, 0, 0),
    ]
    made = LatticeSamples.of(*np.array(rows).T, users=users, steps=steps)
    found = zip(*(column.tolist() for column in (made.user, made.t, made.x, made.y)), strict=True)
    assert list(found) == sorted(set(rows))
    assert made.start[[0, 1, users - 2, users - 1, users]].tolist() == [0, 1, 1, 3, 5]
    rng = np.random.default_rng(3)
    record, t0 = rng.permutation(np.repeat([0, 9_999_999], 3)), np.array([2**24, 0, 5, 7, 1, 3])
    made = Boxes.of(record, t0, t0, t0, t0, t0, t0, records=10_000_000)
    assert list(zip(made.record.tolist(), made.t0.tolist(), strict=True)) == sorted(
        zip(record.tolist(), t0.tolist(), strict=True)
    )


def test_what_was_handed_in_is_left_as_it_was():
    rows = np.array([[1, 0, 5, 5], [0, 3, 2, 2], [0, 3, 1, 9], [0, 3, 1, 9]], np.int32)
    columns = [column.copy() for column in rows.T]
    LatticeSamples.of(*columns, users=2, steps=4)
    for column, before in zip(columns, rows.T, strict=True):
        np.testing.assert_array_equal(column, before)


@for_each("seed", range(20))
def test_boxes_are_sorted_by_record_and_time_and_all_kept(seed):
    rng = np.random.default_rng(seed)
    records, count = int(rng.integers(1, 7)), int(rng.integers(0, 60))
    low = rng.integers(-50, 50, (count, 3))
    low[:, 0] = rng.permutation(count)  # no two begin at once
    high = low + rng.integers(0, 9, (count, 3))
    record = rng.integers(records, size=count)
    columns = [record, low[:, 0], high[:, 0], low[:, 1], high[:, 1], low[:, 2], high[:, 2]]
    made = Boxes.of(*columns, records=records)
    names = ("record", "t0", "t1", "x0", "x1", "y0", "y1")
    found = list(zip(*(getattr(made, name).tolist() for name in names), strict=True))
    assert found == sorted(tuple(row) for row in np.column_stack(columns).tolist())
    assert made.count == count
    for each in range(records):
        own = made.record[made.start[each] : made.start[each + 1]]
        assert len(own) == int((record == each).sum())
        assert (own == each).all()
