"""How many coefficients of each cluster to keep, by the exponential mechanism.

    u_k = |(F_k+1 .. F_T)|_2 + expected noise of k coefficients,        P(k) ~ exp(-eps0 u_k / (2 S))

The first part is 1-Lipschitz in the series, the second is public. It is rounded down to whole steps and
computed with exact integers, so a user who moves cluster E by d_E moves every u_k by at most
d_E + sqrt(T) + 1 steps, and the bounded range of the choice is eps0 (d_E + sqrt(T) + 1) / S.
Only sum d_E^2 <= ell is known:

    zCDP   S = sqrt(ell) (and the rounding): sum of squared ranges <= eps0^2, so eps0^2 / 8 for all clusters
    pure   S = min(ell, sqrt(clusters ell)):  sum of ranges        <= eps0    for all clusters

Acs and Castelluccia charge one run with S = sqrt(ell), which does not hold for pure epsilon across clusters.

`Scheme` is what both families of noise share: the checks of the counts, the steps, what recipients read.

Orthonormal DCT-II of integer series in integer arithmetic, with exact bounds on what one user changes.

The waves are rounded to integers: B = 2^28 C + E, C the orthonormal DCT-II, every |E| <= 1 (rounding gives
1/2, the cosine's own error is far below the rest). A coefficient is floor(B x / 2^24): a whole number of
steps of 1/16 lattice unit. All of it is 64-bit integer arithmetic that cannot overflow, so there is no
floating point between the counts and the noise. For series that change by dx, per cluster,

    |B dx| / 2^24  <=  16 |dx|_2 + sqrt(T) |dx|_1 / 2^24       in L2 (E is at most sqrt(T) per column)
    floor          moves each coefficient of a touched cluster by less than 1 more.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
import scipy.fft

from shoal.errors import GuaranteeError
from shoal.privacy.noise import Composed, Noise, ceil_sqrt
from shoal.stages.noisy import NoisyScheme
from shoal_baselines.counting import CoverCounts
from shoal_baselines.mechanisms.scheme_totals import Totals
from shoal_baselines.space.cover import Cover

RSSE_SHARE = 0.01  # tau: the expected error of a cluster with all coefficients kept, as a share of its total


@dataclass(frozen=True, kw_only=True)
class Scheme(Composed):
    """Noisy totals of cells; noisy series of clusters from their first k DCT coefficients."""

    totals: Totals
    cover: Cover = field(repr=False)
    slots: int
    ell: int
    cap: int

    takes = "cover"

    def __call__(self, exact: CoverCounts, noise: Noise) -> NoisyScheme:
        self.check(exact)
        totals = self.totals(exact, noise)
        cluster_of = self.clusters_of(totals.visits)
        exact_waves = coefficients(sum_by_cluster(exact.units, cluster_of))
        clusters = len(exact_waves)
        kept = choose_k(exact_waves, self.noise_error(clusters), self.select_scale(clusters), noise)
        noisy_waves, deviation = self.add_noise(exact_waves, kept, noise)
        steps = STEPS * self.lattice
        return NoisyScheme(
            totals=totals,
            cluster_of=cluster_of,
            series=series_of(noisy_waves / steps),
            kept=kept,
            deviation=deviation / steps,
        )

    @abstractmethod
    def clusters_of(self, noisy_totals: np.ndarray) -> np.ndarray:
        """int64 [cells]: the cluster of every cell."""

    @abstractmethod
    def noise_error(self, clusters: int) -> np.ndarray:
        """float64 [slots]: expected noise of the first 1, 2, ... coefficients of a cluster, in steps."""

    @abstractmethod
    def select_scale(self, clusters: int) -> float:
        """The scale of the choice of k, in steps: P(k) ~ exp(-u_k / scale)."""

    @abstractmethod
    def add_noise(
        self, exact_waves: np.ndarray, kept: np.ndarray, noise: Noise
    ) -> tuple[np.ndarray, np.ndarray]:
        """Noisy coefficients [clusters, slots], 0 where not kept; the deviation of each cluster's noise."""

    @property
    def lattice(self) -> int:
        return self.cover.lattice

    @property
    def cells(self) -> int:
        return self.cover.cells

    @property
    def touched(self) -> int:
        """Slots a user can touch."""
        return min(self.ell, self.slots)

    def check(self, exact: CoverCounts) -> None:
        """The counts must be of the stage, the bounds, the shape and the lattice the noise was scaled for."""
        if not isinstance(exact, CoverCounts):
            raise GuaranteeError("wrong-stage", "this mechanism takes exact counts of cover cells only.")
        if exact.ell > self.ell or exact.cap > self.cap:
            raise GuaranteeError(
                "sensitivity", "the counts were bounded more loosely than the mechanism was built for."
            )
        shape = (self.cells, self.slots)
        if exact.units.shape != shape or exact.one_visit.shape != shape[:1] or exact.lattice != self.lattice:
            raise GuaranteeError(
                "sensitivity",
                "the counts have other cells, slots or units than the mechanism was built for.",
            )
        # Any sum of cells and slots is then exact in 64 bits, whatever clusters come out.
        if exact.units.dtype != np.int64 or float(np.abs(exact.units).sum(dtype=np.float64)) >= LARGEST_SUM:
            raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")

    def describe(self) -> dict[str, object]:
        """Public numbers for the manifest."""
        return {"cells": self.cells, "lattice": self.lattice}

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        return (
            f"The city was cut into {self.cells} cells; cells with few visits were joined with their "
            "neighbours into clusters by noisy totals. A cluster has one course over the slots, from its "
            "slowest waves with noise; each of its cells follows that course, scaled to the cell's own noisy "
            "total.",
            "So zones of one cluster rise and fall together, and what happens in one of them alone, or "
            "faster than the waves that were kept, is not in the numbers, whatever the budget.",
            "Noise is shared by the slots of a zone: sums over slots do not average it out.",
            "`people_low` and `people_high` are the ends of a 95 % interval for the number before noise, "
            "made from the noise and from what the model is known to leave out on simulated cities; where "
            "zones differ more from their neighbours it is too narrow.",
        )


def tau_of(deviation: float, slots: int) -> float:
    """sqrt(T) sigma / 0.01, in visits (section 6)."""
    return math.sqrt(slots) * deviation / RSSE_SHARE


def choose_k(exact_waves: np.ndarray, noise_error: np.ndarray, scale: float, noise: Noise) -> np.ndarray:
    """int64 [clusters]: coefficients kept, 1 to T; scores in steps, P(k) ~ exp(-u_k / scale)."""
    public = np.rint(noise_error).astype(np.int64)
    allowed = candidates(exact_waves.shape[1])
    kept = np.empty(len(exact_waves), np.int64)
    for cluster, row in enumerate(exact_waves):
        scores = -(tails(row) + public)[allowed - 1]
        kept[cluster] = allowed[noise.choose("select", scores, scale)]
    return kept


def candidates(slots: int) -> np.ndarray:
    """int64: every k up to 256, then steps of 1 % up to T: public, and quick on long windows.

    >>> len(candidates(168)), len(candidates(8760)), int(candidates(8760)[-1])
    (168, 612, 8760)
    """
    every = np.arange(1, min(slots, 256) + 1)
    steps = 256 * 1.01 ** np.arange(1, 2000)
    coarse = np.append(np.rint(steps[steps < slots]).astype(np.int64), slots)
    return np.unique(np.concatenate([every, coarse]))


def tails(row: np.ndarray) -> np.ndarray:
    """int64 [T]: floor of the L2 norm of what is dropped when the first 1, 2, ... T are kept; exact."""
    squares = [int(c) ** 2 for c in row.tolist()]
    result = np.empty(len(squares), np.int64)
    left = 0
    for k in range(len(squares), 0, -1):
        result[k - 1] = math.isqrt(left)
        left += squares[k - 1]
    return result


def shift_squared(ell: int, clusters: int, slots: int, lattice: int) -> int:
    """S in zCDP, in steps: joint L2 of what a user moves the clusters' utilities by, rounded up."""
    return (
        STEPS * ceil_sqrt(ell * lattice**2)
        + wave_rounding(ell, slots, lattice)
        + (ceil_sqrt(slots) + 1) * ceil_sqrt(clusters)
    )


def shift_summed(ell: int, clusters: int, slots: int, lattice: int) -> int:
    """S in pure mode, in steps: sum over clusters of what a user moves the utilities by, rounded up."""
    joint = min(ell * lattice, ceil_sqrt(clusters * ell * lattice**2))
    return STEPS * joint + wave_rounding(ell, slots, lattice) + (ceil_sqrt(slots) + 1) * clusters


def wave_rounding(ell: int, slots: int, lattice: int) -> int:
    """What the rounding of the waves adds to the shift, in steps: sqrt(T) |dx|_1 / 2^24, rounded up."""
    return ((ceil_sqrt(slots) * ell * lattice) >> SHIFT) + 1


def sum_by_cluster(units: np.ndarray, cluster_of: np.ndarray) -> np.ndarray:
    """int64 [clusters, slots]: exact sums of the cells' series."""
    clusters = int(cluster_of.max(initial=-1)) + 1
    sums = np.zeros((clusters, units.shape[1]), np.int64)
    np.add.at(sums, cluster_of, units)
    return sums


WAVE_BITS = 28
SHIFT = 24
STEPS = 2 ** (WAVE_BITS - SHIFT)  # of a coefficient, per lattice unit
LARGEST_SUM = 2**53  # of a series, in lattice units: 8e9 visits
LARGEST_SLOTS = 2**16
_CHUNK = 512


def coefficients(units: np.ndarray) -> np.ndarray:
    """int64 [rows, slots]: DCT-II of each row, in steps, rounded down."""
    rows, slots = units.shape
    if units.dtype != np.int64 or slots > LARGEST_SLOTS:
        raise GuaranteeError("noise-lattice", "waves are taken of 64-bit integers and at most 65,536 slots.")
    if rows and float(np.abs(units.astype(np.float64)).sum(axis=1).max()) >= LARGEST_SUM:
        raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")
    # |high| sums to at most 2^29 and low is below 2^24: products with waves stay below 2^62.
    high, low = units >> SHIFT, units & (2**SHIFT - 1)
    result = np.empty((rows, slots), np.int64)
    for start in range(0, slots, _CHUNK):
        block = waves(start, min(start + _CHUNK, slots), slots).T
        result[:, start : start + _CHUNK] = high @ block + ((low @ block) >> SHIFT)
    return result


def waves(start: int, stop: int, slots: int) -> np.ndarray:
    """int64 [stop - start, slots]: rows of the orthonormal DCT-II times 2^28, rounded."""
    kept = np.arange(start, stop)[:, None]
    angle = (2 * np.arange(slots)[None, :] + 1) * kept % (4 * slots)  # whole periods removed exactly
    cosine = np.sqrt(2.0 / slots) * np.cos(angle * (np.pi / (2 * slots)))
    cosine[kept[:, 0] == 0] = np.sqrt(1.0 / slots)
    return np.rint(cosine * 2.0**WAVE_BITS).astype(np.int64)


def series_of(noisy_visits: np.ndarray) -> np.ndarray:
    """float64 [rows, slots]: the inverse transform of noisy coefficients (after the noise: plain floats)."""
    if not noisy_visits.size:
        return noisy_visits
    return np.asarray(scipy.fft.idct(noisy_visits, type=2, norm="ortho", axis=1))
