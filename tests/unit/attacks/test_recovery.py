"""Recovery against brute force, planted cases and hand counts."""

from itertools import permutations

import numpy as np
import pytest

from shoal.attacks.models.recovery import (
    RecoveryPlan,
    chain_days,
    next_places,
    recover_trajectories,
    whole_people,
)
from shoal.attacks.models.recovery_score import carried, home_only, positions_of, score_recovery
from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError

PUBLISHED = RecoveryPlan(momentum=1.0, power=1.0, homes=False)


def counts_of(positions, places):
    slots = positions.shape[1]
    return np.stack([np.bincount(positions[:, t], minlength=places) for t in range(slots)], axis=1)


def cheapest(now, before, demand, xy, momentum, power):
    """The least cost of all ways to meet the demand, person by person."""
    seats = np.repeat(np.arange(len(xy)), demand)
    predicted = xy[now] + momentum * (xy[now] - xy[before])
    cost = np.linalg.norm(predicted[:, None] - xy[seats][None], axis=2) / 1000
    return min(
        sum(cost[i, seat] ** power for i, seat in enumerate(order)) for order in permutations(range(len(now)))
    )


@pytest.mark.parametrize("seed", range(25))
def test_a_step_costs_as_little_as_brute_force_finds(seed):
    rng = np.random.default_rng(seed)
    places, users = 4, 6
    xy = rng.uniform(0, 5000, (places, 2))
    now, before = rng.integers(0, places, users), rng.integers(0, places, users)
    before = np.where(rng.random(users) < 0.5, now, before)
    demand = np.bincount(rng.integers(0, places, users), minlength=places)
    momentum, power = float(rng.choice([0.0, 0.5, 1.0])), float(rng.choice([0.5, 1.0]))
    plan = RecoveryPlan(momentum=momentum, power=power, homes=False)
    after = next_places(now, before, now, demand, xy, momentum, plan)
    assert np.bincount(after, minlength=places).tolist() == demand.tolist()
    predicted = xy[now] + momentum * (xy[now] - xy[before])
    paid = ((np.linalg.norm(predicted - xy[after], axis=1) / 1000) ** power).sum()
    assert paid == pytest.approx(cheapest(now, before, demand, xy, momentum, power), abs=1e-9)


def test_transport_is_whole_and_cheapest():
    rng = np.random.default_rng(3)
    supply, demand = np.array([2, 1, 2]), np.array([1, 3, 1])
    cost = rng.uniform(0, 9, (3, 3))
    flow = carried(supply, demand, cost)
    assert flow.sum(axis=1).tolist() == [2, 1, 2]
    assert flow.sum(axis=0).tolist() == [1, 3, 1]
    rows, columns = np.repeat(np.arange(3), supply), np.repeat(np.arange(3), demand)
    least = min(sum(cost[rows[i], columns[k]] for i, k in enumerate(p)) for p in permutations(range(5)))
    assert (flow * cost).sum() == pytest.approx(least)


def planted(users=12, days=3):
    """Everybody lives and works apart from all others: home at 100 km steps, work 2 km further."""
    xy = np.array([(100_000.0 * u + 2000.0 * work, 0.0) for u in range(users) for work in (0, 1)])
    day = np.array([0, 0, 0, 1, 1, 1, 0, 0])
    positions = np.stack([2 * u + np.roll(np.tile(day, days), 0) for u in range(users)])
    slots = positions.shape[1]
    setting = {"night": np.tile(day == 0, days), "day_of_slot": np.arange(slots) // len(day)}
    return positions, xy, setting


@pytest.mark.parametrize("plan", [RecoveryPlan(), PUBLISHED], ids=["default", "published"])
def test_people_far_apart_are_recovered_wholly(plan):
    positions, xy, setting = planted()
    found = recover_trajectories(counts_of(positions, len(xy)), xy, users=12, plan=plan, **setting)
    score = score_recovery(positions, found, known_points=3)
    assert (score.points_recovered, score.trajectories_recovered, score.away_recovered) == (1.0, 1.0, 1.0)
    assert score.reidentified == 1.0


def test_people_and_days_by_hand():
    xy = np.array([[0.0, 0.0], [1000.0, 0.0], [1100.0, 0.0]])
    now, home = np.array([1, 1]), np.array([0, 1])
    demand = np.array([1, 0, 1])
    after = next_places(now, now, home, demand, xy, 0.0, RecoveryPlan())
    assert after.tolist() == [0, 2]
    turned = next_places(now, now, home[::-1], demand, xy, 0.0, RecoveryPlan())
    assert turned.tolist() == [2, 0]
    monday = np.array([[0, 5, 5, 0], [0, 6, 6, 0], [1, 1, 1, 1]])
    tuesday = np.array([[0, 6, 6, 0], [0, 5, 5, 0], [2, 2, 2, 2]])  # nobody at 1: who was there is now at 2
    xy = np.array([[i * 1000.0, 0.0] for i in range(7)])
    joined = chain_days([monday, tuesday], xy)
    assert joined[0].tolist() == [0, 5, 5, 0, 0, 5, 5, 0]
    assert joined[1].tolist() == [0, 6, 6, 0, 0, 6, 6, 0]
    assert joined[2].tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    counts = np.array([[0.0, 2.0, -1.0], [0.0, 1.0, 0.4], [0.0, 0.0, 0.4]])
    assert whole_people(counts, 4).tolist() == [[3, 3, 0], [1, 1, 2], [0, 0, 2]]  # the first slot is empty
    raw = np.random.default_rng(0).multinomial(50, [0.2] * 5, 7).T
    assert (whole_people(raw, 50) == raw).all()
    with pytest.raises(PlanError, match="recovery-shape"):
        recover_trajectories(
            np.ones((2, 3)), np.zeros((2, 2)), users=2, night=np.ones(2, bool), day_of_slot=np.zeros(3)
        )


def test_recovered_counts_are_the_counts_given_and_noise_destroys_what_was_planted():
    rng = np.random.default_rng(5)
    positions, xy = rng.integers(0, 6, (40, 16)), rng.uniform(0, 9000, (6, 2))
    counts = counts_of(positions, 6)
    found = recover_trajectories(
        counts, xy, users=40, night=np.arange(16) % 8 < 2, day_of_slot=np.arange(16) // 8
    )
    assert (counts_of(found, 6) == counts).all()
    positions, xy, setting = planted()
    noisy = counts_of(positions, len(xy)) + np.random.default_rng(1).normal(0, 5, (len(xy), 24))
    found = recover_trajectories(noisy, xy, users=12, **setting)
    assert score_recovery(positions, found).points_recovered < 0.4


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        (np.zeros((2, 3)), "recovery-nobody"),
        (np.array([[-1.0, -2.0]]), "recovery-nobody"),
        (np.array([[1.0, np.nan]]), "recovery-counts"),
        (np.zeros(3), "recovery-counts"),
    ],
)
def test_counts_without_anybody_are_refused(counts, code):
    with pytest.raises(PlanError) as caught:
        whole_people(counts, 3)
    assert caught.value.code == code


def test_scoring_by_hand():
    true = np.array([[0, 0, 1, 0], [2, 2, 2, 2], [3, 4, 3, 3]])
    found = np.array([[3, 4, 0, 0], [0, 0, 1, 2], [2, 2, 2, 2]])
    score = score_recovery(true, found, known_points=4)
    assert score.match.tolist() == [1, 2, 0]
    assert score.share_right.tolist() == [0.75, 1.0, 0.5]
    assert score.points_recovered == pytest.approx(0.75)
    assert score.trajectories_recovered == pytest.approx(2 / 3)
    assert score.away_recovered == pytest.approx(1.0)  # slot 2 of the first, slot 1 of the third
    assert score.reidentified == 1.0
    true = np.zeros((2, 4), int)
    score = score_recovery(true, true, known_points=2)
    assert (score.points_recovered, score.reidentified, score.away_recovered) == (1.0, 0.0, None)
    assert home_only(np.array([[1, 0], [1, 2]]), 0).tolist() == [[0, 0], [1, 1]]
    visits = KnownVisits.of([0, 0, 2], [1, 1, 0], [2, 1, 0], users=3, slots=3, places=3)
    assert positions_of(visits).tolist() == [[1, 1, 1], [0, 0, 0]]


@pytest.mark.parametrize("points", [0, 5])
def test_known_points_must_fit_the_slots(points):
    with pytest.raises(PlanError, match="recovery-points"):
        score_recovery(np.zeros((2, 4), int), np.zeros((2, 4), int), known_points=points)
