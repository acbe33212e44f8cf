"""Differences of a query log against brute force over all pairs and triples."""

import itertools

import numpy as np

from shoal.attacks.models.reconstruct import Query, find_differences


def test_the_hospital_example_is_found():
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


def test_equal_and_far_queries_give_nothing():
    log = [Query.over("AB", range(4)), Query.over("AB", range(4)), Query.over("A", range(2))]
    assert find_differences(log, fewer_than=3) == []


def test_a_long_log_is_quick():
    log = [Query.over(["A"], range(first, first + 40)) for first in range(3000)]
    log.append(Query.over(["A"], range(10, 49)))
    found = find_differences(log, fewer_than=2)
    assert {(each.plus, each.minus) for each in found} == {((9,), (3000,)), ((10,), (3000,))}
