"""A form of the page as the settings of a plan; the plan and its checks belong to its kind."""

from __future__ import annotations

import json
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shoal.errors import Fault, PlanError
from shoal.kinds import KINDS
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.describe import dry_run
from shoal.kinds.plan import WindowPlan, sides_of
from shoal.kinds.setting_forms import form_schema
from shoal.kinds.simulated import CITIES
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.privacy.ledger import Ledger
from shoal.setting import Described, fault_of, report
from shoal.setting import settings_of as settings_of_plan
from shoal.studio.forms import FIELDS, PLANS
from shoal.studio.sources import PATHS, SourceCard, SourceShelf
from shoal.studio.workspace import Workspace

if TYPE_CHECKING:
    from shoal.kinds.density.prepare import OpenedDensity

MOST_SLOTS = 20_000
MOST_DAYS = 400
MOST_ZONES = 20_000
MOST_CELLS = 2**18
METRES_PER_DEGREE = 111_320.0
H3_LARGEST_M2 = 4.357e12  # of resolution 0; every step divides it by seven
MOST_VALUES = 20_000_000  # zones times slots: the most that a page may plan
MAPS_OPEN = 4


def page_methods() -> dict[str, list[dict[str, Any]]]:
    """The methods of every kind, and whether each takes a delta, goes without, and reads sites or points."""
    listed: dict[str, list[dict[str, Any]]] = {}
    for name, plan in PLANS.items():
        kinds = [kind for kind in KINDS.values() if kind.plan is plan]
        listed[name] = [
            {
                "name": method.name,
                "words": method.summary,
                "pure": any(entry.pure for entry in method.cases.values()),
                "with_delta": not method.pure,
                "needs_sites": kind.shapes == ("site",) if len(kinds) > 1 else None,
            }
            for kind in kinds
            for method in kind.methods.values()
        ]
    return listed


def page_settings() -> dict[str, dict[str, Any]]:
    """The fields of the form of every kind: label, help, bounds, choices and default."""
    return {kind: form_schema(plan) for kind, plan in PLANS.items()}


def settings_of(
    form: Mapping[str, Any], card: SourceCard, shelf: SourceShelf, work: Workspace
) -> dict[str, Any]:
    """Nested settings, as a TOML file would hold them: the source's defaults, then what the form says."""
    kind = form["kind"]
    if kind not in card.kinds:
        raise PlanError(
            "kind-of-source",
            f"this source cannot become a {kind} release: it is made for {', '.join(card.kinds)}.",
            "Choose another kind of release or another source.",
        )
    _check_population(form["population"], card)
    report([fault for name, each in FIELDS[kind].items() if (fault := _fault(each, form.get(name)))])
    defaults = {
        name: value for name, value in card.defaults.get(kind, {}).items() if name not in ("window", "space")
    }
    given = {
        each.name: form[name]
        for name, each in FIELDS[kind].items()
        if each.name == each.path and form.get(name) not in (None, "")
    }
    settings = {**defaults, **given}
    if "users" in FIELDS[kind] and card.users is not None:
        settings.setdefault("users", card.users)
    if "epsilon" in given and "delta" not in given and kind != "density":
        settings.pop("delta", None)  # the form's price is whole: no delta means pure
    name = form["name"]
    settings |= {
        "population": form["population"],
        "source": shelf.source_settings(card),
        "space": _space(form, card, shelf),
        "window": _window(form, card),
        "out": str(work.release(name)),
        "owner": str(work.owner(name)),
        "run_id": form.get("run_id") or "",
    }
    gap = form.get("gap_minutes")
    if "gap_minutes" in FIELDS[kind] and gap:
        settings["trip_rule"] = {"gap_minutes": gap}
    if (
        kind == "synthetic" and "sites" in settings["space"]
    ):  # records that name sites have a method of their own
        of_points = {name for name, each in settings_of_plan(SyntheticPlan).items() if each.setting.only}
        settings = {name: value for name, value in settings.items() if name not in {*of_points, "unit"}}
        settings["method"] = given.get("method", "commute")
    return settings


def _fault(each: Described, value: Any) -> Fault | None:
    return None if value in (None, "") else fault_of(each, value)


def _check_population(population: str, card: SourceCard) -> None:
    """People who exist never spend the budget of people who do not, nor the other way round."""
    simulated = population in {city.population for city in CITIES.values()}
    if simulated and not card.simulated:
        raise PlanError(
            "population-simulated",
            f'"{population}" is the population of a simulated city; the people in this source exist.',
            "Choose their own population, or create it in the ledger view.",
        )
    if card.simulated and population != card.population:
        raise PlanError(
            "population-real",
            f'these records are simulated; they must not spend the budget of "{population}".',
            f'Choose "{card.population}".',
        )


def _window(form: Mapping[str, Any], card: SourceCard) -> dict[str, Any]:
    window = {name: form.get(name) or card.window.get(name) for name in ("start", "end", "time_zone")}
    window = {name: value for name, value in window.items() if value}
    slot = form.get("slot_minutes") or WindowPlan.slot_minutes
    has_slots = "slot_minutes" in FIELDS[form["kind"]]
    if "start" in window and "end" in window:
        _check_length(window["start"], window["end"], slot if has_slots else None)
    return window | ({"slot_minutes": slot} if has_slots else {})


def _check_length(start: str, end: str, slot_minutes: int | None) -> None:
    """Check the size of a window; the plan checks everything else about it."""
    try:
        minutes = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() / 60
    except (ValueError, TypeError):
        return
    if minutes > MOST_DAYS * 1440 or (slot_minutes and minutes / slot_minutes > MOST_SLOTS):
        raise PlanError(
            "window-length",
            f"a window on this page has at most {MOST_DAYS} days and {MOST_SLOTS:,} slots.",
            "Choose a shorter window or longer slots, or use the command.",
        )


def _space(form: Mapping[str, Any], card: SourceCard, shelf: SourceShelf) -> dict[str, Any]:
    kind, known = form["kind"], shelf.space_settings(card)
    given = card.defaults.get(kind, {}).get("space") or {}
    box = form.get("box") or given.get("box")
    sites = {name: value for name, value in known.items() if name.startswith("site")}
    if kind == "density":
        if form.get("map") in (None, "zones"):
            return known
        size = {"h3": form.get("h3")} if form["map"] == "h3" else {"cell_m": form.get("cell_m")}
        box = tuple(box or box_of(card, shelf))
        _check_cells(box, shelf.opened(card).planar, **size)
        return {**sites, **size, "box": box}
    if "origin" in FIELDS[kind]:
        origin = form.get("origin") or given.get("origin") or box_of(card, shelf)[:2]
        return {**sites, "origin": list(origin), **_either("cell_m", form, given)}
    if kind == "synthetic" and "sites" in known:
        return sites
    box = tuple(box or box_of(card, shelf))
    if kind == "synthetic":
        return {"box": box, **_either("cell_m", form, given)}
    zones = {name: value for name, value in known.items() if name.startswith("zone")}
    cells = _either("cells", form, given)
    if cells and math.prod(sides_of(cells["cells"])) > MOST_CELLS:
        raise PlanError(
            "plan-size",
            f"a map on this page has at most {MOST_CELLS:,} cells.",
            "Choose fewer cells, or use the command.",
        )
    return {**zones, "box": box, **cells}


def _either(name: str, form: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The setting as the form or the source gives it; left out, it has the default of the plan."""
    value = form.get(name) or given.get(name)
    return {name: value} if value else {}


def _check_cells(box: tuple, planar: bool, cell_m: float | None = None, h3: int | None = None) -> None:
    """Refuse a grid that would take minutes to make, before it is made."""
    west, south, east, north = box
    metre = 1.0 if planar else METRES_PER_DEGREE
    shrink = 1.0 if planar else max(math.cos(math.radians((south + north) / 2)), 0.0)
    area = max((east - west) * shrink, 0.0) * max(north - south, 0.0) * metre**2
    side = cell_m**2 if cell_m else H3_LARGEST_M2 / 7 ** (h3 or 0)
    if area / side > MOST_ZONES:
        raise PlanError(
            "plan-size",
            f"the grid would have some {area / side:,.0f} cells; on this page at most {MOST_ZONES:,}.",
            "Choose larger cells or a smaller box, or use the command.",
        )


def box_of(card: SourceCard, shelf: SourceShelf) -> tuple[float, float, float, float]:
    """Box around the public zones or sites, a hundredth of a degree wider; never read off the rows."""
    zones, sites = shelf.zones(card), shelf.sites(card)
    if zones is not None and zones.crs is not None:
        west, south, east, north = zones.to_lonlat().bounds
    elif zones is not None:
        west, south, east, north = zones.bounds
    elif sites is not None:
        west, south = float(sites.x.min()), float(sites.y.min())
        east, north = float(sites.x.max()), float(sites.y.max())
    else:
        raise PlanError(
            "box-missing",
            "the plan must state the area, which is never read off the data; the source has no public map.",
            "Give the box: west, south, east, north.",
        )
    return west - 0.01, south - 0.01, east + 0.01, north + 0.01


class Planner:
    """Prepares plans; zones and weights of the last few maps stay open, so that a slider moves at once."""

    def __init__(
        self, work: Workspace, shelf: SourceShelf, apart: Callable[[str, Any], Any] | None = None
    ) -> None:
        self.work, self.shelf, self._apart = work, shelf, apart
        self._open: OrderedDict[str, OpenedDensity] = OrderedDict()
        self._lock = threading.Lock()

    def settings(self, form: Mapping[str, Any]) -> dict[str, Any]:
        return settings_of(form, self.shelf.find(form["source"]), self.shelf, self.work)

    def prepared(self, form: Mapping[str, Any], settings: dict[str, Any]) -> Any:
        """Open the public files of a plan; no row is read."""
        kind = form["kind"]
        plan = KINDS[kind].plan.from_settings(settings)
        if kind == "density":
            return KINDS[kind].prepare(plan, opened=self._opened(plan, settings))
        return KINDS[kind].prepare(plan)

    def dry_run(self, form: Mapping[str, Any], ledger: Ledger) -> dict[str, Any]:
        """Price, budget left and obstacles of a plan."""
        if self._apart is not None:
            return self._apart("dry_run", dict(form))
        settings = self.settings(form)
        return dry_run(self.prepared(form, settings), ledger)

    def _opened(self, plan: DensityPlan, settings: dict[str, Any]) -> OpenedDensity:
        files = [os.stat(settings["space"][name]).st_mtime_ns for name in PATHS if name in settings["space"]]
        parts = [settings["source"], settings["space"], settings["window"], files]
        key = json.dumps(parts, sort_keys=True, default=list)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
        from shoal.kinds.density.prepare import open_density

        opened = open_density(plan)
        if opened.setting.zones * opened.setting.slots > MOST_VALUES:
            raise PlanError(
                "plan-size",
                f"zones times slots are more than {MOST_VALUES:,}: too many for this page.",
                "Choose fewer zones or slots, or use the command.",
            )
        with self._lock:
            self._open[key] = opened
            while len(self._open) > MAPS_OPEN:
                self._open.popitem(last=False)
        return opened
