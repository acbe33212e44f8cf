"""Clipped sums against the plain formula, the bound by brute force, and exact products."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from tests.loops import for_each
from tests.unit.engine.conftest import event_batch as batch

from shoal.engine.clipped import (
    ClippedKernel,
    EngineVisits,
    Measure,
    SizeKernel,
    apply_view,
    clip_holds,
    count_sizes,
)
from shoal.engine.engine import DuckEngine
from shoal.errors import GuaranteeError
from shoal.space.setting import SIZE_BINS
from shoal.stages.exact import STEP, TIME_LATTICE, WEIGHT, View, on_lattice

HOUR = 3_600_000_000
LATTICE = 2**20


def view_of(generator, groups=3, places=5, slots=6, columns=4, clip=1.0):
    space = generator.integers(0, LATTICE // groups, (groups, places))
    space[generator.random((groups, places)) < 0.4] = 0
    time = generator.integers(-TIME_LATTICE, TIME_LATTICE, (slots, columns))
    return View(
        space=scipy.sparse.csr_array(space.astype(np.int64)),
        space_lattice=LATTICE,
        time=time.astype(np.int64),
        clip=clip,
    )


def kernel_of(view, places=5, slots=6, most=100, key=bytes(16)):
    edges = np.arange(slots + 1, dtype=np.int64) * HOUR
    measures = (Measure.of(view, places),)
    return ClippedKernel(edges_us=edges, places=places, measures=measures, most=most, run_key=key)


def summed(rows, view, threads=1, rows_per_batch=1000):
    batches = [batch(rows[i : i + rows_per_batch]) for i in range(0, len(rows), rows_per_batch)]
    edges = np.arange(7, dtype=np.int64) * HOUR
    visits = EngineVisits(
        engine=DuckEngine(threads=threads),
        events=lambda: batches,
        edges_us=edges,
        places=5,
        run_key=bytes(16),
        count_users=lambda: 12,
    )
    return visits.clipped(view)[0]


def rows_of(generator, users=12, places=5, slots=6):
    return [
        (int(u), int(generator.integers(0, slots)) * HOUR + k, int(generator.integers(0, places)))
        for k, u in enumerate(generator.integers(0, users, 120))
    ]


def measured(rows, view):
    """Each user's M x, from the definition."""
    space, time = view.space.toarray() / view.space_lattice, view.time / TIME_LATTICE
    vectors = {}
    for user in {user for user, _, _ in rows}:
        x = np.zeros((space.shape[1], time.shape[0]))
        for site, slot in {(site, t // HOUR) for u, t, site in rows if u == user}:
            x[site, slot] = 1
        vectors[user] = (x, space @ x @ time)
    return vectors


@for_each("seed", range(6))
@for_each("clip", [0.3, 2.0, 50.0])
def test_sums_are_of_clipped_users(seed, clip):
    generator = np.random.default_rng(seed)
    view, rows = view_of(generator, clip=clip), rows_of(generator)
    units = kernel_of(view)(batch(rows))["units0"]
    expected = np.zeros_like(units)
    for x, vector in measured(rows, view).values():
        share = min(1.0, clip / max(np.linalg.norm(vector), 1e-12))
        expected += (np.floor(WEIGHT * share * (1 - 1e-12)) * x).astype(np.int64)
    assert np.abs(units - expected).max() <= 12  # a user's weight may fall by one at a whole number
    assert (units != 0).any()


@for_each("seed", range(6))
def test_one_user_moves_the_sum_by_at_most_the_clip(seed):
    generator = np.random.default_rng(seed)
    view, rows = view_of(generator, clip=0.7), rows_of(generator)
    without = summed(rows, view).values
    heavy = [(99, slot * HOUR, site) for slot in range(6) for site in range(5)]
    for added in (heavy, heavy[:3], [(99, 0, 1)]):
        sums = summed(rows + added, view)
        moved = sums.values - without
        assert np.linalg.norm(moved) <= 0.7 * STEP + np.sqrt(moved.size)
        assert sums.clip == 0.7
    assert np.linalg.norm(summed(heavy, view).values) > (0.69 * STEP)


def test_order_splits_and_lists_of_groups_do_not_matter(monkeypatch):
    generator = np.random.default_rng(4)
    view, rows = view_of(generator), rows_of(generator)
    expected = summed(rows, view).values
    mixed = [rows[i] for i in generator.permutation(len(rows))] + rows[:50]
    assert (summed(mixed, view, threads=2, rows_per_batch=7).values == expected).all()
    generator = np.random.default_rng(3)
    view, rows = view_of(generator), rows_of(generator)
    table = kernel_of(view)(batch(rows))["units0"]
    monkeypatch.setattr("shoal.engine.clipped.DENSE_PLACES", 0)
    lists = kernel_of(view)(batch(rows))["units0"]
    assert np.abs(table - lists).max() <= 12
    assert lists.sum() > 0


def test_at_most_so_many_visits_of_a_user_enter():
    generator = np.random.default_rng(5)
    view = view_of(generator, clip=1e6)
    heavy = [(1, slot * HOUR, site) for slot in range(6) for site in range(5)]
    units = kernel_of(view, most=4)(batch(heavy))["units0"]
    assert units.sum() == 4 * WEIGHT


def test_a_user_above_the_clip_or_with_rows_apart_is_noticed():
    generator = np.random.default_rng(6)
    view = view_of(generator)
    kernel = Measure.of(view, 5)
    lists = kernel.lists
    user, slot, place = np.zeros(6, np.int32), np.arange(6, dtype=np.int32), np.ones(6, np.int32)
    norm = np.linalg.norm(kernel.space.toarray()[:, [1]] @ kernel.time.sum(axis=0)[None])
    fits = np.full(6, int(WEIGHT / max(norm, 1.0)), np.int64)
    assert clip_holds(user, slot, place, fits, *lists, kernel.time, 1.0, 1)
    assert not clip_holds(user, slot, place, fits * 2 + 9, *lists, kernel.time, 1.0, 1)
    view = view_of(np.random.default_rng(1), clip=100.0)
    measure = Measure.of(view, 5)
    slot, place = np.zeros(3, np.int32), np.zeros(3, np.int32)
    weight = np.full(3, WEIGHT)

    def holds(users):
        user = np.array(users, np.int32)
        return clip_holds(user, slot, place, weight, *measure.lists, measure.time, measure.clip, 1)

    assert holds([0, 0, 1])
    assert not holds([0, 1, 0])


def test_products_are_exact_where_floats_are_not():
    generator = np.random.default_rng(7)
    view = view_of(generator)
    units = generator.integers(0, 2**38, (5, 6))
    got = apply_view(units, view)
    space, time = view.space.toarray().astype(object), view.time.astype(object)
    whole = space @ units.astype(object) @ time
    unit = view.space_lattice * WEIGHT * TIME_LATTICE
    for exact, value in zip(whole.ravel(), got.ravel(), strict=True):
        assert abs(Fraction(int(exact) * STEP, unit) - int(value)) <= Fraction(1, 2)


@pytest.mark.parametrize("visits", [200_000, 10**9])
def test_sums_of_any_size_are_exact(visits):
    """Many places in one group and a crowd in one of them: whether it works depends on the view alone."""
    places = 10_000
    space = scipy.sparse.csr_array(np.full((1, places), LATTICE, np.int64))
    view = View(space=space, space_lattice=LATTICE, time=np.array([[TIME_LATTICE, -3]]), clip=1.0)
    units = np.zeros((places, 1), np.int64)
    units[7] = visits * WEIGHT
    units[8] = 5
    total = (visits * WEIGHT + 5) * LATTICE
    unit = LATTICE * WEIGHT * TIME_LATTICE // STEP
    expected = [round(Fraction(total * column, unit)) for column in (TIME_LATTICE, -3)]
    assert apply_view(units, view).tolist() == [expected]


@for_each(
    "wrong",
    [
        {"space": scipy.sparse.csr_array(np.array([[-1, 0]]))},
        {"space": scipy.sparse.csr_array(np.array([[LATTICE, 0], [1, 0]]))},
        {"space": scipy.sparse.csr_array(np.array([[0.5, 0]]))},
        {"space_lattice": 3},
        {"time": np.array([[1.0]])},
        {"clip": 0.0},
        {"clip": float("nan")},
        {"clip": float("inf")},
    ],
)
def test_a_view_that_would_break_the_bound_is_refused(wrong):
    right = {
        "space": scipy.sparse.csr_array(np.array([[LATTICE, 5]])),
        "space_lattice": LATTICE,
        "time": np.array([[1]]),
        "clip": 1.0,
    }
    assert View(**right).shape == (1, 1)
    with pytest.raises(GuaranteeError, match="view-shape"):
        View(**{**right, **wrong})


def test_columns_that_are_not_numbers_are_refused():
    with pytest.raises(GuaranteeError, match="view-shape"):
        on_lattice(np.array([[0.5, np.nan]]))
    assert on_lattice(np.array([[0.5]])).tolist() == [[TIME_LATTICE // 2]]


def test_users_are_counted_only_when_asked_for():
    asked = []

    def count():
        asked.append(1)
        return 12

    view = view_of(np.random.default_rng(2))
    visits = EngineVisits(
        engine=DuckEngine(threads=1),
        events=lambda: [batch([(1, 0, 0)])],
        edges_us=np.arange(7, dtype=np.int64) * HOUR,
        places=5,
        run_key=bytes(16),
        count_users=count,
    )
    visits.clipped(view)
    assert asked == []
    assert visits.users == 12


@for_each("rows_per_batch", [7, 1000])
def test_every_user_is_in_the_bin_of_the_visits_in_the_zones(rows_per_batch):
    generator = np.random.default_rng(8)
    rows = rows_of(generator) + [(99, k % 6 * HOUR, k % 5) for k in range(30)]
    per_visit = np.array([LATTICE, LATTICE // 2, 0, LATTICE, LATTICE // 4])
    batches = [batch(rows[i : i + rows_per_batch]) for i in range(0, len(rows), rows_per_batch)]
    visits = EngineVisits(
        engine=DuckEngine(threads=2),
        events=lambda: batches,
        edges_us=np.arange(7, dtype=np.int64) * HOUR,
        places=5,
        run_key=bytes(16),
        count_users=lambda: 13,
    )
    expected = np.zeros(SIZE_BINS, np.int64)
    for user in {user for user, _, _ in rows}:
        seen = {(site, time // HOUR) for u, time, site in rows if u == user}
        number = max(sum(per_visit[site] for site, _ in seen) // LATTICE, 1)
        expected[int(np.floor(2 * np.log2(number) + 1e-9))] += 1
    np.testing.assert_array_equal(visits.sizes(per_visit, LATTICE), expected)


def test_users_of_any_size_are_in_one_bin_and_the_edges_are_half_octaves():
    numbers = np.array([1, 2, 3, 4, 5, 6, 1447, 1449, 2048, 4095, 4096, 9000])
    user, place = np.repeat(np.arange(numbers.size), numbers), np.zeros(numbers.sum(), np.int32)
    sizes = np.zeros(SIZE_BINS, np.int64)
    count_sizes(user, place, np.array([LATTICE]), LATTICE, sizes)
    assert {k: int(n) for k, n in enumerate(sizes) if n} == {
        0: 1,
        2: 1,
        3: 1,
        4: 2,
        5: 1,
        20: 1,
        21: 1,
        22: 1,
        23: 1,
        24: 2,
    }


def test_a_user_whose_rows_are_apart_is_refused(monkeypatch):
    apart = np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([0, 0, 0], np.int32)
    monkeypatch.setattr("shoal.engine.clipped.thin", lambda *_: apart)
    kernel = SizeKernel(
        edges_us=np.arange(7, dtype=np.int64) * HOUR,
        per_visit=np.array([LATTICE]),
        lattice=LATTICE,
        run_key=bytes(16),
    )
    with pytest.raises(GuaranteeError, match="more than one bin"):
        kernel(batch([(0, 0, 0), (1, 0, 0), (0, HOUR, 0)]))
