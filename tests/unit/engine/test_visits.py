"""The density kernel against a slow version in plain Python that shares no code with it.

Bounded visits to cover counts: integer sums over disjoint fragments, and what lies outside.
"""

from collections import Counter, defaultdict

import numpy as np
import pytest
from tests.loops import for_each
from tests.unit.engine.conftest import event_batch as batch
from tests.unit.engine.test_buckets import siphash
from tests.worlds import setting_of, weights_of

from shoal.engine.visits import VisitKernel, bound_holds
from shoal.errors import GuaranteeError
from shoal.space.clock import Clock
from shoal.space.geography import LATTICE
from shoal.stages.bounded import BoundedVisits
from shoal_baselines.counting import cover_counts
from shoal_baselines.space.cover import minimum_cover

KEY = bytes(range(100, 116))
HOUR = 3_600_000_000


def kernel(ell=2, slots=6, sites=5, cap=3, edges=None, key=KEY):
    edges = np.arange(slots + 1, dtype=np.int64) * HOUR if edges is None else edges
    return VisitKernel(edges_us=edges, sites=sites, ell=ell, cap=cap, run_key=key)


def random_rows(seed, users=40, rows=400, slots=6, sites=5, spelled=int):
    rng = np.random.default_rng(seed)
    return [
        (
            spelled(int(rng.integers(users))),
            int(rng.integers(-HOUR, (slots + 1) * HOUR)),
            int(rng.integers(-1, sites)),
        )
        for _ in range(rows)
    ]


def word(number):
    return int(number).to_bytes(8, "little", signed=number < 0)


def keyed(purpose, *words, key=KEY):
    derived = b"".join(
        siphash(key, word(purpose) + word(half) + word(0)).to_bytes(8, "little") for half in (1, 2)
    )
    return siphash(derived, b"".join(words))


def slow_sums(rows, ell, cap, edges, sites):
    """Straight from the docstring of the kernel: sort by keyed hash, take the first ones."""
    slots = len(edges) - 1
    events = defaultdict(set)
    for user, time_us, site in rows:
        if site >= 0 and edges[0] <= time_us < edges[-1]:
            slot = max(t for t in range(slots) if edges[t] <= time_us)
            events[user, slot].add((time_us, site))
    counts, one, uncapped = Counter(), Counter(), Counter()
    users = sorted({user for user, _ in events})
    capped = 0
    for user in users:
        name = word(user) + word(0) * 2 if isinstance(user, int) else user.encode()
        digest = word(keyed(0, name))
        visited = sorted(slot for other, slot in events if other == user)
        site_in = {
            slot: min((keyed(1, digest, word(t), word(s)), t, s) for t, s in events[user, slot])[2]
            for slot in visited
        }
        kept = sorted(visited, key=lambda slot: (keyed(2, digest, word(slot), word(0)), slot))[:ell]
        single = visited[keyed(3, digest, word(0), word(0)) % len(visited)]
        counts.update((site_in[slot], slot) for slot in kept)
        everywhere = {(site, slot) for slot in visited for _, site in events[user, slot]}
        uncapped.update(everywhere)
        one[site_in[single]] += 1
        capped += min(cap, len(everywhere))
    grid = np.zeros((sites, slots), np.int64)
    free = grid.copy()
    for (site, slot), n in counts.items():
        grid[site, slot] = n
    for (site, slot), n in uncapped.items():
        free[site, slot] = n
    return grid, free, np.array([one[s] for s in range(sites)]), len(users), capped


@for_each("seed", range(8))
@for_each("spelled", [int, str])
def test_sums_equal_the_slow_version(seed, spelled):
    rows = random_rows(seed, spelled=spelled)
    edges = np.arange(7, dtype=np.int64) * HOUR
    if seed % 2:
        edges = np.array([0, HOUR, 3 * HOUR, 4 * HOUR, 5 * HOUR, 6 * HOUR], np.int64)  # a longer slot
    sums = kernel(edges=edges)(batch(rows))
    grid, free, one, users, capped = slow_sums(rows, 2, 3, edges.tolist(), 5)
    assert (sums["counts"] == grid).all()
    assert (sums["uncapped"] == free).all()
    assert (sums["one_visit"] == one).all()
    assert (int(sums["users"]), int(sums["visits_capped"])) == (users, capped)


def test_order_does_not_matter_and_another_key_makes_other_choices():
    rows = random_rows(3)
    expected = kernel()(batch(rows))
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    for other in (shuffled, rows + rows[:100]):
        sums = kernel()(batch(other))
        assert all((sums[name] == expected[name]).all() for name in expected)
    rows = random_rows(3)
    first, second = kernel()(batch(rows)), kernel(key=bytes(16))(batch(rows))
    assert (first["counts"] != second["counts"]).any()
    assert (first["uncapped"] == second["uncapped"]).all()  # all visits: no choice in them


def test_nothing_in_the_window_counts_nobody_and_a_site_outside_is_refused():
    for rows in ([], [(1, -5, 0)], [(1, 6 * HOUR, 0)], [(1, 0, -1)]):
        assert all(not values.any() for values in kernel()(batch(rows)).values())
    with pytest.raises(GuaranteeError, match="site-out-of-list"):
        kernel()(batch([(1, 0, 5)]))


GOOD = {"user": [0, 0, 1], "slot": [1, 2, 1], "kept": [1, 1, 1], "one": [0, 1, 1]}
BROKEN = {
    "ell exceeded": {**GOOD, "user": [0, 0, 0], "slot": [1, 2, 3], "one": [0, 1, 0]},
    "slot twice": {**GOOD, "slot": [2, 2, 1]},
    "user comes back": {"user": [0, 1, 0], "slot": [1, 2, 3], "kept": [1, 1, 1], "one": [1, 1, 0]},
    "two single visits": {**GOOD, "one": [1, 1, 1]},
    "no single visit": {**GOOD, "one": [0, 0, 1]},
    "last user without a single visit": {**GOOD, "one": [0, 1, 0]},
}


def holds(case, ell=2):
    kinds = {"user": np.int32, "slot": np.int32, "kept": np.bool_, "one": np.bool_}
    return bound_holds(*(np.array(case[name], kind) for name, kind in kinds.items()), ell)


def test_a_kernel_that_keeps_too_much_is_stopped(monkeypatch):
    assert holds(GOOD)
    choose = VisitKernel.choose
    monkeypatch.setattr(VisitKernel, "choose", lambda self, b, users=None: choose(kernel(ell=3), b))
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        kernel(ell=2)(batch([(1, slot * HOUR, 0) for slot in range(6)]))
    assert "run_key" not in repr(kernel())


@for_each("name", BROKEN)
def test_the_bound_check_refuses(name):
    assert not holds(BROKEN[name])


HALF = LATTICE // 2


def cover_of(matrix):
    clock = Clock(start="2026-03-02T00:00", end="2026-03-02T02:00", time_zone="UTC")
    return minimum_cover(setting_of(weights_of(matrix), clock))


def bounded(counts, one_visit):
    counts, one_visit = np.array(counts, np.int64), np.array(one_visit, np.int64)
    return BoundedVisits(
        counts=counts, one_visit=one_visit, users=int(one_visit.sum()), visits_capped=44, ell=3, cap=9
    )


def test_cells_hold_their_fragments_and_the_rest_is_outside():
    cover = cover_of([[LATTICE, HALF, 0], [0, 0, 0]])  # the second site loses half, the third all
    exact = cover_counts(bounded([[1, 2], [4, 0], [9, 9]], [5, 2, 7]), cover)
    assert (exact.units == [[3 * LATTICE, 2 * LATTICE]]).all()
    assert exact.one_visit.tolist() == [6 * LATTICE]
    assert exact.outside == 8 * LATTICE
    assert (exact.visits, exact.ell, exact.cap, exact.lattice) == (44, 3, 9, LATTICE)
    assert exact.units.dtype == exact.one_visit.dtype == np.int64
    exact = cover_counts(bounded(np.zeros((2, 2)), [0, 0]), cover_of([[5, 0], [0, 5]]))
    assert not exact.units.any()
    assert (exact.one_visit.tolist(), exact.outside) == ([0, 0], 0)


def test_one_visit_moves_the_histogram_by_one_visit_in_all():
    cover = cover_of([[HALF, LATTICE, 7], [100, 0, 0], [3, 0, 0]])
    nobody = cover_counts(bounded(np.zeros((3, 2)), [0, 0, 0]), cover)
    for place in range(3):
        one = np.eye(3, dtype=int)[place]
        somebody = cover_counts(bounded(np.column_stack([one, one * 0]), one), cover)
        assert somebody.one_visit.sum() + somebody.outside == LATTICE
        assert (somebody.one_visit >= nobody.one_visit).all()
        assert somebody.outside >= 0
        assert np.abs(somebody.units - nobody.units).sum() <= LATTICE
