"""PriSH's update by hand on small grids: scaling inside, repair at the border, what is left alone.
DQAM's regions and update: brute-force quadtrees, factors by hand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.loops import for_each

from shoal.space.cells import Rectangles
from shoal_baselines.postprocess.euler_consistent import violations
from shoal_baselines.postprocess.prish import (
    SWEEPS,
    PrishLearner,
    TripModel,
    rectangle_answer,
    repair_border,
    scale_inside,
    uniform_model,
)
from shoal_baselines.postprocess.regions import (
    POWER,
    DqamLearner,
    blocks,
    depth_of,
    mean_of_children,
    regions,
    scale_regions,
)


def model_of(faces, east, north):
    return TripModel(*(np.array(part, float) for part in (faces, east, north)))


def two_by_two():
    return model_of([[4, 4], [4, 4]], [[2], [2]], [[2, 2]])  # 16 - 8 = 8 trips


def parts(model):
    return model.faces, model.east, model.north


def test_scaling_and_repair_by_hand():
    model = model_of([[1, 2, 3], [4, 5, 6]], [[0.5, 1], [1.5, 2]], [[0.25, 0.75, 1.25]])
    rows = [(0, 3, 0, 2), (1, 3, 0, 1), (0, 1, 0, 2), (2, 3, 1, 2)]
    by_prefix = model.answers(Rectangles.of(rows))
    assert [rectangle_answer(*parts(model), *row) for row in rows] == by_prefix.tolist()
    assert by_prefix.tolist() == [21 - 5 - 2.25, 5 - 1, 5 - 0.25, 6]
    model = two_by_two()
    scale_inside(*parts(model), 0, 1, 0, 2, 0.5)  # the left column
    assert model.faces.tolist() == [[2, 4], [2, 4]]
    assert model.east.tolist() == [[2], [2]]
    assert model.north.tolist() == [[1, 2]]
    model = two_by_two()
    scale_inside(*parts(model), 0, 1, 0, 2, 0.25)
    assert violations(*parts(model))[0] == 2
    repair_border(*parts(model), 0, 1, 0, 2)
    assert model.faces.tolist() == [[2, 4], [2, 4]]
    assert violations(*parts(model))[0] == 0


def test_one_update_by_hand():
    """Answer 2 to the left column, which the model gives 4 + 4 - 2 = 6: exp(-4 / 16), then back to 8."""
    given = Rectangles.of([(0, 1, 0, 2)])
    learner = PrishLearner(two_by_two(), given, trips=8.0, deviation=0.0)
    assert learner.estimates().tolist() == [6.0]
    expected = two_by_two()
    for _ in range(SWEEPS):
        error = 2 - (expected.faces[:, 0].sum() - expected.north[0, 0])
        factor = math.exp(error / 16)
        expected.faces[:, 0] *= factor
        expected.north[0, 0] *= factor
        for row in (0, 1):
            edges = expected.east[row, 0], expected.north[0, 0]
            expected.faces[row, 0] = (
                max(expected.faces[row, 0], *edges) if error < 0 else expected.faces[row, 0]
            )
        whole = sum(part.sum() * sign for part, sign in zip(parts(expected), (1, -1, -1), strict=True))
        for part in parts(expected):
            part *= 8 / whole
    learner.learn(0, 2.0)
    for found, wanted in zip(parts(learner.model), parts(expected), strict=True):
        assert found == pytest.approx(wanted)
    assert 2 < learner.estimates()[0] < 6


def test_gaps_within_the_noise_are_left_alone_and_borders_repaired():
    given = Rectangles.of([(0, 1, 0, 2), (0, 2, 0, 2)])
    learner = PrishLearner(two_by_two(), given, trips=8.0, deviation=10.0)
    learner.learn(0, 2.0)
    assert learner.model.faces.tolist() == two_by_two().faces.tolist()
    learner.learn(1, 1e9)
    assert learner.noisy == [2.0, 8.0]
    assert learner.model.faces.tolist() == two_by_two().faces.tolist()
    start = model_of(np.full((4, 4), 3.0), np.full((4, 3), 2.9), np.full((3, 4), 0.5))
    given = Rectangles.of([(1, 3, 1, 3), (0, 2, 0, 2)])
    learner = PrishLearner(start.copy(), given, trips=start.whole(), deviation=0.0)
    learner.learn(0, 0.0)
    learner.learn(1, 0.0)
    assert violations(*parts(learner.model))[0] == 0
    assert learner.without_repair(start) > 0


@for_each("shape", [(1, 1), (1, 6), (7, 1), (8, 8), (3, 5)])
@for_each("cells", [0.1, 3.0, 1e6])
def test_the_uniform_start_has_all_trips_and_no_violation(shape, cells):
    model = uniform_model(shape, 50.0, cells)
    assert model.whole() == pytest.approx(50.0)
    assert violations(*parts(model))[0] == 0
    assert (model.faces > 0).all()


def by_recursion(shape, first, last, costs, threshold):
    """Algorithm 5 cell by cell: the block (level, row, column) each cell ends in."""
    depth = depth_of(shape)

    def leaf(row, column, level):
        size = depth - level
        block = (row >> size), (column >> size)
        if level == last:
            return level, *block
        children = [
            costs[level + 1][(2 * block[0] + y) * 2 ** (level + 1) + 2 * block[1] + x]
            for y in (0, 1)
            for x in (0, 1)
        ]
        if costs[level][block[0] * 2**level + block[1]] - sum(children) / 4 <= threshold:
            return level, *block
        return leaf(row, column, level + 1)

    return [leaf(row, column, first) for row in range(shape[0]) for column in range(shape[1])]


@for_each("shape", [(8, 8), (5, 7), (1, 6), (16, 3)])
@for_each("first", [0, 1, 2])
def test_regions_are_the_leaves_of_the_recursion(shape, first):
    generator = np.random.default_rng(first)
    last, ends = depth_of(shape), set()
    for _ in range(5):
        costs = {level: generator.normal(last - level, 3, 4**level) for level in range(last + 1)}
        gaps = [costs[level] - mean_of_children(costs[level + 1], level) for level in range(first, last)]
        found = regions(shape, first=first, gaps=gaps, threshold=0.4)
        leaves = by_recursion(shape, first, last, costs, 0.4)
        assert len(set(zip(found.tolist(), leaves, strict=True))) == len(set(leaves)) == found.max() + 1
        ends |= {level for level, *_ in leaves}
    assert len(ends) > 1  # some blocks split, some did not


def test_edges_move_with_the_lesser_side_and_dense_regions_weigh_more():
    model = TripModel(np.full((2, 3), 8.0), np.full((2, 2), 4.0), np.full((1, 3), 4.0))
    factor = np.array([[2.0, 0.5, np.nan]] * 2)
    scale_regions(model, factor)
    assert model.faces.tolist() == [[16, 4, 8]] * 2
    assert model.east.tolist() == [[2, 4]] * 2
    assert model.north.tolist() == [[8, 2, 4]]
    learner = learner_of([30, 5, 5, 0])
    weights = learner.weights(np.array([0, 1, 2]))
    assert weights[0] / weights[1] == pytest.approx(6**POWER)
    assert (weights * [30, 5, 5]).sum() / 40 == pytest.approx(1.0)
    assert learner_of([-1, 0, 0, 0]).weights(np.array([0, 3])).tolist() == [1.0, 1.0]
    assert blocks((3, 5), 1).reshape(3, 5).tolist() == [[0, 0, 0, 0, 1]] * 3
    assert blocks((2, 2), 1).tolist() == [0, 1, 2, 3]
    assert blocks((3, 5), depth_of((3, 5))).size == len(set(blocks((3, 5), 3).tolist()))


def learner_of(mass, **more):
    given = Rectangles.of([(0, 1, 0, 1), (0, 3, 0, 3)])
    region = blocks((4, 4), 1)
    start = uniform_model((4, 4), 40.0, 3.0)
    return DqamLearner(start, region, np.array(mass, float), given, 40.0, 0.0, **more)


def test_the_whole_region_moves_where_one_cell_is_asked(monkeypatch):
    monkeypatch.setattr("shoal_baselines.postprocess.regions.SWEEPS", 1)
    learner = learner_of([10, 10, 10, 10])
    before, estimate = learner.model.faces.copy(), learner.estimates()[0]
    learner.learn(0, 20.0)
    ratio = learner.model.faces / before
    assert np.unique(ratio[:2, :2].round(9)).size == 1
    assert np.unique(ratio[2:].round(9)).size == 1
    assert ratio[0, 0] / ratio[3, 3] == pytest.approx(math.exp((20 - estimate) / 80))
    assert learner.model.whole() == pytest.approx(40.0)


def test_output_is_consistent_after_scaling_down_and_without_repair_it_is_not():
    start = TripModel(np.full((4, 4), 3.0), np.full((4, 3), 2.9), np.full((3, 4), 0.5))
    given = Rectangles.of([(0, 2, 0, 2)])
    mass = np.full(4, start.whole() / 4)
    learner = DqamLearner(start.copy(), blocks((4, 4), 1), mass, given, start.whole(), 0.0)
    learner.learn(0, 0.0)
    assert violations(learner.model.faces, learner.model.east, learner.model.north)[0] == 0
    assert learner.without_repair(start) > 0
