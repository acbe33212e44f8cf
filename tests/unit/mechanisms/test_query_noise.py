"""Queries with noise of their own: sums, sensitivities by brute force, the noise that is asked for."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.audit_size import AuditSize
from shoal.mechanisms.query.answers import QueryAnswers
from shoal.privacy.noise import GAUSSIAN, LAPLACE, OsNoise, SeededNoise
from shoal.space.setting import Question, Questions
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import ExactCounts

SIZE = AuditSize(slots=6, ell=2)  # three zones, four sites, one of them shared, one partly outside
WEIGHTS = SIZE.setting.weights
FAMILIES = [GAUSSIAN, LAPLACE]
SETS = [((0,), (0,)), ((0, 1), (0, 1, 2)), ((1,), tuple(range(6))), ((0, 1, 2), tuple(range(6)))]


def questions(ell=2, sets=SETS):
    each = [Question(zones=zones, slots=slots) for zones, slots in sets]
    return Questions.of(each, WEIGHTS, slots=6, ell=ell)


def table(units=None, **changes):
    given = {
        "units": np.zeros((3, 6), np.int64) if units is None else units,
        "lattice": WEIGHTS.lattice,
        "ell": 2,
        "column_l1": WEIGHTS.column_l1,
        "column_l2_squared": WEIGHTS.column_l2_squared,
    }
    return ExactCounts(**{**given, **changes})


def test_values_are_plain_sums_and_a_visit_counts_once_per_slot():
    units = np.random.default_rng(1).integers(0, 10**9, (3, 6))
    for value, (zones, slots) in zip(questions().values(units), SETS, strict=True):
        assert value == sum(int(units[zone, slot]) for zone in zones for slot in slots)
    asked = Questions.of(
        [Question(zones=(0,), slots=(3,)), Question(zones=(0,), slots=tuple(range(6)))],
        WEIGHTS,
        slots=6,
        ell=4,
    )
    assert [each / WEIGHTS.lattice for each in asked.sensitivity] == [1.0, 4.0]


@for_each("ell", [1, 2, 5, 9])
def test_no_user_changes_an_answer_by_more_than_its_sensitivity(ell):
    """Brute force over users with at most ell visits, one per slot; the bound is reached."""
    asked = questions(ell)
    chance = np.random.default_rng(ell)
    most = np.zeros(len(SETS), np.int64)
    for _ in range(3000):
        visits = np.zeros((4, 6), np.int64)
        slots = chance.permutation(6)[: chance.integers(0, min(ell, 6) + 1)]
        visits[chance.integers(0, 4, slots.size), slots] = 1
        most = np.maximum(most, asked.values(WEIGHTS.spread(visits)))
    for site in range(4):  # and those who stay at one site in the first slots
        visits = np.zeros((4, 6), np.int64)
        visits[site, : min(ell, 6)] = 1
        most = np.maximum(most, asked.values(WEIGHTS.spread(visits)))
    assert most.tolist() == list(asked.sensitivity)


@pytest.mark.parametrize(("zones", "slots"), [((), (0,)), ((0,), ())])
def test_empty_sets_are_refused(zones, slots):
    with pytest.raises(PlanError, match="query-empty"):
        Question(zones=zones, slots=slots)


@pytest.mark.parametrize(("zones", "slots"), [((3,), (0,)), ((-1,), (0,)), ((0,), (6,))])
def test_sets_outside_the_table_are_refused(zones, slots):
    with pytest.raises(PlanError, match="query-"):
        questions(sets=[(zones, slots)])


def test_noise_has_the_claimed_scale_and_no_other():
    """Four thousand equal questions: one deviation for all, accepted, and rejected at 20 % more or less."""
    asked = questions(sets=[SETS[1]] * 4000)
    for family in FAMILIES:
        mechanism = QueryAnswers.within(family, 10**9, asked)
        noisy = mechanism(table(), OsNoise()).values * WEIGHTS.lattice
        ratio = float(np.mean(noisy**2)) / mechanism.adders[0].deviation ** 2
        allowed = 6 * np.sqrt((2 if family is GAUSSIAN else 5) / 4000)
        assert abs(ratio - 1) < allowed
        assert ratio / 0.8**2 - 1 > allowed
        assert 1 - ratio / 1.2**2 > allowed - 0.05


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_intervals_hold_in_95_of_100_cases(family):
    units = np.random.default_rng(2).integers(0, 50, (3, 6)) * WEIGHTS.lattice
    mechanism = QueryAnswers.within(family, 10**9, questions())
    truth = questions().values(units) / WEIGHTS.lattice
    held = []
    for seed in range(500):
        made = mechanism(table(units), SeededNoise(seed))
        held.append(np.abs(made.values - truth) <= made.half)
    assert 0.93 < np.mean(held) < 0.97


def test_every_question_pays_the_same_share():
    asked = questions()
    mechanism = QueryAnswers.within(GAUSSIAN, 4_000_000, asked)
    costs = [
        adder.cost(delta).rho_nano for adder, delta in zip(mechanism.adders, asked.sensitivity, strict=True)
    ]
    assert costs == [1_000_000] * 4
    assert mechanism.loss().rho_nano == 4_000_000
    pure = QueryAnswers.within(LAPLACE, 10**9, asked).loss()
    assert pure.pure_epsilon_nano == 10**9


@for_each("family", FAMILIES, ids=lambda family: family.name)
@for_each("changes", [{"ell": 3}, {"column_l1": 2**21}, {"column_l2_squared": 2**42}, {"lattice": 2**10}])
def test_a_looser_table_is_refused(family, changes):
    with pytest.raises(GuaranteeError, match="sensitivity"):
        QueryAnswers.within(family, 10**9, questions())(table(**changes), SeededNoise(1))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_wrong_stage_and_too_many_questions_are_refused(family):
    visits = BoundedVisits(
        counts=np.zeros((4, 6), np.int64),
        one_visit=np.zeros(4, np.int64),
        users=0,
        visits_capped=0,
        ell=2,
        cap=2,
    )
    with pytest.raises(GuaranteeError, match="wrong-stage"):
        QueryAnswers.within(family, 10**9, questions())(visits, SeededNoise(1))
    with pytest.raises(PlanError, match="query-many"):
        QueryAnswers.within(family, 3, questions())
