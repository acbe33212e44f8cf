"""Looks at drawn noise: true noise passes, each fault is seen by the look that is meant for it.
The sparse vector test in the audit: its exact loss, its probabilities, its lower bound, a broken one.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.loops import for_each, tiers

from shoal.auditing.lower_bounds import PICKS, Query, above_probabilities, bounds, queries_of, sample
from shoal.auditing.noise_faults import (
    Drawn,
    correlations,
    draw_noise,
    noise_faults,
    repeats,
    residues,
    scale_faults,
)
from shoal.auditing.pipelines.visits import pipeline_of
from shoal.auditing.replay import ArbitraryNoise, Call, RecordingNoise, ReplayNoise, transcript_loss
from shoal.mechanisms.registry import REGISTRY
from shoal.privacy import noise as noise_module
from shoal.privacy.noise import OsNoise, SeededNoise, first_above

NAMES = ("density-gaussian", "density-laplace")
ONE_OF_EACH_STAGE = ("density-gaussian", "query-laplace", "histogram-laplace", "synthetic-markov")


def queries(name, epsilon=1.0):
    entry = REGISTRY[name]
    return queries_of(pipeline_of(name, epsilon, None if entry.pure else 1e-6, size=entry.tight), entry)


def drawn(name, seed=1, epsilon=1.0, slots=10_000):
    return draw_noise(queries(name, epsilon), SeededNoise(seed), slots=slots)[0]


@pytest.mark.parametrize("name", tiers(sorted(REGISTRY), ONE_OF_EACH_STAGE))
def test_noise_of_the_operating_system_passes(name):
    asked = queries(name)
    found = draw_noise(asked, OsNoise(), slots=1500)
    assert len(found) == len({query.name for query in asked if query.kind not in PICKS})
    for each in found:
        assert each.units.shape == (2, 4, 1500)
        assert list(noise_faults(each)) == []


@for_each("epsilon", [0.01, 1.0, 30.0, 3000.0, 1e5])
@for_each("name", NAMES)
def test_true_noise_passes_at_every_scale(name, epsilon):
    """Also where values come again by right, because there are few of them."""
    for seed in range(2):
        assert list(noise_faults(drawn(name, seed, epsilon, slots=3000))) == []


def changed(change, name="density-laplace"):
    found = drawn(name)
    units = found.units.copy()
    change(units)
    return Drawn(units, found.family, found.scale)


def one_sign(units):
    units[:, 1] = np.abs(units[:, 1]) * np.sign(units[:, 0])


def opposite_calls(units):
    units[1] = -units[0]


def lend_size(units):
    units[:, 3] = np.sign(units[:, 3]) * np.abs(units[:, 2])


def tenth_of_the_next(units):
    units[:, :, 1:] += units[:, :, :-1] // 10


@for_each(
    ("change", "place"),
    [
        (one_sign, "zones 0 and 1"),
        (opposite_calls, "two calls"),
        (lend_size, "zones 2 and 3"),
        (tenth_of_the_next, "neighbouring slots"),
    ],
)
def test_cells_that_go_together_are_seen(change, place):
    assert any(place in fault for fault in correlations(changed(change)))


@pytest.mark.parametrize("name", NAMES)
def test_a_share_of_noise_used_again_anywhere_is_seen(name):
    def later(units):  # at a lag that no correlation looks at
        units[1, 2, 777:1777] = units[0, 1, 123:1123]

    assert list(correlations(changed(later, name))) == []
    assert "comes again" in next(repeats(changed(later, name)))


@for_each("step", [2, 3, 17, 1000, 2**14])
@for_each("name", NAMES)
def test_a_coarser_lattice_is_seen(name, step):
    true = drawn(name)
    assert next(residues(replace(true, units=true.units // step * step))) == (
        f"noise is a multiple of {step} lattice steps"
    )


def test_single_bits_and_remainders_are_looked_at():
    true = drawn("density-gaussian")
    mostly_even = np.where(true.units % 10 < 9, true.units, true.units // 2 * 2)
    assert any(fault.startswith("bit 0") for fault in residues(replace(true, units=mostly_even)))
    avoids = np.where(true.units % 7 == 3, true.units + 1, true.units)
    assert any("by 7" in fault for fault in residues(replace(true, units=avoids)))
    fifth_bit = true.units | 32
    assert any(fault.startswith("bit 5") for fault in residues(replace(true, units=fifth_bit)))


def test_a_single_number_with_the_same_noise_every_time_is_seen():
    class Once(SeededNoise):
        def laplace(self, name, exact, scale):
            again = SeededNoise(4) if exact.size == 1 else super()
            return again.laplace(name, exact, scale)

    query = Query("laplace", "users", 3.0, np.zeros(1, np.int64), np.ones(1, np.int64))
    right, wrong = (draw_noise([query], noise, slots=400)[0] for noise in (SeededNoise(1), Once(1)))
    assert list(noise_faults(right)) == []
    assert list(noise_faults(wrong)) == ["a single number has the same noise whenever it is asked for"]


@pytest.mark.parametrize("change", [round, lambda scale: 2.0 ** round(np.log2(scale))])
def test_another_scale_in_child_processes_is_seen(change, monkeypatch):
    def draw_half_in_a_child(changed):
        def draw(kind, scale, count, processes):
            parent, child = (getattr(SeededNoise(seed), kind) for seed in (1, 2))
            zeros = np.zeros(count // 2, np.int64)
            return np.concatenate([parent("", zeros, scale), child("", zeros, changed(scale))])

        return draw

    monkeypatch.setattr(noise_module, "_draw_in_processes", draw_half_in_a_child(change))
    faults = scale_faults()
    assert len(faults) >= 4
    assert all("a child process" in fault for fault in faults)
    monkeypatch.setattr(noise_module, "_draw_in_processes", draw_half_in_a_child(float))
    assert scale_faults() == []


@pytest.mark.exhaustive
def test_child_processes_draw_at_the_scale_they_are_given():
    assert scale_faults() == []


SCALE = 1000.0
BEFORE = np.array([3000] * 5 + [-6000], np.int64)


def call(margins):
    return Call("above", "test", np.array(margins, np.int64), 8.0, 0)


def test_the_loss_is_twice_the_largest_change_and_probabilities_those_of_runs():
    rho, pure = transcript_loss([call([0, 5, 2])], [call([3, 1, 2])])
    assert (rho, pure) == (Fraction(1, 2), Fraction(1))
    assert transcript_loss([call([0] * 500)], [call([4] * 500)])[1] == Fraction(1)
    noise = SeededNoise(2)
    runs = 20_000
    seen = np.bincount([first_above(noise, "test", BEFORE // 3, SCALE) for _ in range(runs)], minlength=7)
    expected = above_probabilities(BEFORE // 3, SCALE)
    assert expected.sum() == pytest.approx(1.0)
    assert np.abs(seen / runs - expected).max() < 5 * np.sqrt(0.25 / runs)


def test_indices_are_handed_out_again_and_arbitrary_ones_reach_all():
    recorded = RecordingNoise(SeededNoise(1), bytes(16))
    found = first_above(recorded, "test", BEFORE, SCALE)
    assert [each.kind for each in recorded.calls] == ["above"]
    replayed = ReplayNoise(recorded.calls, bytes(16))
    assert first_above(replayed, "test", BEFORE - 10**6, SCALE) == found
    noise = ArbitraryNoise()
    assert {first_above(noise, "test", BEFORE, SCALE) for _ in range(20)} == set(range(7))


class SmallOnValues(SeededNoise):
    """The values' noise at a tenth of its scale: caught by the runs, since replay trusts the primitive."""

    def first_above(self, name, margins, scale):
        threshold = self.laplace(name, np.zeros(1, np.int64), scale)
        found = np.flatnonzero(self.laplace(name, margins, scale / 5) >= threshold[0])
        return int(found[0]) if found.size else margins.size


@pytest.mark.parametrize(("kind", "above"), [(SeededNoise, False), (SmallOnValues, True)])
def test_the_lower_bound_stays_below_the_claim_unless_the_test_is_broken(kind, above):
    change = np.array([-400] * 5 + [400])
    query = Query("above", "test", SCALE, BEFORE // 30, BEFORE // 30 + change)
    found = bounds(*sample([query], kind(3), 20_000), 0.0)
    assert (found.epsilon > 2 * 400 / SCALE) == above
