"""The look room: what a release holds, beside what its owner kept; copies for the public."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from shoal.errors import PlanError
from shoal.release.publish import publish as publish_copy
from shoal.release.verify import check_release
from shoal.studio.context import Studio, studio_of
from shoal.studio.forms import BoxesForm, OpenForm, PublishForm, ReleaseId
from shoal.studio.look import (
    Found,
    attacks_of,
    density_look,
    histogram_look,
    owners_report,
    record_look,
    rectangle_answers,
    releases,
    trips_look,
)
from shoal.studio.worker import audit_file
from shoal.studio.workspace import read_json

router = APIRouter(tags=["look"])
Here = Annotated[Studio, Depends(studio_of)]
One = Annotated[ReleaseId, Path()]


@router.get("/releases")
def listed(studio: Here) -> list[dict[str, Any]]:
    """Releases of the ledger that lie in the page's folder, newest first."""
    return [_line(each) for each in releases(studio.work, studio.ledger())]


@router.get("/releases/{release}")
def one(release: One, studio: Here) -> dict[str, Any]:
    """Its manifest, and what the owner has beside it."""
    found = studio.release(release)
    owner = studio.work.owner(found.name)
    report = owners_report(studio.work, found)
    return {
        **_line(found),
        "manifest": found.manifest(),
        "report": report is not None,
        "utility": _utility(report),
        "attacks": [read_json(path) for path in attacks_of(studio.work, found)],
        "audit": read_json(audit_file(owner, found.id)),
        "public": replace(found, path=studio.work.public(found.name)).is_there(),
    }


def _utility(report: Any) -> Any:
    """Figures of the owner's report, where there is one."""
    if report is None:
        return None
    from shoal.kinds.run import utility_file

    return read_json(utility_file(report))


def _line(found: Found) -> dict[str, Any]:
    return {
        "id": found.id,
        "name": found.name,
        "kind": found.kind,
        "population": found.population,
        "what": found.what,
        "at": found.at,
    }


@router.get("/releases/{release}/density")
def density(release: One, studio: Here, raw: bool = True) -> dict[str, Any]:
    """Every zone and slot; `raw` adds what only the owner may see."""
    found = _of_kind(studio, release, "density")
    return density_look(found, owners_report(studio.work, found), raw)


@router.get("/releases/{release}/histogram")
def histogram(release: One, studio: Here) -> dict[str, Any]:
    return histogram_look(_of_kind(studio, release, "histogram"))


@router.post("/releases/{release}/rectangles")
def rectangles(release: One, form: BoxesForm, studio: Here) -> list[dict[str, Any]]:
    """Distinct trips in boxes, from the published file: free."""
    return rectangle_answers(_of_kind(studio, release, "histogram"), form.boxes)


@router.get("/releases/{release}/trips")
def trips(
    release: One,
    studio: Here,
    first: Annotated[int, Query(ge=0, le=10**9)] = 0,
    count: Annotated[int, Query(ge=1, le=200)] = 20,
) -> dict[str, Any]:
    """Synthetic trips, from the `first` on."""
    return trips_look(_of_kind(studio, release, "synthetic"), first, count)


@router.get("/releases/{release}/records/{record}")
def record(release: One, record: Annotated[int, Path(ge=0, le=10**12)], studio: Here) -> dict[str, Any]:
    """The boxes of one generalised record."""
    return record_look(_of_kind(studio, release, "trajectories"), record)


@router.post("/releases/{release}/verify")
def verify(release: One, studio: Here) -> dict[str, Any]:
    """Check the folder as its recipient would."""
    found = studio.release(release)
    checked = check_release(found.path)
    return {"ok": not checked.problems, "problems": list(checked.problems), "sha256": checked.manifest_sha256}


@router.post("/releases/{release}/publish")
def publish(release: One, form: PublishForm, studio: Here) -> dict[str, Any]:
    """A checked copy in public/, and nothing else in it."""
    found = studio.release(release)
    place = studio.work.public(form.name)
    place.parent.mkdir(exist_ok=True)
    publish_copy(studio.ledger(), found.path, place)
    return {"folder": studio.work.relative(place)}


@router.post("/releases/{release}/open")
def open_file(release: One, form: OpenForm, studio: Here) -> dict[str, str]:
    """An address that opens the owner's report, an attack's page, or saves the folder, for two minutes."""
    found = studio.release(release)
    if form.what == "folder":
        return {"address": f"/open/{studio.tickets.issue(found.path, f'{found.name}.zip')}"}
    path = owners_report(studio.work, found)
    if form.what == "attack":
        path = studio.work.owner(found.name) / "attacks" / (form.adversary or "-") / f"{form.adversary}.html"
    if path is None or not path.is_file() or not studio.work.holds(path):
        raise PlanError("no-page", "there is no such page of this release.", "Make the release on this page.")
    return {"address": f"/open/{studio.tickets.issue(path)}"}


def _of_kind(studio: Studio, release: str, kind: str) -> Found:
    found = studio.release(release)
    if found.kind != kind:
        raise PlanError("kind-of-release", f"this is a {found.kind} release.", "Choose another picture.")
    return found
