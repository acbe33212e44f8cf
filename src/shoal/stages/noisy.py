"""What post-processing, reports and releases may see: counts, answers and histograms after the noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.space.cells import Euler


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
    """Zone x slot counts after noise, in visits; `scale` and `family` describe the noise (public)."""

    values: np.ndarray = field(repr=False)  # float64 [zones, slots]
    family: str  # "discrete laplace" | "discrete gaussian" | others, of sums of many draws
    scale: float  # b of "discrete laplace", else a standard deviation, in visits
    gain: np.ndarray | float = field(default=1.0, repr=False)  # noise of a cell, in scales


@dataclass(frozen=True, kw_only=True)
class Peak:
    """More people in one zone for some hours, found once in the window."""

    zone: int
    start: int  # slot
    stop: int  # slot after the last one, of the first day
    days: int  # in a row, at the same hours
    size: float  # people at a time
    deviation: float


@dataclass(frozen=True, kw_only=True, eq=False)
class PeakDoubt:
    """Uncertainty of a peak: an error of its size moves all its slots together, others are of one slot."""

    zone: int
    together: np.ndarray = field(repr=False)  # float64 [slots]: deviations
    alone: np.ndarray = field(repr=False)  # float64 [slots]: variances


@dataclass(frozen=True, kw_only=True)
class DensityEstimate:
    """Released numbers: people per zone and slot with a 95 % interval."""

    people: np.ndarray = field(repr=False)  # float64 [zones, slots], non-negative
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    doubt: Doubt | CountDoubt | None = field(default=None, repr=False)  # None: not known of sums
    peaks: tuple[Peak, ...] = ()  # contained in the numbers
    least_peak: float | None = None  # people for four hours that are found in most zones; None: no search


@dataclass(frozen=True, kw_only=True, eq=False)
class CountDoubt:
    """Uncertainty of counts with noise of their own: independent, but for an error of the scaling factor."""

    centre: np.ndarray = field(repr=False)  # float64 [zones, slots]: before negative counts were removed
    variance: np.ndarray = field(repr=False)  # float64 [zones, slots], of noise and sampling
    relative: float  # deviation of the scaling factor


@dataclass(frozen=True, kw_only=True)
class Total:
    """Number of all visits: posterior median and 95 % limits."""

    visits: float
    low: float
    high: float
    deviation: float  # root of the mean squared error, each error at most the number itself
    second: float = 0.0  # expected share of a second, far more active group of users, such as a fleet


@dataclass(frozen=True, kw_only=True, eq=False)
class Doubt:
    """Uncertainty of the counts of `best` by levels, each independent of the others.

    An error of `total` multiplies all counts, one of `slots` those of a slot, one of `uneven` those of a
    zone. Added are `per_coefficient` times the basis times the errors of the zone's coefficients, and an
    error that each count has of its own.
    """

    total: Total
    clips: dict[str, tuple[float, ...]]  # of each measurement, in visits
    slots: np.ndarray = field(repr=False)  # float64 [slots]: relative deviation of a slot's share
    uneven: float  # relative variance of a zone's share of visits, by uneven losses to clipping
    coefficients: np.ndarray = field(repr=False)  # float64 [zones, columns]: variances, in clipped visits
    basis: np.ndarray = field(repr=False)  # float64 [slots, columns], orthonormal
    per_coefficient: np.ndarray = field(repr=False)  # float64 [zones, slots]: people per basis x coefficient
    residual: np.ndarray = field(repr=False)  # float64 [zones, slots]: variance of a count of its own
    width: float  # by which deviations are multiplied
    peaks: tuple[PeakDoubt, ...] = ()  # of peaks added to the counts, besides all others

    def cell_variance(self) -> np.ndarray:
        """float64 [zones, slots]: of coefficients and residuals, in people squared.

        Errors of a zone's coefficients and of a slot's share multiply, which counts where both are large.
        """
        both = 1.0 + np.minimum(self.slots, 1.0) ** 2
        return self.coefficients @ (self.basis**2).T * self.per_coefficient**2 * both + self.residual


@dataclass(frozen=True, kw_only=True)
class NoisyMeasurement:
    """Noisy values of groups x columns and the deviation of their noise, in visits."""

    values: np.ndarray = field(repr=False)
    sigma: float


@dataclass(frozen=True, kw_only=True)
class NoisyBest:
    """Measurements of the method `best`: visits, slots of the city, regions, zones in learned columns."""

    total: Total
    clips: dict[str, tuple[float, ...]]  # of each measurement, in visits
    city: NoisyMeasurement  # [1, slots]: the city's slots, weighted by the expected activity
    profile: np.ndarray = field(repr=False)  # float64 [slots], positive, sums to 1
    profile_deviation: np.ndarray = field(repr=False)  # float64 [slots]: of the city's slots, clipped visits
    profile_total: float  # sum of the city's slots, in clipped visits
    profile_noise_left: float  # share of the noise's variance that smoothing left in the profile
    weight: np.ndarray = field(repr=False)  # float64 [slots]: weight of a slot in the columns below
    region_of: np.ndarray = field(repr=False)  # int64 [zones]
    dictionary: np.ndarray = field(repr=False)  # float64 [slots, columns], orthonormal
    regions: NoisyMeasurement  # [regions, columns of the dictionary]
    basis: np.ndarray = field(repr=False)  # float64 [slots, columns], orthonormal
    zones: np.ndarray = field(repr=False)  # float64 [zones, columns]
    zones_sigma: np.ndarray = field(repr=False)  # float64 [zones]: deviation of the noise in a zone's values
    rest_basis: np.ndarray = field(repr=False)  # float64 [slots, other columns or probes], orthonormal
    rest_weight: float
    rest: np.ndarray = field(repr=False)  # float64 [zones, as many], times the weight, in the zones' noise
    outliers: bool
    zones_doubt: np.ndarray | None = field(
        default=None, repr=False
    )  # variance besides noise, [zones, columns]

    @property
    def whole(self) -> bool:
        """Whether all columns outside the basis were measured, not only probes."""
        return self.basis.shape[1] + self.rest_basis.shape[1] == len(self.basis)


@dataclass(frozen=True, kw_only=True)
class NoisyScaled:
    """Noisy counts of sampled visits, with the noisy totals of all and of sampled visits to scale them up."""

    counts: NoisyCounts
    visits: float  # all visits, may be negative
    visits_deviation: float
    sampled: float  # bounded visits, inside the zones and outside; may be negative
    sampled_deviation: float
    most: float  # visits that one sampled visit can stand for (public)
    inside: tuple[float, float]  # least and largest share of a visit that lies in the zones (public)


@dataclass(frozen=True, kw_only=True)
class NoisyAnswers:
    """Answers in visits, their 95 % intervals, and where each comes from (all public)."""

    values: np.ndarray = field(repr=False)  # float64 [questions], may be negative
    low: np.ndarray = field(repr=False)  # float64 [questions]
    high: np.ndarray = field(repr=False)  # float64 [questions]
    clip: np.ndarray = field(repr=False)  # float64 [questions]: visits of one user that were counted, at most
    how: tuple[str, ...] = field(repr=False)  # "noise": counted, with noise; "weights": from earlier answers


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Released numbers: visits with a 95 % interval, none below zero."""

    visits: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    clip: np.ndarray = field(repr=False)
    how: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHistogram:
    """A published model of trips on a grid, from noisy answers alone."""

    euler: Euler = field(repr=False)  # in trips, before scaling up
    trips: float  # bounded trips, declared or measured
    all_trips: float | None = None  # all trips under the cap, where measured: answers are scaled up to it
    violated_before: float | None = None  # share of constraints violated before repair, if there is a repair
    pool: TripPool | None = field(default=None, repr=False)

    @property
    def scale(self) -> float:
        """Number of trips for which a bounded trip stands."""
        if self.all_trips is None or self.trips <= 0:
            return 1.0
        return max(1.0, self.all_trips / max(self.trips, 1.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class TripPool:
    """Weighted boxes that stand for trips; answers are consistent for any non-negative weights.

    Each path goes from one corner of the box to the opposite one via a bulge point, in cells.
    """

    x0: np.ndarray = field(repr=False)  # float64, cells; inclusive
    x1: np.ndarray = field(repr=False)
    y0: np.ndarray = field(repr=False)
    y1: np.ndarray = field(repr=False)
    shape: np.ndarray = field(repr=False)  # int8
    weight: np.ndarray = field(repr=False)  # float64, trips
