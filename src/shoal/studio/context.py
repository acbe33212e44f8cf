"""State of the server that all routers share, and the releases of its ledger, with the owner's figures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import Depends, Request

from shoal.errors import SourceError
from shoal.kinds import KINDS
from shoal.kinds.owner import report_of
from shoal.privacy.ledger import Ledger, open_ledger
from shoal.release.folder import Committed
from shoal.release.manifest import MANIFEST
from shoal.release.page.page import drawn_zones, float32_base64
from shoal.release.verify import sha256_file
from shoal.studio.guard import Tickets
from shoal.studio.plans import Planner
from shoal.studio.reading import Reader
from shoal.studio.runs import Runs
from shoal.studio.sources import SourceShelf
from shoal.studio.workspace import Workspace, read_json

if TYPE_CHECKING:
    from shoal.space.places import Sites, Zones


@dataclass
class Studio:
    """One server: its folder, its runs, its token."""

    work: Workspace
    token: str
    port: int
    runs: Runs
    shelf: SourceShelf
    planner: Planner
    reader: Reader
    tickets: Tickets = field(default_factory=Tickets)
    _stored: dict[str, StoredRelease] = field(default_factory=dict)

    @classmethod
    def at(cls, work: Workspace, token: str, port: int, runs: Runs | None = None) -> Studio:
        reader = Reader(work.root)
        shelf = SourceShelf(work, reader)
        return cls(work, token, port, runs or Runs(work), shelf, Planner(work, shelf, reader), reader)

    def ledger(self) -> Ledger:
        """Opened for each request, as the command does: another process may have written to it."""
        return open_ledger()

    def release(self, name: str) -> StoredRelease:
        """A release by the hash of its manifest. It is in the ledger for good, so it is looked up once."""
        stored = self._stored.get(name)
        if stored is None or not stored.is_there():
            stored = release_named(self.work, self.ledger(), name)
            self._stored[name] = stored
        return stored


def studio_of(request: Request) -> Studio:
    return request.app.state.studio


Here = Annotated[Studio, Depends(studio_of)]  # the argument of a route


MOST_SITES = 20_000


@dataclass(frozen=True, kw_only=True)
class StoredRelease:
    """A release of the ledger that lies in the page's folder."""

    id: str  # hash of its manifest
    key: str
    population: str
    path: Path
    what: str
    at: str

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def kind(self) -> str:
        """Kind of the release, found by the file that only this kind has."""
        return next((k.name for k in KINDS.values() if (self.path / k.main_file).is_file()), "other")

    def is_there(self) -> bool:
        """Whether the folder still is this very release."""
        try:
            return sha256_file(self.path / MANIFEST) == self.id
        except OSError:
            return False

    def manifest(self) -> dict[str, Any]:
        try:
            return json.loads((self.path / MANIFEST).read_text("utf-8"))
        except (OSError, ValueError):
            raise SourceError(
                "release-gone",
                "the folder of this release is gone or was changed.",
                "Restore it; the ledger says where it was.",
            ) from None


def releases(work: Workspace, ledger: Ledger) -> list[StoredRelease]:
    """Releases of every population whose folder the page may read, newest first."""
    listed = []
    for population in ledger.state().populations.values():
        rows = {each.key: (each.what, each.at) for each in population.spends if each.released}
        rows |= {n["key"]: (n["what"], n["at"]) for n in population.notes if n["kind"] == "listing"}
        for key, stored in population.released.items():
            path = Path(stored.path)
            what, at = rows.get(key, ("", ""))
            each = StoredRelease(
                id=stored.manifest_sha256, key=key, population=population.name, path=path, what=what, at=at
            )
            if work.holds(path) and each.is_there():
                listed.append(each)
    return sorted(listed, key=lambda each: each.at, reverse=True)


def release_named(work: Workspace, ledger: Ledger, name: str) -> StoredRelease:
    for each in releases(work, ledger):
        if each.id == name:
            return each
    raise SourceError("no-such-release", "there is no such release here.", "Choose one that is listed.")


def owners_report(work: Workspace, stored: StoredRelease) -> Path | None:
    """The report that was drawn for this very release."""
    owner = work.owner(stored.name)
    committed = Committed(path=stored.path, manifest_sha256=stored.id, reused=True)
    report = report_of(committed, owner / "report.html")
    return report if report is not None and work.holds(report) else None


def attacks_of(work: Workspace, stored: StoredRelease) -> list[Path]:
    """What adversaries found on this very release, the latest first."""
    listed = list((work.owner(stored.name) / "attacks").glob("*/told.json"))
    listed.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [path for path in listed if (read_json(path) or {}).get("manifest_sha256") == stored.id]


def source_map(zones: Zones | None, sites: Sites | None) -> dict[str, Any]:
    """The public map of a source: zones as outlines, sites as shares of the zones' box."""
    drawn: dict[str, Any] = {"zones": None, "sites": None, "box": None}
    box = None
    if zones is not None:
        shown = zones if zones.crs is None else zones.to_lonlat()
        drawn["zones"], box = drawn_zones(shown), shown.bounds
    if sites is not None and sites.count <= MOST_SITES:
        if box is None:
            box = (float(sites.x.min()), float(sites.y.min()), float(sites.x.max()), float(sites.y.max()))
        drawn["sites"] = {"count": sites.count, "xy": float32_base64(np.column_stack([sites.x, sites.y]))}
    drawn["box"] = box
    return drawn
