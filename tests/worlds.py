"""Small maps, weights, trips and counts that tests of several packages share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from shoal.privacy.ledger import open_ledger
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights, Setting
from shoal.stages.exact import ExactCounts
from shoal.stages.trips import ExactPaths, GridTrips

MONDAY_US = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris
MINUTE_US = 60_000_000


class OnDisk:
    """A source in a folder and flags to run a command on it; flags that are None are left out."""

    words: tuple[str, ...]
    population = "rich"
    start, minute = MONDAY_US, MINUTE_US

    def __init__(self, folder: Path, source: str, **flags: Any) -> None:
        self.folder, self.source = folder, folder / source
        given = {"start": "2026-03-02", "end": "2026-03-03", "time_zone": "Europe/Paris"} | flags
        self.flags = {"--" + name.replace("_", "-"): value for name, value in given.items()}
        self.flags |= {
            "--population": self.population,
            "--out": folder / "release",
            "--owner": folder / "owner",
        }

    def arguments(self, *more: Any, words: tuple[str, ...] = ()) -> list[str]:
        """Arguments of a run; flags in `more` replace its own."""
        named = [part for flag, value in self.flags.items() if value is not None for part in (flag, value)]
        return [str(part) for part in (*(words or self.words), self.source, *named, *more)]

    def released(self, command, *flags: Any) -> tuple[Path, str, str]:
        code, out, err = command(*self.arguments(*flags))
        assert code == 0, err
        return self.folder / "release", out, err

    def spent(self) -> int:
        return open_ledger().state().population(self.population).spent_nano

    @staticmethod
    def manifest_of(release: Path) -> dict[str, Any]:
        return json.loads((release / "manifest.json").read_text())


AS_POINTS = ("user", "trip", "time", "x", "y")


def write_points(path: Path, trips: list, start: int = MONDAY_US, *, names=AS_POINTS, seconds=60) -> None:
    """A Parquet file of trips (user, [(x, y), ...]), with `seconds` between points."""
    rows = [
        (user, number, start + i * seconds * 1_000_000, float(x), float(y))
        for number, (user, points) in enumerate(trips)
        for i, (x, y) in enumerate(points)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * 5
    kinds = (pa.int64(), pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.float64())
    columns = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    pq.write_table(pa.table(columns, names=list(names)), path)


def zones_json(polygons: Iterable[tuple[str, list | None]], **more) -> str:
    """GeoJSON of zones from pairs of an id and rings; `more` are members beside the features."""
    shapes = [(zone, {"type": "Polygon", "coordinates": rings}) for zone, rings in polygons]
    features = [{"type": "Feature", "properties": {"zone": zone}, "geometry": each} for zone, each in shapes]
    return json.dumps({"type": "FeatureCollection", **more, "features": features})


def ring_of(west: float, south: float, east: float, north: float) -> list[list[float]]:
    """The ring of a box."""
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def weights_of(units, lattice: int = LATTICE) -> AreaWeights:
    """Weights [zones, places] in units of the lattice; nothing of a place is lost."""
    matrix = scipy.sparse.csr_array(np.asarray(units, np.int64))
    return AreaWeights(matrix=matrix, lattice=lattice, lost=np.zeros(matrix.shape[1]))


def setting_of(weights: AreaWeights, clock: Clock, seed: int = 0) -> Setting:
    """A public setting with zones and places anywhere in a square kilometre."""
    rng = np.random.default_rng(seed)
    zones, places = weights.shape
    at = {"zone_xy_m": rng.uniform(0, 1000, (zones, 2)), "place_xy_m": rng.uniform(0, 1000, (places, 2))}
    return Setting(weights=weights, clock=clock, **at)


def exact_counts(units, ell: int, lattice: int = LATTICE) -> ExactCounts:
    """Counts [zones, slots] in units of the lattice, of places of which each lies in one zone."""
    columns = {"column_l1": lattice, "column_l2_squared": lattice**2}
    return ExactCounts(units=np.asarray(units, np.int64), lattice=lattice, ell=ell, **columns)


def exact_paths(grid: CellGrid, trips: list, unit=None, **more) -> ExactPaths:
    """Trips as lists of (cell, tick, stay), each a unit by itself unless `unit` is given."""
    rows = np.array([visit for trip in trips for visit in trip], np.int32).reshape(-1, 3)
    unit = np.arange(len(trips)) if unit is None else np.asarray(unit, np.int64)
    made = {
        "step_s": 60,
        "first": np.cumsum([0, *map(len, trips)]).astype(np.int64),
        **{name: rows[:, column].copy() for column, name in enumerate(("cells", "tick", "stay"))},
        "start_us": np.zeros(len(trips), np.int64),
        "units": np.unique(unit).size,
        "all_trips": len(trips),
        "cap": 1,
        "each_trip": False,
    }
    return ExactPaths(grid=grid, unit=unit, **{**made, **more})


def grid_trips(grid: CellGrid, paths: list, unit=None, per_unit: int = 1) -> GridTrips:
    """Trips as lists of (column, row), each a unit by itself unless `unit` is given."""
    return GridTrips(
        grid=grid,
        first=np.cumsum([0, *map(len, paths)]).astype(np.int64),
        cells=np.array([y * grid.columns + x for path in paths for x, y in path], np.int32),
        unit=np.arange(len(paths)) if unit is None else np.array(unit, np.int64),
        per_unit=per_unit,
        all_trips=len(paths),
        cap=per_unit,
        each_trip=False,
    )
