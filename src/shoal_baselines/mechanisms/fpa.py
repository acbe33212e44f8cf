"""Counts per zone and slot from their k lowest Fourier components, with discrete noise on the coefficients.

Guarantee    for the whole array, rho-zCDP with rho = Delta_2^2 / (2 sigma^2) (Gaussian), or epsilon-DP with
             epsilon = Delta_1 / b (Laplace).
Unit         one user.        Neighbours   add or remove one user.
Requires     each user in at most `ell` slots, at most once per slot (checked by the engine).
Sensitivity  over all zones and components together. L2: Delta_2^2 <= ell max_s |W_s|_2^2 times the squared
             norm of the transform, which is 1 for orthonormal components and a little more for ours, whose
             entries are rounded to 2^-14. L1: Delta_1 <= max_s |W_s|_1 times the sum of the ell largest
             |c_t|_1, c_t the column of the transform at slot t: each visit moves zone z by W_zs c_t, and the
             L1 norm of a sum is at most the sum. (So Delta_1 <= ell min(sqrt(k), k sqrt(2 / T)), but for the
             rounding.) Both use the exact figures of the integer matrix, proved below. Coefficients of
             integer counts are then integers, and nothing about the counts is rounded.
Public       zones, slots, W, ell, k, the family and scale of the noise.
Source       Rastogi and Nath 2010 (FPA); Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2.
Deviations   one guarantee for all zones jointly: their scale sqrt(k T) / epsilon holds for one zone, and a
             user in many zones has less. DCT-II instead of the DFT, whose ends need not match; Gaussian
             noise, which does not grow with k. k is a public constant: choosing it by the error on the data,
             as they do, is not private.

>>> from shoal.privacy.noise import GAUSSIAN, LAPLACE
>>> public = {"ell": 30, "slots": 168, "lattice": 2**20}
>>> mechanism = DensityFpa.within(GAUSSIAN, 1_000_000, column=2**40, **public)
>>> mechanism.loss().rho_nano <= 1_000_000, round(mechanism.noise.scale / 2**34, 2)   # in people
(True, 122.51)
>>> mechanism = DensityFpa.within(LAPLACE, 10**9, column=2**20, **public)
>>> mechanism.loss().pure_epsilon_nano, round(mechanism.noise.scale / 2**34, 1)
(1000000000, 89.5)

The lowest k components of a window as an integer matrix, with exact bounds on what it does to one user.

The rows are the first k components of the orthonormal DCT-II, times 2^BITS and rounded to integers. Counts
are integers, so coefficients are integers too: no rounding and no floating point touches the counts, and
every norm below is a statement about the very integers that are used. How the cosines were rounded is
irrelevant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal.errors import GuaranteeError, PlanError
from shoal.mechanisms.density.counts import NoiseOfCount, check_columns, check_input, column_of
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Composed, Family, Noise, family_of
from shoal.space.geography import Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts

# The 20 complex DFT coefficients that Pyrgelis et al. keep of a week have up to 19 cycles a week, as have
# the first 39 of the DCT-II, whose component j has j / 2 cycles.
COMPONENTS = 40


@dataclass(frozen=True, kw_only=True)
class DensityFpa(Composed):
    """The first k DCT coefficients of each zone plus discrete noise, transformed back."""

    noise: Adder  # in lattice units times UNIT
    k: int
    ell: int
    slots: int
    column: int  # largest |W_s|_1 in lattice units (Laplace), or |W_s|_2^2 in their squares (Gaussian)
    lattice: int

    takes = "counts"
    leaves_out = "what the Fourier components leave out"

    @property
    def name(self) -> str:
        return "density-fpa" if self.noise.family.norm == 2 else "density-fpa-laplace"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        power = self.column * self.basis.power(self.noise.family, self.ell)
        return (("coefficients", self.noise.family.cost(self.noise.scale, power)),)

    @cached_property
    def basis(self) -> FourierBasis:
        return FourierBasis.first(self.k, self.slots)

    @property
    def deviation_people(self) -> float:
        """Standard deviation of the noise on a coefficient, in people."""
        return self.noise.deviation / self.lattice / UNIT

    def describe(self) -> Mapping[str, object]:
        deviation = self.noise_of_count.deviation
        return {"noise_scale_people": deviation, "waves": self.basis.k, "lattice": self.lattice}

    @property
    def noise_of_count(self) -> NoiseOfCount:
        """In a released count before post-processing: near to Gaussian, as a sum over many components."""
        of_slots = self.deviation_people * self.basis.noise_gain
        return NoiseOfCount("gaussian", math.sqrt(float((of_slots**2).mean())))

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        return (
            f"Each zone's series was reduced to its {self.basis.k} Fourier components of lowest frequency "
            "before noise was added, so changes faster than those are not in it, whatever the budget.",
            f"The noise of one count has a standard deviation of {self.noise_of_count.deviation:.1f} people "
            "before counts were scaled up (`noise_scale_people` in the manifest). Neighbouring slots of a "
            "zone share it, so sums over slots do not average it out.",
        )

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        check_input(exact, ell=self.ell, slots=self.slots, lattice=self.lattice)
        check_columns(exact, self.noise.family, self.column)
        noisy = self.noise.add(noise, "coefficients", self.basis.coefficients(exact.units))
        return NoisyCounts(
            values=self.basis.series(noisy / self.lattice),
            family=f"{self.noise.family.name} Fourier components",
            scale=self.deviation_people,
            gain=self.basis.noise_gain,
        )

    @classmethod
    def within(
        cls,
        family: Family,
        amount: int,
        *,
        ell: int,
        slots: int,
        column: int,
        lattice: int,
        k: int = COMPONENTS,
    ) -> DensityFpa:
        """The least noise whose loss stays within `amount`, in 1e-9 of rho or epsilon."""
        power = column * FourierBasis.first(k, slots).power(family, ell)
        noise = Adder(family, family.scale(amount, power))
        return cls(noise=noise, k=k, ell=ell, slots=slots, column=column, lattice=lattice)

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int, k: int = COMPONENTS) -> DensityFpa:
        """All of the budget, on the zones and slots of a setting."""
        family, weights = family_of(budget), setting.weights
        public = {"ell": ell, "slots": setting.slots, "lattice": weights.lattice, "k": k}
        return cls.within(family, budget.left, column=column_of(weights, family), **public)


BITS = 14
UNIT = 2**BITS
SLOTS_PAIRED = 2000  # the bound by pairs of slots, better for few visits, takes slots^2 numbers
LARGEST = 2**61  # of a coefficient, so that noise fits beside it in 64 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class FourierBasis:
    """int64 [k, slots], about UNIT times the first k rows of the orthonormal DCT-II."""

    matrix: np.ndarray = field(repr=False)

    @classmethod
    def first(cls, k: int, slots: int) -> FourierBasis:
        """The k components of lowest frequency of `slots` slots; all of them where k is larger.

        >>> FourierBasis.first(2, 4).matrix.tolist()
        [[8192, 8192, 8192, 8192], [10703, 4433, -4433, -10703]]
        """
        if k < 1:
            raise PlanError(
                "plan-waves", f"at least one Fourier component is needed; got {k}.", "Keep 40, say."
            )
        frequency = np.arange(min(k, slots))[:, None]
        matrix = np.sqrt(2.0 / slots) * np.cos(np.pi * (np.arange(slots) + 0.5) * frequency / slots)
        matrix[0] = np.sqrt(1.0 / slots)
        return cls(matrix=np.rint(matrix * UNIT).astype(np.int64))

    @property
    def k(self) -> int:
        return self.matrix.shape[0]

    def coefficients(self, units: np.ndarray) -> np.ndarray:
        """int64 [zones, k]: exact products with the components."""
        largest = int(np.abs(units).sum(axis=1, dtype=object).max(initial=0))
        if largest * int(np.abs(self.matrix).max()) > LARGEST:
            raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")
        return units @ self.matrix.T

    def series(self, coefficients: np.ndarray) -> np.ndarray:
        """float64 [zones, slots]: back from coefficients; the components that were left out are zero."""
        return coefficients @ self._back.T

    @cached_property
    def _back(self) -> np.ndarray:
        """float64 [slots, k]: least-squares inverse, since rounded components are not quite orthonormal."""
        return np.linalg.pinv(self.matrix.astype(float))

    @cached_property
    def noise_gain(self) -> np.ndarray:
        """float64 [slots]: standard deviation at a slot for independent noise of UNIT on the coefficients.

        Components extend over slots, so their noise is correlated; this is the noise of each slot alone.
        """
        return UNIT * np.sqrt((self._back**2).sum(axis=1))

    def power(self, family: Family, visits: int) -> int:
        """Bound on one user's transformed visits: L1 norm or squared L2 norm, as the family needs."""
        return self.l1(visits) if family.norm == 1 else self.l2_squared(visits)

    def l2_squared(self, visits: int) -> int:
        """At least max |change of coefficients|^2 / |w|^2 over users with `visits` visits, one per slot.

        A user changes the counts by sum_t w_t (x) e_t over a set S of slots, |w_t| <= |w|; the coefficients
        move by sum_t w_t (x) c_t, c_t the columns. With G = C'C restricted to S this is at most
        |S| |w|^2 lambda_max(G_S), and Gershgorin bounds lambda_max by the largest sum of |S| absolute entries
        in a row of G. The same eigenvalue is at most that of CC', bounded by its rows. Both are exact here.
        """
        slots = self.matrix.shape[1]
        visits = min(visits, slots)
        bound = int(np.abs(self.matrix @ self.matrix.T).sum(axis=1).max())
        if slots <= SLOTS_PAIRED:
            within = np.abs(self.matrix.T @ self.matrix)
            bound = min(bound, int((-np.sort(-within, axis=1)[:, :visits]).sum(axis=1).max()))
        return visits * bound

    def l1(self, visits: int) -> int:
        """max |change of coefficients|_1 / |w|_1 over users with `visits` visits, one per slot.

        A visit at slot t moves the coefficients by |w|_1 |c_t|_1 in L1, and slots are all different; a user
        in another zone at each of them reaches the sum.
        """
        columns = np.abs(self.matrix).sum(axis=0)
        return int(np.sort(columns)[::-1][:visits].sum())
