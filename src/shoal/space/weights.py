"""Area weights: how one visit at a site is shared out over zones, in integer units.

W[zone, site] = area(cell of site, in zone) / area(cell of site), times LATTICE = 2**20 and rounded so that a
column never sums to more than LATTICE. One visit therefore moves the zone counts by at most LATTICE in L1: this is
the step of the sensitivity proof that geometry pays for. The weights are public: they come from sites and zones only.

>>> AreaWeights.identity(2).spread(np.array([[3], [5]])).tolist()
[[3145728], [5242880]]
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse
import shapely

from shoal.errors import GeometryError, GuaranteeError
from shoal.space.sites import Sites
from shoal.space.voronoi import to_plane, voronoi_cells
from shoal.space.zones import Zones

LATTICE = 2**20


@dataclass(frozen=True, eq=False)
class AreaWeights:
    """Integer weights [zones, sites]; every column sums to at most `lattice`."""

    matrix: scipy.sparse.csr_array = field(repr=False)  # int64
    lattice: int
    lost: np.ndarray = field(repr=False)  # float64 [sites]: share of each site's cell outside the zones

    def __post_init__(self) -> None:
        entries = self.matrix.data
        if (
            self.matrix.dtype != np.int64
            or (len(entries) and entries.min() < 0)
            or self.column_l1 > self.lattice
        ):
            raise GuaranteeError(
                "weights-bound",
                f"weights must be whole, not negative, and sum to at most {self.lattice} per site.",
            )

    @classmethod
    def identity(cls, count: int) -> AreaWeights:
        """Each place is its own zone: for points that were located in zones already."""
        matrix = scipy.sparse.csr_array(scipy.sparse.eye_array(count, dtype=np.int64) * LATTICE)
        return cls(matrix=matrix, lattice=LATTICE, lost=np.zeros(count))

    @property
    def shape(self) -> tuple[int, int]:
        zones, sites = self.matrix.shape
        return zones, sites

    @property
    def column_l1(self) -> int:
        """Largest L1 norm of a column: what one visit can move the zone counts by, in units."""
        return int(self.matrix.sum(axis=0).max(initial=0))

    @property
    def column_l2_squared(self) -> int:
        """Largest squared L2 norm of a column."""
        return int(self.matrix.power(2).sum(axis=0).max(initial=0))

    def spread(self, counts: np.ndarray) -> np.ndarray:
        """Zone counts in units, int64 [zones, slots], from site counts, int64 [sites, slots]: exact."""
        counts = np.asarray(counts)
        if not np.issubdtype(counts.dtype, np.integer) or counts.shape[0] != self.shape[1]:
            raise GeometryError(
                "weights-shape",
                f"counts must be whole numbers with one row per site ({self.shape[1]}); "
                f"got {counts.dtype} {list(counts.shape)}.",
            )
        if np.abs(counts.astype(np.float64)).sum(axis=0).max(initial=0) * self.lattice >= 2.0**62:
            raise GuaranteeError("weights-overflow", "the counts are too large for 64-bit integer sums.")
        return np.asarray(self.matrix @ counts.astype(np.int64, copy=False))


def voronoi_weights(sites: Sites, zones: Zones) -> AreaWeights:
    """Weights from the Voronoi cells of `sites`, measured in an equal-area plane (planar input: as it is).

    The cell of a site inside the zones is clipped to the zones, so all of its visits stay in the city. The cell of
    a site outside is bounded by a public envelope (see `voronoi_cells`); the share of it that lies in the zones is
    kept, the rest is `lost`. Sites at one position share one cell and have equal weights.
    """
    plane = to_plane(sites, zones)
    cells = voronoi_cells(plane)
    cell, zone = shapely.STRtree(plane.zones).query(cells, predicate="intersects")
    area = shapely.area(shapely.intersection(cells[cell], plane.zones[zone]))
    in_zones = np.bincount(cell, weights=area, minlength=len(cells))
    # Overlaps of zones, however thin, must not count a place twice.
    whole = np.where(plane.inside, in_zones, np.maximum(shapely.area(cells), in_zones))
    kept = np.divide(in_zones, whole, out=np.zeros(len(cells)), where=whole > 0)
    units = _round_columns(cell, area / whole[cell], kept)
    by_cell = scipy.sparse.coo_array((units, (zone, cell)), shape=(zones.count, len(cells)), dtype=np.int64)
    matrix = scipy.sparse.csr_array(by_cell.tocsc()[:, plane.cell_of_site])
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return AreaWeights(matrix=matrix, lattice=LATTICE, lost=1.0 - kept[plane.cell_of_site])


def _round_columns(column: np.ndarray, share: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Largest-remainder rounding: units per entry; each column sums to floor(total * LATTICE).

    Entries below one unit become 0 and never win a remainder; a column of nothing else sums to 0.
    """
    exact = share * LATTICE
    units = np.floor(exact).astype(np.int64)
    remainder = exact - units
    kept = units > 0
    target = np.floor(np.minimum(total, 1.0) * LATTICE).astype(np.int64)
    column_units = np.bincount(column, weights=units, minlength=len(total)).astype(np.int64)
    missing = target - column_units
    for j in np.flatnonzero(missing):
        entries = np.flatnonzero((column == j) & kept)
        if len(entries) == 0:
            continue
        each, extra = divmod(int(missing[j]), len(entries))
        units[entries] += each
        order = np.argsort(-remainder[entries], kind="stable")  # ties: the earlier zone
        units[entries[order[:extra]]] += 1
    return units
