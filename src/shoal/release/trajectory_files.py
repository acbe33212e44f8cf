"""The files of a trajectory release: records for the recipient, the record key for the owner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.release.staging import private_file, unwritable
from shoal.space.lattice import Lattice, rectangles_wkb
from shoal.stages.trajectories import Boxes

RECORDS = "records.parquet"
KEY = "record_key.parquet"
OF_RECORDS = "records_sha256"  # in a key's metadata: whose key it is
LATTICE_COLUMNS = {
    "record": "number of the record, drawn at random; one per user",
    "t0": "first step of the box; step 0 begins at the lattice's start",
    "t1": "last step of the box, included",
    "x0": "first column of the box, cells from the lattice's origin eastwards",
    "x1": "last column, included",
    "y0": "first row of the box, cells from the lattice's origin northwards",
    "y1": "last row, included",
}
COLUMNS = {
    **LATTICE_COLUMNS,
    "start": "when the box begins, in UTC (a timestamp in Parquet)",
    "end": "when it ends, in UTC: the end of step t1",
    "west": "western edge of the box: longitude in degrees, metres where the input is planar",
    "south": "southern edge: latitude in degrees, or metres",
    "east": "eastern edge",
    "north": "northern edge",
}
FILES = {
    RECORDS: {**COLUMNS, "geometry": "the box as a polygon (GeoParquet)"},
    "records.csv": COLUMNS,
}


def write_records(folder: Path, boxes: Boxes, ids: np.ndarray, lattice: Lattice) -> None:
    """The records, sorted by the random ids; ids[j] is the id of record j."""
    record = ids[boxes.record]
    order = np.lexsort((boxes.t0, record))
    names = list(LATTICE_COLUMNS)[1:]
    table = described(
        {"record": record[order]} | {name: getattr(boxes, name)[order] for name in names}, lattice
    )
    pyarrow.csv.write_csv(table.drop_columns("geometry"), folder / "records.csv")
    pq.write_table(table, folder / RECORDS, compression="zstd")


def described(boxes: Mapping[str, np.ndarray], lattice: Lattice) -> pa.Table:
    """Boxes on the lattice with the times, edges and polygons that follow; GeoParquet 1.1 metadata."""
    bounds = lattice.bounds_of(boxes)
    times = {name: pa.array(bounds.pop(f"{name}_us"), pa.timestamp("us", "UTC")) for name in ("start", "end")}
    polygons = pa.array(rectangles_wkb(**bounds).tolist(), pa.binary())
    about: dict[str, Any] = {"encoding": "WKB", "geometry_types": ["Polygon"]}
    if lattice.planar:  # no crs key means longitude, latitude on WGS 84; null means unknown
        about["crs"] = None
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": about}}
    table = pa.table({**boxes, **times, **bounds, "geometry": polygons})
    return table.replace_schema_metadata({"geo": json.dumps(geo)})


def write_key(path: Path, names: pa.Array, ids: np.ndarray, *, records_sha256: str) -> Path:
    """record_key.parquet, readable by its owner alone: whose record is whose in the records of that hash."""
    table = pa.table({"user": names, "record": pa.array(ids)}, metadata={OF_RECORDS: records_sha256})
    try:
        with private_file(path) as file:
            pq.write_table(table, file)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    return path


def find_key(folder: Path, records_sha256: str) -> Path | None:
    """The key in `folder` that belongs to the records of that hash."""
    for path in sorted(folder.glob("record_key*.parquet")):
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (OSError, pa.ArrowException):
            continue
        if metadata.get(OF_RECORDS.encode(), b"").decode() == records_sha256:
            return path
    return None


def read_records(folder: Path) -> dict[str, np.ndarray]:
    """The boxes on the lattice."""
    table = pq.read_table(folder / RECORDS, columns=list(LATTICE_COLUMNS))
    return {name: table[name].to_numpy() for name in LATTICE_COLUMNS}


def misplaced(folder: Path, boxes: Mapping[str, np.ndarray], lattice: Lattice) -> bool:
    """Whether times, edges or polygons are not those of the boxes; releases of earlier versions have none."""
    written = pq.read_table(folder / RECORDS)
    if "start" not in written.column_names:
        return False
    right = described(boxes, lattice)
    types = {name: right.schema.field(name).type for name in COLUMNS}
    options = pyarrow.csv.ConvertOptions(column_types=types)
    rows = pyarrow.csv.read_csv(folder / "records.csv", convert_options=options)
    return not (written.equals(right) and rows.equals(right.drop_columns("geometry")))
