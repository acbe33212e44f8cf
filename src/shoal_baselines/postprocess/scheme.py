"""Noisy totals of cells and noisy series of clusters to people per zone and slot, with 95 % intervals.

shape     of a cluster: its series, cut at zero, nights smoothed (by switch), divided by its sum
cell      its noisy total (totals made non-negative with the same sum) times the shape of its cluster
zone      cells taken back by area

Nights are smoothed before the division, so totals stay what they are; the paper smooths after scaling, which
is the same curve (the fit scales with the series) up to that constant.

The interval is for the raw density, not for the noise alone. Its variance adds, from noisy or public numbers:
  noise of the shape      Gaussian or Laplace noise of the kept coefficients, taken back to slots
  noise of the total      of the cell, the sampling of one visit per user, and the ratio common to all cells
  people                  Poisson: the mean times the squared area weights of sites over the weights
  misfit                  cells differ from their cluster, and components are omitted: a share of the mean,
                          see `misfit_squared`.

Night hours replaced by fitted exponentials: a exp(b x), falling to 4 h and rising to 6 h, day by day.

Acs and Castelluccia 2014, section 5.4.2. x runs over the slots of 0 to 4 h and of 4 to 6 h, both ends
included (with hourly slots five points and three); the slot at 4 h, which belongs to both, gets the mean of
the two fits, the slot at 6 h only helps to fit. Least squares: for a given b the best a is known, so one
number is searched, on a grid and then by golden section, for all series at once.

Only where the clock makes these hours nights: slots of at most 60 minutes that divide the hours, and days of
which the window holds the whole span from 0 h to 6 h. Other days stay as they are.

Cells merged into clusters of at least tau visits: the smallest goes to its nearest neighbour.

Acs and Castelluccia 2014, algorithm 3. Totals are noisy and geometry is public, so this is free.
A cluster's centre is the mean of its cells' centres (the paper: the centroid of their polygons).

>>> from shoal_baselines.space.cover import example_cover
>>> line = example_cover(3)
>>> cluster_cells(np.array([9.0, 1.0, 8.0]), line.cell_xy_m, line.neighbours, tau=5.0).tolist()
[0, 0, 1]
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse

from shoal.postprocess.density.numbers import Z95, keep_totals
from shoal.space.clock import Clock
from shoal.space.geography import Setting
from shoal.stages.noisy import DensityEstimate
from shoal_baselines.space.cover import Cover, minimum_cover

# How far hourly shares of places differ from the city's, relative: 0.29 to 0.36 on the simulated cities.
SHAPE_SPREAD = 0.33
SPREAD_WEIGHT = 40.0  # clusters that say as much about the spread as the constant does
CLUSTERS_TO_HALVE = 17.0  # at so many clusters the squared misfit is half that of one


@dataclass(frozen=True, kw_only=True)
class NoisyTotals:
    """Visits per cover cell after noise, with their error as estimated from noisy numbers."""

    visits: np.ndarray = field(repr=False)  # float64 [cells], may be negative
    deviation: float  # of the noise of each
    per_count: float  # visits that one counted visit stands for; 1 where all were counted
    ratio_deviation: float  # relative error common to all cells


@dataclass(frozen=True, kw_only=True)
class NoisyScheme:
    """Noisy totals of cover cells and noisy series of their clusters (Acs and Castelluccia 2014)."""

    totals: NoisyTotals
    cluster_of: np.ndarray = field(repr=False)  # int64 [cells]
    series: np.ndarray = field(repr=False)  # float64 [clusters, slots], in bounded visits, may be negative
    k: np.ndarray = field(repr=False)  # int64 [clusters]: number of coefficients kept
    deviation: np.ndarray = field(repr=False)  # float64 [clusters]: of the noise on each coefficient


def finish_scheme(noisy: NoisyScheme, setting: Setting, *, nights: bool = True) -> DensityEstimate:
    """People per zone and slot, unrounded, non-negative, with 95 % intervals."""
    cover = minimum_cover(setting)
    shapes = cluster_shapes(noisy, setting, nights)
    totals = keep_totals(noisy.totals.visits[:, None])[:, 0] if cover.cells else noisy.totals.visits
    by_cluster = _by_cluster(cover.back, noisy.cluster_of, totals, len(shapes))
    people = by_cluster @ shapes
    half = Z95 * np.sqrt(_variance(noisy, setting, cover, shapes, totals, people))
    return DensityEstimate(people=people, low=np.maximum(people - half, 0.0), high=people + half)


def finish_with(noisy: NoisyScheme, setting: Setting, options: Any) -> DensityEstimate:
    """The same with the nights smoothed where the options say so."""
    return finish_scheme(noisy, setting, nights=options.nights)


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

    The release does not show it, since cells were summed. It shows how far clusters differ from each other,
    beyond the noise; that is shrunk towards a constant of the simulated cities where clusters are few.
    That the misfit falls with the number of clusters as it does was fitted on the simulator too.
    """
    clusters = len(shapes)
    if clusters == 0:
        return 0.0
    weights = np.maximum(noisy.series, 0.0).sum(axis=1)
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(clusters, 1.0 / clusters)
    mean = weights @ shapes
    between = (weights @ ((shapes - mean) ** 2 - shape_variance(noisy))).sum() / (mean**2).sum()
    spread = (clusters * max(float(between), 0.0) + SPREAD_WEIGHT * SHAPE_SPREAD**2) / (
        clusters + SPREAD_WEIGHT
    )
    merged = 1.0 - clusters / len(noisy.cluster_of)  # a cell that is its own cluster has no misfit
    return merged * spread / (1.0 + clusters / CLUSTERS_TO_HALVE)


def shape_variance(noisy: NoisyScheme) -> np.ndarray:
    """float64 [clusters, slots]: noise of the kept coefficients at each slot, over the squared sum."""
    slots = noisy.series.shape[1]
    sums = np.maximum(noisy.series, 0.0).sum(axis=1)
    gains = np.cumsum(_components(slots) ** 2, axis=0)  # [k - 1, slot]
    relative = np.divide(noisy.deviation, sums, out=np.zeros(len(sums)), where=sums > 0)
    return relative[:, None] ** 2 * gains[noisy.k - 1]


def _components(slots: int) -> np.ndarray:
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


SPANS = ((0.0, 4.0), (4.0, 6.0))  # local hours
STEEPEST = 3.0  # of b, per hour: a factor of 20 from one hour to the next
_GRID = np.linspace(-STEEPEST, STEEPEST, 61)
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def smooth_nights(series: np.ndarray, clock: Clock) -> np.ndarray:
    """float64 [rows, slots]: the same series with fitted nights; non-negative in, non-negative out."""
    result = series.copy()
    hours = clock.hours_local
    for night, morning in nights_of(clock):
        first = fit_exponential(hours[night], series[:, night])
        second = fit_exponential(hours[morning], series[:, morning])
        result[:, night[:-1]] = first[:, :-1]
        result[:, morning[0]] = (first[:, -1] + second[:, 0]) / 2.0
        result[:, morning[1:-1]] = second[:, 1:-1]
    return result


def nights_of(clock: Clock) -> list[tuple[np.ndarray, np.ndarray]]:
    """Slots of 0 to 4 h and of 4 to 6 h, ends included, of every day that has them all."""
    if clock.slot_minutes > 60 or 60 % clock.slot_minutes:
        return []
    per_hour = 60 // clock.slot_minutes
    minutes = np.rint(clock.hours_local * 60).astype(np.int64)
    day_of_slot = clock.day_of_slot
    nights = []
    for day in range(len(clock.days)):
        of_day = np.flatnonzero(day_of_slot == day)
        spans = [of_day[(minutes[of_day] >= a * 60) & (minutes[of_day] <= b * 60)] for a, b in SPANS]
        # A day on which the clocks change has other slots; so has a day the window cuts.
        if all(len(span) == int(b - a) * per_hour + 1 for span, (a, b) in zip(spans, SPANS, strict=True)):
            nights.append((spans[0], spans[1]))
    return nights


def fit_exponential(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """float64 [rows, points]: the least-squares a exp(b x) of each row, |b| <= STEEPEST; a >= 0."""
    x = x - x.mean()
    on_grid = _explained(np.broadcast_to(_GRID, (len(y), _GRID.size)), x, y)
    best = on_grid.argmax(axis=1)
    low, high = _GRID[np.maximum(best - 1, 0)], _GRID[np.minimum(best + 1, _GRID.size - 1)]
    for _ in range(40):
        inner = np.stack([high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)], axis=1)
        value = _explained(inner, x, y)
        left = value[:, 0] > value[:, 1]
        low, high = np.where(left, low, inner[:, 0]), np.where(left, inner[:, 1], high)
    curve = np.exp((low + high)[:, None] / 2.0 * x)
    height = np.maximum((curve * y).sum(axis=1) / (curve * curve).sum(axis=1), 0.0)
    return height[:, None] * curve


def _explained(b: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[rows, candidates]: the part of sum y^2 that the best a exp(b x) explains."""
    curve = np.exp(b[:, :, None] * x)
    along = np.maximum((curve * y[:, None, :]).sum(axis=2), 0.0)
    return along**2 / (curve * curve).sum(axis=2)


def cluster_cells(
    noisy_totals: np.ndarray, cell_xy_m: np.ndarray, neighbours: scipy.sparse.csr_array, tau: float
) -> np.ndarray:
    """int64 [cells]: the cluster of each cell, numbered in the order of their first cells.

    Ends when every cluster has at least tau, or only one is left. Equal totals and equal distances are
    decided by the smaller number, so the outcome is a function of the noisy totals alone.
    """
    cells = len(noisy_totals)
    totals = [float(total) for total in noisy_totals]
    sums = [(float(x), float(y), 1) for x, y in cell_xy_m]  # of centres, and how many
    near = [set(neighbours.indices[a:b].tolist()) for a, b in _rows(neighbours)]
    owner = list(range(cells))
    waiting = [(total, cell) for cell, total in enumerate(totals)]
    heapq.heapify(waiting)
    while waiting and waiting[0][0] < tau:
        total, cluster = heapq.heappop(waiting)
        if owner[cluster] != cluster or totals[cluster] != total:
            continue  # merged away, or grown since
        other = _nearest(cluster, near[cluster], sums)
        if other is None:
            continue  # the last cluster of its part of the map
        target, gone = (cluster, other) if len(near[cluster]) >= len(near[other]) else (other, cluster)
        _merge(target, gone, near)
        owner[gone] = target
        totals[target] = totals[cluster] + totals[other]
        sums[target] = tuple(a + b for a, b in zip(sums[target], sums[gone], strict=True))  # type: ignore[assignment]
        heapq.heappush(waiting, (totals[target], target))
    return _numbered(owner)


def _nearest(cluster: int, near: Iterable[int], sums: list[tuple[float, float, int]]) -> int | None:
    x, y, count = sums[cluster]
    x, y = x / count, y / count
    best = None
    for other in near:
        other_x, other_y, others = sums[other]
        distance = (other_x / others - x) ** 2 + (other_y / others - y) ** 2
        if best is None or (distance, other) < best:
            best = (distance, other)
    return None if best is None else best[1]


def _merge(target: int, gone: int, near: list[set[int]]) -> None:
    for other in near[gone]:
        near[other].discard(gone)
        if other != target:
            near[other].add(target)
            near[target].add(other)
    near[gone] = set()


def _numbered(owner: list[int]) -> np.ndarray:
    """Follow each cell to the cluster it ended in, and number clusters from 0."""
    number: dict[int, int] = {}
    result = np.empty(len(owner), np.int64)
    for cell in range(len(owner)):
        root = cell
        while owner[root] != root:
            root = owner[root]
        owner[cell] = root
        result[cell] = number.setdefault(root, len(number))
    return result


def _rows(graph: scipy.sparse.csr_array) -> Iterable[tuple[int, int]]:
    return zip(graph.indptr[:-1].tolist(), graph.indptr[1:].tolist(), strict=True)
