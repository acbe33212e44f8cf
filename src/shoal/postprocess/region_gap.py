"""Regions beside the zones they are made of: regions are clipped less, so the gap shows what clipping took.

Used twice: zones are moved towards their region's measurement, and the interval learns how unevenly
clipping takes from zones, of which the correction of whole regions sees only a part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.stages.noisy import NoisyBest

ROUNDS = 10
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
    for _ in range(ROUNDS):
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
