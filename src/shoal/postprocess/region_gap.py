"""Regions beside the zones they are made of: regions are clipped less, so the gap shows what clipping took.

Used twice: zones are moved towards their region's measurement, and the interval learns how unevenly
clipping takes from zones, of which the correction of whole regions sees only a part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.stages.noisy import NoisyBest

MOST_CORRECTED = 2.0  # factor by which a region may be corrected in a slot
USUAL_UNEVEN = 0.03**2  # relative variance between regions; about as much stays between a region's zones


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
    energy = np.mean(found.gap**2, axis=0)
    share = np.maximum(energy - found.noise, 0.0) / np.maximum(energy, 1e-12 * found.noise)
    correction = (found.gap * share) @ noisy.dictionary.T / noisy.weight
    factor = 1.0 + correction / np.maximum(found.sums, 1e-12)
    return counts * np.clip(factor, 1 / MOST_CORRECTED, MOST_CORRECTED)[noisy.region_of]


def unevenness(counts: np.ndarray, noisy: NoisyBest) -> float:
    """Relative variance of what clipping took from one zone and not from another.

    From the totals of regions, squared gaps less their noise, and from what is usual: the noisier the
    regions, the more of it.
    """
    found = RegionGap.of(counts, noisy)
    if found is None:
        return USUAL_UNEVEN
    level = np.maximum(found.seen[:, 0], 1e-9)
    noise = found.noise / level**2
    known = 1.0 / (2 * (noise + USUAL_UNEVEN) ** 2)
    squares = (found.gap[:, 0] / level) ** 2 - noise
    usual = 1.0 / USUAL_UNEVEN**2
    return float(max((known @ squares + usual * USUAL_UNEVEN) / (known.sum() + usual), 0.0))
