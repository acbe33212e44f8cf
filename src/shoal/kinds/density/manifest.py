"""What a density release says of itself, rendered from the objects that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.engine.protocol import MOST_EVENTS
from shoal.kinds.density.methods import PAYS_FOR, DensityMechanism
from shoal.kinds.source import READING
from shoal.kinds.spends import spends_of
from shoal.release.audit_cases import with_audit_case
from shoal.release.density_files import FILES
from shoal.release.manifest import Manifest

if TYPE_CHECKING:
    from shoal.kinds.density.prepare import PreparedDensity


def density_manifest(prepared: PreparedDensity, *, reproducible: bool) -> Manifest:
    """Guarantee, public parameters and spends of a density, before its files are hashed."""
    plan, guarantee = prepared.plan, prepared.guarantee
    manifest = Manifest(
        unit=guarantee.unit.sentence,
        promise=guarantee.sentence,
        guarantee=guarantee.to_manifest(),
        public=public_parameters(prepared),
        spends=spends_of(prepared.mechanism, PAYS_FOR),
        population=plan.population,
        input={"shape": str(prepared.source.shape), "columns": sorted(prepared.source.columns)},
        columns={name: dict(columns) for name, columns in FILES.items()},
        licence=plan.licence or "none given by the owner yet",
        reproducible=reproducible,
    )
    return with_audit_case(manifest)


def public_parameters(prepared: PreparedDensity) -> dict:
    """Every parameter that shapes the output, all of them configured."""
    zones, sites, clock = prepared.geography.zones, prepared.geography.sites, prepared.clock
    options = prepared.options
    return {
        "zones": {"count": zones.count, "sha256": zones.digest()},
        "sites": None if sites is None else {"count": sites.count, "sha256": sites.digest()},
        "window": {"start": clock.start.isoformat(), "end": clock.end.isoformat()},
        "time_zone": clock.time_zone,
        "slot_minutes": clock.slot_minutes,
        "events_per_unit_cap": MOST_EVENTS,
        "slots": clock.slots,
        **_bound(prepared),
        "method": prepared.method.name,
        **prepared.mechanism.describe(),
        **{name: getattr(options, name) for name in prepared.method.uses},
        "decimals": options.decimals,
        "reading": {name: getattr(prepared.source, name) for name in READING},
    }


def how_to_read(prepared: PreparedDensity) -> str:
    """For the recipient, as a list in Markdown: what a count is, how large the noise is."""
    plan, sites, bound = prepared.plan, prepared.geography.sites, _bound(prepared)
    ell, unit = bound.get("ell"), plan.unit
    points = [
        f"A count is of {unit}s seen in the zone during the slot. A {unit} seen at several places within a "
        f"slot counts at each; a {unit} at one place counts once, however many events there are.",
        f"Counted are the {unit}s in the owner's records, not all people.",
    ]
    if unit != "user":
        points.append(f"The columns called `people` count {unit}s, not persons.")
    if sites is not None:
        points.append(f"Visits were seen at {sites.count} sites and shared out by area.")
    if ell is not None:
        points += _sample(unit, min(ell, prepared.clock.slots), visits_cap(prepared.mechanism))
    return "\n".join(f"- {point}" for point in (*points, *prepared.mechanism.reading()))


def visits_cap(mechanism: DensityMechanism) -> int | None:
    """Visits per user in the released number of visits; None where a sample is not scaled up to one."""
    return getattr(mechanism, "cap", None) if "visits" in dict(mechanism.spends()) else None


def _sample(unit: str, ell: int, cap: int | None) -> list[str]:
    kept = f"Of each {unit} at most one visit per slot and {ell} in the window were kept, chosen at random"
    if cap is None:
        return [f"{kept}, so the counts are low by what that leaves out."]
    return [
        f"{kept}, and the counts were scaled up to the number of all visits, which was released with noise "
        f"of its own (a {unit} enters it with at most {cap}).",
        f"Zones where {unit}s hurry from place to place stay somewhat low, others somewhat high.",
    ]


def _bound(prepared: PreparedDensity) -> dict:
    """Visits kept per user, where the mechanism takes a sample of them; its own number, as it was used."""
    ell = getattr(prepared.mechanism, "ell", None)
    return {} if ell is None else {"ell": ell}
