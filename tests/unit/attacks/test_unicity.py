"""Unicity against brute force."""

import itertools
import time

import numpy as np
import pytest

from shoal.attacks.models.unicity import coarser, square_groups, unicity
from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError


def some_visits(users, visits, slots, places, seed):
    generator = np.random.default_rng(seed)
    columns = (generator.integers(0, most, visits) for most in (users, slots, places))
    return KnownVisits.of(*columns, users=users, slots=slots, places=places)


def points_of(visits):
    people = [set() for _ in range(visits.users)]
    for user, slot, place in zip(visits.user, visits.slot, visits.place, strict=True):
        people[user].add((int(slot), int(place)))
    return people


def exact_share(visits, p):
    """Probability that p points of a person, drawn uniformly, are nobody else's; mean over people."""
    people = points_of(visits)
    shares = [
        np.mean(
            [sum(set(known) <= other for other in people) == 1 for known in itertools.combinations(mine, p)]
        )
        for mine in people
        if len(mine) >= p
    ]
    return np.mean(shares), len(shares)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_shares_agree_with_all_subsets(p):
    visits = some_visits(30, 240, {1: 60, 2: 6, 3: 6}[p], 5, seed=p)
    expected, people = exact_share(visits, p)
    found = [unicity(visits, (p,), seed=seed)[0] for seed in range(200)]
    assert {each.people for each in found} == {people}
    assert np.mean([each.share for each in found]) == pytest.approx(expected, abs=0.03)
    assert 0.02 < expected < 0.98  # else the test says little


def test_all_points_need_no_draw():
    """Where p is all a person has, the answer is certain."""
    visits = KnownVisits.of([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 2], [0] * 6, users=3, slots=3, places=1)
    found = unicity(visits, (2, 3))
    assert [(each.people, each.unique) for each in found] == [(3, 1), (0, 0)]
    assert found[1].share is None


def test_coarser_points_are_those_of_the_groups():
    visits = some_visits(20, 150, 8, 6, seed=4)
    groups = np.array([0, 0, 1, 1, 2, 2])
    expected = [{(slot // 4, int(groups[place])) for slot, place in mine} for mine in points_of(visits)]
    assert points_of(coarser(visits, place_group=groups, slots_merged=4)) == expected
    xy = np.array([[0, 0], [900, 0], [1100, 0], [0, 1500]])
    group = square_groups(xy, 1000)
    assert group[0] == group[1]
    assert len(set(group.tolist())) == 3


def test_more_points_never_make_fewer_unique():
    visits = some_visits(200, 4000, 12, 6, seed=5)
    found = unicity(visits, (1, 2, 3, 4))
    assert len({each.people for each in found}) == 1
    assert [each.unique for each in found] == sorted(each.unique for each in found)


def test_a_hundred_thousand_people_are_quick():
    visits = some_visits(100_000, 1_500_000, 168, 100, seed=6)
    unicity(some_visits(20, 100, 8, 6, seed=4))  # compiled
    start = time.perf_counter()
    found = unicity(visits)
    assert found[-1].share > 0.99
    assert time.perf_counter() - start < 60


def test_bad_resolutions_are_refused():
    visits = some_visits(5, 20, 4, 2, seed=1)
    for call in (
        lambda: unicity(visits, (0,)),
        lambda: coarser(visits, slots_merged=0),
        lambda: coarser(visits, place_group=np.zeros(7, int)),
        lambda: square_groups(np.zeros((2, 2)), 0),
    ):
        with pytest.raises(PlanError, match="unicity"):
            call()
