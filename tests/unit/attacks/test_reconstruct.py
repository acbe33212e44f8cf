"""Reconstruction from counting queries: all of it without noise, near chance from private answers."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from shoal.attacks.models.interval_audit import disclosed_linearly
from shoal.attacks.models.reconstruct import determined_cells, random_bits, random_subsets, reconstruct
from shoal.attacks.runs.reconstruct import reconstruct_random
from shoal.errors import PlanError


def test_2000_bits_from_8000_subsets():
    run = reconstruct_random(bits=2000, queries=8000, epsilon=None, seed=1)
    assert run["share_recovered"] >= 0.95
    assert run["used"] == "squares"


def test_private_answers_leave_little_more_than_chance():
    run = reconstruct_random(bits=500, queries=2000, epsilon=1.0, seed=1)
    assert 0.4 < run["share_recovered"] < 0.62
    assert run["share_by_guessing"] == 0.5
    # what the guarantee says of any adversary: e / (1 + e) + delta
    assert run["share_at_most"] == pytest.approx(np.e / (1 + np.e), abs=1e-4)
    weak = reconstruct_random(bits=500, queries=2000, epsilon=100.0, seed=1)
    assert weak["share_recovered"] > 0.9  # the noise is what protects


@pytest.mark.parametrize("which", ["program", "squares"])
def test_both_fits_find_the_data(which):
    queries, bits = random_subsets(60, 240, 3), random_bits(60, 4)
    found = reconstruct(queries, queries @ bits, which=which)
    assert found.used == which
    assert found.share_recovered(bits) == 1
    assert found.residual < 0.01
    sparse = reconstruct(csr_matrix(queries), queries @ bits, which=which)
    assert (sparse.rounded == bits).all()


def test_the_program_forgives_a_few_wrong_answers():
    queries, bits = random_subsets(40, 300, 5), random_bits(40, 6)
    answers = queries @ bits
    answers[:30] += 25
    assert reconstruct(queries, answers, which="program").share_recovered(bits) == 1


def test_fits_stay_in_the_box_and_counts_may_exceed_one():
    counts = np.array([0, 3, 7, 1])
    queries = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 1, 0]])
    assert reconstruct(queries, queries @ counts, most=10).rounded.tolist() == counts.tolist()
    few = reconstruct(queries[:1], np.array([50]), most=10, which="squares")
    assert few.fitted.max() <= 10


def test_determined_cells_against_all_small_systems():
    """A cell is determined iff its unit vector does not raise the rank; rank by floats as the oracle."""
    generator = np.random.default_rng(8)
    some = 0
    for _ in range(60):
        queries = generator.integers(0, 2, (generator.integers(1, 7), 6))
        rank = np.linalg.matrix_rank(queries)
        expected = [np.linalg.matrix_rank(np.vstack([queries, unit])) == rank for unit in np.eye(6)]
        assert determined_cells(queries).tolist() == expected
        some += any(expected)
        same = np.array(list(itertools.product((0, 1), repeat=6)))
        for cell in np.flatnonzero(expected):  # and so every data set with the same answers agrees
            answers = [tuple(row) for row in same @ queries.T]
            assert len(set(answers)) == len({(a, row[cell]) for a, row in zip(answers, same, strict=True)})
    assert some > 10


def test_determined_cells_agree_with_the_interval_auditor():
    generator = np.random.default_rng(9)
    ends = np.sort(generator.integers(0, 151, (90, 2)), axis=1)
    log = [(int(a), int(b)) for a, b in ends if a < b]
    queries = np.array([[a <= cell < b for cell in range(150)] for a, b in log])
    expected = disclosed_linearly(150, log)
    assert 0 < expected.sum() < 150
    assert determined_cells(csr_matrix(queries.astype(float))).tolist() == expected.tolist()


def test_bad_input_is_refused():
    with pytest.raises(PlanError, match="reconstruct-shape"):
        reconstruct(np.eye(3), np.zeros(2))
    with pytest.raises(PlanError, match="reconstruct-values"):
        reconstruct(np.eye(3), np.array([0, np.nan, 1]))
    with pytest.raises(PlanError, match="reconstruct-fit"):
        reconstruct(np.eye(3), np.zeros(3), which="magic")
