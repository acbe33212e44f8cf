"""Cells of straight steps: against exact fractions, and against the geometry of open squares."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from tests.loops import for_each

from shoal.engine.trip_pieces import crossed, trace
from shoal.space.cells import STEPS

COLUMNS, ROWS = 7, 5


def traced(u, v, start, columns):
    first = np.cumsum(crossed(u, v, start))
    return first, trace(u, v, start, first, columns)


def path(points, columns=COLUMNS):
    """(column, row) of every cell of one trip through the points."""
    u, v = np.array(points, np.int64).T
    first, cells = traced(u, v, np.array([0, len(points)]), columns)
    assert first.tolist() == [0, cells.size]
    return [(int(cell) % columns, int(cell) // columns) for cell in cells]


def crossings(a, b):
    """The share of the way from a to b at which each border between the cells of a and b is met."""
    low, high = min(a // STEPS, b // STEPS), max(a // STEPS, b // STEPS)
    return [Fraction(border * STEPS - a, b - a) for border in range(low + 1, high + 1)]


def exact_path(points):
    """All borders in the order of their fractions; in a corner the one of x first."""
    cells = [(points[0][0] // STEPS, points[0][1] // STEPS)]
    for (u0, v0), (u1, v1) in pairwise(points):
        events = [(at, 0) for at in crossings(u0, u1)] + [(at, 1) for at in crossings(v0, v1)]
        for _, axis in sorted(events):
            x, y = cells[-1]
            step = (1 if u1 > u0 else -1, 0) if axis == 0 else (0, 1 if v1 > v0 else -1)
            cells.append((x + step[0], y + step[1]))
    return cells


def meets_inside(start, end, cell):
    """Whether the segment has a point in the open square of the cell (clipping, in fractions)."""
    low, high = Fraction(0), Fraction(1)
    for a, b, side in zip(start, end, cell, strict=True):
        near, far = side * STEPS, (side + 1) * STEPS
        if a == b:
            if not near < a < far:
                return False
            continue
        one, other = sorted((Fraction(near - a, b - a), Fraction(far - a, b - a)))
        low, high = max(low, one), min(high, other)
    return low < high or (start == end and low <= high)


def touches(start, end, cell):
    """Whether the segment has a point in the closed square of the cell."""
    low, high = Fraction(0), Fraction(1)
    for a, b, side in zip(start, end, cell, strict=True):
        near, far = side * STEPS, (side + 1) * STEPS
        if a == b:
            if not near <= a <= far:
                return False
            continue
        one, other = sorted((Fraction(near - a, b - a), Fraction(far - a, b - a)))
        low, high = max(low, one), min(high, other)
    return low <= high


def random_points(generator, count, coarse):
    """Points anywhere, or (coarse) often on borders, on corners and one step beside them."""
    size = np.array([COLUMNS * STEPS, ROWS * STEPS])
    if not coarse:
        return [tuple(map(int, point)) for point in generator.integers(0, size, (count, 2))]
    quarters = generator.integers(0, [4 * COLUMNS, 4 * ROWS], (count, 2)) * (STEPS // 4)
    beside = generator.integers(-1, 2, (count, 2))
    return [tuple(map(int, point)) for point in np.clip(quarters + beside, 0, size - 1)]


@pytest.mark.parametrize("coarse", [False, True])
def test_paths_are_those_of_exact_fractions(coarse):
    generator = np.random.default_rng(11)
    for _ in range(600):
        points = random_points(generator, int(generator.integers(1, 5)), coarse)
        assert path(points) == exact_path(points), points


@pytest.mark.parametrize("coarse", [False, True])
def test_no_square_that_a_step_enters_is_missed_and_none_it_misses_is_named(coarse):
    generator = np.random.default_rng(12)
    for _ in range(120):
        start, end = random_points(generator, 2, coarse)
        found = path([start, end])
        for cell in np.ndindex(COLUMNS, ROWS):
            if meets_inside(start, end, cell):
                # A step along a border enters no square; every other open square it meets is in the path.
                assert cell in found, (start, end, cell)
        assert all(touches(start, end, cell) for cell in found), (start, end)
        assert len(set(found)) == len(found)


def test_cells_share_an_edge_and_begin_and_end_where_the_points_are():
    generator = np.random.default_rng(13)
    for _ in range(300):
        points = random_points(generator, 4, True)
        found = path(points)
        assert found[0] == tuple(c // STEPS for c in points[0])
        assert found[-1] == tuple(c // STEPS for c in points[-1])
        assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(found))


HALF = STEPS // 2


@for_each(
    ("points", "cells"),
    [
        ([(HALF, HALF)], [(0, 0)]),
        ([(HALF, HALF), (HALF, HALF)], [(0, 0)]),
        ([(HALF, HALF), (HALF + 9, HALF)], [(0, 0)]),
        ([(HALF, 0), (5 * HALF, 0)], [(0, 0), (1, 0), (2, 0)]),
        ([(0, 5 * HALF), (0, HALF)], [(0, 2), (0, 1), (0, 0)]),
        # a border belongs to the cell east or north of it
        ([(HALF, HALF), (STEPS, HALF)], [(0, 0), (1, 0)]),
        ([(3 * HALF, HALF), (STEPS, HALF)], [(1, 0)]),
        ([(STEPS, HALF), (STEPS - 1, HALF)], [(1, 0), (0, 0)]),
        # through a corner: x first, both ways and on both diagonals
        ([(HALF, HALF), (3 * HALF, 3 * HALF)], [(0, 0), (1, 0), (1, 1)]),
        ([(3 * HALF, 3 * HALF), (HALF, HALF)], [(1, 1), (0, 1), (0, 0)]),
        ([(HALF, 3 * HALF), (3 * HALF, HALF)], [(0, 1), (1, 1), (1, 0)]),
        ([(3 * HALF, HALF), (HALF, 3 * HALF)], [(1, 0), (0, 0), (0, 1)]),
        # one step beside the corner, going down: the y border is met first
        ([(3 * HALF, 3 * HALF - 1), (HALF, HALF - 1)], [(1, 1), (1, 0), (0, 0)]),
        # there and back again: cells come twice
        ([(HALF, HALF), (3 * HALF, HALF), (HALF, HALF)], [(0, 0), (1, 0), (0, 0)]),
    ],
)
def test_small_steps(points, cells):
    assert path(points) == cells


def test_no_trips_trips_one_after_the_other_and_the_largest_grid():
    """No step is drawn from the last point of one trip to the first of the next."""
    u = np.array([0, 2 * STEPS, 6 * STEPS, 3 * STEPS], np.int64)
    v = np.array([0, 0, 4 * STEPS, 4 * STEPS], np.int64)
    first, cells = traced(u, v, np.array([0, 2, 3, 4]), COLUMNS)
    assert first.tolist() == [0, 3, 4, 5]
    assert cells.tolist() == [0, 1, 2, 4 * COLUMNS + 6, 4 * COLUMNS + 3]
    empty = np.empty(0, np.int64)
    first, cells = traced(empty, empty, np.array([0]), COLUMNS)
    assert first.tolist() == [0]
    assert cells.size == 0
    far = 2**12 * STEPS - 1
    found = path([(far, 0), (0, far - 1)], columns=2**12)
    assert len(found) == 2 * (2**12 - 1) + 1
    assert found[-1] == (0, 2**12 - 1)
