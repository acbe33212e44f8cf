"""Laplace noise for a user everywhere at all times: its scale, its claim, what it does not rest on."""

from fractions import Fraction

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal.privacy.noise import SeededNoise
from shoal.stages.exact import ExactCounts
from shoal_baselines.mechanisms.scm_full import DensityScmFull

LATTICE = 2**20


def counts(zones=3, slots=4, ell=2, lattice=LATTICE):
    return ExactCounts(
        units=np.zeros((zones, slots), np.int64),
        lattice=lattice,
        ell=ell,
        column_l1=lattice,
        column_l2_squared=lattice**2,
    )


@pytest.mark.parametrize("epsilon_nano", [1, 333_333_333, 12 * 10**9])
def test_a_user_in_every_zone_and_slot_is_covered(epsilon_nano):
    mechanism = DensityScmFull.within(epsilon_nano, zones=3, slots=4, lattice=LATTICE)
    everywhere = Fraction(3 * 4 * LATTICE)
    assert everywhere / Fraction(mechanism.noise.scale) <= Fraction(epsilon_nano, 10**9)
    assert mechanism.loss().pure_epsilon_nano in (epsilon_nano, epsilon_nano - 1)
    assert mechanism.spends() == (("counts", mechanism.loss()),)


def test_the_cap_does_not_matter_and_the_engine_is_asked_for_none():
    mechanism = DensityScmFull.within(10**9, zones=3, slots=4, lattice=LATTICE)
    assert mechanism.ell == 4
    for ell in (1, 4, 500):
        noisy = mechanism(counts(ell=ell), SeededNoise(1))
        assert noisy.scale == 12.0


@for_each("other", [counts(zones=2), counts(slots=5), counts(lattice=2**10), np.zeros((3, 4), np.int64)])
def test_other_counts_are_refused(other):
    mechanism = DensityScmFull.within(10**9, zones=3, slots=4, lattice=LATTICE)
    with pytest.raises(GuaranteeError):
        mechanism(other, SeededNoise(1))
