"""The files of a trajectory release: records for the recipient, the record key for the owner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.release.staging import private_file, unwritable
from shoal.stages.trajectories import Boxes

RECORDS = "records.parquet"
KEY = "record_key.parquet"
OF_RECORDS = "records_sha256"  # in a key's metadata: whose key it is
FILES = {
    RECORDS: {
        "record": "number of the record, drawn at random; one per user",
        "t0": "first step of the box; step 0 begins at the lattice's start",
        "t1": "last step of the box, included",
        "x0": "first column of the box, cells from the lattice's origin eastwards",
        "x1": "last column, included",
        "y0": "first row of the box, cells from the lattice's origin northwards",
        "y1": "last row, included",
    }
}


def write_records(folder: Path, boxes: Boxes, ids: np.ndarray) -> None:
    """records.parquet, sorted by the random ids; ids[j] is the id of record j."""
    record = ids[boxes.record]
    order = np.lexsort((boxes.t0, record))
    columns = {"record": pa.array(record[order])}
    for name in ("t0", "t1", "x0", "x1", "y0", "y1"):
        columns[name] = pa.array(getattr(boxes, name)[order])
    pq.write_table(pa.table(columns), folder / RECORDS, compression="zstd")


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
    """The columns of records.parquet."""
    table = pq.read_table(folder / RECORDS)
    return {name: table[name].to_numpy() for name in FILES[RECORDS]}
