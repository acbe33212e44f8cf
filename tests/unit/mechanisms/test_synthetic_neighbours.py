"""Chains, grams, prefixes, grids by speed: what is paid, what is counted, and that every output is valid."""

from collections import Counter

import numpy as np
import pytest
from tests.loops import for_each
from tests.worlds import exact_paths

from shoal.engine.path_trips import PathQueries
from shoal.errors import GuaranteeError
from shoal.mechanisms.audit_size import path_setting
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cell_paths import DX, DY
from shoal_baselines.mechanisms.synthetic_dpt import SyntheticDpt
from shoal_baselines.mechanisms.synthetic_markov import SyntheticMarkov
from shoal_baselines.mechanisms.synthetic_ngram import SyntheticNgram
from shoal_baselines.mechanisms.synthetic_prefix import SyntheticPrefix

ALL = (SyntheticMarkov, SyntheticNgram, SyntheticPrefix, SyntheticDpt)
SIDE = 4
WAY = {(int(dx), int(dy)): way for way, (dx, dy) in enumerate(zip(DX, DY, strict=True))}
EXACT = 1e5  # an epsilon whose noise is not seen


def random_trips(count, seed, long=8):
    """Lists of (cell, tick, stay) on a 4 x 4 grid, some quick and some slow."""
    rng = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y, tick, trip = *rng.integers(0, SIDE, 2), 0, []
        for _ in range(rng.integers(1, long + 1)):
            stay = int(rng.choice([0, 0, 1, 3]))
            trip.append((int(y) * SIDE + int(x), tick, stay))
            tick += stay + int(rng.choice([1, 1, 1, 2])) - (stay == 0 and rng.random() < 0.2)
            ways = [(x + dx, y + dy) for dx, dy in WAY if 0 <= x + dx < SIDE and 0 <= y + dy < SIDE]
            x, y = ways[rng.integers(len(ways))]
        trips.append(trip)
    return trips


def queries(trips, setting, unit=None):
    """Query interface to trips, each a unit by itself unless `unit` is given."""
    start_us = setting.clock.edges_us[0] + np.arange(len(trips), dtype=np.int64) * 60_000_000
    public = {"step_s": setting.step_s, "cap": setting.cap, "each_trip": setting.each_trip}
    return PathQueries(exact_paths(setting.grid, trips, unit, start_us=start_us, **public))


def told(trip, stays=True):
    """[(cell, symbol)] of a trip, by the definition."""
    said = []
    for i, (cell, _, stay) in enumerate(trip):
        said += [(cell, "stay")] * (stay if stays else 0)
        if i + 1 < len(trip):
            there = trip[i + 1][0]
            said.append((cell, WAY[there % SIDE - cell % SIDE, there // SIDE - cell // SIDE]))
    return [*said, (trip[-1][0], "end")]


def place(symbol):
    return {"stay": 8, "end": 9}.get(symbol, symbol)


def scaled(counters, unit, norm):
    """Sum over units of their counts, each of norm 1."""
    total = Counter()
    for one in set(unit):
        own = Counter()
        for counter, of in zip(counters, unit, strict=True):
            if of == one:
                own.update(counter)
        size = sum(v**norm for v in own.values()) ** (1 / norm)
        for key, value in own.items():
            total[key] += value / size
    return total


class Recorded:
    """Noise that writes answers down, and hands them out again whatever the question's numbers are."""

    publishable = False

    def __init__(self, seed, answers=None):
        self.noise, self.answers, self.given = SeededNoise(seed), [], answers

    def laplace(self, name, exact, scale):
        if self.given is not None:
            known, shape, answer = self.given[len(self.answers)]
            assert (name, exact.shape) == (known, shape)
        else:
            answer = self.noise.laplace(name, exact, scale)
        self.answers.append((name, exact.shape, answer))
        return answer


@for_each("cls", ALL)
@for_each("declared", [None, 50])
def test_shares_add_up_to_a_pure_budget(cls, declared):
    mechanism = cls.within(Budget.of(0.7, None), path_setting(trips=declared))
    assert mechanism.loss().pure_epsilon_nano == 700_000_000
    assert sum(loss.pure_epsilon_nano for _, loss in mechanism.spends()) == 700_000_000
    assert ("trips" in dict(mechanism.spends())) == (declared is None)


@for_each("cls", ALL)
def test_shares_add_up_to_a_budget_in_rho_with_a_question_for_each(cls):
    budget = Budget.of(0.7, 1e-6)
    mechanism = cls.within(budget, path_setting())
    assert mechanism.loss().pure_epsilon_nano is None
    assert sum(loss.rho_nano for _, loss in mechanism.spends()) == mechanism.loss().rho_nano == budget.left
    setting = path_setting(each_trip=True)
    mechanism, noise = cls.within(Budget.of(2.0, None), setting), Recorded(1)
    mechanism(queries(random_trips(40, 1), setting), noise)
    assert [name for name, _, _ in noise.answers] == [name for name, _ in mechanism.spends()]


@for_each(("delta", "norm"), [(None, 1), (1e-6, 2)])
@for_each("each_trip", [True, False])
def test_a_chain_without_noise_is_what_is_counted(delta, norm, each_trip):
    setting = path_setting(each_trip=each_trip)
    trips = random_trips(60, 2)
    unit = np.arange(60) if each_trip else np.arange(60) // 7
    model = SyntheticMarkov.within(Budget.of(EXACT, delta), setting)(
        queries(trips, setting, unit), SeededNoise(1)
    )
    expected = np.zeros((SIDE**2, 10))
    for (cell, symbol), value in scaled([Counter(told(trip)) for trip in trips], unit, norm).items():
        expected[cell, place(symbol)] = value
    assert model.levels[0].values.reshape(-1, 10) == pytest.approx(expected, abs=0.005 * norm**2)
    begin = scaled([Counter([trip[0][0]]) for trip in trips], unit, norm)
    assert model.starts.values == pytest.approx([begin[c] for c in range(SIDE**2)], abs=0.005 * norm**2)
    assert model.trips == 60


def test_grams_without_noise_are_what_is_counted():
    setting = path_setting(each_trip=True)
    trips = random_trips(60, 3)
    model = SyntheticNgram.within(Budget.of(EXACT, None), setting)(queries(trips, setting), SeededNoise(1))
    names = context_names(model.trie)
    for level in (1, 2, 3):
        counters = []
        for trip in trips:
            said = told(trip)
            grams = [tuple(place(s) for _, s in said[i : i + level]) for i in range(len(said) - level + 1)]
            counters.append(Counter((said[i][0], *gram) for i, gram in enumerate(grams)))
        expected = scaled(counters, range(60), 1)
        low = model.trie.level_first[level - 1]
        noisy = model.levels[level - 1].values.reshape(-1, 10)
        found = {(*names[low + i], s): v for (i, s), v in np.ndenumerate(noisy)}
        assert set(expected) <= set(found)  # every gram that is there passed, as there is no noise
        assert all(found[key] == pytest.approx(expected[key], abs=0.005) for key in found)


def test_prefixes_without_noise_are_what_is_counted():
    setting = path_setting(each_trip=True)
    trips = random_trips(60, 4)
    model = SyntheticPrefix.within(Budget.of(EXACT, None), setting)(queries(trips, setting), SeededNoise(1))
    names, expected = context_names(model.trie), Counter()
    for trip in trips:
        said = [(cell, place(s)) for cell, s in told(trip, stays=False)]
        expected.update((said[0][0], *(s for _, s in said[: i + 1])) for i in range(len(said)))
    starts, counts = model.consistent()
    found = {(*names[i], s): v for (i, s), v in np.ndenumerate(counts)}
    assert set(expected) <= set(found)
    assert all(found[key] == pytest.approx(expected[key], abs=0.005) for key in found)
    assert starts.sum() == pytest.approx(60)


def context_names(trie):
    """(state, symbols ...) of every node."""
    names = {i: (i,) for i in range(trie.steps.states)}
    for node in range(trie.nodes):
        for symbol, longer in enumerate(trie.child[node]):
            if longer >= 0:
                names[int(longer)] = (*names[node], symbol)
    return names


@for_each("cls", [*ALL, SyntheticBridges])
def test_seeds_of_any_size_draw_trips(cls):
    """One after the other in one process: the run's seed is any 64 bits."""
    setting = path_setting(each_trip=True)
    model = cls.within(Budget.of(8.0, None), setting)(queries(random_trips(50, 5), setting), SeededNoise(1))
    for seed in (7, 2**64 - 1, 2**63):
        assert model.generate(20, seed).count == 20


@for_each("cls", ALL)
def test_the_same_answers_make_the_same_model_of_any_trips(cls):
    """All that is asked, and all that is made of it, follows from noisy answers."""
    setting = path_setting(each_trip=True)
    mechanism = cls.within(Budget.of(8.0, None), setting)
    trips = random_trips(200, 5)
    noise = Recorded(1)
    model = mechanism(queries(trips, setting), noise)
    assert model.trie.nodes > model.trie.steps.states or cls is SyntheticMarkov  # something was made longer
    for others in (trips[1:], [*trips, [(15, 0, 9)]], random_trips(3, 6), []):
        again = mechanism(queries(others, setting), Recorded(1, noise.answers))
        numbers = again.numbers()
        assert all(np.array_equal(value, numbers[name]) for name, value in model.numbers().items())
        drawn, redrawn = model.generate(50, 3), again.generate(50, 3)
        assert np.array_equal(drawn.cells, redrawn.cells)


@for_each("cls", ALL)
@for_each("delta", [None, 1e-6])
@for_each(("count", "epsilon"), [(0, 1.0), (0, 0.001), (100, 0.001), (100, 1.0), (100, 1e4)])
def test_every_output_is_valid(cls, delta, count, epsilon):
    setting = path_setting(each_trip=True)
    model = cls.within(Budget.of(epsilon, delta), setting)(
        queries(random_trips(count, 7), setting), SeededNoise(2)
    )
    paths = model.generate(500, 11)
    assert paths.count == 500
    assert model.trips >= 1
    assert paths.cells.min() >= 0
    assert paths.cells.max() < SIDE**2
    assert (np.diff(paths.first) >= 1).all()
    assert (paths.directions >= 0).all()  # every move goes to a cell that touches
    assert (paths.tick[paths.first[:-1]] == 0).all()
    assert (paths.stay >= 0).all()
    at = paths.move_at
    assert (paths.tick[at + 1] - paths.tick[at] - paths.stay[at] >= 0).all()
    edges = setting.clock.edges_us
    assert edges[0] <= paths.start_us.min() <= paths.start_us.max() < edges[-1]


@for_each("cls", ALL)
@for_each("seed", range(5))
def test_trips_come_to_an_end_whatever_the_noise_is(cls, seed):
    setting = path_setting(each_trip=True, cells=20)
    paths = cls.within(Budget.of(0.1, None), setting)(queries([], setting), SeededNoise(seed)).generate(
        300, 1
    )
    assert paths.moves.mean() < 60
    assert paths.total_stay.mean() < 60


@for_each("cls", ALL)
def test_trips_follow_from_the_seed_and_none_from_their_number(cls):
    setting = path_setting(each_trip=True)
    model = cls.within(Budget.of(4.0, None), setting)(queries(random_trips(100, 8), setting), SeededNoise(2))
    one, more, other = model.generate(40, 1), model.generate(90, 1), model.generate(40, 2)
    end = int(one.first[-1])
    assert np.array_equal(one.cells, more.cells[:end])
    assert np.array_equal(one.tick, more.tick[:end])
    assert np.array_equal(one.start_us, more.start_us[:40])
    assert not np.array_equal(one.first, other.first)
    assert model.generate(0, 1).count == 0


@for_each("cls", ALL)
def test_trips_that_are_not_bounded_as_paid_for_are_refused(cls):
    users, each = path_setting(), path_setting(each_trip=True)
    trips = random_trips(5, 9)
    mechanism = cls.within(Budget.of(1.0, None), users)
    with pytest.raises(GuaranteeError):
        mechanism(queries(trips, each), SeededNoise(1))  # a trip is not a user
    with pytest.raises(GuaranteeError):
        mechanism(queries(trips, path_setting(cap=3)), SeededNoise(1))
    with pytest.raises(GuaranteeError):
        mechanism(queries(trips, path_setting(cells=5)), SeededNoise(1))
    mechanism(queries(trips, users), SeededNoise(1))
