"""The published files of a histogram, read again: what they determine, what the page draws and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from shoal.kinds.kind import ViewRequest
from shoal.kinds.trips import verdict_of_trips
from shoal.kinds.verdict import Verdict
from shoal.release.histogram_files import (
    HISTOGRAM,
    POOL,
    PublishedHistogram,
    files_of,
    read_histogram,
    read_histogram_file,
)
from shoal.release.manifest import Manifest
from shoal.release.page.page import colour_end, float32_base64
from shoal.release.verify import (
    Decimals,
    boxes_inside,
    columns_of,
    count_of,
    published_zones,
    repeated_values,
    zone_problems,
)
from shoal.space.cells import random_rectangles, rectangles_digest
from shoal.space.clock import window_of

FILES = files_of(pool=True, zones=True)
# signal -> mean absolute error of a random rectangle, as a share of all trips; method boxes
RECTANGLES = {
    10: 0.0806,
    100: 0.0436,
    500: 0.0193,
    1000: 0.0142,
    10_000: 0.0079,
    50_000: 0.0058,
    219_818: 0.0042,
}


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Mismatches of grid, number of trips, rectangles or zones between manifest and files."""
    public, noted = manifest.public, manifest.input
    grid, euler, about = read_histogram_file(folder / HISTOGRAM)
    window_of(public)
    if grid.describe() != dict(public["grid"]):
        yield "the grid is not the one that histogram.parquet states."
    if about["trips"] not in (noted.get("trips_with_noise"), noted.get("trips_declared")):
        yield "the number of trips is not the one that histogram.parquet states."
    given = public["given"]
    if given["from"] == "random":
        drawn = random_rectangles(grid, min(count_of(given["rectangles"]), 1 << 20), given["seed"])
        if given["sha256"] != rectangles_digest(drawn):
            yield "the given rectangles are not those of their number and seed."
    elif given["seed"] is not None:
        yield "rectangles from a file have no seed."
    digits = Decimals(count_of(public["decimals"]))
    digits.see(*(part for part in (euler.faces, euler.east, euler.north) if part is not None))
    yield from digits.problems(HISTOGRAM)
    if POOL in manifest.columns:
        pool = {name: column.to_numpy() for name, column in columns_of(folder / POOL)}
        if not boxes_inside(pool, grid.columns - 1, grid.rows - 1):
            yield f"{POOL} holds a box outside the grid."
    if ("zones.geojson" in manifest.columns) != (public["zones"] is not None):
        yield "zones are given without their file, or the file without its count and hash."
    elif public["zones"] is not None:
        zones = published_zones(folder / "zones.geojson")
        # the file is longitude and latitude; manifests of the first version hashed other coordinates
        yield from zone_problems(public["zones"], zones, hashed="promise_version" in manifest.guarantee)
    yield from repeated_values(manifest)


LIMITS = (0.01, 0.025, 0.06)  # of the mean error of a random rectangle, as a share of all trips
SUMMARY = (
    "The number of trips in a random rectangle is off by about {error} of all trips; areas of a few cells "
    "are less certain."
)


def verdict(folder: Path, manifest: Manifest) -> Verdict:
    """From the published number of trips; the errors were measured on cabs, per trip."""
    trips = read_histogram_file(folder / HISTOGRAM)[2]["trips"]
    return verdict_of(trips, manifest.public["trips_per_unit"], manifest.guarantee)


def verdict_of(trips: float | None, per_unit: int, guarantee: Mapping[str, Any]) -> Verdict:
    return verdict_of_trips(trips, per_unit, guarantee, RECTANGLES, LIMITS, SUMMARY)


def view(release: Path, report: Path | None, request: ViewRequest) -> dict[str, Any]:
    """Distinct trips per cell, north row first, and their map; or the answers to boxes, which are free."""
    histogram = _opened(release, (release / HISTOGRAM).stat().st_mtime_ns)
    if request.boxes:
        answers = histogram.boxes(request.boxes)
        fields = ("trips", "cells", "snapped", "notes")
        return {"answers": [{name: getattr(each, name) for name in fields} for each in answers]}
    grid, faces = histogram.grid, histogram.euler.faces
    return {
        "box": grid.box,
        "columns": grid.columns,
        "rows": grid.rows,
        "planar": grid.planar,
        "cellM": grid.cell_m,
        "trips": histogram.trips,
        "faces": float32_base64(faces[::-1]),
        "end": colour_end(faces),
    }


@lru_cache(maxsize=4)
def _opened(release: Path, changed_ns: int) -> PublishedHistogram:
    return read_histogram(release)
