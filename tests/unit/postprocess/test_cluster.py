"""Clustering: the same as a plain reading of algorithm 3, at any size and with any noise in the totals.
Dyadic buckets against all covers, and the map that noise has nothing to say on.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.loops import for_each

from shoal.space.cells import Rectangles
from shoal_baselines.postprocess.cells import cover_by_intervals, interval_levels, map_or_flat
from shoal_baselines.postprocess.scheme import cluster_cells
from shoal_baselines.space.cover import example_cover, neighbour_graph


def by_hand(totals, xy, neighbours, tau):
    """Algorithm 3 word by word: look at all clusters, merge the least, again."""
    clusters = {i: [i] for i in range(len(totals))}
    dense = neighbours.toarray()

    def total(members):
        return sum(totals[m] for m in members)

    while len(clusters) > 1 and min(total(m) for m in clusters.values()) < tau:
        least = min(clusters, key=lambda c: total(clusters[c]))
        centre = xy[clusters[least]].mean(axis=0)
        near = [c for c in clusters if c != least and dense[np.ix_(clusters[least], clusters[c])].any()]
        other = min(near, key=lambda c: ((xy[clusters[c]].mean(axis=0) - centre) ** 2).sum())
        clusters[other] = clusters.pop(least) + clusters[other]
    return {frozenset(members) for members in clusters.values()}


def as_sets(cluster_of):
    return {frozenset(np.flatnonzero(cluster_of == c).tolist()) for c in range(cluster_of.max() + 1)}


@for_each("seed", range(20))
def test_same_clusters_as_by_hand(seed):
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 1000, (40, 2))
    # Multiples of 1/1024: sums do not depend on the order in which they are taken.
    totals = np.round(rng.exponential(100, 40) + rng.normal(0, 60, 40), 0) + np.arange(40) / 1024
    graph = neighbour_graph(xy)
    tau = rng.choice([50.0, 300.0, 2000.0])
    assert as_sets(cluster_cells(totals, xy, graph, tau)) == by_hand(totals, xy, graph, tau)


def test_clusters_reach_tau_with_none_one_or_many_cells():
    rng = np.random.default_rng(5)
    xy, totals = rng.uniform(0, 1, (300, 2)), rng.exponential(10, 300)
    cluster_of = cluster_cells(totals, xy, neighbour_graph(xy), 70.0)
    sums = np.bincount(cluster_of, weights=totals)
    assert sums.min() >= 70.0
    assert 20 < len(sums) < 43  # neither one heap nor more than the totals allow
    line = example_cover(6)
    for totals in (np.full(6, -5.0), np.zeros(6), np.full(6, 1.0)):
        assert cluster_cells(totals, line.cell_xy_m, line.neighbours, 1e9).tolist() == [0] * 6
    line = example_cover(4)
    assert cluster_cells(np.full(4, 10.0), line.cell_xy_m, line.neighbours, 10.0).tolist() == [0, 1, 2, 3]
    xy = np.array([[0.0, 0], [10, 0], [100, 0]])
    graph = neighbour_graph(xy)
    assert cluster_cells(np.array([50.0, 1.0, 2.0]), xy, graph, 2.0).tolist() == [0, 0, 1]


@pytest.mark.parametrize("cells", [0, 1])
def test_no_cell_and_one_cell(cells):
    cover = example_cover(cells)
    assert cluster_cells(np.zeros(cells), cover.cell_xy_m, cover.neighbours, 5.0).tolist() == [0] * cells


def every_cover(begin, length, cells, finest):
    """All ways to cover the cells of a dyadic interval by dyadic intervals, as lists of (start, length)."""
    if begin >= cells:
        return [[]]
    covers = [[(begin, length)]]
    if length > finest:
        half = length // 2
        covers += [
            left + right
            for left in every_cover(begin, half, cells, finest)
            for right in every_cover(begin + half, half, cells, finest)
        ]
    return covers


@for_each("cells", [1, 2, 5, 8])
@for_each("finest", [1, 2])
@for_each("seed", range(4))
def test_the_cover_is_the_cheapest_of_all(cells, finest, seed):
    generator = np.random.default_rng(seed)
    lengths = interval_levels(cells, finest)
    costs = [generator.normal(2, 3, -(-cells // length)) for length in lengths]
    known = dict(zip(lengths, costs, strict=True))

    def price(cover):
        own = (max(known[length][start // length], 0) if length in known else 0 for start, length in cover)
        return sum(own) + 1.5 * len(cover)

    whole = max(lengths, default=finest)
    best = min(every_cover(0, whole, cells, finest), key=price)
    bucket = cover_by_intervals(costs, finest, cells, price=1.5)
    starts = [0, *(np.flatnonzero(np.diff(bucket)) + 1)]
    assert starts == [start for start, _ in best]


def test_levels_of_buckets_and_maps_of_noise_are_flattened():
    generator = np.random.default_rng(3)
    given = Rectangles.of([(0, 4, 0, 8), (2, 7, 1, 6), (0, 8, 0, 3), (5, 8, 5, 8)])
    signal = np.zeros((8, 8))
    signal[:4, :4] = 50.0
    noise = generator.laplace(0, 2, (8, 8))
    kept = map_or_flat(signal + noise, 800.0, 8.0, given)
    assert kept.tolist() == (signal + noise).tolist()
    flat = map_or_flat(np.full((8, 8), 2.0) + 0.1 * noise, 128.0, 8.0, given)
    assert flat.tolist() == np.full((8, 8), 2.0).tolist()
    assert interval_levels(64, 8) == [64, 32, 16]
    assert interval_levels(5, 1) == [8, 4, 2]
    assert interval_levels(1, 1) == []
