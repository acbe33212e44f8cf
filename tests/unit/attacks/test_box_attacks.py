"""Attacks on boxes by hand and one by one.
Unicity against brute force.
"""

import itertools

import numpy as np
import pytest

from shoal.attacks.models.box_attacks import Known, attack_points, attack_window
from shoal.attacks.models.unicity import coarser, square_groups, unicity
from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError


def known(samples, boxes, users):
    """From rows (user, t, x, y) and (record, t0, t1, x0, x1, y0, y1)."""
    columns = [list(column) for column in zip(*samples, strict=True)]
    released = [list(column) for column in zip(*boxes, strict=True)] if boxes else [[]] * 7
    return Known.of(*columns, *released, users=users)


def shares(found):
    return [(each.people, each.unique, each.linked) for each in found]


def as_raw(samples):
    return [(u, t, t, x, x, y, y) for u, t, x, y in samples]


def test_raw_records_are_distinguished_by_what_they_do_not_share():
    """Users 0 and 1 share one of two points, user 2 has one of its own: one point may, two points must."""
    samples = [(0, 5, 1, 1), (0, 9, 2, 2), (1, 5, 1, 1), (1, 9, 3, 3), (2, 7, 1, 1)]
    told = known(samples, as_raw(samples), 3)
    one, two = attack_points(told, (1, 2))
    assert (two.people, two.unique, two.linked) == (2, 2, 2)
    assert one.people == 3
    drawn = {attack_points(told, (1,), seed=seed)[0].unique for seed in range(30)}
    assert drawn == {1, 2, 3}  # user 2 always, the others where the draw is their own point
    assert two.linked_share == 1


def test_twins_are_never_unique_and_suppressed_points_link_nobody():
    samples = [(u, t, 4, 4) for u in (0, 1) for t in (3, 8, 20, 40)]
    assert [each.unique for each in attack_points(known(samples, as_raw(samples), 2))] == [0] * 4
    samples = [(0, 5, 1, 1), (1, 50, 9, 9)]
    suppressed = known(samples, [(1, 50, 50, 9, 9, 9, 9)], 2)
    assert shares(attack_points(suppressed, (1,))) == [(2, 1, 1)]
    misleading = known(samples, [(1, 0, 60, 0, 9, 0, 9)], 2)
    assert shares(attack_points(misleading, (1,))) == [(2, 2, 1)]  # user 0's point fits record 1 alone
    samples = [(0, 5, 1, 1), (1, 7, 3, 3)]
    told = known(samples, as_raw(samples), 2)
    assert shares(attack_points(told, (1,))) == [(2, 2, 2)]
    assert shares(attack_points(told, (1,), block_steps=10, block_cells=5)) == [(2, 0, 0)]
    assert shares(attack_points(told, (1,), block_steps=10, block_cells=2)) == [(2, 2, 2)]
    assert shares(attack_points(told, (1,), block_steps=6, block_cells=5)) == [(2, 2, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_points_one_by_one(seed):
    """With one sample per user there is nothing to draw, so all candidates can be counted by hand."""
    rng = np.random.default_rng(seed)
    users = 12
    samples = [(u, *map(int, rng.integers(0, 12, 3))) for u in range(users)]
    boxes = []
    for record in range(users):
        edges = np.sort(rng.choice(14, 6, replace=False)).reshape(3, 2)
        for t0, t1 in edges.tolist():
            (x0, y0), (dx, dy) = rng.integers(0, 8, 2).tolist(), rng.integers(0, 8, 2).tolist()
            boxes.append((record, t0, t1, x0, x0 + dx, y0, y0 + dy))
    for steps, cells in ((1, 1), (4, 3)):
        unique = linked = 0
        for user, t, x, y in samples:
            t, x, y = t // steps * steps, x // cells * cells, y // cells * cells
            fits = {
                b[0]
                for b in boxes
                if b[1] < t + steps
                and t <= b[2]
                and b[3] < x + cells
                and x <= b[4]
                and b[5] < y + cells
                and y <= b[6]
            }
            unique += len(fits) == 1
            linked += fits == {user}
        found = attack_points(known(samples, boxes, users), (1,), block_steps=steps, block_cells=cells)
        assert shares(found) == [(users, unique, linked)]


def test_a_window_on_raw_records_gives_all_away():
    samples = [(u, t, 10 * u, t) for u in range(4) for t in (0, 50, 100)]
    told = attack_window(known(samples, as_raw(samples), 4), 10, small_steps=1, small_cells=2)
    assert (told.people, told.right, told.learned, told.pinned) == (4, 1, 1, 1)
    assert 0 <= told.by_chance <= 1
    larger = attack_window(known(samples, as_raw(samples), 4), 10, small_steps=1, small_cells=1)
    assert (larger.learned, larger.pinned) == (1, 0)


def outcomes(told):
    found = [attack_window(told, 4, small_steps=9, small_cells=9, seed=seed) for seed in range(40)]
    return {(each.right, each.learned) for each in found}


def test_a_window_prefers_smaller_boxes_and_records_that_hold_more():
    """At step 5 another record fits more tightly than the own one, and the pick goes wrong."""
    samples = [(0, 5, 1, 1), (0, 50, 7, 7)]
    own = [(0, 0, 20, 0, 9, 0, 9), (0, 50, 50, 7, 7, 7, 7)]
    other = [(1, 5, 6, 1, 1, 1, 1), (1, 50, 50, 0, 0, 0, 0)]
    assert outcomes(known(samples, own + other, 2)) == {(0, 0), (1, 1)}
    # Two cells in step 5: the tight box of the other record holds one of them, the own one both.
    samples = [(0, 5, 1, 1), (0, 5, 3, 3), (0, 50, 7, 7)]
    own = [(0, 0, 20, 0, 9, 0, 9), (0, 50, 50, 7, 7, 7, 7)]
    assert outcomes(known(samples, [*own, (1, 5, 5, 1, 1, 1, 1)], 2)) == {(1, 1)}


def test_equal_records_are_picked_at_random_and_nothing_held_is_nothing_learned():
    samples = [(u, t, 1, 1) for u in range(3) for t in (0, 40, 80)]
    told = known(samples, as_raw(samples), 3)
    rights = [attack_window(told, 5, small_steps=9, small_cells=9, seed=s).right for s in range(200)]
    assert 0.25 < np.mean(rights) < 0.42
    assert attack_window(told, 5, small_steps=9, small_cells=9).learned == 1  # and learned all the same
    samples = [(0, 5, 1, 1), (0, 50, 7, 7), (1, 5, 2, 2)]
    told = attack_window(known(samples, [], 2), 10, small_steps=9, small_cells=9)
    assert (told.people, told.right, told.learned, told.by_chance) == (1, 0, 0, 0)


def test_targets_are_a_seeded_sample_and_bad_settings_refused():
    samples = [(u, u, 1, 1) for u in range(30)]
    told = known(samples, as_raw(samples), 30)
    assert attack_points(told, (1,), targets=10)[0].people == 10
    assert attack_points(told, (1,), targets=99)[0].people == 30
    told = known([(0, 1, 1, 1)], [], 1)
    for call in (
        lambda: attack_points(told, (0,)),
        lambda: attack_points(told, (1,), block_cells=0),
        lambda: attack_window(told, 0, small_steps=1, small_cells=1),
        lambda: known([(3, 1, 1, 1)], [], 1),
    ):
        with pytest.raises(PlanError):
            call()


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


def test_all_points_need_no_draw_and_more_never_make_fewer_unique():
    """Where p is all a person has, the answer is certain."""
    visits = KnownVisits.of([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 2], [0] * 6, users=3, slots=3, places=1)
    found = unicity(visits, (2, 3))
    assert [(each.people, each.unique) for each in found] == [(3, 1), (0, 0)]
    assert found[1].share is None
    visits = some_visits(200, 4000, 12, 6, seed=5)
    found = unicity(visits, (1, 2, 3, 4))
    assert len({each.people for each in found}) == 1
    assert [each.unique for each in found] == sorted(each.unique for each in found)


def test_coarser_points_are_those_of_the_groups():
    visits = some_visits(20, 150, 8, 6, seed=4)
    groups = np.array([0, 0, 1, 1, 2, 2])
    expected = [{(slot // 4, int(groups[place])) for slot, place in mine} for mine in points_of(visits)]
    assert points_of(coarser(visits, place_group=groups, slots_merged=4)) == expected
    xy = np.array([[0, 0], [900, 0], [1100, 0], [0, 1500]])
    group = square_groups(xy, 1000)
    assert group[0] == group[1]
    assert len(set(group.tolist())) == 3


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
