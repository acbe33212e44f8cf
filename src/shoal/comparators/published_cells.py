"""Cells of the scheme as published: a minimum cover whose sites lose what chosen zones hold of them.

A chosen zone has its count by area. A chosen site T has its count less sum_i X_Li size(Li and T) / size(T)
over the chosen zones Li (section 5.2: "trivial, but not optimal"). As printed X_Li is the whole count of the
zone, not its part from T; so a visit at one site lowers the counts of other sites of the zone too, and one
visit can move the cells by more than 1 in L1: `column_l1` says by how much on this map. The scheme needs 1.

The way back adds what was subtracted and then uses formula (1): without noise it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse

from shoal.space.cover import cover_vertices, neighbour_graph
from shoal.space.setting import Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedCells:
    """How counts of places become counts of cells, and those of zones; all public."""

    to_cells: scipy.sparse.csr_array = field(repr=False)  # float64 [cells, places], may be negative
    back: scipy.sparse.csr_array = field(repr=False)  # float64 [zones, cells]
    xy_m: np.ndarray = field(repr=False)  # float64 [cells, 2]
    neighbours: scipy.sparse.csr_array = field(repr=False)

    @property
    def column_l1(self) -> float:
        """The most one visit moves the cells by in L1, and so all clusters of cells together."""
        return float(np.asarray(abs(self.to_cells).sum(axis=0)).max(initial=0.0))

    @property
    def replaced_l2_squared(self) -> float:
        """The most that one visit replaced by another moves clusters of cells by, in squared L2.

        A change whose positive and negative parts sum to P and N moves the clusters by at most P^2 + N^2.
        """
        size, net = (np.asarray(each.sum(axis=0)).ravel() for each in (abs(self.to_cells), self.to_cells))
        up, down = (size + net) / 2, (size - net) / 2
        return float(((up[:, None] + down) ** 2 + (down[:, None] + up) ** 2).max(initial=0.0))


def subtracted_cells(setting: Setting) -> PublishedCells:
    """Chosen zones first, then chosen sites less the chosen zones' share."""
    weights = scipy.sparse.csr_array(setting.weights.matrix / setting.weights.lattice)
    zone_chosen, place_chosen = cover_vertices(setting.weights)
    zones, places = np.flatnonzero(zone_chosen), np.flatnonzero(place_chosen)
    of_zones = weights[zones]
    at_places = scipy.sparse.csr_array(scipy.sparse.eye_array(setting.places, format="csr"))[places]
    # [places, zones]: share of a chosen site that lies in a chosen zone
    overlap = scipy.sparse.csr_array(of_zones[:, places].T)
    to_cells = scipy.sparse.csr_array(scipy.sparse.vstack([of_zones, at_places - overlap @ of_zones]))
    restored = scipy.sparse.hstack([overlap, scipy.sparse.eye_array(len(places))])  # site counts, from cells
    by_sites = weights[:, places] @ restored
    own = scipy.sparse.csr_array(
        (np.ones(len(zones)), (zones, np.arange(len(zones)))), shape=(setting.zones, len(zones) + len(places))
    )
    others = scipy.sparse.diags_array((~zone_chosen).astype(float))
    centres = np.concatenate([setting.zone_xy_m[zones], setting.place_xy_m[places]]).reshape(-1, 2)
    return PublishedCells(
        to_cells=to_cells,
        back=scipy.sparse.csr_array(own + others @ by_sites),
        xy_m=centres,
        neighbours=neighbour_graph(centres),
    )


def zone_cells(setting: Setting) -> PublishedCells:
    """Every zone a cell of its own, no cover: the later form of the scheme."""
    return PublishedCells(
        to_cells=scipy.sparse.csr_array(setting.weights.matrix / setting.weights.lattice),
        back=scipy.sparse.csr_array(scipy.sparse.eye_array(setting.zones, format="csr")),
        xy_m=setting.zone_xy_m,
        neighbours=neighbour_graph(setting.zone_xy_m),
    )
