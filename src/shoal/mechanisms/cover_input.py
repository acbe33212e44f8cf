"""What a mechanism on cover counts checks before it looks at them, and the sums of clusters."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.integer_dct import LARGEST_SUM
from shoal.stages.cover import CoverCounts


class OnCover(Protocol):
    """What the noise was scaled for."""

    @property
    def ell(self) -> int: ...
    @property
    def cap(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def lattice(self) -> int: ...
    @property
    def cells(self) -> int: ...


def check_cover_input(exact: CoverCounts, built: OnCover) -> None:
    """The counts must be of the stage, the bounds, the shape and the lattice the noise was scaled for."""
    if not isinstance(exact, CoverCounts):
        raise GuaranteeError("wrong-stage", "this mechanism takes exact counts of cover cells only.")
    if exact.ell > built.ell or exact.cap > built.cap:
        raise GuaranteeError(
            "sensitivity", "the counts were bounded more loosely than the mechanism was built for."
        )
    shape = (built.cells, built.slots)
    if exact.units.shape != shape or exact.one_visit.shape != shape[:1] or exact.lattice != built.lattice:
        raise GuaranteeError(
            "sensitivity", "the counts have other cells, slots or units than the mechanism was built for."
        )
    # Any sum of cells and slots is then exact in 64 bits, whatever clusters come out.
    if exact.units.dtype != np.int64 or float(np.abs(exact.units).sum(dtype=np.float64)) >= LARGEST_SUM:
        raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")


def sum_by_cluster(units: np.ndarray, cluster_of: np.ndarray) -> np.ndarray:
    """int64 [clusters, slots]: exact sums of the cells' series."""
    clusters = int(cluster_of.max(initial=-1)) + 1
    sums = np.zeros((clusters, units.shape[1]), np.int64)
    np.add.at(sums, cluster_of, units)
    return sums
