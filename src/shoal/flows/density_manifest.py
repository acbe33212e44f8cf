"""What a density release says of itself, rendered from the objects that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.flows.expected import expected_error
from shoal.mechanisms.density_gaussian import DensityGaussian
from shoal.privacy.accounting import NANO
from shoal.release.density_files import FILES
from shoal.release.manifest import Manifest

if TYPE_CHECKING:
    from shoal.flows.prepare import PreparedDensity


READING = ("on_bad_row", "time_zone", "time_unit", "time_format", "coordinate_scale", "point_seconds")


def density_manifest(prepared: PreparedDensity, *, reproducible: bool) -> Manifest:
    """Guarantee, public parameters and spends of a density, before its files are hashed."""
    plan, loss, guarantee = prepared.plan, prepared.mechanism.loss(), prepared.guarantee
    spend = {"name": "counts", "mechanism": prepared.mechanism.name, "rho": loss.rho}
    if loss.pure_epsilon_nano is not None:
        spend["epsilon"] = loss.pure_epsilon_nano / NANO
    return Manifest(
        unit=guarantee.unit.sentence,
        promise=guarantee.sentence,
        guarantee=guarantee.to_manifest(),
        public=public_parameters(prepared),
        spends=[spend],
        population=plan.population,
        input={"shape": str(prepared.source.shape), "columns": sorted(prepared.source.columns)},
        columns={name: dict(columns) for name, columns in FILES.items()},
        licence=plan.licence or "none given by the owner yet",
        reproducible=reproducible,
    )


def public_parameters(prepared: PreparedDensity) -> dict:
    """Every parameter that shapes the output, all of them configured."""
    zones, sites, clock = prepared.geography.zones, prepared.geography.sites, prepared.clock
    mechanism = prepared.mechanism
    scale = mechanism.sigma if isinstance(mechanism, DensityGaussian) else mechanism.scale
    return {
        "zones": {"count": zones.count, "sha256": zones.digest()},
        "sites": None if sites is None else {"count": sites.count, "sha256": sites.digest()},
        "window": {"start": clock.start.isoformat(), "end": clock.end.isoformat()},
        "time_zone": clock.time_zone,
        "slot_minutes": clock.slot_minutes,
        "slots": clock.slots,
        "ell": prepared.plan.ell,
        "method": prepared.plan.method,
        "noise_scale_people": scale / mechanism.lattice,
        "lattice": mechanism.lattice,
        "decimals": prepared.plan.decimals,
        "reading": {name: getattr(prepared.source, name) for name in READING},
    }


def how_to_read(prepared: PreparedDensity) -> str:
    """For the recipient: what a count is, how large the noise is."""
    plan, sites = prepared.plan, prepared.geography.sites
    error = expected_error(prepared.mechanism, prepared.geography.zones.count)
    return (
        f"Counted are the {plan.unit}s in the owner's records, not all people. "
        + ("" if sites is None else f"Visits were seen at {sites.count} sites and shared out by area. ")
        + f"Each count is of bounded visits: a {plan.unit} is counted at most once per slot and in at most "
        f"{plan.ell} slots of the window, chosen at random, so whoever has more visits than that is "
        f"under-counted. {plan.method.capitalize()} noise was added to every zone and slot: it is "
        f"{error.mean_absolute:.1f} on average, and less than {error.half_interval:.1f} in 95 of 100 cases. "
        "Then negative counts were removed in a way that keeps each slot's total where that is above zero: "
        "the same amount was taken off every zone of a slot and what fell below zero was set to zero. So "
        "where most zones of a slot are nearly empty, `people` in the busy ones is low by up to about the "
        "size of the noise, and the nearly empty ones are high on average: sum over zones rather than over "
        "the slots of a quiet zone. The noise of a sum of n counts grows like the square root of n. "
        "`people_low` and `people_high` are the ends of the 95 % interval around the noisy count, before "
        "that step, cut at zero; they do not cover what the bound leaves out. Counts much smaller than the "
        "noise say little. In the manifest, `noise_scale_people` is the noise of one count in people: its "
        f"{'standard deviation' if plan.method == 'gaussian' else 'mean size (the scale b)'}."
        + ("" if plan.unit == "user" else f" The columns called `people` count {plan.unit}s, not persons.")
    )
