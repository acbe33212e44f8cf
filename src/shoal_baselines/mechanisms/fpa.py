"""Counts per zone and slot from their k slowest waves, with discrete Gaussian noise on the coefficients.

Guarantee    rho-zCDP for the whole array, rho = Delta^2 / (2 sigma^2).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  L2, over all zones and waves together: Delta^2 <= ell max_s |W_s|^2 times the squared norm of the
             transform, which is 1 for orthonormal waves and a little more for ours, whose entries are rounded
             to 2^-14: the exact figure of the integer matrix is used (fourier_basis.py, which proves it).
             Coefficients of integer counts are then integers, and nothing about the counts is rounded.
Public       zones, slots, W, ell, k, sigma.
Source       Rastogi and Nath 2010 (FPA); Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2.
Deviations   one guarantee for all zones jointly (theirs is per zone: a user in many zones has less); DCT-II
             instead of the DFT, whose ends need not match; Gaussian noise, which does not grow with k. k is a
             public constant: choosing it by the error on the data, as they do, is not private.

>>> mechanism = DensityFpa.within(1_000_000, ell=30, slots=168, column_l2_squared=2**40, lattice=2**20)
>>> mechanism.loss().rho_nano <= 1_000_000
True
>>> round(mechanism.sigma / 2**34, 2)                    # noise on a coefficient, in people
122.51

The slowest k waves of a window as an integer matrix, with exact bounds on what it does to one user.

The rows are the first k waves of the orthonormal DCT-II, times 2^BITS and rounded to integers. Counts are
integers, so coefficients are integers too: no rounding and no floating point touches the counts, and every
norm below is a statement about the very integers that are used. How the cosines were rounded is irrelevant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.adders import NoiseOfCount, check_input
from shoal.privacy.accounting import NANO, Budget, Loss, ceil_nano
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts

# The 20 complex DFT coefficients that Pyrgelis et al. keep of a week are waves up to 19 cycles a week, as are
# the first 39 of the DCT-II, whose wave j has j / 2 cycles.
WAVES = 40


@dataclass(frozen=True, kw_only=True)
class DensityFpa:
    """The first k DCT coefficients of each zone plus discrete Gaussian noise, transformed back."""

    sigma: float  # in lattice units times UNIT
    k: int
    ell: int
    slots: int
    column_l2_squared: int  # in squared lattice units
    lattice: int

    name = "density-fpa"
    takes = "counts"
    leaves_out = "what the waves leave out"

    def loss(self) -> Loss:
        """Delta^2 / (2 sigma^2), exactly, rounded up."""
        return Loss(ceil_nano(self.sensitivity_squared / (2 * Fraction(self.sigma) ** 2)))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("coefficients", self.loss()),)

    @cached_property
    def basis(self) -> FourierBasis:
        return FourierBasis.first(self.k, self.slots)

    @cached_property
    def sensitivity_squared(self) -> Fraction:
        return Fraction(self.column_l2_squared * self.basis.l2_squared(self.ell))

    @property
    def mu(self) -> float:
        """Delta / sigma: the trade-off curve of the continuous Gaussian with this noise."""
        return math.sqrt(self.sensitivity_squared) / self.sigma

    @property
    def noise_people(self) -> np.ndarray:
        """float64 [slots]: standard deviation of the noise in a released count before post-processing."""
        return self.sigma / self.lattice / UNIT * self.basis.noise_gain

    def describe(self) -> Mapping[str, object]:
        rms = float(np.sqrt((self.noise_people**2).mean()))
        return {"noise_scale_people": rms, "waves": self.basis.k, "lattice": self.lattice}

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """In a released count before post-processing."""
        return NoiseOfCount("gaussian", math.sqrt(float((self.noise_people**2).mean())))

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        return read_waves(self.describe())

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        check_input(exact, ell=self.ell, slots=self.slots, lattice=self.lattice)
        if exact.column_l2_squared > self.column_l2_squared:
            raise GuaranteeError(
                "sensitivity", "the area weights are larger than the mechanism was built for."
            )
        noisy = noise.gaussian("coefficients", self.basis.coefficients(exact.units), self.sigma)
        return NoisyCounts(
            values=self.basis.series(noisy / self.lattice),
            family="gaussian waves",
            scale=self.sigma / self.lattice / UNIT,
            gain=self.basis.noise_gain,
        )

    @classmethod
    def within(
        cls, rho_nano: int, *, ell: int, slots: int, column_l2_squared: int, lattice: int, k: int = WAVES
    ) -> DensityFpa:
        """The least noise whose loss stays within rho."""
        squared = column_l2_squared * FourierBasis.first(k, slots).l2_squared(ell)
        sigma = math.sqrt(squared / (2 * rho_nano / NANO))
        while Fraction(sigma) ** 2 * 2 * rho_nano < squared * NANO:  # the float root may fall short
            sigma = math.nextafter(sigma, math.inf)
        return cls(
            sigma=sigma, k=k, ell=ell, slots=slots, column_l2_squared=column_l2_squared, lattice=lattice
        )

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int, k: int = WAVES) -> DensityFpa:
        """All of the budget, on the zones and slots of a setting."""
        weights = setting.weights
        return cls.within(
            budget.left,
            ell=ell,
            slots=setting.slots,
            column_l2_squared=weights.column_l2_squared,
            lattice=weights.lattice,
            k=k,
        )


BITS = 14
UNIT = 2**BITS
SLOTS_PAIRED = 2000  # the bound by pairs of slots, better for few visits, takes slots^2 numbers
LARGEST = 2**61  # of a coefficient, so that noise fits beside it in 64 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class FourierBasis:
    """int64 [k, slots], about UNIT times the first k rows of the orthonormal DCT-II."""

    waves: np.ndarray = field(repr=False)

    @classmethod
    def first(cls, k: int, slots: int) -> FourierBasis:
        """The k slowest waves of `slots` slots; all of them where k is larger.

        >>> FourierBasis.first(2, 4).waves.tolist()
        [[8192, 8192, 8192, 8192], [10703, 4433, -4433, -10703]]
        """
        if k < 1:
            raise PlanError("plan-waves", f"at least one wave must be kept; got {k}.", "Keep 40, say.")
        kept = np.arange(min(k, slots))[:, None]
        waves = np.sqrt(2.0 / slots) * np.cos(np.pi * (np.arange(slots) + 0.5) * kept / slots)
        waves[0] = np.sqrt(1.0 / slots)
        return cls(waves=np.rint(waves * UNIT).astype(np.int64))

    @property
    def k(self) -> int:
        return self.waves.shape[0]

    def coefficients(self, units: np.ndarray) -> np.ndarray:
        """int64 [zones, k]: exact products with the waves."""
        largest = int(np.abs(units).sum(axis=1, dtype=object).max(initial=0))
        if largest * int(np.abs(self.waves).max()) > LARGEST:
            raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")
        return units @ self.waves.T

    def series(self, coefficients: np.ndarray) -> np.ndarray:
        """float64 [zones, slots]: back from coefficients; the waves that were left out are zero."""
        return coefficients @ self._back.T

    @cached_property
    def _back(self) -> np.ndarray:
        """float64 [slots, k]: the least-squares inverse, since rounded waves are not quite orthonormal."""
        return np.linalg.pinv(self.waves.astype(float))

    @cached_property
    def noise_gain(self) -> np.ndarray:
        """float64 [slots]: standard deviation at a slot for independent noise of UNIT on the coefficients.

        Noise of different slots goes together, as the waves do; this is the noise of each slot alone.
        """
        return UNIT * np.sqrt((self._back**2).sum(axis=1))

    def l2_squared(self, visits: int) -> int:
        """At least max |change of coefficients|^2 / |w|^2 over users with `visits` visits, one per slot.

        A user changes the counts by sum_t w_t (x) e_t over a set S of slots, |w_t| <= |w|; the coefficients
        move by sum_t w_t (x) c_t, c_t the columns. With G = C'C restricted to S this is at most
        |S| |w|^2 lambda_max(G_S), and Gershgorin bounds lambda_max by the largest sum of |S| absolute entries
        in a row of G. The same eigenvalue is at most that of CC', bounded by its rows. Both are exact here.
        """
        slots = self.waves.shape[1]
        visits = min(visits, slots)
        bound = int(np.abs(self.waves @ self.waves.T).sum(axis=1).max())
        if slots <= SLOTS_PAIRED:
            within = np.abs(self.waves.T @ self.waves)
            bound = min(bound, int((-np.sort(-within, axis=1)[:, :visits]).sum(axis=1).max()))
        return visits * bound

    def l1(self, visits: int) -> int:
        """max |change of coefficients|_1 / |w|_1 over users with `visits` visits, one per slot.

        A visit at slot t moves the coefficients by |w|_1 |c_t|_1 in L1, and slots are all different; a user
        in another zone at each of them reaches the sum.
        """
        columns = np.abs(self.waves).sum(axis=0)
        return int(np.sort(columns)[::-1][:visits].sum())


def read_waves(public: Mapping[str, Any]) -> tuple[str, ...]:
    """For the recipient of zones' series that were reduced to their slowest waves."""
    return (
        f"Each zone's series was reduced to its {public['waves']} slowest waves before noise was added, so "
        "changes faster than those are not in it, whatever the budget.",
        f"The noise of one count has a standard deviation of {public['noise_scale_people']:.1f} people "
        "before counts were scaled up (`noise_scale_people` in the manifest). Neighbouring slots of a zone "
        "share it, so sums over slots do not average it out.",
    )
