"""PriSH and DQAM as published: what they compute, and that what they say of themselves is true."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from shoal.mechanisms.audit_size import trip_setting
from shoal.privacy.noise import SeededNoise
from shoal.space.cells import CellGrid, Rectangles, random_rectangles
from shoal.space.trip_setting import TripSetting
from shoal.stages.trips import ExactEuler
from shoal_baselines.comparators.published_histogram import (
    PublishedDqam,
    PublishedInput,
    PublishedPrish,
    equal_model,
    reach,
)
from shoal_baselines.postprocess.euler_consistent import violations

KINDS = [PublishedPrish, PublishedDqam]


def setting_of(columns, rows, given=None):
    grid = CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=columns, rows=rows, planar=True)
    return TripSetting(grid=grid, given=random_rectangles(grid, 25, 2) if given is None else given)


def exact_of(paths, columns, rows):
    """Euler histogram and shared faces from sets of cells and of steps."""
    faces, shared = np.zeros((rows, columns), np.int64), np.zeros((rows, columns))
    east, north = np.zeros((rows, columns - 1), np.int64), np.zeros((rows - 1, columns), np.int64)
    for path in paths:
        cells = set(path)
        for x, y in cells:
            faces[y, x] += 1
            shared[y, x] += 1 / len(cells)
        for (x, y), (other_x, other_y) in {tuple(sorted(pair)) for pair in pairwise(path)}:
            (east if y == other_y else north)[y, x] += 1
            assert abs(x - other_x) + abs(y - other_y) == 1
    return PublishedInput(
        euler=ExactEuler(faces=faces, east=east, north=north), shared=shared, trips=len(paths)
    )


def walk(generator, columns, rows, steps):
    x, y = int(generator.integers(columns)), int(generator.integers(rows))
    path = [(x, y)]
    for _ in range(steps):
        dx, dy = [(1, 0), (-1, 0), (0, 1), (0, -1)][generator.integers(4)]
        if 0 <= x + dx < columns and 0 <= y + dy < rows:
            x, y = x + dx, y + dy
            path.append((x, y))
    return path


def snake(columns, rows):
    """Along all rows, back again, then along all columns: every edge is crossed."""
    along_rows = [(x if y % 2 == 0 else columns - 1 - x, y) for y in range(rows) for x in range(columns)]
    along_columns = [(x, y if x % 2 == 0 else rows - 1 - y) for x in range(columns) for y in range(rows)]
    return along_rows + along_rows[-2::-1] + along_columns[1:]


@pytest.mark.parametrize(("columns", "rows"), [(4, 4), (5, 3)])
def test_a_trip_in_loops_reaches_the_bound_of_the_whole_grid(columns, rows):
    whole = Rectangles.of([(0, columns, 0, rows)])
    exact = exact_of([snake(columns, rows)], columns, rows)
    other = exact_of([[(0, 0)]], columns, rows)  # the trip that replaces it
    moved = int(other.euler.answers(whole)[0] - exact.euler.answers(whole)[0])
    assert exact.euler.answers(whole).tolist() == [1 - (columns - 1) * (rows - 1)]
    assert reach(setting_of(columns, rows, whole)) == moved == (columns - 1) * (rows - 1)


def test_loops_and_returns_reach_the_bound_and_no_walk_exceeds_it():
    """A comb into a column one cell wide: in and out of every cell from the side."""
    path = [(0, 0)]
    for y in range(5):
        path += [(1, y), (0, y)] + ([(0, y + 1)] if y < 4 else [])
    column = Rectangles.of([(1, 2, 0, 5)])
    assert exact_of([path], 3, 5).euler.answers(column).tolist() == [5]
    assert reach(setting_of(3, 5, column)) == 5
    generator = np.random.default_rng(9)
    rows = [(0, 2, 0, 2), (1, 3, 0, 4), (0, 4, 1, 2), (0, 4, 0, 4), (1, 2, 1, 2), (0, 3, 1, 4)]
    walks = [exact_of([walk(generator, 4, 4, int(generator.integers(0, 120)))], 4, 4) for _ in range(300)]
    for row in rows:
        one = Rectangles.of([row])
        answers = [int(exact.euler.answers(one)[0]) for exact in walks]
        assert max(0, *answers) - min(0, *answers) <= reach(setting_of(4, 4, one))


def input_of(columns=8, rows=8, count=60):
    generator = np.random.default_rng(1)
    return exact_of([walk(generator, columns, rows, 20) for _ in range(count)], columns, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_what_they_publish_is_consistent_and_gives_the_number_of_trips_away(kind):
    published = kind(epsilon=1.0, setting=setting_of(8, 8), rounds=(2, 3))
    out = published(input_of(), SeededNoise(5))
    parts = out.euler.faces, out.euler.east, out.euler.north
    assert violations(*parts)[0] == 0
    assert sum(part.sum() for part in parts) == pytest.approx(60)


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_number_of_rounds_is_picked_on_the_truth(kind):
    """With one choice nothing is picked; with more, the error on the given rectangles is the least."""
    setting, exact = setting_of(8, 8), input_of()
    truth = exact.euler.answers(setting.given)
    published = kind(epsilon=0.5, setting=setting, rounds=(1, 2, 4))

    def error(model):
        return np.abs(model.answers(setting.given) - truth).mean()

    learn = published.learner(exact, SeededNoise(7))
    errors = [error(learn(rounds)) for rounds in (1, 2, 4)]
    assert error(published(exact, SeededNoise(7)).euler) == pytest.approx(min(errors))


def test_the_start_is_negative_and_the_partition_splits_where_costs_are_high():
    model = equal_model(input_of())
    assert (
        len(np.unique(np.concatenate([part.ravel() for part in (model.faces, model.east, model.north)]))) == 1
    )
    assert model.whole() < 0
    exact = input_of(count=400)
    fine = PublishedDqam(epsilon=400.0, setting=setting_of(8, 8)).partition(exact, SeededNoise(1))
    coarse = PublishedDqam(epsilon=0.01, setting=setting_of(8, 8)).partition(exact, SeededNoise(1))
    assert fine.max() + 1 > 10
    assert coarse.max() == 0


def test_true_guarantees_are_none_and_larger_than_claimed():
    setting = trip_setting()  # 8 x 8: the whole grid is among the rectangles, reach 49
    prish = PublishedPrish(epsilon=0.5, setting=setting)
    dqam = PublishedDqam(epsilon=0.5, setting=setting)
    for published in (prish, dqam):
        assert published.true_guarantee().startswith("No guarantee")
        assert f"{published.epsilon_if_fixed():.3g}" in published.true_guarantee()
        assert not hasattr(published, "loss")
    assert prish.epsilon_if_fixed() == 0.5 * 49
    assert dqam.epsilon_if_fixed() == pytest.approx(0.125 * (2 * 5 + 1 + 2 * 49))
    assert replace(prish, epsilon=1.0).epsilon_if_fixed() == 49.0
