"""The published files of records, read again: what they determine, and what the page draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from shoal.kinds.kind import ViewRequest
from shoal.kinds.verdict import GRADES, ROUGH, Verdict, graded, percent
from shoal.release.manifest import MANIFEST, NOTHING_PROMISED, Manifest
from shoal.release.trajectory_files import FILES, RECORDS, misplaced, read_records
from shoal.release.verify import boxes_inside, count_of
from shoal.space.clock import window_of
from shoal.space.lattice import Lattice

__all__ = ["FILES", "problems", "verdict", "view"]
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
        f"height) and {minutes:.0f} minutes; of {percent(lost)} of the records nothing is left.",
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
