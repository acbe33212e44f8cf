"""The scheme of Acs and Castelluccia for both families of noise, with the arguments for its scales.

`Scheme` has the checks of the counts, the steps, and what recipients read.

Number of coefficients that are kept of each cluster, by the exponential mechanism:

    u_k = |(F_k+1 .. F_T)|_2 + expected noise of k coefficients,        P(k) ~ exp(-eps0 u_k / (2 S))

The first part is 1-Lipschitz in the series, the second is public. It is rounded down to whole steps and
computed with exact integers, so a user who moves cluster E by d_E moves every u_k by at most
d_E + sqrt(T) + 1 steps, and the bounded range of the choice is eps0 (d_E + sqrt(T) + 1) / S.
Only sum d_E^2 <= ell is known:

    zCDP   S = sqrt(ell) (and the rounding): sum of squared ranges <= eps0^2, so eps0^2 / 8 for all clusters
    pure   S = min(ell, sqrt(clusters ell)):  sum of ranges        <= eps0    for all clusters

Acs and Castelluccia charge one run with S = sqrt(ell), which does not hold for pure epsilon across clusters.

Orthonormal DCT-II of integer series in integer arithmetic, with exact bounds on what one user changes: the
components are rounded to integers: B = 2^28 C + E, C the orthonormal DCT-II, every |E| <= 1 (rounding gives
1/2, the cosine's own error is far below the rest). A coefficient is floor(B x / 2^24): a whole number of
steps of 1/16 lattice unit. All of it is 64-bit integer arithmetic that cannot overflow, so there is no
floating point between the counts and the noise. For series that change by dx, per cluster,

    |B dx| / 2^24  <=  16 |dx|_2 + sqrt(T) |dx|_1 / 2^24       in L2 (E is at most sqrt(T) per column)
    floor          moves each coefficient of a touched cluster by less than 1 more.

Noisy total of visits per cover cell, one class for each way to get it:

TotalsOfSeries     sums over time of the bounded series. All ell visits of a user may fall in one cell, so
                   L1 = L2 = ell. (Acs and Castelluccia 2014 with Laplace noise: the same. Their later paper
                   uses sqrt(ell) in L2, which is too little by sqrt(ell).)
TotalsScaledUp     the same, with one more bin for what lies outside all cells, times K-hat / their noisy sum:
                   the bound on visits keeps its shares and loses no visits. L1 = L2 = ell, and M for K.
TotalsByOneVisit   "improved scaling", their section 5.4.1: one uniformly chosen visit per user gives a
                   histogram of L1 = L2 = 1, times K-hat / N-hat. K is computed from at most M visits per user
                   and noised by M. N-hat is the sum of the noisy bins and of one more for what lies outside
                   all cells: free. Deviation: they leave N exact.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import scipy.fft

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Composed, Noise, adder_within, ceil_sqrt
from shoal.space.geography import Setting
from shoal_baselines.counting import CoverCounts
from shoal_baselines.postprocess.scheme import NoisyScheme, NoisyTotals
from shoal_baselines.space.cover import Cover, minimum_cover

BOUND_LOSS = 0.06  # share of visits that a bound of about 30 leaves out on simulated cities: a guess, public

# Shares of the budget, each of what the earlier ones left. The paper halves: scaling and series, then in
# scaling the number of visits and the histogram, in series the choice of k and the noise.
VISITS, TOTALS, SERIES_TOTALS = Fraction(1, 4), Fraction(1, 3), Fraction(1, 2)
SCALED_VISITS, SCALED_TOTALS = Fraction(1, 10), Fraction(1, 2)  # tuned on the simulated city paris


@dataclass(frozen=True, kw_only=True)
class TotalsOfSeries:
    """Visits per cell of the bounded series: below the truth by what the bound on visits left out."""

    totals: Adder
    ell: int  # visits of a user at most: of ell and slots the smaller
    lattice: int

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("totals", self.totals.cost(self.ell * self.lattice)),)

    def __call__(self, exact: CoverCounts, noise: Noise) -> NoisyTotals:
        noisy = self.totals.add(noise, "totals", exact.units.sum(axis=1))
        deviation = self.totals.deviation / self.lattice
        return NoisyTotals(
            visits=noisy / self.lattice, deviation=deviation, per_count=1.0, ratio_deviation=BOUND_LOSS
        )

    @classmethod
    def within(cls, budget: Budget, *, ell: int, lattice: int) -> tuple[TotalsOfSeries, Budget]:
        """Its share of the budget, and what is left."""
        totals, budget = budget.take("totals", SERIES_TOTALS)
        return cls(totals=adder_within(totals, ell * lattice), ell=ell, lattice=lattice), budget


@dataclass(frozen=True, kw_only=True)
class TotalsByOneVisit:
    """Histogram of one visit per user, scaled to all visits by K-hat / N-hat."""

    totals: Adder
    visits: Adder
    cap: int  # M: visits of a user that enter K
    lattice: int
    ell: int = 1  # visits of a user that enter the bins

    shares: ClassVar = (VISITS, TOTALS)

    def bins(self, exact: CoverCounts) -> np.ndarray:
        """Units of every cell, and of what lies outside all cells."""
        return np.append(exact.one_visit, np.int64(exact.outside))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        whole = self.totals.cost(self.ell * self.lattice)
        return (("totals", whole), ("visits", self.visits.cost(self.cap)))

    def __call__(self, exact: CoverCounts, noise: Noise) -> NoisyTotals:
        noisy = self.totals.add(noise, "totals", self.bins(exact)) / self.lattice
        visits = float(self.visits.add(noise, "visits", np.array([exact.visits], np.int64))[0])
        counted = max(float(noisy.sum()), 1.0)
        # Everyone who is counted has at least one visit and enters with at most `cap`; the bound on a series
        # drops visits and adds none, and who is at M places within one slot keeps one of M. Both are public.
        ratio = min(max(visits / counted, 1.0), float(self.cap))
        deviation = self.totals.deviation / self.lattice
        doubt = np.hypot(self.visits.deviation / max(visits, 1.0), deviation * np.sqrt(len(noisy)) / counted)
        return NoisyTotals(
            visits=noisy[:-1] * ratio,
            deviation=deviation * ratio,
            per_count=ratio,
            ratio_deviation=float(min(doubt, 1.0)),
        )

    @classmethod
    def within(cls, budget: Budget, *, cap: int, lattice: int, ell: int = 1) -> tuple[Self, Budget]:
        """Their shares of the budget, and what is left."""
        for_visits, for_totals = cls.shares
        visits, budget = budget.take("visits", for_visits)
        totals, budget = budget.take("totals", for_totals)
        adders = {"totals": adder_within(totals, ell * lattice), "visits": adder_within(visits, cap)}
        return cls(ell=ell, cap=cap, lattice=lattice, **adders), budget


class TotalsScaledUp(TotalsByOneVisit):
    """Visits per cell of the bounded series, scaled to all visits by K-hat over their noisy sum."""

    shares = (SCALED_VISITS, SCALED_TOTALS)

    def bins(self, exact: CoverCounts) -> np.ndarray:
        return np.append(exact.units.sum(axis=1), np.int64(exact.units_outside))


Totals = TotalsOfSeries | TotalsByOneVisit


RSSE_SHARE = 0.01  # tau: the expected error of a cluster with all coefficients, as a share of its total


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
        exact_coefficients = coefficients(sum_by_cluster(exact.units, cluster_of))
        clusters = len(exact_coefficients)
        k = choose_k(exact_coefficients, self.noise_error(clusters), self.select_scale(clusters), noise)
        noisy, deviation = self.add_noise(exact_coefficients, k, noise)
        steps = STEPS * self.lattice
        return NoisyScheme(
            totals=totals,
            cluster_of=cluster_of,
            series=series_of(noisy / steps),
            k=k,
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
    def add_noise(self, exact: np.ndarray, k: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
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
            "neighbours into clusters by noisy totals. A cluster has one profile over the slots, from its "
            "Fourier components of lowest frequency with noise; each of its cells follows that profile, "
            "scaled to the cell's own noisy total.",
            "So zones of one cluster rise and fall together, and what happens in one of them alone, or "
            "faster than the Fourier components that were kept, is not in the numbers, whatever the budget.",
            "Noise is shared by the slots of a zone: sums over slots do not average it out.",
            "`people_low` and `people_high` are the ends of a 95 % interval for the number before noise, "
            "made from the noise and from what the model is known to leave out on simulated cities; where "
            "zones differ more from their neighbours it is too narrow.",
        )

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int, cap: int, variant: str = "improved") -> Self:
        """All of the budget, on the smallest cover of a setting, in one of its variants."""
        public = {"slots": setting.slots, "ell": ell, "cap": cap}
        return getattr(cls, variant)(budget, minimum_cover(setting), **public)


def tau_of(deviation: float, slots: int) -> float:
    """sqrt(T) sigma / 0.01, in visits (section 6)."""
    return math.sqrt(slots) * deviation / RSSE_SHARE


def choose_k(exact: np.ndarray, noise_error: np.ndarray, scale: float, noise: Noise) -> np.ndarray:
    """int64 [clusters]: coefficients kept, 1 to T; scores in steps, P(k) ~ exp(-u_k / scale)."""
    public = np.rint(noise_error).astype(np.int64)
    allowed = candidates(exact.shape[1])
    chosen_k = np.empty(len(exact), np.int64)
    for cluster, row in enumerate(exact):
        scores = -(tails(row) + public)[allowed - 1]
        chosen_k[cluster] = allowed[noise.choose("select", scores, scale)]
    return chosen_k


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
        + transform_rounding(ell, slots, lattice)
        + (ceil_sqrt(slots) + 1) * ceil_sqrt(clusters)
    )


def shift_summed(ell: int, clusters: int, slots: int, lattice: int) -> int:
    """S in pure mode, in steps: sum over clusters of what a user moves the utilities by, rounded up."""
    joint = min(ell * lattice, ceil_sqrt(clusters * ell * lattice**2))
    return STEPS * joint + transform_rounding(ell, slots, lattice) + (ceil_sqrt(slots) + 1) * clusters


def transform_rounding(ell: int, slots: int, lattice: int) -> int:
    """Bound on the shift from rounding the transform, in steps: sqrt(T) |dx|_1 / 2^24, rounded up."""
    return ((ceil_sqrt(slots) * ell * lattice) >> SHIFT) + 1


def sum_by_cluster(units: np.ndarray, cluster_of: np.ndarray) -> np.ndarray:
    """int64 [clusters, slots]: exact sums of the cells' series."""
    clusters = int(cluster_of.max(initial=-1)) + 1
    sums = np.zeros((clusters, units.shape[1]), np.int64)
    np.add.at(sums, cluster_of, units)
    return sums


TRANSFORM_BITS = 28
SHIFT = 24
STEPS = 2 ** (TRANSFORM_BITS - SHIFT)  # of a coefficient, per lattice unit
LARGEST_SUM = 2**53  # of a series, in lattice units: 8e9 visits
LARGEST_SLOTS = 2**16
_CHUNK = 512


def coefficients(units: np.ndarray) -> np.ndarray:
    """int64 [rows, slots]: DCT-II of each row, in steps, rounded down."""
    rows, slots = units.shape
    if units.dtype != np.int64 or slots > LARGEST_SLOTS:
        raise GuaranteeError("noise-lattice", "the transform takes 64-bit integers and at most 65,536 slots.")
    if rows and float(np.abs(units.astype(np.float64)).sum(axis=1).max()) >= LARGEST_SUM:
        raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")
    # |high| sums to at most 2^29 and low is below 2^24: products with components stay below 2^62.
    high, low = units >> SHIFT, units & (2**SHIFT - 1)
    result = np.empty((rows, slots), np.int64)
    for start in range(0, slots, _CHUNK):
        block = components(start, min(start + _CHUNK, slots), slots).T
        result[:, start : start + _CHUNK] = high @ block + ((low @ block) >> SHIFT)
    return result


def components(start: int, stop: int, slots: int) -> np.ndarray:
    """int64 [stop - start, slots]: rows of the orthonormal DCT-II times 2^28, rounded."""
    frequency = np.arange(start, stop)[:, None]
    angle = (2 * np.arange(slots)[None, :] + 1) * frequency % (4 * slots)  # whole periods removed exactly
    cosine = np.sqrt(2.0 / slots) * np.cos(angle * (np.pi / (2 * slots)))
    cosine[frequency[:, 0] == 0] = np.sqrt(1.0 / slots)
    return np.rint(cosine * 2.0**TRANSFORM_BITS).astype(np.int64)


def series_of(noisy_visits: np.ndarray) -> np.ndarray:
    """float64 [rows, slots]: the inverse transform of noisy coefficients (after the noise: plain floats)."""
    if not noisy_visits.size:
        return noisy_visits
    return np.asarray(scipy.fft.idct(noisy_visits, type=2, norm="ortho", axis=1))
