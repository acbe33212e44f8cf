"""Post-processing of the method `best`: noisy measurements to people per zone and slot, with 95 % intervals.

1. the coefficients of zones are kriged: totals first, then the others as shares of the total
2. measured residuals of the basis are added after shrinkage by their signal-to-noise ratio
3. counts are raised to a small positive floor
4. twice: slots are scaled to the city's profile, regions corrected by their own measurement
5. all counts are scaled to the noisy number of visits

The number of all visits and its limits come from the mechanism, which needs them to choose clips (see
`user_sizes`). Regions are clipped less than the zones they consist of, so the gap between the two shows what
clipping removed: zones are corrected towards the measurement of their region, and the interval is widened by
the variance of the gaps.

The residual variance of a count with model value m in a zone of mean M is phi q m + kappa^2 m^1.5 M^0.5, q
being the squared area weights of a zone over its weights. phi and kappa^2 are fitted by least squares to
squared noisy residuals minus the noise variance, and shrunk towards usual values where residuals are few.

The interval adds the uncertainty of coefficients, of residuals, of the city's slots and total, and of uneven
losses by clipping.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shoal.postprocess.density.numbers import Z95
from shoal.postprocess.density.one_off import Search
from shoal.postprocess.density.peaks import size_peaks, visits_without, with_peaks, without, zones_without
from shoal.postprocess.density.smoothing import Layout, krige
from shoal.postprocess.density.sums import ends
from shoal.space.geography import Setting
from shoal.space.setting import activity, zone_overlap, zone_sizes
from shoal.stages.noisy import DensityEstimate, Doubt, NoisyBest

SECOND_UNLIKE = 0.6  # relative deviation of zones and slots of a second group from those of all users
ROUNDS = 2
FLOOR = 0.05  # of what the zone's total and the city's profile would give
PROFILE_OFF, QUIET = 0.6, 0.6  # relative to the expected share of a slot, or to this part of a mean slot
LEARNED = 0.985  # factor of the width where the residual variance is fitted: its parts overlap, but are added


@dataclass(frozen=True)
class Model:
    """Smooth counts in people before the last corrections, with the parts of their variance."""

    counts: np.ndarray  # float64 [zones, slots]
    coefficients: np.ndarray  # float64 [zones, columns]: variances, in clipped visits
    per_coefficient: np.ndarray  # float64 [slots]: people per basis x coefficient
    residual: np.ndarray  # float64 [zones, slots]: variance of a count of its own


def finish_best(noisy: NoisyBest, setting: Setting, *_public: object) -> DensityEstimate:
    """People per zone and slot, unrounded, with intervals: a smooth week and peaks on top of it."""
    estimate = _finish(noisy, setting)
    search = Search.of(noisy, setting)
    if search is None:
        return estimate
    hits = search.hits()
    if hits:
        others = smooth(zones_without(search, hits, noisy), setting, visits_without(search, hits))
        parts = size_peaks(search, hits, noisy, others.counts)
        estimate = with_peaks(_finish(without(search, parts, noisy, setting), setting), parts)
    return replace(estimate, least_peak=search.least_peak())


def _finish(noisy: NoisyBest, setting: Setting) -> DensityEstimate:
    """The smooth week with intervals and their parts."""
    total = noisy.total
    model = smooth(noisy, setting, total.visits)
    counts = model.counts
    for _ in range(ROUNDS):
        counts = _to_profile(counts, noisy.profile)
        counts = correct_regions(counts, noisy)
    counts = _to_profile(counts, noisy.profile)
    people = counts * (total.visits / counts.sum()) if counts.sum() > 0 else counts
    doubt = _doubt(noisy, setting, model, people)
    low, high = limits(people, doubt)
    return DensityEstimate(people=people, low=low, high=high, doubt=doubt)


def _doubt(noisy: NoisyBest, setting: Setting, model: Model, people: np.ndarray) -> Doubt:
    scale = people / np.maximum(model.counts, 1e-12)
    unlike = SECOND_UNLIKE * noisy.total.second
    return Doubt(
        total=noisy.total,
        clips=noisy.clips,
        slots=np.hypot(profile_deviation(noisy, activity(setting.clock)), unlike),
        uneven=unevenness(model.counts, noisy) + unlike**2,
        coefficients=model.coefficients,
        basis=noisy.basis,
        per_coefficient=scale * model.per_coefficient,
        residual=model.residual * scale**2,
        width=LEARNED if noisy.rest_weight > 0 else 1.0,
    )


def limits(people: np.ndarray, doubt: Doubt) -> tuple[np.ndarray, np.ndarray]:
    """Ends of 95 % intervals of all counts."""
    variance = doubt.cell_variance() + (doubt.slots**2 + doubt.uneven) * people**2
    total = doubt.total
    return ends(
        people, Z95 * doubt.width * np.sqrt(variance), (total.low / total.visits, total.high / total.visits)
    )


def profile_deviation(noisy: NoisyBest, expected: np.ndarray) -> np.ndarray:
    """float64 [slots]: relative deviation of a slot's share; noise and total are both of clipped visits.

    Posterior of the noise that smoothing left, and of what is usual before anything is measured.
    """
    total = max(noisy.profile_total, float(np.linalg.norm(noisy.profile_deviation)))
    noise = noisy.profile_noise_left * (noisy.profile_deviation / total) ** 2
    share = np.maximum(np.maximum(noisy.profile, expected / expected.sum()), QUIET / len(expected))
    usual = (PROFILE_OFF * share) ** 2
    return np.sqrt(noise * usual / (noise + usual)) / noisy.profile


def smooth(noisy: NoisyBest, setting: Setting, visits: float) -> Model:
    """Counts from kriged coefficients, plus shrunk residuals where all of them were measured."""
    spread = setting.weights.site_share
    coefficients, remaining = _krige_columns(noisy, setting)
    counts = coefficients @ noisy.basis.T / noisy.weight
    floor = _floor(coefficients[:, 0], noisy)
    total = float(np.maximum(counts, floor).sum())
    to_people = visits / total if total > 0 else 1.0  # clipped visits to all visits
    model = np.maximum(counts, floor) * to_people
    per_coefficient = to_people / noisy.weight
    residual_variance = _fit_rest(noisy, model, spread, to_people)
    signal = residual_variance.variance(model, spread)
    if not noisy.whole or noisy.rest_weight == 0:
        outside = 1.0 - (noisy.basis**2).sum(axis=1)
        return Model(model, remaining, per_coefficient, outside * signal)
    residual = to_people * (noisy.rest / noisy.rest_weight @ noisy.rest_basis.T / noisy.weight)
    outside = (noisy.rest_basis**2).sum(axis=1)
    noise = np.sqrt(outside) * noisy.zones_sigma[:, None] / noisy.rest_weight / noisy.weight * to_people
    shrunk = shrink_residuals(residual, noise, signal)
    left = signal * noise**2 / np.maximum(signal + noise**2, 1e-300)
    people = np.maximum(counts * to_people + shrunk, floor * to_people)
    return Model(people, remaining, per_coefficient, left)


def _fit_rest(noisy: NoisyBest, model: np.ndarray, spread: np.ndarray, to_people: float) -> ResidualVariance:
    """Residual variance of counts around the model, fitted to the measurements outside the columns."""
    unit = to_people / (noisy.rest_weight or 1.0)  # 0: none were measured, the prior values remain
    square = noisy.rest_basis**2
    counts = (spread[:, None] * model * noisy.weight**2) @ square
    squares = (uneven_squares(model) * noisy.weight**2) @ square
    return fit_residual_variance(noisy.rest * unit, noisy.zones_sigma[:, None] * unit, counts, squares)


def _krige_columns(noisy: NoisyBest, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [zones, columns] of the orthonormal basis, and their remaining variances."""
    layout = Layout.of(setting.zone_xy_m, zone_sizes(setting.weights), zone_overlap(setting.weights))
    values = noisy.zones
    noise = [noisy.zones_sigma**2] * values.shape[1]
    if noisy.zones_doubt is not None:
        noise = list(noise[0] + noisy.zones_doubt.T)
    totals = krige(layout, values[:, 0], noise[0], outliers=noisy.outliers, sized=True)
    level = np.maximum(totals.mean, 0.02 * np.median(np.abs(totals.mean)) + 1e-9)
    coefficients, remaining = np.empty_like(values), np.empty_like(values)
    coefficients[:, 0], remaining[:, 0] = level, totals.variance
    for j in range(1, values.shape[1]):
        shares = krige(layout, values[:, j] / level, noise[j] / level**2, outliers=noisy.outliers)
        coefficients[:, j] = shares.mean * level
        # of a product: where the level is small against its noise, the true one may be many times larger
        remaining[:, j] = shares.variance * (level**2 + totals.variance) + shares.mean**2 * totals.variance
    return coefficients, remaining


def _floor(totals: np.ndarray, noisy: NoisyBest) -> np.ndarray:
    """float64 [zones, slots]: a small share of the zone's total times the city's profile."""
    along = noisy.basis[:, 0] / noisy.weight  # the profile, up to a factor
    return FLOOR * totals[:, None] * np.maximum(along, 0.0)


def _to_profile(counts: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """Counts scaled per slot so that their sums follow the city's profile."""
    sums = counts.sum(axis=0)
    return counts * np.divide(profile * counts.sum(), sums, out=np.ones_like(sums), where=sums > 0)


GAP_ROUNDS = 10
MOST_CORRECTED = 2.0  # factor by which a region may be corrected in a slot
USUAL_UNEVEN = 0.03**2  # relative variance between regions
STAYS = 0.5  # of it stays between a region's zones, which the correction of whole regions does not see


@dataclass(frozen=True)
class RegionGap:
    """Measurement of regions minus that implied by the counts, in the columns of the regions' dictionary."""

    sums: np.ndarray  # float64 [regions, slots]: the counts
    implied: np.ndarray  # float64 [regions, columns]: the measurement that the counts imply
    gap: np.ndarray  # float64 [regions, columns]
    noise: float  # variance of a gap

    @classmethod
    def of(cls, counts: np.ndarray, noisy: NoisyBest) -> RegionGap | None:
        """None where there is nothing to compare."""
        sums = np.zeros((int(noisy.region_of.max()) + 1, counts.shape[1]))
        np.add.at(sums, noisy.region_of, counts)
        implied = (sums * noisy.weight) @ noisy.dictionary
        total = float(noisy.regions.values[:, 0].sum())
        if total <= 0 or implied[:, 0].sum() <= 0:
            return None
        scale = total / implied[:, 0].sum()
        return cls(sums, implied, noisy.regions.values / scale - implied, (noisy.regions.sigma / scale) ** 2)


def correct_regions(counts: np.ndarray, noisy: NoisyBest) -> np.ndarray:
    """Counts corrected per region towards its own, less clipped measurement, after shrinkage of the gaps."""
    gaps = RegionGap.of(counts, noisy)
    if gaps is None:
        return counts
    share = wiener_share(gaps)
    correction = (gaps.gap * share) @ noisy.dictionary.T / noisy.weight
    factor = 1.0 + correction / np.maximum(gaps.sums, 1e-12)
    return counts * np.clip(factor, 1 / MOST_CORRECTED, MOST_CORRECTED)[noisy.region_of]


def wiener_share(gaps: RegionGap) -> np.ndarray:
    """float64 [regions, columns]: Wiener's factor for each gap; its variance grows with the region's total.

    The variance per column is fitted to squared gaps minus the noise variance, in a few reweighted rounds.
    """
    noise = gaps.noise / np.maximum(gaps.implied[:, :1], 1e-9 * gaps.implied[:, 0].max())
    squares = gaps.gap**2 * (noise / gaps.noise) - noise
    size = np.maximum(squares.mean(axis=0), 0.0)
    for _ in range(GAP_ROUNDS):
        known = 1.0 / (size + noise) ** 2
        size = np.maximum((known * squares).sum(axis=0) / known.sum(axis=0), 0.0)
    return size / (size + noise)


def unevenness(counts: np.ndarray, noisy: NoisyBest) -> float:
    """Relative variance between zones of the share of visits that clipping removed.

    Posterior mean of squared relative gaps of regions minus their noise variance, and the prior value
    USUAL_UNEVEN: the noisier the regions, the closer to the prior.
    """
    gaps = RegionGap.of(counts, noisy)
    if gaps is None:
        return STAYS * USUAL_UNEVEN
    level = np.maximum(gaps.implied[:, 0], 1e-9)
    noise = gaps.noise / level**2
    known = 1.0 / (2 * (noise + USUAL_UNEVEN) ** 2)
    squares = (gaps.gap[:, 0] / level) ** 2 - noise
    usual = 1.0 / USUAL_UNEVEN**2
    between = (known @ squares + usual * USUAL_UNEVEN) / (known.sum() + usual)
    return STAYS * float(max(between, 0.0))


STANDS_OUT = 4.5  # standard deviations: larger residuals are taken for single events
KEEP = 0.9
GROSS = 20.0  # squared deviations beyond which a residual does not enter the fit
USUAL = (1.5, 0.19**2)  # prior means of phi and kappa^2, and their deviations: chosen with those of `best`
USUAL_OFF = (0.4, 0.1**2)
LEAST_PHI = 1.0  # Poisson variance
CONTRADICTS = 5.0  # deviations
VARIANCE_ROUNDS = 3


@dataclass(frozen=True)
class ResidualVariance:
    """Residual variance of true counts around a smooth model: phi q m + kappa^2 m^1.5 M^0.5."""

    phi: float
    kappa: float

    def variance(self, model: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return self.phi * spread[:, None] * model + self.kappa**2 * uneven_squares(model)


def uneven_squares(model: np.ndarray) -> np.ndarray:
    """m^1.5 M^0.5, M the mean of a zone: relative residuals are larger in quiet hours."""
    return np.sqrt(model**3 * model.mean(axis=1, keepdims=True))


def fit_residual_variance(
    residual: np.ndarray, noise: float | np.ndarray, counts: np.ndarray, squares: np.ndarray
) -> ResidualVariance:
    """phi and kappa of residuals of variance noise^2 + phi counts + kappa^2 squares, all in people."""
    usual, off = np.array(USUAL), np.array(USUAL_OFF)
    estimate = usual
    for _ in range(VARIANCE_ROUNDS):
        expected = np.maximum(noise**2 + estimate[0] * counts + estimate[1] * squares, 1e-300)
        known = (residual**2 < GROSS * expected) / (2 * expected**2)  # a square has twice its mean squared
        excess = residual**2 - noise**2
        parts = (counts, squares)
        fisher = np.array([[(known * x * y).sum() for x in parts] for y in parts])
        score = np.array([(known * x * excess).sum() for x in parts])
        prior = np.diag(1.0 / np.square([off[0], _prior_deviation(fisher, score)]))
        estimate = np.linalg.solve(fisher + prior, score + prior @ usual)
        estimate = np.clip(estimate, (LEAST_PHI, 0.0), (20.0, 1.0))
    return ResidualVariance(float(estimate[0]), float(np.sqrt(estimate[1])))


def _prior_deviation(fisher: np.ndarray, score: np.ndarray) -> float:
    """Prior deviation of kappa^2, enlarged to the observed distance where residuals contradict the prior."""
    if fisher[1, 1] <= 0:
        return USUAL_OFF[1]
    alone = (score[1] - fisher[0, 1] * USUAL[0]) / fisher[1, 1]
    further = alone - USUAL[1]
    clear = further > CONTRADICTS * np.hypot(USUAL_OFF[1], 1.0 / np.sqrt(fisher[1, 1]))
    return float(further) if clear else USUAL_OFF[1]


def shrink_residuals(residual: np.ndarray, noise: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Residuals times Wiener's factor for their noise and expected variance; large ones nearly unshrunk."""
    total = signal + noise**2
    share = signal / np.maximum(total, 1e-300)
    large = np.abs(residual) > STANDS_OUT * np.sqrt(total)
    return residual * np.where(large, np.maximum(share, KEEP), share)
