"""A density plan with its public things opened, and what the release says of itself. No row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import time
from pathlib import Path
from typing import Any, Protocol

from shoal.engine.buckets import MOST_EVENTS
from shoal.engine.engine import Engine
from shoal.events.schema import EventSource
from shoal.kinds.density.plan import PAYS_FOR, DensityPlan, Method, MethodOptions, method_named
from shoal.kinds.density.published import FILES
from shoal.kinds.density.totals import SUMS
from shoal.kinds.density.verdict import expected_verdict
from shoal.kinds.describe import (
    BASE,
    SMALL_FILES,
    Prepared,
    Table,
    as_list,
    opened_source,
    priced,
    reading_of,
    window_of,
)
from shoal.kinds.keys import key_of
from shoal.kinds.verdict import Verdict
from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise
from shoal.release.staging import Needs, check_needs
from shoal.space.checks import check_clock
from shoal.space.clock import Clock
from shoal.space.geography import Geography, Setting, grid_cells, open_geography, setting_of

SUMMED = ("best", "gaussian", "laplace")
COUNTS = (10, 100, 1000)  # people in a zone and slot, to show what the noise means


class DensityMechanism(Protocol):
    """Frozen parameters, its loss, the named spends that add up to it, its description, one call."""

    name: str
    takes: str  # the stage: "counts" | "scalable" | "cover" | "visits"

    def loss(self) -> Loss: ...
    def spends(self) -> tuple[tuple[str, Loss], ...]: ...
    def describe(self) -> Mapping[str, Any]: ...
    def reading(self) -> tuple[str, ...]: ...
    def __call__(self, exact: Any, noise: Noise) -> Any: ...


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
    if geography.zones.crs is not None:
        west, _, east, _ = geography.zones.to_lonlat().bounds
        check_clock((west + east) / 2, clock.time_zone, clock.offset_hours)
    setting = setting_of(geography, clock)
    return OpenedDensity(source=source, geography=geography, clock=clock, setting=setting)


def prepare_density(
    plan: DensityPlan, engine: Engine | None = None, *, opened: OpenedDensity | None = None
) -> PreparedDensity:
    """Open everything public, unless it is `opened` already, and set the noise; reads no rows."""
    opened = opened or open_density(plan, engine)
    options = plan.options()
    return PreparedDensity(
        **priced(plan, opened.source, opened.setting, method_named(plan.method), options),
        geography=opened.geography,
        clock=opened.clock,
        options=options,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDensity(Prepared):
    """A plan with its public things opened. Nothing here depends on a row of the events."""

    kind = "density"
    pays_for = PAYS_FOR
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
        """Method and window, with hours where days are not whole."""
        ends = self.clock.start, self.clock.end
        form = "%Y-%m-%d" if all(end.time() == time.min for end in ends) else "%Y-%m-%d %H:%M"
        return f"density, {self.method.name}, {ends[0]:{form}} to {ends[1]:{form}}"

    def needs(self) -> Needs:
        return density_needs(self.setting.zones, self.clock.slots)

    def notes(self) -> list[str]:
        ell, slots = self._bound.get("ell"), self.clock.slots
        if ell is None or ell <= slots:
            return []
        return [
            f"ell = {ell} is more than the {slots} slots of the window. At most one visit per "
            f"{self.plan.unit} and slot is kept, so it has the effect of ell = {slots}."
        ]

    def public(self) -> dict[str, Any]:
        return {
            **placed(self.geography, self.clock),
            "events_per_unit_cap": MOST_EVENTS,
            "slots": self.clock.slots,
            **self._bound,
            "method": self.method.name,
            **self.mechanism.describe(),
            **{name: getattr(self.options, name) for name in self.method.uses},
            "decimals": self.options.decimals,
            "reading": reading_of(self.source),
        }

    def files(self) -> Mapping[str, Mapping[str, str]]:
        return {name: columns for name, columns in FILES.items() if self.has_sums or name not in SUMS}

    @property
    def has_sums(self) -> bool:
        """Whether the errors of sums are known: of counts smoothed by `best`, or with noise of their own."""
        return self.method.name in SUMMED

    def reading(self) -> str:
        sites, ell, unit = self.geography.sites, self._bound.get("ell"), self.plan.unit
        points = [
            f"A count is the number of {unit}s observed in the zone during the slot. A {unit} observed at "
            "several places in the same slot is counted at each of them, and only once per place.",
            f"Only {unit}s in the owner's records are counted, not all people.",
        ]
        if unit != "user":
            points.append(f"The columns called `people` count {unit}s, not persons.")
        if sites is not None:
            points.append(
                f"Visits were observed at {sites.count} sites and spread over zones in proportion to area."
            )
        if ell is not None:
            points += _sample(unit, min(ell, self.clock.slots), visits_cap(self.mechanism))
        return as_list((*points, *self.mechanism.reading(), _SUMS if self.has_sums else _NO_SUMS))

    def rows(self) -> list[tuple[str, str]]:
        source, clock, geography = self.source, self.clock, self.geography
        sites = "" if geography.sites is None else f", {geography.sites.count:,} sites"
        columns = ", ".join(f"{role}={name}" for role, name in source.columns.items())
        slots = f"{clock.slots} slots of {clock.slot_minutes} min"
        return [
            ("source", f"{len(source.paths)} {source.format} file(s), shape {source.shape}, {columns}"),
            *(("  guessed", each) for each in source.guessed),
            ("zones", f"{geography.zones.count:,} zones{sites}"),
            *(("  note", each) for each in geography.zones.notes),
            ("window", f"{clock.start} to {clock.end}, {clock.time_zone}: {slots}"),
            ("bound", self._bound_in_words()),
            ("method", f"{self.method.name}: {self.method.summary}"),
        ]

    def foreseen(self, ledger: Ledger) -> dict[str, Any]:
        """The error to expect, of this method and of every other."""
        from shoal.kinds.density.verdict import expected_error, expected_methods

        noise = getattr(self.mechanism, "noise_of_count", None)
        error = None if noise is None else asdict(expected_error(noise, self.setting.zones))
        methods = [asdict(each) for each in expected_methods(self.plan, self.setting)]
        return {"expected_error": error, "expected_methods": methods}

    def expected(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        error = summary["expected_error"]
        if error is None:
            return []
        mean = error["mean_absolute"]
        relative = ", ".join(f"{mean / count:.0%} of {count:,}" for count in COUNTS)
        return [
            ("expected noise", f"{mean:,.1f} people per zone and slot on average: {relative}"),
            ("", f"within {error['half_interval']:,.1f} in 95 of 100 cases"),
            ("", f"{error['city_slot']:,.0f} (standard deviation) for a slot's total over all zones"),
            (
                "",
                "before counts are scaled up to all visits; busier zones, larger cells or slots, a larger "
                "epsilon or a smaller --ell make it smaller",
            ),
        ]

    def verdict(self) -> Verdict:
        return expected_verdict(self)

    def table(self, summary: Mapping[str, Any]) -> Table:
        from shoal.kinds.density.verdict import methods_table

        return methods_table(self.plan, self.setting, summary["expected_methods"])

    def key_parts(self) -> list[Any]:
        settings = key_of(self.plan) | {name: getattr(self.options, name) for name in self.method.uses}
        sites = self.geography.sites
        places = [self.geography.zones.digest(), sites and sites.digest()]
        return ["density", settings, slots_of(self.clock), places]

    @property
    def _bound(self) -> dict[str, int]:
        """Visits kept per user, where the mechanism takes a sample of them: the number it used."""
        ell = getattr(self.mechanism, "ell", None)
        return {} if ell is None else {"ell": ell}

    def _bound_in_words(self) -> str:
        unit, ell = self.plan.unit, self._bound.get("ell")
        if self.mechanism.takes == "visits":
            return f"all visits, once per {unit}, place and slot; each {unit}'s contribution is clipped"
        sample = f"once per {unit} and slot" + ("" if ell is None else f", at most {ell} visits per {unit}")
        cap = visits_cap(self.mechanism)
        return sample + ("" if cap is None else f"; scaled up to all visits, at most {cap} per {unit}")


def density_needs(zones: int, slots: int) -> Needs:
    """Arrays over zones and slots, the geometry of the zones; CSV and Parquet of every zone and slot."""
    cells = zones * slots
    return Needs(memory=BASE + 120 * cells + 13_000 * zones, disk=SMALL_FILES + 95 * cells + 4_000 * zones)


def placed(geography: Geography, clock: Clock) -> dict[str, Any]:
    """The public map and the window, as manifests state them."""
    zones, sites = geography.zones, geography.sites
    return {
        "zones": {"count": zones.count, "sha256": zones.digest()},
        "sites": None if sites is None else {"count": sites.count, "sha256": sites.digest()},
        **window_of(clock),
        "slot_minutes": clock.slot_minutes,
    }


def slots_of(clock: Clock) -> list[Any]:
    """The slots, as they enter keys."""
    return [clock.start.isoformat(), clock.end.isoformat(), clock.time_zone, clock.slot_minutes]


def visits_cap(mechanism: DensityMechanism) -> int | None:
    """Visits per user in the released number of visits; None where a sample is not scaled up to one."""
    return getattr(mechanism, "cap", None) if "visits" in dict(mechanism.spends()) else None


def _sample(unit: str, ell: int, cap: int | None) -> list[str]:
    sample = (
        f"At most one visit per {unit} and slot, and {ell} per {unit} in the window, were sampled at random"
    )
    if cap is None:
        return [f"{sample}. The counts do not include the other visits."]
    return [
        f"{sample}. The counts were scaled up to the number of all visits, which was measured with noise of "
        f"its own (at most {cap} visits per {unit}).",
        f"Zones in which {unit}s visit many places per slot are somewhat low, others somewhat high.",
    ]


_SUMS = (
    "Sums have intervals of their own, narrower than added ends: `totals.parquet` has those of each zone by "
    "day and week and of all zones by slot, by day and in all; `shoal density total RELEASE` gives that of "
    "any other set of zones and slots."
)
_NO_SUMS = "Sums over zones or slots have no interval: how their errors depend on each other is not known."
