"""Sources that were registered on the page: which files, which columns, which public map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import PlanError, SourceError
from shoal.events.schema import EventSource, SourcePlan
from shoal.kinds.describe import opened_source
from shoal.kinds.kind import KINDS
from shoal.kinds.simulated import CITIES, SimulatedCity
from shoal.studio.guard import new_name
from shoal.studio.workspace import Workspace, read_json, write_json

if TYPE_CHECKING:
    from shoal.space.places import Sites, Zones

MOST_SOURCES = 200
PATHS = ("zones", "sites")


@dataclass(frozen=True, kw_only=True)
class SourceCard:
    """Description of a source that needs no row; paths are relative to the page's folder."""

    id: str
    name: str
    simulated: bool = False
    source: dict[str, Any]  # of a SourcePlan
    space: dict[str, Any] = field(default_factory=dict)  # zones, sites and their columns
    window: dict[str, str] = field(default_factory=dict)  # start, end, time_zone, as the owner declared them
    population: str | None = None
    users: int | None = None  # order of magnitude, declared
    kinds: list[str] = field(default_factory=list)
    defaults: dict[str, dict[str, Any]] = field(default_factory=dict)  # kind -> settings of its plan


class SourceShelf:
    """Cards on disk, one file each."""

    def __init__(self, work: Workspace, apart: Callable[[str, Any], Any] | None = None) -> None:
        self.work = work
        self._apart = apart  # where files are read in another process: see reading.py

    def all(self) -> list[SourceCard]:
        paths = sorted(self.work.sources.glob("*.json"), key=lambda path: path.stat().st_mtime)
        cards = [_card(read_json(path)) for path in paths]
        return [card for card in cards if card is not None]

    def find(self, name: str) -> SourceCard:
        card = _card(read_json(self.work.sources / f"{name}.json")) if name.isalnum() else None
        if card is None:
            raise SourceError("no-such-source", "there is no such source.", "Register it in the data view.")
        return card

    def register(self, card: SourceCard) -> SourceCard:
        """Open the files and store the card; raises an error if they do not fit."""
        if len(self.all()) >= MOST_SOURCES:
            raise PlanError("sources-full", f"at most {MOST_SOURCES} sources are kept.", "Remove one first.")
        opened = self.opened(card)
        if opened.shape.has_sites and not card.space.get("sites"):
            raise PlanError(
                "sites-missing",
                "these records name sites, so the list of sites with coordinates must be given.",
                "Name the file of sites (columns site, lon, lat).",
            )
        _check_window(card.window)
        kinds = kinds_for(str(opened.shape))
        registered = SourceCard(**{**asdict(card), "id": new_name(), "kinds": kinds})
        _ = self.zones(registered), self.sites(registered)
        write_json(self.work.sources / f"{registered.id}.json", asdict(registered))
        return registered

    def keep_simulated(self, city: SimulatedCity, folder: Path, settings: dict[str, dict]) -> SourceCard:
        """The card of a simulated city, under one id however often it is made."""
        first = next(iter(settings.values()))
        card = SourceCard(
            id=f"simulated{city.name}",
            name=city.title,
            simulated=True,
            source={"paths": [self.work.relative(path) for path in first["source"]["paths"]]},
            space={
                "zones": self.work.relative(folder / "zones.geojson"),
                "sites": self.work.relative(folder / "sites.csv") if city.what == "events" else None,
            },
            window=dict(first["window"]),
            population=city.population,
            users=city.users,
            kinds=list(settings),
            defaults={kind: _plain(each) for kind, each in settings.items()},
        )
        write_json(self.work.sources / f"{card.id}.json", asdict(card))
        return card

    def remove(self, name: str) -> None:
        """Forget a source; its files stay."""
        (self.work.sources / f"{self.find(name).id}.json").unlink(missing_ok=True)

    def source_settings(self, card: SourceCard) -> dict[str, Any]:
        """Source settings of a plan, with paths checked and resolved."""
        given = {name: value for name, value in card.source.items() if value not in (None, {}, [], ())}
        files = [file for path in card.source["paths"] for file in self.work.files(path)]
        return {**given, "paths": tuple(dict.fromkeys(files))}

    def space_settings(self, card: SourceCard) -> dict[str, Any]:
        given = {name: value for name, value in card.space.items() if value not in (None, "")}
        return given | {name: str(self.work.inside(given[name])) for name in PATHS if name in given}

    def opened(self, card: SourceCard) -> EventSource:
        """Headers only; no row is read."""
        if self._apart is not None:
            return self._apart("opened", asdict(card))
        return opened_source(SourcePlan(**self.source_settings(card)))

    def zones(self, card: SourceCard) -> Zones | None:
        if self._apart is not None:
            return self._apart("zones", asdict(card))
        space = self.space_settings(card)
        if "zones" not in space:
            return None
        from shoal.space.places import read_zones

        return read_zones(
            space["zones"],
            id_column=space.get("zone_id"),
            name_column=space.get("zone_name"),
            crs=space.get("zones_crs"),
            holes="allow",
            on_overlap="allow",
        )

    def sites(self, card: SourceCard) -> Sites | None:
        if self._apart is not None:
            return self._apart("sites", asdict(card))
        space = self.space_settings(card)
        if "sites" not in space:
            return None
        from shoal.space.places import named_sites

        given = {name: space.get(name) for name in ("site_id", "site_lon", "site_lat", "sites_crs")}
        return named_sites(space["sites"], **given)


def kinds_for(shape: str) -> list[str]:
    """Kinds of release that the page offers for a source; those that are made for its shape come first."""
    kinds = [kind for kind in KINDS.values() if kind.is_drawn and shape in kind.shapes]
    return [kind.name for kind in sorted(kinds, key=lambda kind: kind.shapes.index(shape))]


def _check_window(window: dict[str, str]) -> None:
    """Dates that can be read, the first before the last; whether data lies there is not looked at."""
    try:
        start, end = (datetime.fromisoformat(window[name]) for name in ("start", "end") if name in window)
    except ValueError:
        if not {"start", "end"} & window.keys():
            return
        raise PlanError(
            "window-dates", "the window needs both dates, written as 2026-03-02.", "Correct them."
        ) from None
    if start.replace(tzinfo=None) >= end.replace(tzinfo=None):
        raise PlanError("window-dates", "the window ends before it begins.", "Swap the dates.")


def simulated_city(name: str) -> SimulatedCity:
    if name not in CITIES:
        raise PlanError(
            "no-such-city", "there is no such simulated city.", f"Choose from {', '.join(CITIES)}."
        )
    return CITIES[name]


def _card(plain: Any) -> SourceCard | None:
    try:
        return SourceCard(**plain)
    except TypeError:
        return None


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a plan without its folders and files, which the page sets."""
    drop = ("source", "out", "owner", "population")
    remaining = {name: value for name, value in settings.items() if name not in drop}
    space = {name: value for name, value in settings.get("space", {}).items() if name not in PATHS}
    return {**remaining, "space": space}
