"""The learned table: keeps its total, meets answers up to their noise, survives any answer."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.density.numbers import LearnedTable
from shoal.space.geography import AreaWeights
from shoal.space.setting import Question, Questions

ASKED = Questions.of(
    [
        Question(zones=(0,), slots=(0, 1)),
        Question(zones=(0, 1), slots=(1,)),
        Question(zones=(0, 1, 2), slots=(0, 1, 2, 3)),
    ],
    AreaWeights.identity(3),
    slots=4,
    ell=2,
)


def start(total=120.0):
    return LearnedTable.start(ASKED, np.ones((3, 4)), total)


def test_it_starts_at_the_prior_times_the_total():
    assert start().values() == pytest.approx([20.0, 20.0, 120.0])


def test_answers_are_met_and_the_total_kept():
    learned = start().after(0, 60.0, 0.0).after(1, 10.0, 0.0)
    assert learned.values() == pytest.approx([60.0, 10.0, 120.0], rel=0.01)
    assert (learned.table > 0).all()


def test_an_answer_within_its_noise_moves_nothing():
    assert np.array_equal(start().after(0, 24.0, 5.0).table, start().table)


def test_an_answer_beyond_its_noise_moves_to_the_edge_of_it():
    assert start().after(0, 40.0, 5.0).values()[0] == pytest.approx(35.0, rel=1e-6)


def test_cells_alike_to_the_question_stay_alike():
    table = start().after(0, 60.0, 0.0).table
    assert np.unique(table.round(9)).size == 2


@for_each("total", [-50.0, 0.0, 1e-9, 1e18])
@for_each("answer", [-1e18, 0.0, 1e18])
def test_any_answer_leaves_a_table(total, answer):
    learned = start(total)
    for question in range(3):
        learned = learned.after(question, answer, 1.0)
    assert np.isfinite(learned.table).all()
    assert (learned.table >= 0).all()
    assert learned.table.sum() == pytest.approx(learned.total)
