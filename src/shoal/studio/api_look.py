"""The look view: contents of a release, figures from the owner's folder, and copies for the public."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path

from shoal.attacks.runs.adversaries import ADVERSARIES
from shoal.errors import PlanError
from shoal.kinds.kind import KINDS, ViewRequest
from shoal.kinds.owner import utility_file
from shoal.release.page.page import plain
from shoal.release.publish import publish as publish_copy
from shoal.release.verify import check_release
from shoal.studio.context import Here, StoredRelease, attacks_of, owners_report, releases
from shoal.studio.forms import OpenForm, PublishForm, ReleaseId, ViewForm
from shoal.studio.worker import audit_file
from shoal.studio.workspace import read_json

router = APIRouter(tags=["look"])
One = Annotated[ReleaseId, Path()]


@router.get("/releases")
def listed(studio: Here) -> list[dict[str, Any]]:
    """Releases of the ledger that lie in the page's folder, newest first."""
    return [_line(each) for each in releases(studio.work, studio.ledger())]


@router.get("/releases/{release}")
def one(release: One, studio: Here) -> dict[str, Any]:
    """Manifest of a release, and the owner's report, attacks and audit."""
    stored = studio.release(release)
    owner = studio.work.owner(stored.name)
    report = owners_report(studio.work, stored)
    return {
        **_line(stored),
        "manifest": stored.manifest(),
        "report": report is not None,
        "utility": _utility(report),
        "attacks": [read_json(path) for path in attacks_of(studio.work, stored)],
        "audit": read_json(audit_file(owner, stored.id)),
        "public": replace(stored, path=studio.work.public(stored.name)).is_there(),
    }


def _utility(report: Any) -> Any:
    """Figures of the owner's report, where there is one."""
    if report is None:
        return None
    return read_json(utility_file(report))


def _line(stored: StoredRelease) -> dict[str, Any]:
    return {
        "id": stored.id,
        "name": stored.name,
        "kind": stored.kind,
        "population": stored.population,
        "what": stored.what,
        "at": stored.at,
        "drawn": stored.kind in KINDS and KINDS[stored.kind].is_drawn,
        "attacked": any(stored.kind in each.kinds for each in ADVERSARIES.values()),
    }


@router.post("/releases/{release}/view")
def view(release: One, form: ViewForm, studio: Here) -> dict[str, Any]:
    """Arrays for the picture of a release; `raw` adds exact values for the owner."""
    stored = studio.release(release)
    draw = KINDS[stored.kind].view if stored.kind in KINDS else None
    if draw is None:
        raise PlanError("no-picture", f"there is no picture of a {stored.kind} release.", "Open its folder.")
    report = owners_report(studio.work, stored) if form.raw else None
    request = ViewRequest(first=form.first, count=form.count, boxes=form.boxes)
    return plain(draw(stored.path, report, request))


@router.post("/releases/{release}/verify")
def verify(release: One, studio: Here) -> dict[str, Any]:
    """Check the folder as its recipient would."""
    stored = studio.release(release)
    checked = check_release(stored.path)
    return {"ok": not checked.problems, "problems": list(checked.problems), "sha256": checked.manifest_sha256}


@router.post("/releases/{release}/publish")
def publish(release: One, form: PublishForm, studio: Here) -> dict[str, Any]:
    """Write a checked copy of the release to public/."""
    stored = studio.release(release)
    place = studio.work.public(form.name)
    place.parent.mkdir(exist_ok=True)
    publish_copy(studio.ledger(), stored.path, place)
    return {"folder": studio.work.relative(place)}


@router.post("/releases/{release}/open")
def open_file(release: One, form: OpenForm, studio: Here) -> dict[str, str]:
    """An address that opens the owner's report, an attack's page, or saves the folder, for two minutes."""
    stored = studio.release(release)
    if form.what == "folder":
        return {"address": f"/open/{studio.tickets.issue(stored.path, f'{stored.name}.zip')}"}
    path = owners_report(studio.work, stored)
    if form.what == "attack":
        path = studio.work.owner(stored.name) / "attacks" / (form.adversary or "-") / f"{form.adversary}.html"
    if path is None or not path.is_file() or not studio.work.holds(path):
        raise PlanError("no-page", "there is no such page of this release.", "Make the release on this page.")
    return {"address": f"/open/{studio.tickets.issue(path)}"}
