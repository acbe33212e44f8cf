"""The slowest k waves of a window as an integer matrix, with exact bounds on what it does to one user.

The rows are the first k waves of the orthonormal DCT-II, times 2^BITS and rounded to integers. Counts are
integers, so coefficients are integers too: no rounding and no floating point touches the counts, and every
norm below is a statement about the very integers that are used. How the cosines were rounded is irrelevant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal.errors import GuaranteeError, PlanError

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
