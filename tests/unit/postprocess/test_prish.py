"""PriSH's update by hand on small grids: scaling inside, repair at the border, what is left alone."""

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


def test_gaps_within_the_noise_are_left_alone_and_answers_are_cut():
    given = Rectangles.of([(0, 1, 0, 2), (0, 2, 0, 2)])
    learner = PrishLearner(two_by_two(), given, trips=8.0, deviation=10.0)
    learner.learn(0, 2.0)
    assert learner.model.faces.tolist() == two_by_two().faces.tolist()
    learner.learn(1, 1e9)
    assert learner.noisy == [2.0, 8.0]
    assert learner.model.faces.tolist() == two_by_two().faces.tolist()


def test_without_repair_borders_are_violated_and_with_it_not():
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
