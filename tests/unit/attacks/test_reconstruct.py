"""What a log of queries gives away: differences by brute force, reconstruction with and without noise."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from shoal.attacks.models.reconstruct import (
    Query,
    determined_cells,
    find_differences,
    random_bits,
    random_subsets,
    reconstruct,
)
from shoal.attacks.runs.reconstruct import reconstruct_random
from shoal.errors import PlanError
from shoal_baselines.attacks.interval_audit import disclosed_linearly


def test_bits_come_back_from_subsets_unless_answers_are_private():
    run = reconstruct_random(bits=2000, queries=8000, epsilon=None, seed=1)
    assert run["share_recovered"] >= 0.95
    assert run["used"] == "squares"
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


def test_wrong_answers_are_forgiven_and_counts_may_exceed_one():
    queries, bits = random_subsets(40, 300, 5), random_bits(40, 6)
    answers = queries @ bits
    answers[:30] += 25
    assert reconstruct(queries, answers, which="program").share_recovered(bits) == 1
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


def test_the_hospital_example_is_found_and_equal_queries_give_nothing():
    """Survey, 1.1.2: both queries count many, their difference is about John alone."""
    everybody = Query.over(["hospital"], range(24))
    without = Query.over(["hospital"], range(24), ["L1", "L2"])
    other = Query.over(["park"], range(24))
    found = find_differences([other, everybody, without], fewer_than=3)
    assert [(each.plus, each.minus, each.people) for each in found] == [((1,), (2,), {"L1", "L2"})]
    # who was seen at L1 and L2, as the owner can look up: John alone, or many
    john = {"L1": {"John"}, "L2": {"John"}}
    assert find_differences([everybody, without], fewer_than=2) == []
    assert find_differences([everybody, without], fewer_than=2, seen_at=john)[0].size == 1
    crowd = {"L1": set(range(50)), "L2": {"John"}}
    assert find_differences([everybody, without], fewer_than=5, seen_at=crowd) == []
    log = [Query.over("AB", range(4)), Query.over("AB", range(4)), Query.over("A", range(2))]
    assert find_differences(log, fewer_than=3) == []


def test_pairs_and_threes_against_brute_force():
    generator = np.random.default_rng(4)
    for _ in range(20):
        log = [
            Query(cells=frozenset(("z", int(c)) for c in np.flatnonzero(generator.random(7) < 0.5)))
            for _ in range(9)
        ]
        vectors = [np.array([("z", c) in query.cells for c in range(7)], int) for query in log]
        expected = set()
        for a, b in itertools.permutations(range(9), 2):
            left = vectors[a] - vectors[b]
            if left.min() >= 0 and 0 < left.sum() < 3:
                expected.add((tuple(vectors[a]), tuple(vectors[b])))
        found = find_differences(log, fewer_than=3)
        pairs = {
            (tuple(vectors[d.plus[0]]), tuple(vectors[d.minus[0]]))
            for d in found
            if len(d.plus + d.minus) == 2
        }
        assert pairs == expected
        threes = set()
        for a, b, c in itertools.permutations(range(9), 3):
            parts = vectors[b] + vectors[c]
            if b < c and parts.max() == 1 and vectors[b].any() and vectors[c].any():
                for left in (vectors[a] - parts, parts - vectors[a]):
                    if (
                        left.min() >= 0
                        and 0 < left.sum() < 3
                        and len({tuple(vectors[i]) for i in (a, b, c)}) == 3
                    ):
                        threes.add(tuple(left))
        assert {
            tuple(int(("z", c) in d.cells) for c in range(7)) for d in found if len(d.plus + d.minus) == 3
        } == threes
        for each in found:  # what is said is what the queries give
            total = sum(vectors[i] for i in each.plus) - sum(vectors[i] for i in each.minus)
            assert {("z", int(c)) for c in np.flatnonzero(total)} == each.cells
            assert set(total) <= {0, 1}
