"""Share of true trajectories that was recovered, and people who are singled out by a few known points.

Recovered trajectories carry no names: they are matched to the true ones so that the points they share (the
same place in the same slot) are most in all, by one assignment over everybody. That favours the adversary.

    points_recovered         mean share of slots in which the matched trajectory is at the right place
    trajectories_recovered   share of people with at least MOSTLY of their slots right
    away_recovered           share of right slots among those in which people are not at their main place
    reidentified             share of people for whom, of all recovered trajectories, one alone agrees with
                             most of the known points, and it is the one matched to them

People are at home most of the time, so the first two are high for an adversary who reads one night's counts
and never lets anybody leave (`home_only`). Hold them against that; `away_recovered` says what is beyond it.

Whole people carried from places with too many to places with too few, at least cost.

The solver is POT's network simplex, the one of metrics/density.py; here the flow itself is wanted. With whole
masses its corner solutions are whole, so rounding only removes what doubles add.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit
from scipy.optimize import linear_sum_assignment

from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError
from shoal.metrics.density import import_ot

MOSTLY = 0.7  # our choice: the cited accuracy is a mean share of right points and needs no threshold
MOST_USERS = 30_000  # above, the matrix of shared points needs more than 8 GB


@dataclass(frozen=True, kw_only=True, eq=False)
class RecoveryScore:
    points_recovered: float
    trajectories_recovered: float
    away_recovered: float | None  # None: nobody is ever away
    reidentified: float
    known_points: int
    share_right: np.ndarray = field(repr=False)  # float64 [users]: of each true trajectory
    match: np.ndarray = field(repr=False)  # int64 [users]: the recovered trajectory of each


def score_recovery(true: np.ndarray, recovered: np.ndarray, *, known_points: int = 4) -> RecoveryScore:
    """Both int [users, slots]; known points are drawn at random from a person's true slots.

    >>> true = np.array([[0, 1, 0, 0], [2, 2, 2, 2]])
    >>> score = score_recovery(true, np.array([[2, 2, 2, 2], [0, 2, 0, 0]]), known_points=2)
    >>> score.points_recovered, score.trajectories_recovered, score.away_recovered, score.match.tolist()
    (0.875, 1.0, 0.0, [1, 0])
    """
    true, recovered = np.ascontiguousarray(true, np.int32), np.ascontiguousarray(recovered, np.int32)
    _check(true, recovered, known_points)
    match = match_trajectories(true, recovered)
    right = true == recovered[match]
    share = right.mean(axis=1)
    away = true != main_place(true)[:, None]
    return RecoveryScore(
        points_recovered=float(share.mean()),
        trajectories_recovered=float((share >= MOSTLY).mean()),
        away_recovered=float(right[away].mean()) if away.any() else None,
        reidentified=reidentified(true, recovered, match, known_points),
        known_points=known_points,
        share_right=share,
        match=match,
    )


def match_trajectories(true: np.ndarray, recovered: np.ndarray) -> np.ndarray:
    """int64 [users]: the recovered trajectory of each true one, sharing most points in all."""
    places = int(max(true.max(), recovered.max())) + 1
    shared = np.zeros((len(true), len(recovered)), np.int16)
    for slot in range(true.shape[1]):
        order = np.argsort(recovered[:, slot], kind="stable")
        begin = np.searchsorted(recovered[order, slot], np.arange(places + 1))
        _add_shared(shared, true[:, slot], order, begin)
    return linear_sum_assignment(shared, maximize=True)[1]


@njit(cache=True)
def _add_shared(shared, true_place, order, begin):
    for i in range(len(true_place)):
        for k in range(begin[true_place[i]], begin[true_place[i] + 1]):
            shared[i, order[k]] += 1


def reidentified(true: np.ndarray, recovered: np.ndarray, match: np.ndarray, known_points: int) -> float:
    """Share of people whose matched trajectory alone agrees with most of their known points."""
    rng = np.random.default_rng(0)
    by_slot = np.ascontiguousarray(recovered.T)
    singled_out = 0
    for user, places in enumerate(true):
        slots = rng.choice(true.shape[1], known_points, replace=False)
        agrees = (by_slot[slots] == places[slots][:, None]).sum(axis=0)
        best = np.flatnonzero(agrees == agrees.max())
        singled_out += len(best) == 1 and best[0] == match[user]
    return float(singled_out / len(true))


def home_only(people: np.ndarray, night_slot: int) -> np.ndarray:
    """int32 [users, slots]: everybody stays for good where the counts of one night slot put them."""
    place = np.repeat(np.arange(len(people), dtype=np.int32), people[:, night_slot])
    return np.repeat(place[:, None], people.shape[1], axis=1)


def main_place(true: np.ndarray) -> np.ndarray:
    """int64 [users]: the place with most slots of each; the lowest number among equals."""
    return np.array([np.bincount(places).argmax() for places in true])


def positions_of(visits: KnownVisits) -> np.ndarray:
    """int32 [users, slots]: everybody somewhere in every slot.

    Between visits people stay at the last place seen; before the first visit they are at the first place. Of
    several places in a slot the lowest number counts. People without any visit are left out.

    >>> positions_of(KnownVisits.of([0, 0], [1, 3], [2, 0], users=2, slots=5, places=3)).tolist()
    [[2, 2, 2, 0, 0]]
    """
    places = np.full((visits.users, visits.slots), -1, np.int32)
    key = visits.user.astype(np.int64) * visits.slots + visits.slot
    _, first = np.unique(key, return_index=True)
    places[visits.user[first], visits.slot[first]] = visits.place[first]
    visited = places >= 0
    known = visited.any(axis=1)
    places, visited = places[known], visited[known]
    if not len(places):
        raise PlanError("recovery-nobody", "nobody is seen at any place.", "Check the window and the zones.")
    last = np.maximum.accumulate(np.where(visited, np.arange(visits.slots), -1), axis=1)
    last = np.where(last < 0, visited.argmax(axis=1)[:, None], last)
    return np.take_along_axis(places, last, axis=1)


def _check(true: np.ndarray, recovered: np.ndarray, known_points: int) -> None:
    if true.shape != recovered.shape or true.ndim != 2 or not true.size:
        raise PlanError(
            "recovery-shape",
            f"true and recovered trajectories must be as many and as long; got {list(true.shape)} and "
            f"{list(recovered.shape)}.",
            "Recover as many people as there are.",
        )
    check_users(len(true))
    if not 1 <= known_points <= true.shape[1]:
        raise PlanError(
            "recovery-points",
            f"known points must be from 1 to the {true.shape[1]} slots; got {known_points}.",
            "Pass --known-points 4, say.",
        )


def check_users(users: int) -> None:
    """Scoring compares everybody with everybody: only so many people can be attacked."""
    if users > MOST_USERS:
        raise PlanError(
            "recovery-users",
            f"trajectories of at most {MOST_USERS:,} people are matched; there are more.",
            "Attack a sample of the users, or a smaller area.",
        )


MAX_ITERATIONS = 100_000_000


def carried(supply: np.ndarray, demand: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """int64 [sources, targets]: whole people carried from `supply` to `demand` at least cost, exactly.

    >>> carried(np.array([2, 1]), np.array([1, 2]), np.array([[0.0, 5.0], [5.0, 0.0]])).tolist()
    [[1, 1], [0, 1]]
    """
    if len(demand) == 1:
        return supply[:, None].astype(np.int64)
    if len(supply) == 1:
        return demand[None, :].astype(np.int64)
    plan = import_ot().emd(supply.astype(float), demand.astype(float), cost, numItermax=MAX_ITERATIONS)
    flow = np.rint(np.asarray(plan, dtype=float)).astype(np.int64)
    if (flow.sum(axis=0) != demand).any() or (flow.sum(axis=1) != supply).any():
        raise PlanError(
            "recovery-not-solved",
            "a step from one slot to the next must be solved to the optimum; the solver stopped before.",
            "Check the coordinates of places for values that are not metres; report it if they are.",
        )
    return flow
