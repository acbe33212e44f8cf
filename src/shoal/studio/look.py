"""What the look room draws of a release: the published files, and beside them what its owner kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from shoal.errors import PlanError, SourceError
from shoal.kinds import KINDS
from shoal.kinds.density.owner_report import read_exact
from shoal.kinds.run import report_of
from shoal.metrics.density import density_utility
from shoal.privacy.ledger import Ledger
from shoal.release.density_files import read_density
from shoal.release.folder import Committed
from shoal.release.histogram_published import PublishedHistogram, read_histogram
from shoal.release.manifest import MANIFEST
from shoal.release.page.page import float32_base64, plain, uint16_base64
from shoal.release.page.payload import day_ticks, drawn_zones, slot_label, slot_word
from shoal.release.trajectory_files import RECORDS
from shoal.release.trip_files import read_synthetic
from shoal.release.verify import sha256_file
from shoal.space.clock import Clock
from shoal.space.sites import Sites
from shoal.space.zones import Zones, read_zones
from shoal.studio.workspace import Workspace

DRAWN = ("density", "histogram", "synthetic", "trajectories")
MOST_TRIPS = 200
MOST_SITES = 20_000


@dataclass(frozen=True, kw_only=True)
class Found:
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
        """By its file; a release without a picture, such as answers to queries, is "other"."""
        return next((kind for kind in DRAWN if (self.path / KINDS[kind].main_file).is_file()), "other")

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


def releases(work: Workspace, ledger: Ledger) -> list[Found]:
    """Of every population, newest first, those whose folder the page may read."""
    found = []
    for population in ledger.state().populations.values():
        rows = {each.key: (each.what, each.at) for each in population.spends if each.released}
        rows |= {n["key"]: (n["what"], n["at"]) for n in population.notes if n["kind"] == "listing"}
        for key, stored in population.released.items():
            path = Path(stored.path)
            what, at = rows.get(key, ("", ""))
            each = Found(
                id=stored.manifest_sha256, key=key, population=population.name, path=path, what=what, at=at
            )
            if work.holds(path) and each.is_there():
                found.append(each)
    return sorted(found, key=lambda each: each.at, reverse=True)


def release_named(work: Workspace, ledger: Ledger, name: str) -> Found:
    for each in releases(work, ledger):
        if each.id == name:
            return each
    raise SourceError("no-such-release", "there is no such release here.", "Choose one that is listed.")


def owners_report(work: Workspace, found: Found) -> Path | None:
    """The report that was drawn for this very release."""
    owner = work.owner(found.name)
    made = Committed(path=found.path, manifest_sha256=found.id, reused=True)
    report = report_of(made, owner / "report.html")
    return report if report is not None and work.holds(report) else None


def attacks_of(work: Workspace, found: Found) -> list[Path]:
    """What adversaries found on this very release, the latest first."""
    listed = list((work.owner(found.name) / "attacks").glob("*/told.json"))
    listed.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [path for path in listed if _told(path).get("manifest_sha256") == found.id]


def _told(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def zones_drawn(zones: Zones) -> dict[str, Any]:
    drawn = drawn_zones(zones)
    return {
        "ids": [str(zone) for zone in zones.ids],
        "names": [str(name) for name in zones.names],
        "rings": drawn.ring_lengths,
        "xy": uint16_base64(drawn.xy),
        "width": drawn.width,
        "height": drawn.height,
        "stepsPerKm": drawn.steps_per_km,
    }


def source_map(zones: Zones | None, sites: Sites | None) -> dict[str, Any]:
    """The public map of a source: zones as outlines, sites as shares of the zones' box."""
    told: dict[str, Any] = {"zones": None, "sites": None, "box": None}
    box = None
    if zones is not None:
        shown = zones if zones.crs is None else zones.to_lonlat()
        told["zones"], box = zones_drawn(shown), shown.bounds
    if sites is not None and sites.count <= MOST_SITES:
        if box is None:
            box = (float(sites.x.min()), float(sites.y.min()), float(sites.x.max()), float(sites.y.max()))
        told["sites"] = {"count": sites.count, "xy": float32_base64(np.column_stack([sites.x, sites.y]))}
    told["box"] = box
    return told


def density_look(found: Found, report: Path | None, raw: bool) -> dict[str, Any]:
    """Released people of every zone and slot with their intervals; for the owner the raw ones and errors."""
    manifest = found.manifest()
    public = manifest["public"]
    zones = read_zones(found.path / "zones.geojson", holes="allow", on_overlap="allow")
    clock = Clock(**public["window"], time_zone=public["time_zone"], slot_minutes=int(public["slot_minutes"]))
    estimate = read_density(found.path, zones.count, clock.slots)
    starts = [datetime.fromisoformat(start) for start in clock.starts_local()]
    exact = read_exact(report, zones.count, clock.slots) if raw and report is not None else None
    told = {
        "zones": zones_drawn(zones),
        "slots": clock.slots,
        "slotLabels": [slot_label(start) for start in starts],
        "slotWord": slot_word(starts),
        "dayTicks": day_ticks(starts),
        "released": float32_base64(estimate.people),
        "low": float32_base64(estimate.low),
        "high": float32_base64(estimate.high),
        "end": _end(estimate.people),
        "most": float(estimate.people.max()),
        "raw": None,
    }
    if exact is not None:
        utility = density_utility(
            exact,
            estimate.people,
            estimate.low,
            estimate.high,
            hour_of_day=np.floor(clock.hours_local).astype(int),
        )
        hours = utility.by_hour_of_day
        told["raw"] = {
            "exact": float32_base64(exact),
            "mreByZone": utility.mre_by_zone,
            "maeByZone": utility.mae_by_zone,
            "hours": None if hours is None else hours.hours,
            "mreByHour": None if hours is None else hours.mean_relative_error,
            "mre": utility.mean_relative_error,
            "mae": utility.mean_absolute_error,
            "share": utility.mean_absolute_error / max(float(exact.mean()), 1e-12),
        }
    return plain(told)


def _end(released: np.ndarray) -> float:
    """The value at the end of the colour scale, one for both maps: of what was released, not of raw."""
    return float(np.quantile(released, 0.999)) or float(released.max()) or 1.0


def histogram_look(found: Found) -> dict[str, Any]:
    """Distinct trips per cell, north row first, and the map they lie on."""
    histogram = _histogram(str(found.path), found.id)
    faces = histogram.euler.faces
    return plain(
        {
            "box": histogram.grid.box,
            "columns": histogram.grid.columns,
            "rows": histogram.grid.rows,
            "planar": histogram.grid.planar,
            "cellM": histogram.grid.cell_m,
            "trips": histogram.trips,
            "faces": float32_base64(faces[::-1]),
            "end": _end(faces),
        }
    )


def rectangle_answers(found: Found, boxes: list[tuple[float, float, float, float]]) -> list[dict[str, Any]]:
    """Distinct trips in each box, from the published file: free."""
    if found.kind != "histogram":
        raise PlanError("not-a-histogram", "only a histogram of trips answers rectangles.", "Choose one.")
    answers = _histogram(str(found.path), found.id).boxes(boxes)
    return plain(
        [
            {"trips": each.trips, "cells": each.cells, "snapped": each.snapped, "notes": each.notes}
            for each in answers
        ]
    )


@lru_cache(maxsize=4)
def _histogram(path: str, digest: str) -> PublishedHistogram:
    return read_histogram(path)


def trips_look(found: Found, first: int, count: int) -> dict[str, Any]:
    """Some synthetic trips, point by point, in degrees or metres and seconds."""
    published = read_synthetic(found.path)
    names, wanted = published.columns, range(first, first + min(count, MOST_TRIPS))
    trips: list[dict[str, Any]] = []
    seen = 0
    file = pq.ParquetFile(published.path)
    for group in range(file.num_row_groups):
        starts = file.read_row_group(group, [names.point])[names.point].to_numpy() == 0
        here = int(starts.sum())
        if seen + here > wanted.start:
            table = file.read_row_group(group, [names.time, names.x, names.y])
            number = seen - 1 + np.cumsum(starts)
            time_us = table[names.time].cast("int64").to_numpy()
            x, y = table[names.x].to_numpy(), table[names.y].to_numpy()
            for trip in wanted:
                at = np.flatnonzero(number == trip)
                if at.size:
                    times = (time_us[at] / 1e6).tolist()
                    trips.append({"trip": trip, "time": times, "x": x[at].tolist(), "y": y[at].tolist()})
        seen += here
        if seen >= wanted.stop:
            break
    grid = published.about.grid
    return plain({"trips": trips, "count": published.about.trips, "box": grid.box, "planar": grid.planar})


def record_look(found: Found, record: int) -> dict[str, Any]:
    """The boxes of one generalised record, in metres from the lattice's origin and minutes from its start."""
    lattice = found.manifest()["public"]["lattice"]
    table = pq.read_table(found.path / RECORDS, filters=[("record", "==", record)])
    extent = _extent(str(found.path), found.id)
    columns = {name: table[name].to_pylist() for name in ("t0", "t1", "x0", "x1", "y0", "y1")}
    return plain({"record": record, "lattice": lattice, **extent, **columns})


@lru_cache(maxsize=4)
def _extent(path: str, digest: str) -> dict[str, Any]:
    """How many records there are, and how far their boxes reach: all of it published."""
    table = pq.read_table(Path(path) / RECORDS)
    ends = {"x": [0, 1], "y": [0, 1], "t": [0, 1]}
    for low, high in (("x0", "x1"), ("y0", "y1"), ("t0", "t1")) if table.num_rows else ():
        ends[low[0]] = [int(table[low].to_numpy().min()), int(table[high].to_numpy().max())]
    return {"records": int(np.unique(table["record"].to_numpy()).size), "extent": ends}
