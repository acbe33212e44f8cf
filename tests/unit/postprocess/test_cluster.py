"""Clustering: the same as a plain reading of algorithm 3, at any size and with any noise in the totals."""

import numpy as np
import pytest
from tests.loops import for_each

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


def test_every_cluster_reaches_tau():
    rng = np.random.default_rng(5)
    xy, totals = rng.uniform(0, 1, (300, 2)), rng.exponential(10, 300)
    cluster_of = cluster_cells(totals, xy, neighbour_graph(xy), 70.0)
    sums = np.bincount(cluster_of, weights=totals)
    assert sums.min() >= 70.0
    assert 20 < len(sums) < 43  # neither one heap nor more than the totals allow


def test_clusters_at_the_edges():
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
