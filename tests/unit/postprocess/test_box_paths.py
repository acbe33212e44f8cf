"""Paths of boxes are monotone, stay in their box and bulge as their shape says.
The fit reaches the optimum that a general solver finds, and the weights it should.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from tests.loops import for_each

from shoal.postprocess.histogram.box_fit import fit_weights, targets_of
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


CHANCE = np.random.default_rng(4)


def world(boxes=40, bins=6):
    index = [CHANCE.integers(0, bins, boxes) for _ in range(2)]
    values = [CHANCE.normal(100 / bins, 20, bins) for _ in range(2)]
    hits = CHANCE.random((5, boxes)) < 0.4
    answers = CHANCE.normal(40, 10, 5)
    return index, values, hits, answers


def objective(weight, index, values, sigmas, hits, answers, sigma, pull, trips):
    share = weight / trips
    total = pull * float(share @ np.log(share * len(share)))
    for bins, noisy, deviation in zip(index, values, sigmas, strict=True):
        total += (((np.bincount(bins, weight, len(noisy)) - noisy) / deviation) ** 2).sum() / 2
    return total + (((hits @ weight - answers) / sigma) ** 2).sum() / 2


@pytest.mark.parametrize("pull", [0.5, 10.0])
def test_the_optimum_is_that_of_a_general_solver(pull):
    index, values, hits, answers = world()
    sigmas, sigma, trips = (5.0, 9.0), 4.0, 100.0
    args = (index, values, sigmas, hits, answers, sigma, pull, trips)
    targets = targets_of(list(zip(values, sigmas, index, strict=True)), hits, answers, sigma)
    fitted = fit_weights(targets, trips, pull, steps=2000)

    def loss(theta):
        return objective(trips * np.exp(theta - logsumexp(theta)), *args)

    best = minimize(loss, np.zeros(40), method="L-BFGS-B", options={"maxfun": 10**6, "maxiter": 5000})
    assert fitted.sum() == pytest.approx(trips)
    assert objective(fitted, *args) == pytest.approx(best.fun, rel=1e-3)


def test_counts_are_met_where_precise_and_the_pool_is_even_where_the_pull_is_strong():
    index, values, _, _ = world()
    targets = targets_of(list(zip(values, (5.0, 5.0), index, strict=True)))
    fitted = fit_weights(targets, 100.0, 1e9)
    assert np.allclose(fitted, 2.5, rtol=1e-3)
    index = [np.array([0, 0, 1, 2, 2, 2])]
    noisy = np.array([10.0, 30.0, 60.0, 77.0])  # nobody can be in the last bin
    fitted = fit_weights(targets_of([(noisy, 0.01, index[0])]), 100.0, 1e-3)
    assert np.bincount(index[0], fitted).round(3).tolist() == [10, 30, 60]
    index, values, hits, answers = world()
    targets = targets_of(list(zip(values, (5.0, 5.0), index, strict=True)), hits, answers, 4.0)
    done = fit_weights(targets, 100.0, 1.0, steps=2000)
    again = fit_weights(targets, 100.0, 1.0, start=done, steps=1)
    assert np.allclose(done, again, rtol=0.05, atol=0.05)
