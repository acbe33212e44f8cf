"""The data view: the page's folder, sources, their maps and checks, a simulated city."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from shoal import __version__
from shoal.kinds.describe import named_columns
from shoal.kinds.kind import KINDS
from shoal.kinds.simulated import CITIES
from shoal.release.page.page import plain
from shoal.studio.context import Here, Studio, source_map
from shoal.studio.forms import CityForm, Id, PlanForm, SourceForm, for_page
from shoal.studio.plans import box_of, page_methods, page_settings
from shoal.studio.sources import SourceCard

router = APIRouter(tags=["data"])


@router.get("/state")
def state(studio: Here) -> dict[str, Any]:
    """What all views of the page need: folder, kinds, cities, sources and settings."""
    return {
        "version": __version__,
        "folder": str(studio.work.root),
        "ledger": studio.ledger().store.where(),
        "sources": [asdict(card) for card in studio.shelf.all()],
        "kinds": [
            {name: getattr(kind, name) for name in ("name", "title", "releases", "is_private")}
            for kind in KINDS.values()
            if kind.is_drawn
        ],
        "cities": [{"name": each.name, "title": each.title, "users": each.users} for each in CITIES.values()],
        "methods": page_methods(),
        "settings": page_settings(),
    }


@router.get("/files")
def files(studio: Here, under: Annotated[str, Query(max_length=1000)] = "") -> list[dict[str, Any]]:
    """Files and folders that a source can be made of."""
    return studio.work.listed(under)


@router.post("/simulate", status_code=202)
def simulate(form: CityForm, studio: Here) -> dict[str, Any]:
    """Start a run that makes a city of people who do not exist, with a population in the ledger."""
    return studio.runs.start({"do": "simulate", "city": form.city}, f"Simulate: {CITIES[form.city].title}")


@router.post("/sources", status_code=201)
def register(form: SourceForm, studio: Here) -> dict[str, Any]:
    """Register files as a source; headers are read, no row."""
    fields = form.model_dump()
    reading = ("time_zone", "time_unit", "time_format", "delimiter", "on_bad_row", "columns")
    space = ("zones", "zone_id", "zone_name", "sites", "site_id", "site_lon", "site_lat")
    window = {name: fields[name] for name in ("start", "end", "time_zone") if fields[name]}
    card = SourceCard(
        id="",
        name=form.name,
        source={"paths": form.paths, **{name: fields[name] or None for name in reading}},
        space={name: fields[name] or None for name in space},
        window=window,
        population=form.population or None,
        users=form.users,
    )
    return described(studio, studio.shelf.register(card))


@router.get("/sources/{source}")
def source(source: Annotated[Id, Path()], studio: Here) -> dict[str, Any]:
    """Columns of a source, those that were guessed, and possible kinds of release."""
    return described(studio, studio.shelf.find(source))


def described(studio: Studio, card: SourceCard) -> dict[str, Any]:
    opened = studio.shelf.opened(card)
    return {
        **asdict(card),
        "files": len(opened.paths),
        "format": opened.format,
        "shape": str(opened.shape),
        "understood": named_columns(opened),
        "names": list(opened.names),
        "guessed": list(opened.guessed),
    }


@router.delete("/sources/{source}", status_code=204)
def forget(source: Annotated[Id, Path()], studio: Here) -> Response:
    """Forget a source; its files stay where they are."""
    studio.shelf.remove(source)
    return Response(status_code=204)


@router.get("/sources/{source}/map")
def public_map(source: Annotated[Id, Path()], studio: Here) -> dict[str, Any]:
    """Public zones and sites of a source."""
    card = studio.shelf.find(source)
    return plain(source_map(studio.shelf.zones(card), studio.shelf.sites(card)))


@router.post("/sources/{source}/check", status_code=202)
def check(source: Annotated[Id, Path()], studio: Here) -> dict[str, Any]:
    """Start a run that reads every row and reports bad ones to the owner."""
    card = studio.shelf.find(source)
    return studio.runs.start({"do": "check", "source": card.id}, f"Check rows: {card.name}")


@router.post("/plan")
def plan(form: PlanForm, studio: Here) -> dict[str, Any]:
    """Dry run: promise, price, budget left and expected error; no row is read."""
    summary = studio.planner.dry_run(form.model_dump(), studio.ledger())
    card = studio.shelf.find(form.source)
    notes = [for_page(each) for each in summary["notes"]]
    obstacles = [for_page(each) for each in summary["obstacles"]]
    return plain(
        {**summary, "plan": None, "notes": notes, "obstacles": obstacles, "warnings": outside(form, card)}
    )


def outside(form: PlanForm, card: SourceCard) -> list[str]:
    """Warning if the window leaves the one that the source was declared for, where counts are noise alone."""
    fields = form.model_dump()
    declared, start, end = card.window, fields.get("start") or "", fields.get("end") or ""
    if card.simulated or not declared.get("start") or not declared.get("end"):
        return []
    if (start or declared["start"]) >= declared["start"] and (end or declared["end"]) <= declared["end"]:
        return []
    window = f"{declared['start']} to {declared['end']}"
    return [f"The source is declared for {window}; this window lies outside it, at least in part."]


@router.get("/sources/{source}/box")
def box(source: Annotated[Id, Path()], studio: Here) -> dict[str, Any]:
    """Box around the public zones or sites of a source."""
    return {"box": box_of(studio.shelf.find(source), studio.shelf)}
