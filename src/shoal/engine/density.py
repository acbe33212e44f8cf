"""Events to bounded visits to exact zone counts: the engine's part of a density."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from shoal.engine.protocol import Engine, Progress
from shoal.engine.visits import VisitKernel
from shoal.errors import GuaranteeError
from shoal.space.weights import AreaWeights
from shoal.stages.bounded import BoundedVisits, ExactDensity
from shoal.stages.exact import ExactCounts, ScalableCounts


def bound_visits(
    engine: Engine, events: Iterable[pa.RecordBatch], kernel: VisitKernel, progress: Progress | None = None
) -> tuple[BoundedVisits, ExactDensity]:
    """Sums over users under the kernel's bounds, checked again as a whole, and the uncapped density."""
    sums = engine.sum_users(events, kernel, progress)
    users = int(sums["users"])
    if int(sums["counts"].sum()) > users * kernel.ell or int(sums["one_visit"].sum()) != users:
        raise GuaranteeError("bound-not-held", "the sums are larger than the bound on each user allows.")
    bounded = BoundedVisits(
        counts=sums["counts"],
        one_visit=sums["one_visit"],
        users=users,
        visits_capped=int(sums["visits_capped"]),
        ell=kernel.ell,
        cap=kernel.cap,
    )
    return bounded, ExactDensity(sums["uncapped"], users)


def exact_counts(bounded: BoundedVisits, weights: AreaWeights) -> ExactCounts:
    """Site counts spread over zones: each visit is `lattice` units, shared out by area."""
    return ExactCounts(
        units=weights.spread(bounded.counts),
        lattice=weights.lattice,
        ell=bounded.ell,
        column_l1=weights.column_l1,
        column_l2_squared=weights.column_l2_squared,
    )


def scalable_counts(bounded: BoundedVisits, weights: AreaWeights) -> ScalableCounts:
    """Zone counts with the number of visits that were kept and the number of all visits under the cap."""
    return ScalableCounts(
        counts=exact_counts(bounded, weights),
        kept=int(bounded.counts.sum()),
        visits=bounded.visits_capped,
        cap=bounded.cap,
    )


def all_counts(density: ExactDensity, weights: AreaWeights) -> ExactCounts:
    """Zone counts of all visits, as many as a user has: for comparison only."""
    places, slots = density.counts.shape
    return ExactCounts(
        units=weights.spread(density.counts),
        lattice=weights.lattice,
        ell=places * slots,
        column_l1=weights.column_l1,
        column_l2_squared=weights.column_l2_squared,
    )


def exact_people(density: ExactDensity, weights: AreaWeights) -> np.ndarray:
    """Raw people per zone and slot, for the owner's report."""
    return weights.spread(density.counts) / weights.lattice
