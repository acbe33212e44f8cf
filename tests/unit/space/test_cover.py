"""The minimum cover: as small as brute force finds, every fragment once, there and back without loss."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from tests import worlds
from tests.loops import for_each
from tests.worlds import weights_of

from shoal.errors import GuaranteeError
from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights
from shoal_baselines.space.cover import Cover, cover_vertices, minimum_cover, neighbour_graph

CLOCK = Clock(start="2026-03-02T00:00", end="2026-03-02T04:00", time_zone="UTC")


def random_weights(seed, zones, places, density):
    rng = np.random.default_rng(seed)
    matrix = np.where(
        rng.random((zones, places)) < density, rng.integers(1, LATTICE // zones, (zones, places)), 0
    )
    return weights_of(matrix)


def setting_of(weights, seed=0):
    return worlds.setting_of(weights, CLOCK, seed)


def smallest_cover_by_hand(matrix):
    """The size of the smallest set of rows and columns that touches every non-zero entry."""
    rows, columns = matrix.shape
    edges = list(zip(*np.nonzero(matrix), strict=True))
    for size in range(rows + columns + 1):
        for chosen in combinations(range(rows + columns), size):
            if all(z in chosen or rows + p in chosen for z, p in edges):
                return size
    raise AssertionError


GEOMETRIES = {
    "identity": AreaWeights.identity(5),
    "one zone": weights_of([[LATTICE, 5, 7]]),
    "one site": weights_of([[10], [20], [LATTICE - 40]]),
    "one of each": weights_of([[LATTICE]]),
    "zone without site": weights_of([[3, 4], [0, 0], [5, 6]]),
    "site without zone": weights_of([[3, 0], [4, 0]]),
    "nothing overlaps": weights_of([[0, 0], [0, 0]]),
    **{f"random {seed}": random_weights(seed, 12, 9, 0.25) for seed in range(4)},
    "dense": random_weights(9, 6, 20, 0.8),
}


@for_each("seed", range(25))
def test_cover_is_as_small_as_brute_force_finds(seed):
    rng = np.random.default_rng(seed)
    zones, places = rng.integers(1, 6, 2)
    weights = random_weights(seed, zones, places, rng.uniform(0.1, 0.9))
    matrix = weights.matrix.toarray()
    chosen_zones, chosen_places = cover_vertices(weights)
    assert (chosen_zones[:, None] | chosen_places[None, :])[matrix > 0].all()
    assert chosen_zones.sum() + chosen_places.sum() == smallest_cover_by_hand(matrix)


@for_each("name", GEOMETRIES)
def test_there_and_back_is_exact_with_every_fragment_in_one_cell(name):
    weights = GEOMETRIES[name]
    cover = minimum_cover(setting_of(weights))
    assert (np.asarray(cover.to_cells.sum(axis=0)) == np.asarray(weights.matrix.sum(axis=0))).all()
    assert cover.column_l1 <= LATTICE
    assert cover.to_cells.dtype == np.int64
    assert (np.asarray(cover.to_cells.sum(axis=1)) > 0).all()  # no cell is empty
    np.testing.assert_allclose(np.asarray(cover.back.sum(axis=0)), 1.0)
    weights = GEOMETRIES[name]
    cover = minimum_cover(setting_of(weights))
    counts = np.random.default_rng(1).integers(0, 10**6, (weights.shape[1], 4))
    cells = cover.spread(counts)
    zone_units = weights.spread(counts)
    assert cells.sum() == zone_units.sum()
    parts = cover.back_units.toarray()
    whole = parts.sum(axis=0)
    for zone in range(weights.shape[0]):
        for slot in range(4):
            back = sum(
                Fraction(int(parts[zone, c]) * int(cells[c, slot]), int(whole[c])) for c in range(cover.cells)
            )
            assert back == zone_units[zone, slot]
    np.testing.assert_allclose(cover.back @ cells, zone_units, rtol=1e-13)


def test_a_tie_goes_to_zones_and_a_site_over_small_zones_is_one_cell():
    cover = minimum_cover(setting_of(AreaWeights.identity(4)))
    assert cover.zones.tolist() == [0, 1, 2, 3]
    assert cover.places.tolist() == []
    setting = setting_of(weights_of([[9, 0], [9, 0], [9, 5], [0, 7], [0, 7]]))
    cover = minimum_cover(setting)
    assert (cover.zones.tolist(), cover.places.tolist()) == ([], [0, 1])
    assert cover.back.toarray()[:, 0] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0])
    assert (cover.cell_xy_m == setting.place_xy_m).all()


def test_neighbours_hold_the_nearest_and_lines_are_joined_along():
    xy = np.random.default_rng(3).uniform(0, 1, (200, 2))
    graph = neighbour_graph(xy)
    dense = graph.toarray()
    assert (dense == dense.T).all()
    assert not dense.diagonal().any()
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2) + np.eye(200) * 9
    assert dense[np.arange(200), distance.argmin(axis=1)].all()
    assert scipy.sparse.csgraph.connected_components(graph)[0] == 1
    assert neighbour_graph(np.array([(0.0, 0), (2, 2), (1, 1)])).toarray().tolist() == [
        [False, False, True],
        [False, False, True],
        [True, True, False],
    ]


@for_each(
    "xy",
    [[(0, 0)], [(0, 0), (1, 0)], [(0, 0), (2, 2), (1, 1)], [(0, 0)] * 4, [(0, 0), (0, 0), (1, 0), (0, 1)]],
    ids=["one", "two", "on a line", "at one position", "twins"],
)
def test_neighbours_of_odd_arrangements_are_connected(xy):
    graph = neighbour_graph(np.array(xy, float))
    assert scipy.sparse.csgraph.connected_components(graph)[0] == 1


def test_overlapping_or_oversized_counts_are_refused():
    good = minimum_cover(setting_of(AreaWeights.identity(2)))
    doubled = scipy.sparse.csr_array(np.full((2, 2), LATTICE, np.int64))
    with pytest.raises(GuaranteeError, match="cover-bound"):
        Cover(
            zones=good.zones,
            places=good.places,
            to_cells=doubled,
            back_units=good.back_units,
            cell_xy_m=good.cell_xy_m,
            neighbours=good.neighbours,
            lattice=LATTICE,
        )
    cover = minimum_cover(setting_of(AreaWeights.identity(2)))
    with pytest.raises(GuaranteeError, match="cover-overflow"):
        cover.spread(np.full((2, 1), 2**42))
    with pytest.raises(GuaranteeError, match="cover-shape"):
        cover.spread(np.zeros((3, 1), np.int64))
