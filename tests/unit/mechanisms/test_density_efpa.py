"""EFPAG and EFPA: the loss of worst neighbours by replay, the spends, odd sizes, what they refuse."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from tests.loops import for_each

from shoal.auditing.replay import ArbitraryNoise, RecordingNoise, ReplayNoise, replay, transcript_loss
from shoal.errors import GuaranteeError
from shoal.privacy.accounting import NANO, Budget, compose
from shoal.privacy.noise import OsNoise, SeededNoise
from shoal_baselines.counting import CoverCounts
from shoal_baselines.mechanisms.efpa import DensityEfpa
from shoal_baselines.mechanisms.efpag import DensityEfpag
from shoal_baselines.mechanisms.scheme import candidates, choose_k
from shoal_baselines.space.cover import Cover, example_cover, neighbour_graph

SLOTS, ELL, CAP, CELLS = 8, 3, 5, 6
LATTICE = 2**20
PUBLIC = {"slots": SLOTS, "ell": ELL, "cap": CAP}


def spread_cover():
    """Six cells on a line; place p lies in cells p and p + 1 (and one place in all of them)."""
    matrix = np.zeros((CELLS, CELLS + 1), np.int64)
    for place in range(CELLS):
        matrix[place, place] = LATTICE // 2 + place
        matrix[(place + 1) % CELLS, place] = LATTICE // 2 - 2 * place
    matrix[:, CELLS] = LATTICE // CELLS
    line = example_cover(CELLS)
    return Cover(
        zones=line.zones,
        places=line.places,
        to_cells=scipy.sparse.csr_array(matrix),
        back_units=line.back_units,
        cell_xy_m=line.cell_xy_m,
        neighbours=neighbour_graph(line.cell_xy_m),
        lattice=LATTICE,
    )


def build(kind, epsilon=1.0, cover=None, **changes):
    cover = example_cover(CELLS) if cover is None else cover
    public = {**PUBLIC, **changes}
    if kind == "efpa":
        return DensityEfpa.improved(Budget.pure_epsilon(epsilon), cover, **public)
    return getattr(DensityEfpag, kind)(Budget.approximate(epsilon=epsilon, delta=1e-6), cover, **public)


KINDS = ("improved", "basic", "repaired", "efpa")


def counts(visits, base=None, cover=None):
    """Cover counts of a base city and one user with visits (slot, place), the first of which is "the one"."""
    cover = example_cover(CELLS) if cover is None else cover
    places = cover.to_cells.shape[1]
    here = np.zeros((places, SLOTS), np.int64)
    one = np.zeros(places, np.int64)
    for slot, place in visits:
        here[place, slot] += 1
    if visits:
        one[visits[0][1]] = 1
    if base is not None:
        here, one = here + base[0], one + base[1]
    units, one_units = cover.spread(here), cover.spread(one[:, None])[:, 0]
    return CoverCounts(
        units=units,
        one_visit=one_units,
        outside=int(one.sum()) * LATTICE - int(one_units.sum()),
        units_outside=int(here.sum()) * LATTICE - int(units.sum()),
        visits=(0 if base is None else 4 * int(base[1].sum())) + min(len(visits) + 2, CAP) * bool(visits),
        lattice=LATTICE,
        ell=ELL,
        cap=CAP,
    )


ONE_CELL = [(0, 2), (1, 2), (2, 2)]
SPREAD = [(0, 0), (3, 2), (7, 5)]
LAST = [(5, 6), (6, 6), (7, 6)]  # the place that lies in every cell, where there is one
ONCE = [(4, 1)]
USERS = {"one cell": ONE_CELL, "spread": SPREAD, "once": ONCE}


def busy(seed, places=CELLS):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 40, (places, SLOTS)), rng.integers(0, 50, places)


def run_of(mechanism, exact):
    def run(noise):
        noisy = mechanism(exact, noise)
        return b"".join(
            np.ascontiguousarray(part).tobytes()
            for part in (noisy.totals.visits, noisy.cluster_of, noisy.series, noisy.k, noisy.deviation)
        )

    return run


class FromNoise:
    """Answers of arbitrary size but with every coefficient kept, so that all of the series is looked at."""

    publishable = False

    def __init__(self, totals, kept):
        self.totals, self.kept = totals, kept

    def gaussian(self, name, exact, sigma):
        return np.full(exact.shape, self.totals if name == "totals" else 7, np.int64)

    laplace = gaussian

    def choose(self, name, scores, scale):
        return min(self.kept, scores.size) - 1


SOURCES = {
    **{f"seed {s}": (SeededNoise, s) for s in range(3)},
    **{f"arbitrary {o}": (ArbitraryNoise, o) for o in range(4)},
    "large totals, all kept": (FromNoise, 2**45, 99),
    "large totals, one kept": (FromNoise, 2**45, 1),
    "no totals, all kept": (FromNoise, 0, 99),
    "negative totals": (FromNoise, -(2**45), 4),
}


@for_each("source", SOURCES)
@for_each("user", [*USERS, "everywhere"])
@for_each("kind", KINDS)
def test_no_transcript_costs_more_than_the_claim(kind, user, source):
    cover = spread_cover() if user == "everywhere" else example_cover(CELLS)
    visits = LAST if user == "everywhere" else USERS[user]
    places = cover.to_cells.shape[1]
    for epsilon in (0.2, 60.0):  # few clusters, and many
        mechanism = build(kind, epsilon, cover)
        for base in (None, busy(1, places), busy(2, places)):
            without, having = (run_of(mechanism, counts(v, base, cover)) for v in ([], visits))
            for first, second in ((without, having), (having, without)):
                make, *given = SOURCES[source]
                verdict = replay(first, second, mechanism.loss(), make(*given), bytes(16))
                assert verdict.problems == ()
                assert verdict.raised == ()


def calls_of(mechanism, first, second, source):
    one = RecordingNoise(source, bytes(16))
    mechanism(first, one)
    other = ReplayNoise(one.calls, bytes(16))
    mechanism(second, other)
    return one.calls, other.calls


@for_each("kind", KINDS)
@for_each("user", ["one cell", "spread"])
def test_worst_users_reach_each_spend_and_none_exceeds_it(kind, user):
    """Every named share alone, not only the sum: a share too low could hide behind another."""
    mechanism = build(kind, 60.0)
    first, second = calls_of(mechanism, counts([]), counts(USERS[user]), FromNoise(2**45, 99))
    reached = {}
    for name, spend in mechanism.spends():
        pairs = [(a, b) for a, b in zip(first, second, strict=True) if a.name == name]
        rho, pure = transcript_loss([a for a, _ in pairs], [b for _, b in pairs])
        spent, claim = (pure, spend.pure_epsilon_nano) if kind == "efpa" else (rho, spend.rho_nano)
        assert spent <= Fraction(claim, NANO)
        reached[name] = float(spent * NANO / claim)
    if user == "one cell" or kind in ("improved", "efpa"):
        assert reached["totals"] > 0.999
    if "visits" in reached:
        assert reached["visits"] > 0.999
    assert reached["coefficients"] > (0.3 if kind == "efpa" else 0.999)
    assert reached["select"] > (
        0.1 if kind == "efpa" else 0.15
    )  # the range is at most sqrt(2) d, paid as 2 d


def test_clusters_add_up_in_the_pure_choice():
    """A user spread over clusters moves every choice: charging one run would claim too little."""
    mechanism = build("efpa", 60.0)
    first, second = calls_of(mechanism, counts([]), counts(SPREAD), FromNoise(2**45, 99))
    ranges = [
        np.ptp(b.exact - a.exact) / a.scale
        for a, b in zip(first, second, strict=True)
        if a.name == "select" and (a.exact != b.exact).any()
    ]
    assert len(ranges) == 3
    one_run_only = mechanism.select_scale(1) / mechanism.select_scale(CELLS)
    assert sum(ranges) <= mechanism.select_nano / NANO
    assert sum(ranges) / one_run_only > 0.8 * mechanism.select_nano / NANO  # sqrt(ell) would be at the edge


@for_each("kind", KINDS)
@for_each("epsilon", [0.05, 0.3, 1.0, 8.0])
@for_each(("slots", "ell"), [(168, 30), (168, 500), (1, 1), (24, 24), (1, 30)])
def test_spends_add_up_to_the_loss_and_use_the_budget(kind, epsilon, slots, ell):
    mechanism = build(kind, epsilon, example_cover(50), slots=slots, ell=ell)
    loss = mechanism.loss()
    assert loss == compose(spend for _, spend in mechanism.spends())
    if kind == "efpa":
        assert 0.999_999 * epsilon * NANO < loss.pure_epsilon_nano <= epsilon * NANO
    else:
        left = Budget.approximate(epsilon=epsilon, delta=1e-6).left
        assert left - 40 <= loss.gdp_nano <= left  # of the Gaussian budget, where choices cost more than rho


@pytest.mark.parametrize("kind", ["improved", "basic"])
def test_rounding_to_steps_costs_next_to_nothing(kind):
    mechanism = build(kind, 1.0, example_cover(5000), slots=168, ell=30)
    rho = dict(mechanism.spends())["coefficients"].rho
    ideal = (30 / (2 * rho)) ** 0.5
    assert 1 <= mechanism.coefficients.deviation / (16 * LATTICE) / ideal < 1.001


def test_pure_scales_are_the_formula_and_of_one_bound():
    mechanism = build("efpa", 1.0, example_cover(4), slots=168, ell=30)
    epsilon = mechanism.coefficients_nano / NANO
    steps = 16 * LATTICE
    many, few = np.full(40, 100), np.full(4, 100)
    np.testing.assert_allclose(mechanism.scales(many) / steps, 10 * 30 / epsilon, rtol=1e-3)
    np.testing.assert_allclose(mechanism.scales(few) / steps, 10 * (4 * 30) ** 0.5 / epsilon, rtol=1e-3)
    tiny = np.full(40, 2)
    np.testing.assert_allclose(mechanism.scales(tiny) / steps, 2 * (2 / 168) ** 0.5 * 30 / epsilon, rtol=1e-3)
    mixed = mechanism.scales(np.array([1, 168, 168, 168]))
    assert mixed[0] / mixed[1] == pytest.approx((1 / 168) ** 0.5)  # both by the same bound


ODD = {
    "no cell": (0, 8, 3),
    "one cell": (1, 8, 3),
    "one slot": (4, 1, 1),
    "one of each": (1, 1, 1),
    "ell above slots": (3, 2, 30),
}


@for_each("kind", KINDS)
@for_each("case", ODD)
@for_each("noise", [SeededNoise(1), ArbitraryNoise(0), ArbitraryNoise(1)], ids=["s", "a0", "a1"])
def test_odd_sizes_and_nobody_give_a_valid_answer(kind, case, noise):
    cells, slots, ell = ODD[case]
    mechanism = build(kind, 1.0, example_cover(cells), slots=slots, ell=ell)
    nobody = CoverCounts(
        units=np.zeros((cells, slots), np.int64),
        one_visit=np.zeros(cells, np.int64),
        visits=0,
        lattice=LATTICE,
        ell=ell,
        cap=CAP,
    )
    noisy = mechanism(nobody, noise)
    clusters = len(noisy.k)
    assert noisy.totals.visits.shape == noisy.cluster_of.shape == (cells,)
    assert noisy.series.shape == (clusters, slots)
    assert np.isfinite(noisy.series).all()
    assert np.isfinite(noisy.totals.visits).all()
    assert clusters == (len(set(noisy.cluster_of.tolist())))


@for_each("kind", KINDS)
def test_what_the_noise_was_not_scaled_for_is_refused(kind):
    mechanism, good = build(kind), counts(ONE_CELL)
    wrong = {
        "looser bound": replace(good, ell=ELL + 1),
        "looser cap": replace(good, cap=CAP + 1),
        "other slots": replace(good, units=np.zeros((CELLS, SLOTS + 1), np.int64)),
        "other cells": replace(good, units=np.zeros((CELLS + 1, SLOTS), np.int64)),
        "other lattice": replace(good, lattice=LATTICE // 2),
        "other stage": np.zeros((CELLS, SLOTS), np.int64),
    }
    for exact in wrong.values():
        with pytest.raises(GuaranteeError):
            mechanism(exact, SeededNoise(1))


@for_each("kind", KINDS)
def test_without_much_noise_the_series_come_back(kind):
    mechanism = build(kind, 5e4)
    base = busy(4)
    exact = counts([], (base[0] * 10_000, base[1] * 1000))
    noisy = mechanism(exact, SeededNoise(1))
    assert len(noisy.k) == CELLS
    np.testing.assert_allclose(noisy.series, exact.units / LATTICE, rtol=0.05, atol=2000)


def test_the_operating_system_s_noise_runs_the_whole_of_it():
    noisy = build("improved", 2.0)(counts([], busy(3)), OsNoise())
    assert noisy.series.shape[1] == SLOTS
    noisy = build("efpa", 2.0)(counts([], busy(3)), OsNoise())
    assert np.isfinite(noisy.series).all()


def test_counts_too_large_for_exact_sums_are_refused():
    good = counts(ONE_CELL)
    for kind in KINDS:
        with pytest.raises(GuaranteeError, match="noise-lattice"):
            build(kind)(replace(good, units=np.full((CELLS, SLOTS), 2**50)), SeededNoise(1))


@for_each("slots", [1, 2, 168, 256, 257, 300, 8760])
def test_candidates_start_at_one_and_end_at_all(slots):
    allowed = candidates(slots)
    assert (allowed[0], allowed[-1]) == (1, slots)
    steps = np.diff(allowed)
    assert (steps > 0).all()
    assert (steps <= np.maximum(1, 0.0101 * allowed[1:] + 1)).all()


def test_the_choice_prefers_the_least_error():
    """A series of two Fourier components keeps both under small noise and one under large noise."""
    coefficients = np.zeros((1, 20), np.int64)
    coefficients[0, :2] = 10**9
    for deviation, kept in ((10**6, 2), (10**10, 1)):
        error = np.sqrt(np.arange(1, 21)) * deviation
        assert choose_k(coefficients, error, 1000.0, SeededNoise(1)).tolist() == [kept]
