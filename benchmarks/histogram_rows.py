"""Rows of the histogram benchmark that are kept, and which of them are still good.

benchmarks/out/histogram.jsonl has one line per run; of lines for the same settings the last counts. A row is
good while the trips (`stamp`) and the code it ran through (`code`) stay as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks.density_code import code_of_modules
from benchmarks.histogram_cells import METHODS, PUBLISHED, UNIFORM, Run, World
from benchmarks.histogram_data import BOXES, trip_points
from benchmarks.table import OUT, machine_class

FILE = OUT / "histogram.jsonl"
SETTINGS = (
    "data",
    "unit",
    "per_unit",
    "cap",
    "n",
    "resolution",
    "epsilon",
    "delta",
    "trips",
    "method",
    "rep",
)
COST_SETTINGS = ("part", "data", "method", "wanted_trips", "resolution")
EXACT_MODULES = ("shoal.engine.trip_pieces", "shoal.engine.trip_queries", "shoal.engine.trip_queries")
ALWAYS_READ = (*EXACT_MODULES, "shoal.engine.trip_queries", "shoal.metrics.histogram")
Row = dict[str, Any]


class Kept:
    """Rows done before, and where new ones go; threads may add."""

    def __init__(self, file: Path = FILE) -> None:
        self.file = file
        self.rows: dict[tuple, Row] = {_key(row): row for row in read_rows(file)}
        self._lock = Lock()

    def find(self, settings: Mapping[str, Any], code: str, stamp: str) -> Row | None:
        row = self.rows.get(_key(settings))
        return row if row and (row["code"], row["stamp"]) == (code, stamp) else None

    def add(self, row: Row) -> None:
        """Written at once, so that a run that was stopped goes on."""
        row |= {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine_class()}
        with self._lock:
            self.rows[_key(row)] = row
            self.file.parent.mkdir(exist_ok=True)
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def read_rows(file: Path) -> list[Row]:
    """Of rows for the same settings the last; a line that was cut off when a run was stopped is none."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    lines = [line for line in lines if line.endswith("}")]
    return list({_key(row): row for row in map(json.loads, lines)}.values())


def settings_of(world: World, run: Run) -> Row:
    """What tells one row from another."""
    return {
        "data": world.data,
        "unit": world.unit,
        "per_unit": world.per_unit,
        "cap": world.cap,
        "n": world.n or trips_of(world.data),
        "resolution": world.resolution,
        "epsilon": run.epsilon,
        "delta": run.delta,
        "trips": run.trips,
        "method": run.method,
        "rep": run.rep,
    }


@cache
def trips_of(data: str) -> int:
    return trip_points(data).count


@cache
def code_of(method: str) -> str:
    """Changes when code changes that a row of this method depends on."""
    if method in METHODS:
        own = f"shoal.mechanisms.histogram_{method}"
    elif method in PUBLISHED:
        own = "shoal_baselines.comparators.published_histogram"
    else:
        boxes = "shoal.postprocess.histogram.box_model"
        own = "shoal_baselines.postprocess.prefix" if method == UNIFORM else boxes
    return code_of_modules((*ALWAYS_READ, own))


@cache
def stamp_of(data: str) -> str:
    """A digest of the trips and the box of a data set."""
    points = trip_points(data)
    digest = hashlib.sha256(repr(BOXES[data]).encode())
    for column in (points.user, points.first, points.x, points.y):
        digest.update(column.tobytes())
    return digest.hexdigest()[:12]


def _key(row: Mapping[str, Any]) -> tuple:
    return tuple(row.get(name) for name in (COST_SETTINGS if "part" in row else SETTINGS))
