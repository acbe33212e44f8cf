"""The composition test without data: it agrees with every loss(), and notices shares that do not add up."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.loops import for_each

from shoal.auditing import composition
from shoal.auditing.composition import BOUNDS, LONG_LISTS, LONG_WINDOWS, QUICK, SIZES, WIDEST, composed
from shoal.kinds.ask import MOST_QUERIES
from shoal.kinds.density.plan import MethodOptions
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.mechanisms.histogram import boxes
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.mechanisms.registry import REGISTRY
from shoal.mechanisms.synthetic import bridges as synthetic_bridges
from shoal.privacy.noise import Adder
from shoal.setting import settings_of
from shoal.space.setting import Questions
from shoal_baselines.mechanisms import fpa as fourier_basis

FEW = (2, 55, 163)


def of(name, widths):
    entry = REGISTRY[name]
    return composed(name, 1.0, None if entry.pure else 1e-6, widths)


@for_each("name", REGISTRY)
def test_what_is_asked_is_what_is_claimed(name):
    found = of(name, FEW)
    assert found.problems == ()
    assert found.most <= 1.0
    assert found.sizes >= len(FEW) or name == "clipped-gaussian"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REGISTRY)
def test_what_is_asked_is_what_is_claimed_at_every_size(name):
    assert of(name, SIZES).problems == ()


def test_sizes_and_bounds_are_those_of_plans_and_beyond():
    assert set(range(1, 65)) < set(SIZES)
    assert max(SIZES) == WIDEST == 4096
    assert set(QUICK) < set(SIZES)
    assert {fourier_basis.SLOTS_PAIRED, fourier_basis.SLOTS_PAIRED + 1, 24 * 365} == {*LONG_WINDOWS}
    assert LONG_LISTS == (1001, 10_001, MOST_QUERIES)
    kept, in_total, _ = (set(each) for each in zip(*BOUNDS, strict=True))
    trips = settings_of(HistogramPlan)
    assert trips["trips_per_user"].usual in kept
    assert {trips["trips_cap"].setting.example, settings_of(SyntheticPlan)["trips_cap"].usual} <= in_total
    assert (MethodOptions().ell, MethodOptions().cap) in {bound[:2] for bound in BOUNDS}


@pytest.mark.parametrize(("most", "caught"), [(9, True), (60, True), (100, False)])
def test_noise_for_fewer_trips_than_are_kept_is_noticed(most, caught, monkeypatch):
    within = Adder.within.__func__

    def for_few(cls, family, amount, sensitivity):
        return within(cls, family, amount, min(sensitivity, most))

    monkeypatch.setattr(boxes, "Adder", type("Few", (Adder,), {"within": classmethod(for_few)}))
    assert any("loss above the claim" in each for each in of("histogram-boxes", (2,)).problems) == caught


@pytest.mark.parametrize("name", ["density-gaussian", "histogram-laplace-zcdp"])
def test_noise_that_is_smaller_in_large_arrays_alone_is_noticed(name, monkeypatch):
    true_add = Adder.add

    def add(self, noise, spend, exact):
        smaller = replace(self, scale=self.scale * 0.75) if exact.size >= 200_000 else self
        return true_add(smaller, noise, spend, exact)

    monkeypatch.setattr(Adder, "add", add)
    assert any("loss above the claim" in problem for problem in of(name, (2,)).problems)


@pytest.mark.parametrize("slots", LONG_WINDOWS[:2])
def test_a_window_that_pays_for_one_visit_is_noticed(slots, monkeypatch):
    true = fourier_basis.FourierBasis.l2_squared

    def one_visit(self, visits):
        return true(self, visits) // (min(visits, slots) if self.matrix.shape[1] == slots else 1)

    monkeypatch.setattr(fourier_basis.FourierBasis, "l2_squared", one_visit)
    (problem,) = of("density-fpa", (2,)).problems[:1]
    assert f"{slots} slots: loss above the claim" in problem


def test_queries_that_are_free_beyond_a_number_are_noticed(monkeypatch):
    """The same error in within() and in loss(): what is asked for is summed without either."""
    monkeypatch.setattr(Questions, "count", property(lambda self: min(len(self.each), 1000)))
    problems = of("query-gaussian", (2,)).problems
    assert any("1001 queries: loss above the claim" in problem for problem in problems)


def test_shares_above_one_on_wide_maps_are_noticed(monkeypatch):
    """Levels of places whose shares add up to 1.1 where there are four of them, so beyond 54 cells."""
    shared = synthetic_bridges.SyntheticBridges._shared

    def too_much(self, shares):
        made = shared(self, shares)
        if "starts_3" not in made:
            return made
        more = self._noise(Fraction(1, 5))
        return {**made, "starts_3": more}

    monkeypatch.setattr(synthetic_bridges.SyntheticBridges, "_shared", too_much)
    for width, noticed in ((54, False), (55, True)):
        problems = [
            each for each in of("synthetic-bridges", (width,)).problems if each.startswith(f"{width} x")
        ]
        assert any("loss above the claim" in problem for problem in problems) == noticed


def test_a_reach_of_the_largest_single_weight_is_noticed(monkeypatch):
    made = Questions.of

    def single(each, weights, *, slots, ell):
        right = made(each, weights, slots=slots, ell=ell)
        return replace(right, reach=tuple(reach // 2 for reach in right.reach))  # every site is in two zones

    monkeypatch.setattr(Questions, "of", single)
    assert any("loss above the claim" in problem for problem in of("query-weights", (8,)).problems)


def test_a_share_with_which_nothing_is_measured_is_noticed(monkeypatch):
    share = HistogramBoxes._nano
    monkeypatch.setattr(HistogramBoxes, "_nano", lambda self, part: share(self, part) // 2)
    assert "of the claimed loss is asked for" in of("histogram-boxes", (8,)).problems[0]


def test_an_error_is_a_problem(monkeypatch):
    def fails(*_):
        raise ValueError

    monkeypatch.setattr(composition.OneUnit, "binned", fails)
    assert "ValueError was raised" in of("histogram-boxes", (8,)).problems[0]
