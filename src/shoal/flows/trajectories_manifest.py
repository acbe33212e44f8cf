"""What a trajectory release says of itself, rendered from the objects that ran. Never an epsilon."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from shoal.flows.density_manifest import READING
from shoal.privacy.unit import Unit
from shoal.release.manifest import NOT_DIFFERENTIALLY_PRIVATE, Manifest
from shoal.release.readme import recipient_readme
from shoal.release.trajectory_files import FILES

if TYPE_CHECKING:
    from shoal.flows.trajectories import PreparedTrajectories

LIMITS = "No composition, no protection beyond the stated tracker."
SNAP = (
    "t = floor((time - start) / minutes); x = floor((lon - origin[0]) * metres_per_unit[0] / metres), y "
    "likewise with lat, origin[1], metres_per_unit[1]. Samples with t outside 0 .. steps - 1 are not part of "
    "the release; equal samples of a user count once."
)


def trajectories_manifest(prepared: PreparedTrajectories, records: int, *, verified: bool) -> Manifest:
    """Promise, public parameters and columns; `verified` is what the tracker found."""
    plan, opened, anonymiser = prepared.plan, prepared.opened, prepared.anonymiser
    tau, epoch = plan.minutes()
    unit = Unit(plan.unit, opened.source.columns["user"])
    return Manifest(
        unit=unit.sentence,
        promise=promise(plan.k, tau, plan.unit) if verified else REFUTED,
        guarantee={
            "kind": NOT_DIFFERENTIALLY_PRIVATE,
            "unit": plan.unit,
            "adversary": f"tracked one {plan.unit} for any {tau} minutes and knows every sample of "
            "that time, and when there was none",
            "verified": verified,
            "limits": LIMITS,
        },
        public={
            "lattice": opened.lattice.to_manifest(),
            "snapping": SNAP,
            "k": plan.k,
            "tau_minutes": tau,
            "epoch_minutes": epoch,
            "full_length": plan.full_length,
            "records": records,
            "window": {"start": plan.window.start, "end": plan.window.end},
            "time_zone": plan.window.time_zone,
            "cost_of_a_box": asdict(anonymiser.cost),
            "price_of_suppression": plan.price,
            "boxes_count_longer_by_epochs": anonymiser.longer,
            "pairs_forgotten_after_days": plan.forget_days,
            "block_users": plan.block_users,
            "sites": None
            if opened.sites is None
            else {"count": opened.sites.count, "sha256": opened.sites.digest()},
            "reading": {name: getattr(opened.source, name) for name in READING},
        },
        spends=[],
        population=plan.population,
        input={"shape": str(opened.source.shape), "columns": sorted(opened.source.columns)},
        columns={name: dict(columns) for name, columns in FILES.items()},
        licence=plan.licence or "none given by the owner yet",
    )


REFUTED = "Nothing is promised: the verifier found windows in which too few records fit. Not for publication."


def promise(k: int, tau: int, unit: str) -> str:
    """One sentence."""
    return (
        f"Whoever tracked one {unit} for any {tau} minutes finds at least {k} records here that agree with "
        "all of it."
    )


def trajectories_readme(manifest: Manifest) -> str:
    """For the recipient: what a box is, what was left out."""
    public = manifest.public
    lattice = public["lattice"]
    extra = (
        "- No noise was added and no point made up. A row is a box: the person of this record was, at least "
        f"once, somewhere in these cells ({lattice['metres']:g} m each) during these steps "
        f"({lattice['minutes']} min each).\n"
        "- Boxes of a record do not overlap in time. Between boxes nothing is known: samples are suppressed "
        f"where too few people look alike, in whole stretches of {public['epoch_minutes']} minutes.\n"
        f"- There are {public['records']} records; those of which nothing could be kept have no row.\n"
        f"- {public['snapping']}\n"
        f"- {manifest.guarantee['limits']} The records that agree need not be equally likely to someone who "
        "knows the method. Who knows two separate stretches of a person, or holds another "
        "release about the same people, may find a single record that fits."
    )
    return recipient_readme(manifest, FILES, extra).replace("## How to read the noise", "## How to read it")
