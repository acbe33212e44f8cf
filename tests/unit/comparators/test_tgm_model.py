"""Counts by prefix against counting prefixes one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.loops import for_each

from shoal.space.cell_paths import DX, DY, CellPaths
from shoal.space.cells import CellGrid
from shoal_baselines.comparators.tgm import parts, prefixes

GRID = CellGrid(box=(0, 0, 4, 3), columns=4, rows=3, planar=True)


def walks(seed, count=200):
    generator = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y = int(generator.integers(4)), int(generator.integers(3))
        trip = [(y * 4 + x, 0, int(generator.integers(4)))]
        for tick in range(1, int(generator.integers(1, 9))):
            dx, dy = generator.integers(-1, 2, 2).tolist()
            if (dx or dy) and 0 <= x + dx < 4 and 0 <= y + dy < 3:
                x, y = x + dx, y + dy
                trip.append((y * 4 + x, 10 * tick, int(generator.integers(4))))
        trips.append(trip)
    return trips


def counted(trips, longest=None, anywhere=False):
    """By way: trips, steps stayed, trips ended."""
    found = [Counter(), Counter(), Counter()]
    for trip in trips:
        for begin in range(len(trip) if anywhere else 1):
            for end in range(begin + 1, min(len(trip), begin + (longest or 99)) + 1):
                way = tuple(visit[0] for visit in trip[begin:end])
                found[0][way] += 1
                found[1][way] += trip[end - 1][2]
                found[2][way] += end == len(trip)
    return {way: tuple(part[way] for part in found) for way in found[0]}


def told(tree):
    """The same of a tree, from its roots down."""
    found = {}
    todo = [((cell,), node) for cell, node in enumerate(tree.root.tolist()) if node >= 0]
    while todo:
        way, node = todo.pop()
        found[way] = (int(tree.count[node]), int(tree.stay[node]), int(tree.ended[node]))
        for child in range(tree.children[node], tree.children[node + 1]):
            direction = tree.direction[child]
            todo.append(((*way, int(way[-1] + 4 * DY[direction] + DX[direction])), child))
    assert len(found) == tree.count.size
    return found


@for_each("seed", range(5))
def test_whole_prefixes_are_counted(seed):
    trips = walks(seed)
    assert told(prefixes(CellPaths.of(GRID, 60, trips))) == counted(trips)


@pytest.mark.parametrize("longest", [1, 2, 4])
def test_parts_are_counted_wherever_they_are(longest):
    trips = walks(9)
    assert told(parts(CellPaths.of(GRID, 60, trips), longest)) == counted(trips, longest, anywhere=True)


def test_order_does_not_matter_and_no_trips_are_no_nodes():
    trips = walks(11)
    one, other = (prefixes(CellPaths.of(GRID, 60, order)) for order in (trips, trips[::-1]))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    tree = prefixes(CellPaths.of(GRID, 60, []))
    assert (tree.count.size, tree.children.tolist(), set(tree.root.tolist())) == (0, [0], {-1})
