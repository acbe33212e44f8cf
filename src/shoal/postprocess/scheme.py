"""Noisy totals of cells and noisy series of clusters to people per zone and slot, with 95 % intervals.

shape     of a cluster: its series, cut at zero, nights smoothed (by switch), divided by its sum
cell      its noisy total (totals made non-negative with their sum kept) times the shape of its cluster
zone      cells taken back by area

Nights are smoothed before the division, so totals stay what they are; the paper smooths after scaling, which
is the same curve (the fit scales with the series) up to that constant.

The interval is for the raw density, not for the noise alone. Its variance adds, from noisy or public numbers:
  noise of the shape      Gaussian or Laplace noise of the kept coefficients, taken back to slots
  noise of the total      of the cell, the sampling of one visit per user, and the ratio common to all cells
  people                  Poisson: the mean times the squared area weights of sites over the weights
  misfit                  cells differ from their cluster and the cut-off waves are lost: a share of the mean,
                          see `misfit_squared`.
"""

from __future__ import annotations

import numpy as np
import scipy.fft
import scipy.sparse

from shoal.postprocess.nights import smooth_nights
from shoal.postprocess.nonnegative import Z95, keep_totals
from shoal.space.cover import Cover, minimum_cover
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate, NoisyScheme, NoisyTotals

# How far hourly shares of places differ from the city's, relative: 0.29 to 0.36 on the simulated cities.
SHAPE_SPREAD = 0.33
SPREAD_WEIGHT = 40.0  # clusters that say as much about the spread as the constant does
CLUSTERS_TO_HALVE = 17.0  # at so many clusters the squared misfit is half that of one


def finish_scheme(noisy: NoisyScheme, setting: Setting, *, nights: bool = True) -> DensityEstimate:
    """People per zone and slot, unrounded, non-negative, with 95 % intervals."""
    cover = minimum_cover(setting)
    shapes = cluster_shapes(noisy, setting, nights)
    totals = keep_totals(noisy.totals.visits[:, None])[:, 0] if cover.cells else noisy.totals.visits
    by_cluster = _by_cluster(cover.back, noisy.cluster_of, totals, len(shapes))
    people = by_cluster @ shapes
    half = Z95 * np.sqrt(_variance(noisy, setting, cover, shapes, totals, people))
    return DensityEstimate(people=people, low=np.maximum(people - half, 0.0), high=people + half)


def cluster_shapes(noisy: NoisyScheme, setting: Setting, nights: bool) -> np.ndarray:
    """float64 [clusters, slots]: non-negative, each row sums to 1; flat where nothing positive is left."""
    series = np.maximum(noisy.series, 0.0)
    if nights:
        series = smooth_nights(series, setting.clock)
    sums = series.sum(axis=1, keepdims=True)
    flat = np.full(series.shape, 1.0 / max(series.shape[1], 1))
    return np.divide(series, sums, out=flat, where=sums > 0)


def _variance(
    noisy: NoisyScheme,
    setting: Setting,
    cover: Cover,
    shapes: np.ndarray,
    totals: np.ndarray,
    people: np.ndarray,
) -> np.ndarray:
    back, clusters = cover.back, len(shapes)
    squares = back.power(2)
    by_cluster = _by_cluster(back, noisy.cluster_of, totals, clusters)
    of_shape = by_cluster**2 @ shape_variance(noisy)
    doubt = _total_variance(noisy.totals, totals)
    of_total = _by_cluster(squares, noisy.cluster_of, doubt, clusters) @ shapes**2
    common = (noisy.totals.ratio_deviation * people) ** 2
    poisson = people * setting.weights.site_share[:, None]
    return of_shape + of_total + common + poisson + misfit_squared(noisy, shapes) * people**2


def misfit_squared(noisy: NoisyScheme, shapes: np.ndarray) -> float:
    """Squared relative difference of a zone from its cluster's shape.

    It cannot be seen in the release: cells were summed. What can be seen is how clusters differ from each
    other, beyond the noise; it is drawn towards a constant of the simulated cities where clusters are few.
    That the misfit falls with the number of clusters as it does was fitted on the simulator too.
    """
    clusters = len(shapes)
    if clusters == 0:
        return 0.0
    weights = np.maximum(noisy.series, 0.0).sum(axis=1)
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(clusters, 1.0 / clusters)
    mean = weights @ shapes
    seen = (weights @ ((shapes - mean) ** 2 - shape_variance(noisy))).sum() / (mean**2).sum()
    spread = (clusters * max(float(seen), 0.0) + SPREAD_WEIGHT * SHAPE_SPREAD**2) / (clusters + SPREAD_WEIGHT)
    merged = 1.0 - clusters / len(noisy.cluster_of)  # a cell that is its own cluster has no misfit
    return merged * spread / (1.0 + clusters / CLUSTERS_TO_HALVE)


def shape_variance(noisy: NoisyScheme) -> np.ndarray:
    """float64 [clusters, slots]: noise of the kept coefficients at each slot, over the squared sum."""
    slots = noisy.series.shape[1]
    sums = np.maximum(noisy.series, 0.0).sum(axis=1)
    gains = np.cumsum(_waves(slots) ** 2, axis=0)  # [k - 1, slot]
    relative = np.divide(noisy.deviation, sums, out=np.zeros(len(sums)), where=sums > 0)
    return relative[:, None] ** 2 * gains[noisy.kept - 1]


def _waves(slots: int) -> np.ndarray:
    return np.asarray(scipy.fft.dct(np.eye(slots), type=2, norm="ortho", axis=0))


def _total_variance(noisy: NoisyTotals, totals: np.ndarray) -> np.ndarray:
    """Noise, and the sampling where one count stands for several visits (Poisson in counts)."""
    sampled = noisy.per_count if noisy.per_count > 1 else 0.0
    return noisy.deviation**2 + sampled * totals


def _by_cluster(back, cluster_of: np.ndarray, amounts: np.ndarray, clusters: int) -> np.ndarray:
    """float64 [zones, clusters]: what the cells of each cluster give to each zone."""
    cells = np.arange(len(cluster_of))
    member = scipy.sparse.csr_array((amounts, (cells, cluster_of)), shape=(len(cells), clusters))
    return np.asarray((back @ member).todense())
