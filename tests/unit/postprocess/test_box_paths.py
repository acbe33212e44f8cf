"""Paths of boxes are monotone, stay in their box and bulge as their shape says."""

import numpy as np
from tests.loops import for_each

from shoal.postprocess.histogram.box_model import (
    BoxPool,
    fold,
    pool_euler,
    pool_hits,
    redraw,
    spread,
    start_pool,
)
from shoal.space.cells import CellGrid, random_rectangles

SIDE = 24
GRID = CellGrid(box=(0, 0, 1, 1), columns=SIDE, rows=SIDE, planar=True)


def one(x0, x1, y0, y1, shape):
    return BoxPool(
        *(),
        **{
            n: np.array([v])
            for n, v in zip(("x0", "x1", "y0", "y1", "shape"), (x0, x1, y0, y1, shape), strict=True)
        },
    )


def cells_of(pool):
    faces = pool_euler(pool, np.ones(pool.count), SIDE, SIDE).faces
    return {(int(x), int(y)) for y, x in zip(*np.nonzero(faces), strict=True)}


@for_each("shape", range(12))
@for_each("box", [(2, 20, 3, 17), (5, 5, 5, 5), (0, 23, 7, 7), (4, 4, 0, 23), (3, 4, 3, 4)])
def test_a_path_spans_its_box_and_is_monotone(box, shape):
    x0, x1, y0, y1 = box
    cells = cells_of(one(*box, shape))
    assert len(cells) == x1 - x0 + y1 - y0 + 1  # monotone steps from corner to corner, no more
    assert {min(x for x, _ in cells), max(x for x, _ in cells)} == {x0, x1}
    assert {min(y for _, y in cells), max(y for _, y in cells)} == {y0, y1}
    corners = {(x0, y1), (x1, y0)} if shape >= 6 else {(x0, y0), (x1, y1)}
    assert corners <= cells


@for_each(("shape", "corner"), [(2, (0, 20)), (5, (20, 0)), (8, (0, 0)), (11, (20, 20))])
def test_a_strong_bulge_goes_to_its_corner(shape, corner):
    def distance(shape):
        return min(abs(x - corner[0]) + abs(y - corner[1]) for x, y in cells_of(one(0, 20, 0, 20, shape)))

    assert distance(shape) < distance(shape - 1) < distance(shape - 2)


def test_answers_and_hits_by_brute_force():
    pool = start_pool(300, SIDE, SIDE)
    weight = 0.5 + spread(300, 1)[:, 0]
    some = random_rectangles(GRID, 200, 1)
    table = np.stack([some.x0, some.x1, some.y0, some.y1], axis=1).astype(np.int64)
    hits = pool_hits(pool, table, SIDE, SIDE)
    euler = pool_euler(pool, weight, SIDE, SIDE)
    assert np.allclose(euler.answers(some), hits @ weight)
    wider = table + np.array([-1, 1, -1, 1])
    wider = np.clip(wider, 0, SIDE)
    assert (pool_hits(pool, wider, SIDE, SIDE) >= hits).all()
    pool = start_pool(60, SIDE, SIDE)
    some = random_rectangles(GRID, 50, 2)
    table = np.stack([some.x0, some.x1, some.y0, some.y1], axis=1).astype(np.int64)
    hits = pool_hits(pool, table, SIDE, SIDE)
    for i in range(pool.count):
        cells = cells_of(BoxPool(**{name: values[i : i + 1] for name, values in vars(pool).items()}))
        for q, (a, b, c, d) in enumerate(table):
            assert hits[q, i] == any(a <= x < b and c <= y < d for x, y in cells)


def test_pools_fill_the_grid_and_follow_the_weights_when_drawn_again():
    pool = start_pool(20_000, 16, 8)
    assert pool.x0.min() == 0
    assert pool.x1.max() == 15
    assert pool.y1.max() == 7
    assert (pool.x0 <= pool.x1).all()
    assert (pool.y0 <= pool.y1).all()
    shares = np.bincount(pool.shape, minlength=12) / 20_000
    assert np.allclose(shares, 1 / 12, atol=0.005)
    middle = np.mean((pool.x0 + pool.x1) / 2 / 15)
    assert abs(middle - 0.5) < 0.02
    pool = start_pool(1000, SIDE, SIDE)
    weight = np.where(pool.x0 < 8, 3.0, 1.0)
    again = redraw(pool, weight, 4000, 0.0, SIDE, SIDE)
    expected = weight[pool.x0 < 8].sum() / weight.sum()
    assert abs(np.mean(again.x0 < 8) - expected) < 0.01
    moved = redraw(pool, weight, 4000, 3.0, SIDE, SIDE)
    assert np.abs(moved.x0 - again.x0).max() in (3, 4)
    assert fold(np.array([-0.2, 0.4, 1.3, 2.1, -1.5])).round(9).tolist() == [0.2, 0.4, 0.7, 0.1, 0.5]
