"""A density plan with its public things opened: sources, zones, clock, noise, price. No row is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import time
from pathlib import Path

from shoal.engine.protocol import Engine
from shoal.events.schema import EventSource
from shoal.kinds.density.methods import DensityMechanism, Method, MethodOptions, method_named
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.needs import density_needs
from shoal.kinds.run_key import as_typed, earlier_name, run_name, source_digest
from shoal.kinds.source import contents_of, opened_source, unit_of
from shoal.kinds.spends import check_spends
from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee
from shoal.privacy.unit import Unit
from shoal.release.resources import Needs, check_needs
from shoal.space.clock import Clock
from shoal.space.geography import Geography, grid_cells, open_geography
from shoal.space.setting import Setting, setting_of

ASKED = ("population", "epsilon", "delta", "method", "unit", "decimals", "run_id")


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedDensity:
    """The parts of a plan that take time to open; the same for every price and method."""

    source: EventSource
    geography: Geography = field(repr=False)
    clock: Clock
    setting: Setting = field(repr=False)


def open_density(plan: DensityPlan, engine: Engine | None = None) -> OpenedDensity:
    """Read headers of the events, zones and sites; no rows."""
    clock = Clock(**asdict(plan.window))
    source = opened_source(plan.source, engine)
    cells = grid_cells(plan.space, planar=source.planar)
    if cells is not None:  # before the geometry of a grid that is far too large is made
        check_needs(density_needs(cells, clock.slots), Path(plan.out))
    geography = open_geography(plan.space, has_sites=source.shape.has_sites, planar=source.planar)
    setting = setting_of(geography, clock)
    return OpenedDensity(source=source, geography=geography, clock=clock, setting=setting)


def prepare_density(
    plan: DensityPlan, engine: Engine | None = None, *, opened: OpenedDensity | None = None
) -> PreparedDensity:
    """Open everything public, unless it is `opened` already, and set the noise; reads no rows."""
    opened = opened or open_density(plan, engine)
    method, options = method_named(plan.method), plan.options()
    budget = plan.budget()
    mechanism = method.build(budget, opened.setting, options)
    check_spends(mechanism, budget)
    unit = unit_of(plan.unit, plan.source, opened.source)
    return PreparedDensity(
        plan=plan,
        source=opened.source,
        geography=opened.geography,
        clock=opened.clock,
        setting=opened.setting,
        method=method,
        options=options,
        mechanism=mechanism,
        guarantee=_guarantee(plan, mechanism.loss(), unit),
    )


def _guarantee(plan: DensityPlan, loss: Loss, unit: Unit) -> Guarantee:
    """What is promised is what was asked for, the noise is set within it; a rho is read as it was spent."""
    if plan.epsilon is None:
        return Guarantee.of(loss, delta=plan.delta, unit=unit)
    return Guarantee(epsilon=plan.epsilon, delta=plan.delta or 0.0, loss=loss, unit=unit)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDensity:
    """A plan with its public things opened. Nothing here depends on a row of the events."""

    plan: DensityPlan
    source: EventSource
    geography: Geography = field(repr=False)
    clock: Clock
    setting: Setting = field(repr=False)
    method: Method
    options: MethodOptions
    mechanism: DensityMechanism
    guarantee: Guarantee

    def what(self) -> str:
        """The release in a line, for the ledger: method and window, with hours where days are not whole."""
        ends = self.clock.start, self.clock.end
        form = "%Y-%m-%d" if all(end.time() == time.min for end in ends) else "%Y-%m-%d %H:%M"
        return f"density, {self.method.name}, {ends[0]:{form}} to {ends[1]:{form}}"

    def needs(self) -> Needs:
        """Memory and disk, from the number of zones and slots."""
        return density_needs(self.setting.zones, self.clock.slots)

    def notes(self) -> list[str]:
        """What the owner should know of the settings before the run; none of it stops it."""
        ell, slots = getattr(self.mechanism, "ell", None), self.clock.slots
        if ell is None or ell <= slots:
            return []
        return [
            f"ell = {ell} is more than the {slots} slots of the window. At most one visit per "
            f"{self.plan.unit} and slot is kept, so it has the effect of ell = {slots}."
        ]

    def key(self) -> str:
        """Names the run by public values: the same plan, population and run id are the same release."""
        return run_name("density", self.plan.source, *self._asked())

    def earlier_key(self) -> str:
        """The key of this run in ledgers written before, where files entered by their content."""
        asked, *rest = self._asked()
        asked = as_typed(self.plan, asked)
        return earlier_name("density", asked, self.source.understood(), *rest, contents_of(self.source))

    def source_digest(self) -> str:
        """Private, for the owner's ledger: whether the files are those of an earlier run."""
        return source_digest(self.source)

    def _asked(self) -> list:
        plan, clock = self.plan, self.clock
        asked = {name: getattr(plan, name) for name in ASKED}
        asked |= {name: getattr(self.options, name) for name in self.method.uses}
        if plan.rho is not None:
            asked["rho"] = plan.rho
        window = [clock.start.isoformat(), clock.end.isoformat(), clock.time_zone, clock.slot_minutes]
        places = [self.geography.zones.digest(), self.geography.sites and self.geography.sites.digest()]
        return [asked, window, places]
