"""Integer waves: scipy's DCT to within a step, exact arithmetic, refusal of what does not fit."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.fft
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal_baselines.mechanisms.scheme import (
    SHIFT,
    STEPS,
    WAVE_BITS,
    coefficients,
    series_of,
    tails,
    waves,
)


@for_each("slots", [1, 2, 7, 168, 700])
def test_same_as_scipy_to_a_step_or_so(slots):
    units = np.random.default_rng(slots).integers(0, 2**30, (3, slots))
    expected = scipy.fft.dct(units.astype(float), type=2, norm="ortho", axis=1) * STEPS
    waves_rounded = units.sum(axis=1, keepdims=True) / 2**SHIFT
    assert (np.abs(coefficients(units) - expected) <= waves_rounded + 2).all()


def test_exactly_the_floor_of_whole_numbers():
    rng = np.random.default_rng(0)
    units = rng.integers(0, 2**45, (2, 9))
    block = waves(0, 9, 9)
    for row in range(2):
        for k in range(9):
            whole = sum(int(w) * int(u) for w, u in zip(block[k], units[row], strict=True))
            assert coefficients(units)[row, k] == whole // 2**SHIFT


@pytest.mark.parametrize("slots", [1, 5, 168])
def test_waves_are_within_one_of_the_true_ones(slots):
    exact = scipy.fft.dct(np.eye(slots), type=2, norm="ortho", axis=0) * 2**WAVE_BITS
    assert np.abs(waves(0, slots, slots) - exact).max() < 0.51


def test_the_largest_counts_do_not_overflow():
    for slots in (1, 168, 2**11):
        units = np.zeros((1, slots), np.int64)
        units[0, :] = (2**53 - 1) // slots
        top = int(units[0, 0]) * slots * STEPS / np.sqrt(slots)
        assert coefficients(units)[0, 0] == pytest.approx(top, rel=1e-5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(GuaranteeError, match="noise-lattice"):
        coefficients(np.full((1, 2), 2**52))
    with pytest.raises(GuaranteeError, match="noise-lattice"):
        coefficients(np.ones((1, 2)))


def test_there_and_back():
    units = np.random.default_rng(1).integers(0, 2**35, (4, 24))
    np.testing.assert_allclose(series_of(coefficients(units) / STEPS), units, atol=2**14)


def test_tails_are_floors_of_exact_norms():
    row = np.random.default_rng(3).integers(-(2**57), 2**57, 20)
    result = tails(row)
    for k in range(1, 21):
        left = sum(Fraction(int(c)) ** 2 for c in row[k:])
        assert int(result[k - 1]) ** 2 <= left < (int(result[k - 1]) + 1) ** 2
    assert result[-1] == 0
