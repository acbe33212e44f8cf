"""A density plan with its public things opened: sources, zones, clock, noise, price. No row is read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from shoal.errors import GuaranteeError
from shoal.events.schema import EventSource
from shoal.events.source import open_source
from shoal.flows.plan import DensityPlan
from shoal.mechanisms.density_gaussian import DensityGaussian
from shoal.mechanisms.density_laplace import DensityLaplace
from shoal.privacy.budget import Budget
from shoal.privacy.guarantee import Guarantee
from shoal.privacy.unit import Unit
from shoal.release.verify import sha256_file
from shoal.space.clock import Clock
from shoal.space.geography import Geography, open_geography

ASKED = ("population", "epsilon", "delta", "method", "ell", "unit", "decimals", "run_id")
NOT_ASKED = (
    "paths",
    "names",
    "types",
    "guessed",
)  # of a source: where it lies, and what follows from the rest


def prepare_density(plan: DensityPlan) -> PreparedDensity:
    """Open everything public and set the noise; reads headers of the events, no rows."""
    clock = Clock(**asdict(plan.window))
    source = open_source(**vars(plan.source))
    geography = open_geography(plan.space, has_sites=source.shape.has_sites, planar=source.planar)
    budget = Budget.of(plan.epsilon, plan.delta)
    counts, _ = budget.take("counts", 1)
    weights, common = (
        geography.weights,
        {"ell": plan.ell, "slots": clock.slots, "lattice": geography.weights.lattice},
    )
    mechanism: DensityGaussian | DensityLaplace
    if plan.method == "gaussian":
        squared = weights.column_l2_squared
        mechanism = DensityGaussian.within(counts.rho_nano, column_l2_squared=squared, **common)
    else:
        mechanism = DensityLaplace.within(counts.epsilon_nano, column_l1=weights.column_l1, **common)
    if not counts.covers(mechanism.loss()):
        raise GuaranteeError("over-budget", "the noise is too small for the privacy that was asked for.")
    # What is promised is what was asked for; the noise is set so that the loss stays within it.
    guarantee = Guarantee(
        epsilon=plan.epsilon,
        delta=plan.delta or 0.0,
        loss=mechanism.loss(),
        unit=Unit(plan.unit, source.columns["user"]),
    )
    return PreparedDensity(
        plan=plan, source=source, geography=geography, clock=clock, mechanism=mechanism, guarantee=guarantee
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDensity:
    """A plan with its public things opened. Nothing here depends on a row of the events."""

    plan: DensityPlan
    source: EventSource
    geography: Geography = field(repr=False)
    clock: Clock
    mechanism: DensityGaussian | DensityLaplace
    guarantee: Guarantee

    def key(self) -> str:
        """Names the run: the same question about the same bytes is the same release, however it is asked.

        Everything enters as it was understood (columns found, window parsed), files by their content.
        """
        plan, source, clock = self.plan, self.source, self.clock
        asked = {name: getattr(plan, name) for name in ASKED}
        read = {f.name: getattr(source, f.name) for f in fields(source) if f.name not in NOT_ASKED}
        window = [clock.start.isoformat(), clock.end.isoformat(), clock.time_zone, clock.slot_minutes]
        places = [self.geography.zones.digest(), self.geography.sites and self.geography.sites.digest()]
        files = sorted(sha256_file(Path(path)) for path in source.paths)
        named = json.dumps(["density", asked, read, window, places, files], sort_keys=True, default=dict)
        return hashlib.sha256(named.encode()).hexdigest()
