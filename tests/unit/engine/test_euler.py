"""The exact Euler histogram and shared faces against plain sets of cells and pairs of cells."""

import os
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.engine.conftest import every_rectangle

from shoal.engine.trip_queries import exact_euler, shared_faces, sum_parts
from shoal.space.cells import Rectangles

SHAPES = [(5, 4), (1, 6), (6, 1), (1, 1), (2, 2), (2, 5), (3, 7)]
RING = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (1, 2), (0, 2), (0, 1), (0, 0)]


def by_hand(columns, rows, paths, crossed):
    """Faces, east edges, north edges, full blocks as dictionaries of counts from sets of each trip."""
    faces, east, north, blocks = (
        np.zeros(shape, int)
        for shape in ((rows, columns), (rows, columns - 1), (rows - 1, columns), (rows - 1, columns - 1))
    )
    for path in paths:
        cells = set(path)
        moves = {frozenset(step) for step in pairwise(path)}
        for x, y in cells:
            faces[y, x] += 1
            for edge, other in ((east, (x + 1, y)), (north, (x, y + 1))):
                pair = frozenset({(x, y), other})
                if pair in moves if crossed else other in cells:
                    edge[y, x] += 1
            if {(x + 1, y), (x, y + 1), (x + 1, y + 1)} <= cells:
                blocks[y, x] += 1
    return faces, east, north, blocks


@pytest.mark.parametrize(("columns", "rows"), SHAPES)
@pytest.mark.parametrize("blocks", [False, True])
def test_counts_are_those_of_sets(trips_of, random_paths, columns, rows, blocks):
    generator = np.random.default_rng(21)
    paths = random_paths(generator, columns, rows, 40)
    found = exact_euler(trips_of(columns, rows, paths), blocks=blocks)
    faces, east, north, full = by_hand(columns, rows, paths, crossed=not blocks)
    assert found.faces.tolist() == faces.tolist()
    assert found.east.tolist() == east.tolist()
    assert found.north.tolist() == north.tolist()
    assert found.blocks.tolist() == full.tolist() if blocks else found.blocks is None


@pytest.mark.parametrize(("columns", "rows"), SHAPES)
@pytest.mark.parametrize("blocks", [False, True])
def test_answers_by_prefix_sums_are_direct_sums(trips_of, random_paths, columns, rows, blocks):
    found = exact_euler(
        trips_of(columns, rows, random_paths(np.random.default_rng(22), columns, rows, 30)), blocks=blocks
    )
    rectangles = every_rectangle(columns, rows)
    direct = []
    for x0, x1, y0, y1 in rectangles:
        total = found.faces[y0:y1, x0:x1].sum()
        total -= found.east[y0:y1, x0 : x1 - 1].sum() + found.north[y0 : y1 - 1, x0:x1].sum()
        direct.append(total + (found.blocks[y0 : y1 - 1, x0 : x1 - 1].sum() if blocks else 0))
    answers = found.answers(Rectangles.of(rectangles))
    assert answers.tolist() == direct
    assert answers.dtype == np.int64


def test_answers_err_by_coming_back_by_circles_and_by_holes(trips_of):
    def answer(path, rectangle, blocks):
        return int(exact_euler(trips_of(4, 3, [path]), blocks=blocks).answers(Rectangles.of([rectangle]))[0])

    whole, below = (0, 4, 0, 3), (0, 4, 0, 1)
    straight = [(0, 0), (1, 0), (1, 1)]
    assert answer(straight, whole, False) == answer(straight, whole, True) == 1
    comes_back = [(0, 0), (0, 1), (1, 1), (2, 1), (2, 0)]
    assert answer(comes_back, below, False) == answer(comes_back, below, True) == 2
    circle = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    assert answer(circle, whole, False) == 0
    assert answer(circle, whole, True) == 1  # the 2 x 2 block mends it
    assert answer(RING, whole, False) == answer(RING, whole, True) == 0  # a hole in its middle
    assert answer([*RING, (1, 0), (1, 1)], whole, True) == 1  # the middle filled


def test_edges_along_which_nobody_went_count_only_with_blocks(trips_of):
    beside = [(0, 0), (1, 0), (1, 1), (0, 1)]
    trips = trips_of(2, 2, [beside])
    assert exact_euler(trips).north.tolist() == [[0, 1]]
    assert exact_euler(trips, blocks=True).north.tolist() == [[1, 1]]


@pytest.mark.parametrize("lattice", [1, 7, 1000])
def test_shared_faces_are_shares_rounded_down(trips_of, random_paths, lattice):
    paths = random_paths(np.random.default_rng(23), 5, 4, 60)
    expected = np.zeros((4, 5), int)
    for path in paths:
        for x, y in set(path):
            expected[y, x] += lattice // len(set(path))
    found = shared_faces(trips_of(5, 4, paths), lattice)
    assert found.tolist() == expected.tolist()
    for path in paths:  # the sensitivity that mechanisms are promised
        assert 0 <= shared_faces(trips_of(5, 4, [path]), lattice).sum() <= lattice


def test_threads_change_nothing(trips_of, random_paths):
    """So many trips that they are split: the sum over parts is the sum over all."""
    paths = random_paths(np.random.default_rng(24), 6, 5, 9000)
    trips = trips_of(6, 5, paths)
    parts = []
    whole = sum_parts(trips.count, lambda begin, end: parts.append((begin, end)) or np.array([end - begin]))
    assert whole.tolist() == [9000]
    assert len(parts) > 1 or os.cpu_count() == 1
    assert sorted(parts)[0][0] == 0
    assert all(a[1] == b[0] for a, b in pairwise(sorted(parts)))
    assert exact_euler(trips).faces.tolist() == by_hand(6, 5, paths, True)[0].tolist()
    assert shared_faces(trips, 1).sum() == sum(len(set(path)) == 1 for path in paths)


def test_no_trips(trips_of):
    found = exact_euler(trips_of(3, 2, []), blocks=True)
    assert not found.faces.any()
    assert found.blocks.shape == (1, 2)
    assert not shared_faces(trips_of(3, 2, []), 5).any()
