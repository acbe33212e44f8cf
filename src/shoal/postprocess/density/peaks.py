"""Peaks in the estimate of `best`: their size, the noisy answers without them, the estimate with them.

`best` runs on the noisy answers without the peaks; the peaks are added to its estimate, with their variance.
Everything here is computed from noisy answers and public settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.postprocess.density.numbers import Z95
from shoal.postprocess.density.one_off import Hit, Search
from shoal.postprocess.density.smoothing import city_profile, hour_weights
from shoal.space.geography import Setting
from shoal.space.setting import activity
from shoal.stages.noisy import DensityEstimate, NoisyBest, NoisyMeasurement, Peak, PeakDoubt

ALIKE = (0.0, 0.2, 0.4, 0.6)  # how visitors are clipped: as new users (0) or like the usual visit (1)
STAYS = (0.5, 0.75, 1.0)  # share of a peak's hours that its visitors are there
DISAGREE = 0.05  # of a size: deviation between zone and region besides noise
CLIPPED_DOUBT = 0.05  # of a size: its deviation besides
WITHIN = 0.08  # relative deviation of a peak's hours from its window
LEAST_REGIONS = 3  # without peaks, to tell how well regions fit
CHI_MEDIAN = 0.455  # median of a squared normal variable
LEAST_LEFT = 0.3  # of all visits stay when peaks are taken out


@dataclass(frozen=True)
class PeakPart:
    """A peak as it enters the estimate and the noisy answers."""

    peak: Peak
    profile: np.ndarray  # float64 [slots], people
    together: np.ndarray  # float64 [slots]: deviations by an error of its size
    alone: np.ndarray  # float64 [slots]: variances of its slots besides
    hit: Hit


def size_peaks(search: Search, hits: Sequence[Hit], noisy: NoisyBest, counts: np.ndarray) -> list[PeakPart]:
    """Peaks in people, their sizes from zones and regions; `counts` is the estimate without the peaks."""
    expected = np.array([hit.probability @ hit.profiles for hit in hits])
    in_regions, of_region = _in_regions(noisy, counts, np.array([hit.zone for hit in hits]), expected)
    scales = search.answers.scale, of_region, max(search.visits / max(noisy.profile_total, 1e-9), 1.0)
    unit = np.repeat([1.0, noisy.rest_weight], [search.answers.learned, noisy.rest_basis.shape[1]])
    parts = []
    for hit, from_region in zip(hits, in_regions, strict=True):
        stay = float(np.linalg.norm(hit.columns[0] * unit)) / noisy.clips["zones"][0]
        size, variance = _size_in_people(hit, stay, scales, from_region)
        size = max(size, 0.0)
        relative = hit.size / max(float(hit.probability @ hit.size), 1e-9)  # the longer, the smaller
        inside = (hit.probability * relative) @ hit.profiles
        squares = (hit.probability * relative**2) @ hit.profiles**2
        profile = size * inside
        doubt = size**2 * np.maximum(squares - inside**2, 0.0) + (WITHIN * profile) ** 2 + profile
        start, stop, days = hit.window
        off = float(np.sqrt(variance))
        peak = Peak(zone=hit.zone, start=start, stop=stop, days=days, size=size, deviation=off)
        parts.append(PeakPart(peak, profile, off * inside, doubt, hit))
    return parts


def _size_in_people(
    hit: Hit, stay: float, scales: tuple[float, float, float], from_region: tuple[float, float] | None
) -> tuple[float, float]:
    """Size and variance of a peak, from its zone and its region.

    Visitors are clipped, those who come for long more than others, in the zone more than in the region. Both
    measurements must give one size: it is averaged over how much visitors are clipped (as ALIKE) and how long
    they stay (STAYS), weighted by the likelihood of the difference of the two.

    Args:
        stay: norm of the whole peak as one visitor's, in clips of the zone.
        scales: visits for a clipped visit of zones, of regions, of the city.
    """
    of_zones, of_regions, of_city = scales
    a = float(hit.probability @ hit.size)
    variance = float(hit.probability @ (hit.variance + hit.size**2) - a**2)
    alike, stays = (each.ravel() for each in np.meshgrid(ALIKE, STAYS))
    to = np.hypot(max(of_zones / of_regions, 1.0) ** alike, stays * stay) / of_zones
    sizes, doubts = a * to, variance * to**2
    probability = np.ones(len(to))
    if from_region is not None:
        to = max(of_regions / of_city, 1.0) ** alike / of_regions
        other, doubt = from_region[0] * to, from_region[1] * to**2
        both = doubts + doubt + (DISAGREE * sizes) ** 2
        log_probability = -0.5 * ((sizes - other) ** 2 / both + np.log(both))
        probability = np.exp(log_probability - log_probability.max())
        trust = doubts / (doubts + doubt + (DISAGREE * sizes) ** 2)
        sizes, doubts = sizes + trust * (other - sizes), doubts * (1 - trust)
    probability = probability / probability.sum()
    size = float(probability @ sizes)
    doubt = float(probability @ (doubts + sizes**2) - size**2)
    return size, doubt + (CLIPPED_DOUBT * size) ** 2


def _in_regions(
    noisy: NoisyBest, counts: np.ndarray, zones: np.ndarray, profiles: np.ndarray
) -> tuple[list[tuple[float, float] | None], float]:
    """Size and variance of each peak as its region measured it, in visits times the scale, and the scale.

    The variance is the larger of two: that of the fit, and the mean square of the same fit in other regions.
    """
    region_of = noisy.region_of
    sums = np.zeros((int(region_of.max()) + 1, counts.shape[1]))
    np.add.at(sums, region_of, counts)
    implied = (sums * noisy.weight) @ noisy.dictionary
    touched = np.unique(region_of[zones])
    others = np.setdiff1d(np.arange(len(sums)), touched)
    measured, expected = (float(each[others, 0].sum()) for each in (noisy.regions.values, implied))
    if len(others) < LEAST_REGIONS or measured <= 0 or expected <= 0:
        return [None] * len(zones), 1.0
    scale = expected / measured
    gap = noisy.regions.values * scale - implied
    level = np.sqrt(np.maximum(implied[:, :1], 1e-9))
    usual = gap[others] / level[others]
    spread = 1.4826 * np.median(np.abs(usual), axis=0)
    answers: list[tuple[float, float] | None] = [None] * len(zones)
    for region in touched:
        mine = np.flatnonzero(region_of[zones] == region)
        design = (profiles[mine] * noisy.weight) @ noisy.dictionary
        variance = np.maximum((spread * level[region]) ** 2, (noisy.regions.sigma * scale) ** 2)
        covariance = np.linalg.pinv((design / variance) @ design.T)
        read = covariance @ (design / variance)
        tried = ((usual * level[region]) @ read.T) ** 2
        tried = np.minimum(tried, 9 * np.median(tried, axis=0) / CHI_MEDIAN).mean(axis=0)
        for number, peak in enumerate(mine):
            doubt = float(max(covariance[number, number], tried[number]))
            answers[peak] = (float(read[number] @ gap[region]), doubt)
    return answers, max(scale, 1.0)


def visits_without(search: Search, hits: Sequence[Hit]) -> float:
    """Number of visits without those of the peaks."""
    gone = sum(float((hit.probability * hit.size) @ hit.profiles.sum(axis=1)) for hit in hits)
    return max(search.visits - gone / search.answers.scale, LEAST_LEFT * search.visits)


def zones_without(search: Search, hits: Sequence[Hit], noisy: NoisyBest) -> NoisyBest:
    """Answers about zones without the peaks, whose variance is added to the noise of the learned columns."""
    learned, scale = noisy.basis.shape[1], search.answers.scale
    zones, rest = noisy.zones.copy(), noisy.rest.copy()
    doubt = np.zeros_like(zones)
    for hit in hits:
        zones[hit.zone] -= hit.mean[:learned] / scale
        rest[hit.zone] -= hit.mean[learned:] / scale * noisy.rest_weight
        doubt[hit.zone] += hit.doubt[:learned] / scale**2
    return replace(noisy, zones=zones, rest=rest, zones_doubt=doubt)


def without(search: Search, parts: Sequence[PeakPart], noisy: NoisyBest, setting: Setting) -> NoisyBest:
    """All noisy answers without what the peaks add to them."""
    regions = noisy.regions.values.copy()
    for part in parts:
        regions[noisy.region_of[part.peak.zone]] -= (part.profile * noisy.weight) @ noisy.dictionary
    gone = np.sum([part.profile for part in parts], axis=0)
    doubt = np.sum([part.together**2 + part.alone for part in parts], axis=0)
    expected = activity(setting.clock)
    hour_weight = hour_weights(expected)
    city = noisy.city.values[0] - hour_weight * gone
    per_day = 1440 / setting.clock.slot_minutes
    profile, noise_left = city_profile(city, hour_weight, noisy.city.sigma, expected, per_day)
    left = max(1.0 - float(gone.sum()) / noisy.total.visits, LEAST_LEFT)
    numbers = {name: left * getattr(noisy.total, name) for name in ("visits", "low", "high", "deviation")}
    total = replace(noisy.total, **numbers)
    return replace(
        zones_without(search, [part.hit for part in parts], noisy),
        regions=NoisyMeasurement(values=regions, sigma=noisy.regions.sigma),
        total=total,
        profile=profile,
        profile_deviation=np.sqrt(noisy.profile_deviation**2 + doubt),
        profile_total=float((city / hour_weight).sum()),
        profile_noise_left=noise_left,
    )


def with_peaks(rest: DensityEstimate, parts: Sequence[PeakPart]) -> DensityEstimate:
    """The estimate of everything else, plus the peaks."""
    people, low, high = (each.copy() for each in (rest.people, rest.low, rest.high))
    for part in parts:
        zone, variance = part.peak.zone, part.together**2 + part.alone
        below, above = (np.abs(end[zone] - people[zone]) for end in (low, high))
        people[zone] += part.profile
        low[zone] = np.maximum(people[zone] - np.sqrt(below**2 + Z95**2 * variance), 0.0)
        high[zone] = people[zone] + np.sqrt(above**2 + Z95**2 * variance)
    doubts = tuple(PeakDoubt(zone=p.peak.zone, together=p.together, alone=p.alone) for p in parts)
    doubt = None if rest.doubt is None else replace(rest.doubt, peaks=doubts)
    peaks = tuple(part.peak for part in parts)
    return replace(rest, people=people, low=low, high=high, doubt=doubt, peaks=peaks)
