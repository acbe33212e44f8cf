"""What a trajectory release says of itself, rendered from the objects that ran. Never an epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shoal.kinds.source import READING, unit_of
from shoal.kinds.trajectories.compose import Composition
from shoal.release.manifest import NOT_DIFFERENTIALLY_PRIVATE, REFUTED, Manifest
from shoal.release.readme import as_plain, recipient_readme
from shoal.release.trajectory_files import FILES

if TYPE_CHECKING:
    from shoal.kinds.trajectories.build import PreparedTrajectories

LIMITS = "No composition, no protection beyond the stated tracker."
SNAP = (
    "t = floor((time - start) / minutes); x = floor((lon - origin[0]) * metres_per_unit[0] / metres), y "
    "likewise with lat, origin[1], metres_per_unit[1]. Samples with t outside 0 .. steps - 1 are not part of "
    "the release; equal samples of a user count once."
)


def trajectories_manifest(
    prepared: PreparedTrajectories,
    records: int,
    *,
    verified: bool,
    single: Mapping[str, float | None] | None = None,
    composition: Composition | None = None,
) -> Manifest:
    """Promise, public parameters and columns; `verified` is what the tracker found.

    `single`: share of people with a single record that fits, by what is known of them.
    """
    composed = composition or Composition()
    plan, opened, anonymiser = prepared.plan, prepared.opened, prepared.anonymiser
    tau, epoch = plan.minutes()
    unit = unit_of(plan.unit, plan.source, opened.source)
    return Manifest(
        unit=unit.sentence,
        promise=_promise(plan.k, tau, plan.unit, composed) if verified else REFUTED,
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
        read_from_data={
            "records": records,
            **({} if single is None else {"share_with_single_record": dict(single)}),
            **composed.to_plain(),
        },
        spends=[],
        population=plan.population,
        input={"shape": str(opened.source.shape), "columns": sorted(opened.source.columns)},
        columns={name: dict(columns) for name, columns in FILES.items()},
        licence=plan.licence or "none given by the owner yet",
    )


def _promise(k: int, tau: int, unit: str, composed: Composition) -> str:
    return composed.promise(k, tau, unit) if composed.overlaps else promise(k, tau, unit)


def promise(k: int, tau: int, unit: str) -> str:
    """One sentence."""
    return (
        f"Whoever tracked one {unit} for any {tau} minutes finds at least {k} records here that agree with "
        "all of it."
    )


def trajectories_readme(manifest: Manifest) -> str:
    """For the recipient: what a box is, what was left out, what was measured and is not protected."""
    public, found = manifest.public, manifest.read_from_data
    lattice, unit = public["lattice"], as_plain(manifest.guarantee["unit"])
    points = [
        "No noise was added and no point made up. A row is a box: the person of this record was, at least "
        f"once, somewhere in these cells ({lattice['metres']:g} m each) during these steps "
        f"({lattice['minutes']} min each).",
        "Boxes of a record do not overlap in time. Between boxes nothing is known: samples are suppressed "
        f"where too few people look alike, in whole stretches of {public['epoch_minutes']} minutes.",
        f"There are {found['records']} records, one for each {unit} in the data; those of which nothing "
        "could be kept have no row. This number and the shares below were read from the data.",
        public["snapping"],
        f"{manifest.guarantee['limits']} The records that agree need not be equally likely to someone who "
        "knows the method. Whoever holds another release about the same people may find a single record "
        "that fits.",
        *_measured(found, public["tau_minutes"], unit),
        "Attribute disclosure is not prevented: what all fitting records have in common is learned without "
        f"knowing which is whose. Membership is not hidden: that a {unit} is in the data can be learned.",
        *(_earlier(each) for each in found.get("earlier_releases", ())),
    ]
    extra = "\n".join(f"- {point}" for point in points)
    overlaps = any(each["overlaps"] for each in found.get("earlier_releases", ()))
    first = f"**{as_plain(manifest.promise)}**" if overlaps else ""
    return recipient_readme(manifest, FILES, extra, first)


def _measured(found: Mapping[str, Any], tau: int, unit: str) -> list[str]:
    """What more knowledge than one stretch does, in this release."""
    single = found.get("share_with_single_record", {})
    two, four = single.get("two_stretches_of_tau"), single.get("four_points")
    known = {f"two separate stretches of {tau} minutes": two, "four points at random times": four}
    shares = [f"{words}, {share:.1%}" for words, share in known.items() if share is not None]
    if not shares:
        return []
    return [
        f"Measured, not promised: share of {unit}s for whom a single record fits what is known of them. Of "
        f"those known by {'; by '.join(shares)}."
    ]


def _earlier(release: Mapping[str, Any]) -> str:
    """An earlier release about the same people, and what linking gave."""
    share, window = release["records_linked_share"], release["window"]
    when = "an unknown window" if window is None else f"{window['start']} to {window['end']}"
    linked = "not measured" if share is None else f"{share:.1%}"
    return (
        f"An earlier release about the same population covers {when} "
        f"(manifest {release['manifest_sha256'][:12]}). Records of both that were linked to "
        f"the right ones without any other knowledge: {linked}."
    )
