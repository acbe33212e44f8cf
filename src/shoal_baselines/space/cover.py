"""The smallest set of sites and zones that covers the city, and how counts go to its cells and back.

Graph        places and zones are vertices; a non-zero weight (an overlap fragment) is an edge.
Cover        a minimum vertex cover, by Koenig's theorem from a maximum matching (scipy's Hopcroft-Karp);
             among the minimum covers the one with the most zones, since a zone's count needs no splitting.
Fragments    each is assigned to exactly one chosen cell: its zone if that is chosen, else its site. So cover
             counts are sums over disjoint fragments, and one visit moves them by the same L1 as zone counts.
Back         a zone's cell belongs to its zone; a site's cell is split over its fragments' zones by area.
             Without noise the way there and back is exact.
Neighbours   the Delaunay triangulation of the cells' centres (centroid of a zone, position of a site): exact
             adjacency is not needed, because only the nearest neighbour of a cluster is ever used and the
             triangulation holds every nearest neighbour. Cells at one position are neighbours; centres on a
             line are joined along it.
Source       Acs and Castelluccia 2014, section 5.2. Deviation: they subtract overlaps of chosen cells; here
             no fragment lies in two cells, so nothing is subtracted and the bound on a visit stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import scipy.sparse
import scipy.spatial
from scipy.sparse.csgraph import breadth_first_order, maximum_bipartite_matching

from shoal.errors import GuaranteeError
from shoal.space.geography import AreaWeights, Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """Chosen cells, zones first; every fragment of a place's cell is in exactly one of them. All public."""

    zones: np.ndarray = field(repr=False)  # int64: chosen zones, cells 0 .. len(zones) - 1
    places: np.ndarray = field(repr=False)  # int64: chosen places, the cells after them
    to_cells: scipy.sparse.csr_array = field(repr=False)  # int64 [cells, places], in lattice units
    back_units: scipy.sparse.csr_array = field(repr=False)  # int64 [zones, cells]: parts of a cell's count
    cell_xy_m: np.ndarray = field(repr=False)  # float64 [cells, 2]
    neighbours: scipy.sparse.csr_array = field(
        repr=False
    )  # bool [cells, cells], symmetric, no cell with itself
    lattice: int

    def __post_init__(self) -> None:
        entries = self.to_cells.data
        if entries.dtype != np.int64 or (len(entries) and entries.min() < 0) or self.column_l1 > self.lattice:
            raise GuaranteeError(
                "cover-bound", f"a place's fragments must sum to at most {self.lattice} over the cells."
            )

    @property
    def cells(self) -> int:
        return len(self.zones) + len(self.places)

    @property
    def _places(self) -> int:
        return self.to_cells.shape[1]  # type: ignore[index]

    @property
    def column_l1(self) -> int:
        """Largest L1 norm of a column: what one visit can move the cell counts by, in units."""
        return int(np.asarray(self.to_cells.sum(axis=0)).max(initial=0))

    @property
    def back(self) -> scipy.sparse.csr_array:
        """float64 [zones, cells]: the share of a cell's count that belongs to each zone; columns sum to 1."""
        whole = np.asarray(self.back_units.sum(axis=0), float)
        units = self.back_units
        shares = units.data / whole[units.indices]
        return scipy.sparse.csr_array((shares, units.indices, units.indptr), shape=units.shape)

    def spread(self, counts: np.ndarray) -> np.ndarray:
        """Cell counts in units, int64 [cells, slots], from place counts, int64 [places, slots]: exact."""
        counts = np.asarray(counts)
        if not np.issubdtype(counts.dtype, np.integer) or len(counts) != self._places:
            raise GuaranteeError("cover-shape", "counts must be whole numbers with one row per place.")
        if np.abs(counts.astype(np.float64)).sum(axis=0).max(initial=0) * self.lattice >= 2.0**62:
            raise GuaranteeError("cover-overflow", "the counts are too large for 64-bit integer sums.")
        return np.asarray(self.to_cells @ counts.astype(np.int64, copy=False))


@lru_cache(maxsize=16)
def minimum_cover(setting: Setting) -> Cover:
    """The minimum cover of a setting's places and zones; zones without sites need no cell."""
    weights = setting.weights
    zones, places = (np.flatnonzero(chosen) for chosen in cover_vertices(weights))
    to_cells, back_units = _assign(weights, zones, places)
    centres = np.concatenate([setting.zone_xy_m[zones], setting.place_xy_m[places]]).reshape(-1, 2)
    return Cover(
        zones=zones,
        places=places,
        to_cells=to_cells,
        back_units=back_units,
        cell_xy_m=centres,
        neighbours=neighbour_graph(centres),
        lattice=weights.lattice,
    )


def cover_vertices(weights: AreaWeights) -> tuple[np.ndarray, np.ndarray]:
    """Koenig: which zones and which places form a minimum vertex cover (two boolean masks)."""
    zones, places = weights.shape
    matrix = weights.matrix.tocoo()
    edge = matrix.data > 0
    zone, place = matrix.row[edge].astype(np.int64), matrix.col[edge].astype(np.int64)
    if not len(zone):
        return np.zeros(zones, bool), np.zeros(places, bool)
    graph = scipy.sparse.csr_matrix((np.ones(len(zone), np.int8), (zone, place)), shape=(zones, places))
    place_of_zone = maximum_bipartite_matching(graph, perm_type="column").astype(np.int64)
    matched = np.flatnonzero(place_of_zone >= 0)
    # Alternating paths from free zones: to places outside the matching, back to zones by the matching.
    outside = place_of_zone[zone] != place
    free = np.setdiff1d(np.unique(zone), matched)
    source = zones + places
    tails = np.concatenate([zone[outside], zones + place_of_zone[matched], np.full(len(free), source)])
    heads = np.concatenate([zones + place[outside], matched, free])
    paths = scipy.sparse.csr_matrix((np.ones(len(tails), np.int8), (tails, heads)), shape=(source + 1,) * 2)
    reached = np.zeros(source + 1, bool)
    reached[breadth_first_order(paths, source, return_predecessors=False)] = True
    chosen_zones = np.zeros(zones, bool)
    chosen_zones[zone] = True
    return chosen_zones & ~reached[:zones], reached[zones:source]


def _assign(
    weights: AreaWeights, zones: np.ndarray, places: np.ndarray
) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Each fragment to its zone's cell if there is one, else to its site's; and the way back."""
    cells = len(zones) + len(places)
    cell_of_zone = np.full(weights.shape[0], -1)
    cell_of_zone[zones] = np.arange(len(zones))
    cell_of_place = np.full(weights.shape[1], -1)
    cell_of_place[places] = len(zones) + np.arange(len(places))
    matrix = weights.matrix.tocoo()
    fragment = matrix.data > 0
    zone, place, units = matrix.row[fragment], matrix.col[fragment], matrix.data[fragment]
    by_zone = cell_of_zone[zone] >= 0
    cell = np.where(by_zone, cell_of_zone[zone], cell_of_place[place])
    if len(cell) and int(cell.min()) < 0:
        raise GuaranteeError("cover-bound", "an overlap fragment is in no chosen cell.")
    to_cells = scipy.sparse.coo_array((units, (cell, place)), shape=(cells, weights.shape[1]), dtype=np.int64)
    by_place = ~by_zone
    back = scipy.sparse.coo_array(
        (
            np.concatenate([np.ones(len(zones), np.int64), units[by_place]]),
            (
                np.concatenate([zones, zone[by_place]]),
                np.concatenate([np.arange(len(zones)), cell[by_place]]),
            ),
        ),
        shape=(weights.shape[0], cells),
        dtype=np.int64,
    )
    return scipy.sparse.csr_array(to_cells.tocsr()), scipy.sparse.csr_array(back.tocsr())


def neighbour_graph(xy_m: np.ndarray) -> scipy.sparse.csr_array:
    """Delaunay neighbours, connected: equal points are neighbours, points on a line form a chain."""
    points, owner = np.unique(xy_m, axis=0, return_inverse=True)
    owner = owner.ravel()
    first = np.full(len(points), -1)
    first[owner[::-1]] = np.arange(len(xy_m))[::-1]
    twins = np.column_stack([np.arange(len(xy_m)), first[owner]])
    edges = np.concatenate([twins, first[_edges(points)]])
    edges = edges[edges[:, 0] != edges[:, 1]]
    both = np.concatenate([edges, edges[:, ::-1]])
    shape = (len(xy_m), len(xy_m))
    graph = scipy.sparse.coo_array(
        (np.ones(len(both), np.int8), (both[:, 0], both[:, 1])), shape=shape
    ).tocsr()
    return scipy.sparse.csr_array(graph.astype(bool))


def _edges(points: np.ndarray) -> np.ndarray:
    """Pairs of neighbouring distinct points, int64 [edges, 2]."""
    if len(points) < 2:
        return np.zeros((0, 2), np.int64)
    try:
        triangulation = scipy.spatial.Delaunay(points)
    except (
        scipy.spatial.QhullError,
        ValueError,
    ):  # fewer than three, or on a line: lexicographic order is along it
        along = np.arange(len(points))
        return np.column_stack([along[:-1], along[1:]])
    corners = triangulation.simplices
    left_out = (
        triangulation.coplanar
    )  # points qhull could not tell from another: joined to the nearest corner
    return np.concatenate(
        [corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]], left_out[:, [0, 2]]]
    ).astype(np.int64)


def example_cover(cells: int) -> Cover:
    """Cells 100 m apart on a line, each a zone and a place of its own: for examples, tests and audits.

    >>> example_cover(3).cells
    3
    """
    weights = AreaWeights.identity(cells)
    cell = np.arange(cells)
    whole = (np.ones(cells, np.int64), (cell, cell))
    centres = np.column_stack([np.arange(cells) * 100.0, np.zeros(cells)])
    return Cover(
        zones=cell,
        places=np.zeros(0, np.int64),
        to_cells=weights.matrix,
        back_units=scipy.sparse.csr_array(whole, shape=(cells, cells)),
        cell_xy_m=centres,
        neighbours=neighbour_graph(centres),
        lattice=weights.lattice,
    )
