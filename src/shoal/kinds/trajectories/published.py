"""The published files of records: their columns, what they determine, and what the page draws.

Also the record key, which is for the owner.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.kinds.kind import ViewRequest
from shoal.kinds.verdict import GRADES, ROUGH, Verdict, graded, percent
from shoal.release.manifest import MANIFEST, NOTHING_PROMISED, Manifest
from shoal.release.staging import private_file, unwritable
from shoal.release.verify import boxes_inside, count_of
from shoal.space.checks import LONLAT
from shoal.space.clock import window_of
from shoal.space.lattice import Lattice, rectangles_wkb
from shoal.space.places import geo_metadata
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
    table = pa.table({**boxes, **times, **bounds, "geometry": polygons})
    crs = None if lattice.planar else LONLAT
    return table.replace_schema_metadata(geo_metadata("geometry", ["Polygon"], crs))


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


KILOMETRES = (1.0, 3.0, math.inf)  # of a box, width + height, the median
MINUTES = (30.0, 120.0, math.inf)
LOST = (0.05, 0.3, math.inf)  # share of the records of which nothing is left


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Mismatches of lattice, records, k or promise between manifest and boxes."""
    public, guarantee = manifest.public, manifest.guarantee
    stated = public["lattice"]
    lattice = Lattice(
        start=datetime.fromisoformat(stated["start"]),
        steps=stated["steps"],
        origin=tuple(stated["origin"]),
        planar=stated["coordinates"] == "planar metres",
        minutes=stated["minutes"],
        metres=stated["metres"],
    )
    begin, end = window_of(public)
    if lattice.to_manifest() != dict(stated):
        yield "the numbers of the lattice do not agree with each other."
    if lattice.start_us != begin or lattice.steps * lattice.minutes * 60_000_000 != end - begin:
        yield "the lattice does not begin and end with the window."
    boxes = read_records(folder)
    if misplaced(folder, boxes, lattice):
        yield "times, edges or polygons of the records are not those of their boxes on the lattice."
    records = (manifest.read_from_data or public)["records"]  # public in manifests of the first version
    ids = np.unique(boxes["record"])
    if ids.size and (ids[0] < 1 or ids[-1] > records):
        yield "records.parquet has more records than the manifest counts."
    if ids.size and ids.size < public["k"]:
        yield "records.parquet has fewer records than k."
    order = np.lexsort((boxes["t0"], boxes["record"]))
    same = np.diff(boxes["record"][order]) == 0
    epoch = count_of(public["epoch_minutes"]) // lattice.minutes
    if (
        epoch < 1
        or not boxes_inside(boxes, None, None)
        or (boxes["t0"] < 0).any()
        or (boxes["t1"] >= lattice.steps).any()
        or (boxes["t0"][order][1:] <= boxes["t1"][order][:-1])[same].any()
        or (boxes["t0"] // epoch != boxes["t1"] // epoch).any()
    ):
        yield "records.parquet has boxes outside the window, across epochs, or two at a time in one record."
    tau = f"any {public['tau_minutes']} minutes"
    verified = guarantee["verified"] is True and f"at least {public['k']} records" in manifest.promise
    refuted = manifest.promise.startswith(NOTHING_PROMISED)
    if guarantee["verified"] is not (not refuted) or not guarantee["limits"]:
        yield "the release is not called verified as its promise says, or states no limits."
    if tau not in guarantee["adversary"] or (tau in manifest.promise) != verified:
        yield "the promise is not that of a verified release with its k and tau."


def verdict(folder: Path, manifest: Manifest) -> Verdict:
    """From the size of the boxes and the records of which none is left; there is no noise."""
    public, boxes = manifest.public, read_records(folder)
    lattice, records = public["lattice"], (manifest.read_from_data or public).get("records", 0)
    across = (boxes["x1"] - boxes["x0"] + boxes["y1"] - boxes["y0"] + 2) * lattice["metres"] / 1000
    lasting = (boxes["t1"] - boxes["t0"] + 1) * lattice["minutes"]
    if not across.size:
        return Verdict(grade=ROUGH, summary="Nothing could be kept: no records are alike enough.")
    kilometres, minutes = float(np.median(across)), float(np.median(lasting))
    lost = 1 - np.unique(boxes["record"]).size / max(records, 1)
    limits = ((kilometres, KILOMETRES), (minutes, MINUTES), (lost, LOST))
    grade = max((graded(*each) for each in limits), key=GRADES.index)
    return Verdict(
        grade=grade,
        summary=f"With k = {public['k']}, half of the boxes span at most {kilometres:.1f} km (width + "
        f"height) and {minutes:.0f} minutes; {percent(lost) if lost else 'none'} of the records are "
        "suppressed entirely.",
        figures={"box_km": kilometres, "box_minutes": minutes, "records_lost_share": lost},
    )


def view(release: Path, report: Path | None, request: ViewRequest) -> dict[str, Any]:
    """The boxes of one generalised record, in metres from the lattice's origin and minutes from its start."""
    lattice = Manifest.from_json((release / MANIFEST).read_text("utf-8")).public["lattice"]
    table = pq.read_table(release / RECORDS, filters=[("record", "==", request.first)])
    extent = _extent(release, (release / RECORDS).stat().st_mtime_ns)
    columns = {name: table[name].to_pylist() for name in ("t0", "t1", "x0", "x1", "y0", "y1")}
    return {"record": request.first, "lattice": lattice, **extent, **columns}


@lru_cache(maxsize=4)
def _extent(release: Path, changed_ns: int) -> dict[str, Any]:
    """How many records there are, and how far their boxes reach: all of it published."""
    table = pq.read_table(release / RECORDS)
    ends = {"x": [0, 1], "y": [0, 1], "t": [0, 1]}
    for low, high in (("x0", "x1"), ("y0", "y1"), ("t0", "t1")) if table.num_rows else ():
        ends[low[0]] = [int(table[low].to_numpy().min()), int(table[high].to_numpy().max())]
    return {"records": int(np.unique(table["record"].to_numpy()).size), "extent": ends}
