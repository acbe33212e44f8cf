"""Post-processing of the method `best`: noisy measurements to people per zone and slot, with 95 % intervals.

1. zones' coefficients are kriged: totals first, then the others as shares of the total
2. the residuals of the basis are added, shrunk by how far they exceed the noise, where they were measured
3. counts are kept above a small positive floor
4. twice: slots are scaled to the city's profile, regions corrected by their own measurement
5. everything is scaled to the noisy number of visits

The number of all visits follows from two noisy numbers, under a narrow and a wide clip of users. Regions are
clipped less than the zones they consist of, so the gap between both shows what clipping removed: zones are
moved towards their region's measurement, and the interval learns how unevenly clipping takes from zones.

The residual variance of a count with model value m in a zone of mean M is phi q m + kappa^2 m^1.5 M^0.5, q
being the squared area weights of a zone over its weights. phi and kappa^2 are fitted by least squares to
squared noisy residuals minus the noise variance, and shrunk towards usual values where residuals are few.

The interval adds the uncertainty of coefficients, of residuals, of the city's slots and total, and of what
clipping took from some zones and not from others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from shoal.postprocess.density.numbers import Z95
from shoal.postprocess.density.smoothing import Layout, krige
from shoal.space.setting import Setting, zone_overlap, zone_sizes
from shoal.stages.noisy import DensityEstimate, NoisyBest

ROUNDS = 2
FLOOR = 0.05  # of what the zone's total and the city's profile would give
LEARNED = 0.985  # of the width, where scatter was learned: parts that overlap are added as if they did not


@dataclass(frozen=True)
class Model:
    """Smooth counts in people before the last corrections, with the variance of what is uncertain."""

    counts: np.ndarray  # float64 [zones, slots]
    variance: np.ndarray
    scatter: Scatter


def finish_best(noisy: NoisyBest, setting: Setting, *_public: object) -> DensityEstimate:
    """People, unrounded, with intervals."""
    total = total_of(noisy)
    model = smooth(noisy, setting, total.visits)
    uneven = unevenness(model.counts, noisy)
    counts = model.counts
    for _ in range(ROUNDS):
        counts = _to_profile(counts, noisy.profile)
        counts = correct_regions(counts, noisy)
    counts = _to_profile(counts, noisy.profile)
    people = counts * (total.visits / counts.sum()) if counts.sum() > 0 else counts
    scale = people / np.maximum(model.counts, 1e-12)
    city = noisy.profile_deviation / np.maximum(people.sum(axis=0), 1e-9)  # relative, of a slot's total
    relative = city**2 + (total.deviation / total.visits) ** 2 + uneven
    width = Z95 * (LEARNED if noisy.rest_weight > 0 else 1.0)
    half = width * np.sqrt(model.variance * scale**2 + relative * people**2)
    return DensityEstimate(people=people, low=np.maximum(people - half, 0.0), high=people + half)


def total_of(noisy: NoisyBest) -> Total:
    """The number of visits, from both of its measurements."""
    narrow, wide = (Total(float(m.values[0, 0]), m.sigma) for m in (noisy.visits, noisy.active))
    return number_of_visits(narrow, wide)


def smooth(noisy: NoisyBest, setting: Setting, visits: float) -> Model:
    """Counts from kriged coefficients, and from the rest where all of it was measured."""
    spread = setting.weights.site_share
    coefficients, remaining = _krige_columns(noisy, setting)
    counts = coefficients @ noisy.basis.T / noisy.weight
    floor = _floor(coefficients[:, 0], noisy)
    total = float(np.maximum(counts, floor).sum())
    to_people = visits / total if total > 0 else 1.0  # clipped visits to all visits
    model = np.maximum(counts, floor) * to_people
    variance = remaining @ (noisy.basis**2).T * (to_people / noisy.weight) ** 2
    scatter = _fit_rest(noisy, model, spread, to_people)
    signal = scatter.variance(model, spread)
    if not noisy.whole or noisy.rest_weight == 0:
        outside = 1.0 - (noisy.basis**2).sum(axis=1)
        return Model(model, variance + outside * signal, scatter)
    residual = to_people * (noisy.rest / noisy.rest_weight @ noisy.rest_basis.T / noisy.weight)
    outside = (noisy.rest_basis**2).sum(axis=1)
    noise = np.sqrt(outside) * noisy.zones_sigma[:, None] / noisy.rest_weight / noisy.weight * to_people
    kept = keep_what_stands_out(residual, noise, signal)
    left = signal * noise**2 / np.maximum(signal + noise**2, 1e-300)
    return Model(np.maximum(counts * to_people + kept, floor * to_people), variance + left, scatter)


def _fit_rest(noisy: NoisyBest, model: np.ndarray, spread: np.ndarray, to_people: float) -> Scatter:
    """How counts scatter around the model, from what was measured outside the columns."""
    unit = to_people / (noisy.rest_weight or 1.0)  # 0: no rest was measured, the usual scatter remains
    square = noisy.rest_basis**2
    counts = (spread[:, None] * model * noisy.weight**2) @ square
    squares = (uneven_squares(model) * noisy.weight**2) @ square
    return fit_scatter(noisy.rest * unit, noisy.zones_sigma[:, None] * unit, counts, squares)


def _krige_columns(noisy: NoisyBest, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [zones, columns] of the orthonormal basis, and their remaining variances."""
    layout = Layout.of(setting.zone_xy_m, zone_sizes(setting.weights), zone_overlap(setting.weights))
    values, noise = noisy.zones, noisy.zones_sigma**2
    totals = krige(layout, values[:, 0], noise, outliers=noisy.outliers, sized=True)
    level = np.maximum(totals.mean, 0.02 * np.median(np.abs(totals.mean)) + 1e-9)
    coefficients, remaining = np.empty_like(values), np.empty_like(values)
    coefficients[:, 0], remaining[:, 0] = level, totals.variance
    for j in range(1, values.shape[1]):
        shares = krige(layout, values[:, j] / level, noise / level**2, outliers=noisy.outliers)
        coefficients[:, j], remaining[:, j] = shares.mean * level, shares.variance * level**2
    return coefficients, remaining


def _floor(totals: np.ndarray, noisy: NoisyBest) -> np.ndarray:
    """A small part of what a zone would have if it followed the city."""
    along = noisy.basis[:, 0] / noisy.weight  # the profile, up to a factor
    return FLOOR * totals[:, None] * np.maximum(along, 0.0)


def _to_profile(counts: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """Slots scaled so that the city follows its profile."""
    sums = counts.sum(axis=0)
    return counts * np.divide(profile * counts.sum(), sums, out=np.ones_like(sums), where=sums > 0)


CLEAR = 3.0  # deviations by which the wide number must be larger
FAR = 8.0  # deviations from zero beyond which the cut does not matter, or only its tail does


@dataclass(frozen=True)
class Total:
    """A number of visits and the deviation of its noise."""

    visits: float
    deviation: float


def number_of_visits(narrow: Total, wide: Total) -> Total:
    """Visits, above zero, and the deviation that is left.

    The narrow clip has little noise and misses what very active users do; where the wide one is clearly
    larger, they matter. Visits cannot be negative: the mean and deviation are those of a normal
    distribution cut off at zero, so a number that drowns in its noise becomes small, not zero.

    >>> number_of_visits(Total(1000.0, 10.0), Total(1020.0, 40.0))
    Total(visits=1000.0, deviation=10.0)
    >>> number_of_visits(Total(1000.0, 10.0), Total(9000.0, 40.0))
    Total(visits=9000.0, deviation=40.0)
    >>> drowned = number_of_visits(Total(-20.0, 10.0), Total(30.0, 40.0))
    >>> round(drowned.visits, 1), round(drowned.deviation, 1)
    (3.7, 3.4)
    """
    clear = wide.visits - narrow.visits > CLEAR * math.hypot(narrow.deviation, wide.deviation)
    noisy = wide if clear else narrow
    at = noisy.visits / noisy.deviation
    if at > FAR:
        return noisy
    if at < -FAR:  # the tail of a normal distribution is nearly exponential
        return Total(noisy.deviation / -at, noisy.deviation / -at)
    hazard = math.exp(-0.5 * at * at - 0.5 * math.log(2 * math.pi) - float(log_ndtr(at)))
    left = max(1.0 - hazard * (at + hazard), 1e-6)
    return Total(noisy.visits + noisy.deviation * hazard, noisy.deviation * math.sqrt(left))


GAP_ROUNDS = 10
MOST_CORRECTED = 2.0  # factor by which a region may be corrected in a slot
USUAL_UNEVEN = 0.03**2  # relative variance between regions
STAYS = 0.5  # of it stays between a region's zones, which the correction of whole regions does not see


@dataclass(frozen=True)
class RegionGap:
    """Regions' own measurement less that of the counts, in the columns of the regions' dictionary."""

    sums: np.ndarray  # float64 [regions, slots]: the counts
    seen: np.ndarray  # float64 [regions, columns]: the same as the measurement would see them
    gap: np.ndarray  # float64 [regions, columns]
    noise: float  # variance of a gap

    @classmethod
    def of(cls, counts: np.ndarray, noisy: NoisyBest) -> RegionGap | None:
        """None where there is nothing to compare."""
        sums = np.zeros((int(noisy.region_of.max()) + 1, counts.shape[1]))
        np.add.at(sums, noisy.region_of, counts)
        seen = (sums * noisy.weight) @ noisy.dictionary
        total = float(noisy.regions.values[:, 0].sum())
        if total <= 0 or seen[:, 0].sum() <= 0:
            return None
        scale = total / seen[:, 0].sum()
        return cls(sums, seen, noisy.regions.values / scale - seen, (noisy.regions.sigma / scale) ** 2)


def correct_regions(counts: np.ndarray, noisy: NoisyBest) -> np.ndarray:
    """Regions moved towards their own, less clipped measurement, as far as it stands out of its noise."""
    found = RegionGap.of(counts, noisy)
    if found is None:
        return counts
    share = kept_of_gaps(found)
    correction = (found.gap * share) @ noisy.dictionary.T / noisy.weight
    factor = 1.0 + correction / np.maximum(found.sums, 1e-12)
    return counts * np.clip(factor, 1 / MOST_CORRECTED, MOST_CORRECTED)[noisy.region_of]


def kept_of_gaps(found: RegionGap) -> np.ndarray:
    """float64 [regions, columns]: Wiener's share of each gap, if gaps grow like the root of what is there.

    How large gaps are in a column is what explains its squares beyond their noise, in a few rounds.
    """
    noise = found.noise / np.maximum(found.seen[:, :1], 1e-9 * found.seen[:, 0].max())
    squares = found.gap**2 * (noise / found.noise) - noise
    size = np.maximum(squares.mean(axis=0), 0.0)
    for _ in range(GAP_ROUNDS):
        known = 1.0 / (size + noise) ** 2
        size = np.maximum((known * squares).sum(axis=0) / known.sum(axis=0), 0.0)
    return size / (size + noise)


def unevenness(counts: np.ndarray, noisy: NoisyBest) -> float:
    """Relative variance of what clipping took from one zone and not from another.

    From the totals of regions, squared gaps less their noise, and from what is usual: the noisier the
    regions, the more of it.
    """
    found = RegionGap.of(counts, noisy)
    if found is None:
        return STAYS * USUAL_UNEVEN
    level = np.maximum(found.seen[:, 0], 1e-9)
    noise = found.noise / level**2
    known = 1.0 / (2 * (noise + USUAL_UNEVEN) ** 2)
    squares = (found.gap[:, 0] / level) ** 2 - noise
    usual = 1.0 / USUAL_UNEVEN**2
    between = (known @ squares + usual * USUAL_UNEVEN) / (known.sum() + usual)
    return STAYS * float(max(between, 0.0))


STANDS_OUT = 4.5  # standard deviations: a residual this large is an event of its own
KEEP = 0.9
GROSS = 20.0  # squared deviations beyond which a residual does not enter the fit
USUAL = (1.5, 0.19**2)  # phi and kappa^2, and how far off they are: chosen with the constants of `best`
USUAL_OFF = (0.4, 0.1**2)
LEAST_PHI = 1.0  # no counts scatter less
CONTRADICTS = 5.0  # deviations
VARIANCE_ROUNDS = 3


@dataclass(frozen=True)
class Scatter:
    """How the truth scatters around a smooth model: variance phi q m + kappa^2 m^1.5 M^0.5."""

    phi: float
    kappa: float

    def variance(self, model: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return self.phi * spread[:, None] * model + self.kappa**2 * uneven_squares(model)


def uneven_squares(model: np.ndarray) -> np.ndarray:
    """m^1.5 M^0.5, M a zone's mean: quiet hours are further from smooth than busy ones, relatively."""
    return np.sqrt(model**3 * model.mean(axis=1, keepdims=True))


def fit_scatter(
    residual: np.ndarray, noise: float | np.ndarray, counts: np.ndarray, squares: np.ndarray
) -> Scatter:
    """phi and kappa of residuals of variance noise^2 + phi counts + kappa^2 squares, all in people."""
    usual, off = np.array(USUAL), np.array(USUAL_OFF)
    found = usual
    for _ in range(VARIANCE_ROUNDS):
        expected = np.maximum(noise**2 + found[0] * counts + found[1] * squares, 1e-300)
        known = (residual**2 < GROSS * expected) / (2 * expected**2)  # a square has twice its mean squared
        excess = residual**2 - noise**2
        parts = (counts, squares)
        fisher = np.array([[(known * x * y).sum() for x in parts] for y in parts])
        told = np.array([(known * x * excess).sum() for x in parts])
        prior = np.diag(1.0 / np.square([off[0], _off(fisher, told)]))
        found = np.linalg.solve(fisher + prior, told + prior @ usual)
        found = np.clip(found, (LEAST_PHI, 0.0), (20.0, 1.0))
    return Scatter(float(found[0]), float(np.sqrt(found[1])))


def _off(fisher: np.ndarray, told: np.ndarray) -> float:
    """How far kappa^2 may be from what is usual: as far as residuals say that clearly contradict it."""
    if fisher[1, 1] <= 0:
        return USUAL_OFF[1]
    alone = (told[1] - fisher[0, 1] * USUAL[0]) / fisher[1, 1]
    further = alone - USUAL[1]
    clear = further > CONTRADICTS * np.hypot(USUAL_OFF[1], 1.0 / np.sqrt(fisher[1, 1]))
    return float(further) if clear else USUAL_OFF[1]


def keep_what_stands_out(residual: np.ndarray, noise: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Wiener's share of each residual, given its noise and the variance expected; large ones nearly whole."""
    total = signal + noise**2
    share = signal / np.maximum(total, 1e-300)
    large = np.abs(residual) > STANDS_OUT * np.sqrt(total)
    return residual * np.where(large, np.maximum(share, KEEP), share)
