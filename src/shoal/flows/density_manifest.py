"""What a density release says of itself, rendered from the objects that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.flows.method import DensityMechanism
from shoal.privacy.accounting import NANO
from shoal.release.density_files import FILES
from shoal.release.manifest import Manifest

if TYPE_CHECKING:
    from shoal.flows.prepare import PreparedDensity


READING = ("on_bad_row", "time_zone", "time_unit", "time_format", "coordinate_scale", "point_seconds")


def density_manifest(prepared: PreparedDensity, *, reproducible: bool) -> Manifest:
    """Guarantee, public parameters and spends of a density, before its files are hashed."""
    plan, guarantee = prepared.plan, prepared.guarantee
    return Manifest(
        unit=guarantee.unit.sentence,
        promise=guarantee.sentence,
        guarantee=guarantee.to_manifest(),
        public=public_parameters(prepared),
        spends=spends_of(prepared.mechanism),
        population=plan.population,
        input={"shape": str(prepared.source.shape), "columns": sorted(prepared.source.columns)},
        columns={name: dict(columns) for name, columns in FILES.items()},
        licence=plan.licence or "none given by the owner yet",
        reproducible=reproducible,
    )


def spends_of(mechanism: DensityMechanism) -> list[dict]:
    """Each named step with what it costs, in order."""
    listed = []
    for name, loss in mechanism.spends():
        spend = {"name": name, "mechanism": mechanism.name, "rho": loss.rho}
        if loss.pure_epsilon_nano is not None:
            spend["epsilon"] = loss.pure_epsilon_nano / NANO
        listed.append(spend)
    return listed


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
        "slots": clock.slots,
        **_bound(prepared),
        "method": prepared.method.name,
        **prepared.method.describe(prepared.mechanism),
        **{name: getattr(options, name) for name in prepared.method.uses},
        "decimals": options.decimals,
        "reading": {name: getattr(prepared.source, name) for name in READING},
    }


def how_to_read(prepared: PreparedDensity) -> str:
    """For the recipient: what a count is, how large the noise is."""
    plan, sites, bound = prepared.plan, prepared.geography.sites, _bound(prepared)
    ell = bound.get("ell")
    sample = (
        f"Each count is of bounded visits: a {plan.unit} is counted at most once per slot and in at most "
        f"{ell} slots of the window, chosen at random, so whoever has more visits than that is "
        "under-counted. "
    )
    return (
        f"Counted are the {plan.unit}s in the owner's records, not all people. "
        + ("" if sites is None else f"Visits were seen at {sites.count} sites and shared out by area. ")
        + ("" if ell is None else sample)
        + prepared.method.reading(prepared.mechanism)
        + ("" if plan.unit == "user" else f" The columns called `people` count {plan.unit}s, not persons.")
    )


def _bound(prepared: PreparedDensity) -> dict:
    """Visits kept per user, where the mechanism takes a sample of them; its own number, as it was used."""
    ell = getattr(prepared.mechanism, "ell", None)
    return {} if ell is None else {"ell": ell}
