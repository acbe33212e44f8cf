"""Queries with noise of their own: parts of users by brute force, the noise that is asked for, coverage."""

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each

from shoal.engine.engine import DuckEngine
from shoal.engine.query_sums import QueryKernel, check_sums, user_sums
from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.audit_size import AuditSize
from shoal.mechanisms.query.answers import QueryAnswers
from shoal.postprocess.query.totals import Parts
from shoal.privacy.noise import GAUSSIAN, LAPLACE, OsNoise, SeededNoise
from shoal.space.geography import AreaWeights
from shoal.space.setting import CLIPS, Question, Questions
from shoal.stages.bounded import BoundedVisits
from shoal.stages.exact import UserSums

SIZE = AuditSize(slots=6, ell=2)  # three zones, four sites, one of them shared, one partly outside
WEIGHTS = SIZE.setting.weights
FAMILIES = [GAUSSIAN, LAPLACE]
SETS = [((0,), (0,)), ((0, 1), (0, 1, 2)), ((1,), tuple(range(6))), ((0, 1, 2), tuple(range(6)))]
EDGES = np.arange(7, dtype=np.int64) * 3_600_000_000


def questions(ell=2, sets=SETS, weights=WEIGHTS, slots=6):
    each = [Question(zones=zones, slots=chosen) for zones, chosen in sets]
    return Questions.of(each, weights, slots=slots, ell=ell)


def sums_of(parts, asked):
    """The stage from each user's parts [users, queries] in lattice units."""
    clips = asked.clips
    sizes = np.zeros((asked.count, CLIPS + 1), np.int64)
    sums = np.zeros((asked.count, CLIPS), np.int64)
    for query in range(asked.count):
        mine = parts[:, query][parts[:, query] > 0]
        np.add.at(sizes[query], np.searchsorted(clips[query], mine), 1)
        sums[query] = np.minimum(mine[:, None], clips[query]).sum(axis=0)
    return UserSums(sizes=sizes, sums=sums, clips=clips)


def test_sizes_and_sums_are_those_of_a_brute_force_count():
    chance = np.random.default_rng(4)
    user, site = chance.integers(0, 30, 900), chance.integers(-1, 4, 900).astype(np.int32)
    time = chance.integers(-(10**9), 7 * 3_600_000_000, 900)
    batch = pa.RecordBatch.from_pydict({"user": user, "time_us": time, "site": site})
    asked = questions()
    found = user_sums(
        DuckEngine(threads=1), [batch], QueryKernel(edges_us=EDGES, questions=asked, run_key=bytes(16))
    )
    visits = np.zeros((30, 4, 6), np.int64)
    for u, t, s in zip(user, time, site, strict=True):
        if s >= 0 and 0 <= t < EDGES[-1]:
            visits[u, s, t // 3_600_000_000] = 1
    parts = np.array([asked.values(WEIGHTS.spread(each)) for each in visits])
    expected = sums_of(parts, asked)
    assert (found.sizes == expected.sizes).all()
    assert (found.sums == expected.sums).all()
    assert (parts <= asked.clips[:, -1]).all()


def test_sums_that_no_users_have_are_refused():
    asked, user = questions(), np.array([0, 0, 1])
    one = sums_of(np.full((1, 4), 2**20), asked)
    with pytest.raises(GuaranteeError, match="clip"):
        check_sums({"sizes": one.sizes, "sums": 3 * one.sums + asked.clips}, asked.clips, user)
    with pytest.raises(GuaranteeError, match="class"):
        check_sums({"sizes": 3 * one.sizes, "sums": one.sums}, asked.clips, user)
    with pytest.raises(GuaranteeError, match="class"):
        check_sums({"sizes": one.sizes, "sums": one.sums}, asked.clips, np.array([0, 1, 0]))


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


class Watch(SeededNoise):
    """Notes what is asked for."""

    def __init__(self, seed):
        super().__init__(seed)
        self.asked = []

    def gaussian(self, name, exact, sigma):
        self.asked.append((name, exact.size, sigma))
        return super().gaussian(name, exact, sigma)


def test_noise_has_the_scale_of_the_chosen_clip_and_no_other():
    """Four thousand equal queries: the spread of noisy sizes and answers, accepted, and rejected at 20 %."""
    asked = questions(sets=[SETS[1]] * 4000)
    mechanism, noise = QueryAnswers.within(GAUSSIAN, 10**12, asked), Watch(3)
    made = mechanism(sums_of(np.full((50, 4000), 2**20), asked), noise)
    (sizes, _, counter), *answers = noise.asked
    assert sizes == "sizes"
    assert counter == pytest.approx((2 * (10**12 // 4000 // 6) / 1e9) ** -0.5)
    for (name, count, sigma), clip in zip(answers, dict.fromkeys(made.clip.tolist()), strict=True):
        assert name == "answers"
        assert count == (made.clip == clip).sum()
        assert sigma == pytest.approx(clip * 2**20 * (2 * mechanism.answers / 1e9) ** -0.5)
    drawn = OsNoise().gaussian("answers", np.zeros(4000, np.int64), answers[0][2])
    ratio = float(np.mean(drawn.astype(float) ** 2)) / answers[0][2] ** 2
    assert abs(ratio - 1) < 0.15
    assert ratio / 0.8**2 - 1 > 0.15


POPULATIONS = {
    "taxis": (12, lambda chance: chance.gamma(2.5, 2.2, 535)),
    "check-ins": (168, lambda chance: chance.choice([0] * 7 + [1, 1, 1, 2, 2, 3, 5, 9], 1083)),
    "residents": (168, lambda chance: np.concatenate([chance.poisson(30, 900), chance.poisson(1, 6000)])),
    "one slot": (1, lambda chance: chance.choice([0] * 20 + [1] * 8 + [2], 9000)),
}


@for_each("family", FAMILIES, ids=lambda family: family.name)
@for_each("name", POPULATIONS)
def test_intervals_cover_all_visits(family, name):
    """Forty runs on drawn populations at epsilon 1."""
    slots, draw = POPULATIONS[name]
    asked = questions(
        sets=[(tuple(range(20)), tuple(range(slots)))], weights=AreaWeights.identity(20), slots=168
    )
    amount = 10**9 if family is LAPLACE else 24_000_000
    mechanism, held, widths = QueryAnswers.within(family, amount, asked), [], []
    for seed in range(40):
        parts = np.rint(draw(np.random.default_rng(seed))).astype(np.int64)[:, None]
        made = mechanism(sums_of(parts * 2**20, asked), SeededNoise(seed))
        held.append(made.low[0] <= parts.sum() <= made.high[0])
        widths.append((made.high[0] - made.low[0]) / parts.sum())
    assert np.mean(held) >= 0.85  # 95 % but for a probability below 1e-3
    assert np.median(widths) < 1.0


def test_nobody_is_in_the_interval_of_a_query_about_nobody():
    mechanism = QueryAnswers.within(GAUSSIAN, 24_000_000, questions())
    nobody = sums_of(np.zeros((0, 4), np.int64), questions())
    low = np.array([mechanism(nobody, SeededNoise(seed)).low for seed in range(40)])
    assert (low == 0).mean() > 0.9


def test_a_clip_is_never_below_a_class_that_is_clearly_populated():
    clips = 2.0 ** (np.arange(CLIPS) / 2)
    users = np.zeros(CLIPS + 1)
    users[2], users[17] = 30_000, 300
    parts = Parts.learn(users, sigma=20.0, clips=clips, slots=168)
    assert parts.clip(noise_per_clip=10.0) >= 17


def test_every_query_pays_the_same_share():
    asked = questions()
    mechanism = QueryAnswers.within(GAUSSIAN, 4_000_000, asked)
    assert [loss.rho_nano for _, loss in mechanism.spends()] == [4 * 166_666, 4 * 833_334]
    assert mechanism.loss().rho_nano == 4_000_000
    for clip in asked.clips.ravel().tolist():
        assert 0.999 * mechanism.answers <= mechanism.adder(clip).amount(clip) <= mechanism.answers
    assert QueryAnswers.within(LAPLACE, 10**9, asked).loss().pure_epsilon_nano == 10**9


@for_each("family", FAMILIES, ids=lambda family: family.name)
def test_sums_under_other_clips_are_refused(family):
    asked = questions()
    looser = UserSums(**{**vars(sums_of(np.zeros((0, 4), np.int64), asked)), "clips": 2 * asked.clips})
    with pytest.raises(GuaranteeError, match="sensitivity"):
        QueryAnswers.within(family, 10**9, asked)(looser, SeededNoise(1))


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


def test_the_check_of_the_sums_does_not_overflow_at_any_size():
    """Three thousand million users with a visit each: their number times the largest clip passes 2^63."""
    many, clips = 3 * 10**9, np.full((1, CLIPS), 2**32)
    sums = {"sizes": np.zeros((1, CLIPS + 1), np.int64), "sums": np.full(clips.shape, many)}
    sums["sizes"][:, 0] = many

    class Known(DuckEngine):
        def sum_users(self, *_):
            return sums

    class Kernel:
        questions = type("Asked", (), {"clips": clips})

    assert user_sums(Known(), (), Kernel()).sizes[0, 0] == many  # pyright: ignore[reportArgumentType]
    sums["sums"] = clips * 3
    sums["sizes"][:, 0] = 2
    with pytest.raises(GuaranteeError):
        user_sums(Known(), (), Kernel())  # pyright: ignore[reportArgumentType]
