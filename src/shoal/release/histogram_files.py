"""The files of a histogram release: numbers on faces and inner edges, the boxes behind them, zone names.

histogram.parquet says in its own metadata where its cells lie, so that it can be read alone.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import GuaranteeError, PlanError, SourceError
from shoal.space.cells import CellGrid
from shoal.space.euler import Euler
from shoal.space.zones import Zones, write_zones
from shoal.stages.noisy import NoisyHistogram

HISTOGRAM, POOL, ZONES = "histogram.parquet", "pool.parquet", "zones.geojson"
DECIMALS = 3
KINDS = ("face", "east", "north")
ABOUT = b"shoal.histogram"  # the key of the metadata, a JSON object
_COLUMNS = {
    HISTOGRAM: {
        "kind": "face: a cell. east, north: the edge between the cell and the next one in that direction",
        "column": "column of the cell, from 0 in the west",
        "row": "row of the cell, from 0 in the south",
        "trips": "trips through the cell or over the edge, with noise; see README.md",
    },
    POOL: {
        "x0": "first column of a synthetic trip's bounding box, in cells",
        "x1": "last column, included",
        "y0": "first row, in cells",
        "y1": "last row, included",
        "shape": "one of 12 paths through the box, from corner to opposite corner",
        "weight": "number of trips that it stands for",
    },
    ZONES: {"zone": "id of the zone", "name": "its name", "geometry": "its polygon"},
}


def files_of(*, pool: bool, zones: bool) -> dict[str, dict[str, str]]:
    """The files of a release and what their columns mean."""
    wanted = {HISTOGRAM: True, POOL: pool, ZONES: zones}
    return {name: dict(columns) for name, columns in _COLUMNS.items() if wanted[name]}


def write_public(folder: Path, zones: Zones | None) -> None:
    """The file of the release that holds nothing but public zones."""
    if zones is not None:
        write_zones(zones, folder / ZONES)


def write_histogram(folder: Path, noisy: NoisyHistogram, grid: CellGrid) -> None:
    """The noisy files of the release into `folder`: scaled up and rounded."""
    euler, scale = noisy.euler, noisy.scale
    if euler.blocks is not None:
        raise GuaranteeError("euler-shape", "a published histogram has faces and edges alone.")
    parts = [(kind, values) for kind, values in zip(KINDS, _values(euler), strict=True) if values is not None]
    about = {
        **grid.describe(),
        "trips": round(noisy.trips * scale, DECIMALS),
        "violated_before": noisy.violated_before,
    }
    tables = [_part(kind, values * scale) for kind, values in parts]
    table = pa.concat_tables(tables).replace_schema_metadata({ABOUT: json.dumps(about)})
    pq.write_table(table, folder / HISTOGRAM, compression="zstd")
    if noisy.pool is not None:
        names = ("x0", "x1", "y0", "y1", "shape")
        columns = {name: getattr(noisy.pool, name) for name in names}
        columns["weight"] = np.round(noisy.pool.weight * scale, 2 * DECIMALS)
        pq.write_table(pa.table(columns), folder / POOL, compression="zstd")


def _values(euler: Euler) -> tuple[np.ndarray | None, ...]:
    return euler.faces, euler.east, euler.north


def _part(kind: str, values: np.ndarray) -> pa.Table:
    """One row per face or edge, row by row from the south-west: the rows depend on public things alone."""
    row, column = np.indices(values.shape, np.int32)
    which = pa.array(np.full(values.size, KINDS.index(kind), np.int8))
    return pa.table(
        {
            "kind": pa.DictionaryArray.from_arrays(which, pa.array(KINDS)),
            "column": column.ravel(),
            "row": row.ravel(),
            "trips": np.round(values, DECIMALS).ravel() + 0.0,  # no -0.0
        }
    )


def read_histogram_file(path: Path) -> tuple[CellGrid, Euler, dict[str, Any]]:
    """Grid, numbers, and what else the file says of itself."""
    try:
        stored = pq.read_metadata(path)
        about = json.loads((stored.metadata or {})[ABOUT])
        west, south, east, north = (float(side) for side in about["box"])
        grid = CellGrid(
            box=(west, south, east, north),
            columns=int(about["columns"]),
            rows=int(about["rows"]),
            planar=bool(about["planar"]),
        )
        if stored.num_rows > 3 * grid.count or not math.isfinite(float(about["trips"])):
            raise ValueError("more rows than faces and edges, or no number of trips")
        table = pq.read_table(path, columns=list(_COLUMNS[HISTOGRAM]))
        kinds = table["kind"].cast(pa.string()).to_numpy(zero_copy_only=False)
        column, row, trips = (table[name].to_numpy() for name in ("column", "row", "trips"))
        parts = {kind: _grid_of(kind, kinds, column, row, trips, grid) for kind in KINDS}
    except NOT_PUBLISHED:
        raise SourceError(
            "not-a-histogram",
            f"{path} is not a published histogram of trips.",
            "Name the folder that `shoal histogram run` wrote, or its histogram.parquet.",
        ) from None
    euler = Euler(faces=parts["face"], east=parts["east"], north=parts["north"])  # pyright: ignore
    return grid, euler, about


# What reading a damaged or forged file of ours may raise.
NOT_PUBLISHED = (
    OSError, pa.ArrowException, KeyError, ValueError, TypeError, IndexError, OverflowError, AttributeError,
    RecursionError, MemoryError, PlanError,
)  # fmt: skip


def _grid_of(kind: str, kinds, column, row, trips, grid: CellGrid) -> np.ndarray | None:
    """The numbers of one kind in their places; a place that is missing or given twice is an error."""
    here = kinds == kind
    if kind != "face" and not here.any():
        return None
    shape = grid.rows - (kind == "north"), grid.columns - (kind == "east")
    values = np.full(shape, np.nan)
    values[row[here], column[here]] = trips[here]
    if here.sum() != values.size or np.isnan(values).any():
        raise ValueError("not every place has a number")
    return values
