"""Bounding boxes and shapes of trips, against words and against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.engine.trip_queries import CUTS, SHAPES, summaries

RISES, FALLS = 0, 6
NORTH_WEST, SOUTH_EAST = 0, 3  # where a rising path bulges to
SOUTH_WEST, NORTH_EAST = 0, 3  # a falling one
FLAT, ROUND, CORNER = 0, 1, 2


def staircase(n):
    """From one corner of an n x n box to the other, close to the diagonal."""
    return [cell for i in range(n - 1) for cell in ((i, i), (i + 1, i))] + [(n - 1, n - 1)]


def along(n):
    """East along the south side, then north along the east side."""
    return [(x, 0) for x in range(n)] + [(n - 1, y) for y in range(1, n)]


def turned(path, n, times):
    """A quarter turn to the left in an n x n box, several times."""
    for _ in range(times):
        path = [(n - 1 - y, x) for x, y in path]
    return path


def shape_of(trips_of, path, n=11):
    return int(summaries(trips_of(n, n, [path]))[4][0])


def test_boxes_are_those_of_the_cells(trips_of, random_paths):
    paths = random_paths(np.random.default_rng(41), 9, 7, 200)
    left, right, bottom, top, shape = summaries(trips_of(9, 7, paths))
    for i, path in enumerate(paths):
        xs, ys = zip(*path, strict=True)
        assert (left[i], right[i], bottom[i], top[i]) == (min(xs), max(xs), min(ys), max(ys))
    assert left.dtype == np.int32
    assert shape.dtype == np.int8
    assert 0 <= shape.min() <= shape.max() < SHAPES


@pytest.mark.parametrize(
    ("turns", "diagonal", "side"),
    [
        (0, RISES, SOUTH_EAST),
        (1, FALLS, NORTH_EAST),
        (2, RISES, NORTH_WEST),
        (3, FALLS, SOUTH_WEST),
    ],
)
def test_a_way_round_a_corner(trips_of, turns, diagonal, side):
    path = turned(along(11), 11, turns)
    assert shape_of(trips_of, path) == diagonal + side + CORNER
    assert shape_of(trips_of, path[::-1]) == diagonal + side + CORNER


@pytest.mark.parametrize(("turns", "diagonal"), [(0, RISES), (1, FALLS), (2, RISES), (3, FALLS)])
def test_a_way_along_the_diagonal_hardly_bulges(trips_of, turns, diagonal):
    found = shape_of(trips_of, turned(staircase(11), 11, turns))
    assert found in (diagonal + FLAT, diagonal + 3 + FLAT)


def test_a_bulge_of_middle_size(trips_of):
    """Round a corner that is cut off: the path reaches (0.8, 0.2) of the box."""
    path = [(x, 0) for x in range(7)] + [(x, y) for x in (6, 7, 8) for y in (x - 6, x - 5)]
    path += [(8, y) for y in range(4, 9)] + [(9, 8), (10, 8), (10, 9), (10, 10)]
    assert shape_of(trips_of, path) == RISES + SOUTH_EAST + ROUND


def reach(path, corner):
    """How far a path goes into a corner of its box, by the definition."""
    xs, ys = np.array(path, float).T
    u = (xs - xs.min()) / max(np.ptp(xs), 1)
    v = (ys - ys.min()) / max(np.ptp(ys), 1)
    u, v = (u if corner[0] else 1 - u), (v if corner[1] else 1 - v)
    return np.minimum(u, v).max()


def test_shapes_follow_the_definition(trips_of, random_paths):
    paths = random_paths(np.random.default_rng(42), 12, 12, 300)
    shapes = summaries(trips_of(12, 12, paths))[4]
    seen = set()
    for path, shape in zip(paths, shapes.tolist(), strict=True):
        south_west, south_east, north_west, north_east = (
            reach(path, corner) for corner in ((0, 0), (1, 0), (0, 1), (1, 1))
        )
        falls = north_west + south_east > south_west + north_east
        one, other = (south_west, north_east) if falls else (north_west, south_east)
        degree = int(np.searchsorted(CUTS, max(one, other), "right"))
        assert shape == 6 * falls + 3 * (other > one) + degree, path
        seen.add(shape)
    assert seen == set(range(SHAPES))


def test_one_cell_and_one_row_have_a_shape_too(trips_of):
    left, right, bottom, top, shape = summaries(trips_of(5, 5, [[(2, 3)], [(0, 1), (1, 1), (2, 1)]]))
    assert list(zip(left, right, bottom, top, strict=True)) == [(2, 2, 3, 3), (0, 2, 1, 1)]
    assert ((shape >= 0) & (shape < SHAPES)).all()


def test_no_trips(trips_of):
    assert [part.size for part in summaries(trips_of(3, 3, []))] == [0] * 5
