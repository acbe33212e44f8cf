"""Compare a manifest with what the files of its release determine, without a hash from elsewhere.

    columns of every table, package and day             all kinds
    README.md                                           rendered again from the manifest
    zones, window, slots, decimals, grid, sizes         by kind: `KINDS` names the checker of each

A hash in the same folder can be replaced together with what it protects. These checks reject a manifest that
was changed alone. Only a hash or a signature from the owner shows that manifest and files were changed alike.
docs/verify.md lists which values are determined, and a test changes each of them.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import ShoalError
from shoal.release.density_files import as_cell
from shoal.release.histogram_files import HISTOGRAM, POOL, read_histogram_file
from shoal.release.manifest import NOTHING_PROMISED, Manifest
from shoal.release.query_files import read_answers
from shoal.release.readme import README, readme_problems
from shoal.release.trajectory_files import RECORDS, read_records
from shoal.release.trip_files import read_synthetic
from shoal.space.clock import Clock, instant_us
from shoal.space.lattice import Lattice
from shoal.space.rectangles import random_rectangles, rectangles_digest
from shoal.space.zones import Zones, read_zones

UNREADABLE = (ShoalError, OSError, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError)
SLACK_SLOTS = 200  # of clock changes, before the slots of a window are worked out
ENOUGH = 100  # different numbers, one of which uses the last decimal unless there is none
FIRST_DAY = date(2020, 1, 1)  # no release is older
_BATCH = 1 << 18
KNOWN = {
    "guarantee": {"kind", "epsilon", "delta", "rho", "unit", "neighbours", "promise_version"}
    | {"adversary", "verified", "limits"},
    "package": {"name", "version"},
    "input": {"shape", "columns", "trips_with_noise", "trips_declared", "synthetic_trips"}
    | {"users_with_noise", "synthetic_people"},
}


def content_problems(folder: Path, manifest: Manifest) -> list[str]:
    """Where the manifest disagrees with its files; the files are those of the manifest already."""
    checks = [_about(manifest), _tables(folder, manifest)]
    if README in manifest.files:
        checks.append(readme_problems((folder / README).read_text("utf-8"), manifest))
    checks += [check(folder, manifest) for name, check in KINDS.items() if name in manifest.columns]
    problems = []
    for check in checks:
        try:
            problems += check
        except UNREADABLE:
            problems.append("a value that the files determine is missing, of another kind, or out of range.")
    return list(dict.fromkeys(problems))


def _about(manifest: Manifest) -> Iterator[str]:
    for name, known in KNOWN.items():
        if more := set(getattr(manifest, name)) - known:
            yield f"its {name} has a field that no release has: {min(more)!r:.40}."
    for name in ("unit", "promise", "population", "licence"):
        if (text := getattr(manifest, name)) != " ".join(text.split()):
            yield f"its {name} has spaces that no release writes."
    package = manifest.package
    version = package.get("version", "")
    if package.get("name") != "shoal" or not re.fullmatch(r"\d+\.\d+\.\d+[a-z0-9.+-]*", version):
        yield "its package is not a version of shoal."
    for name in ("trips_with_noise", "users_with_noise"):
        if type(manifest.input.get(name, 0)) not in (int, float):
            yield f"its {name} is not a number."
    day = date.fromisoformat(manifest.created)
    if day.isoformat() != manifest.created or not FIRST_DAY <= day <= _tomorrow():
        yield "the day it was created is no day on which it can have been."
    neighbours = f"add or remove one {manifest.guarantee.get('unit')}"
    if manifest.is_private and manifest.guarantee.get("neighbours") != neighbours:
        yield "its neighbours are not those that add or remove one unit."


def _tomorrow() -> date:
    return datetime.now(UTC).date() + timedelta(days=1)


def _tables(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Every file but the README has its columns described, and has these columns."""
    if manifest.columns and set(manifest.files) - {README} != set(manifest.columns):
        yield "the files whose columns it describes are not the files it lists."
        return
    for name, meanings in manifest.columns.items():
        names = _column_names(folder / name)
        if names is not None and names != list(meanings):
            yield f"the columns of {name} are not those that the manifest describes."


def _column_names(path: Path) -> list[str] | None:
    if path.suffix == ".parquet":
        return pq.read_schema(path).names
    if path.suffix in (".csv", ".jsonl"):
        with path.open(encoding="utf-8", newline="") as file:
            first = file.readline(1 << 20)
        return next(csv.reader([first])) if path.suffix == ".csv" else list(json.loads(first))
    return None


def _density(folder: Path, manifest: Manifest) -> Iterator[str]:
    public = manifest.public
    zones = _read_zones(folder / "zones.parquet")
    yield from _zones(public["zones"], zones)
    shown = _read_zones(folder / "zones.geojson")
    # projected again elsewhere, coordinates may differ in their last digits
    if shown.ids != zones.ids or (shown.crs == zones.crs and shown.digest() != zones.digest()):
        yield "zones.geojson and zones.parquet hold different zones."
    table = pq.ParquetFile(folder / "density.parquet")
    slots = _count(public["slots"])
    if table.metadata.num_rows != zones.count * slots:
        yield f"density.parquet has {table.metadata.num_rows} rows; its zones and slots need another number."
        return
    clock = yield from _clock(public, slots)
    if clock is not None:
        yield from _density_rows(table, zones, clock, _count(public["decimals"]))


def _density_rows(table: pq.ParquetFile, zones: Zones, clock: Clock, decimals: int) -> Iterator[str]:
    ids, labels = pa.array(zones.ids, pa.string()), pa.array(clock.starts_local(), pa.string())
    done, digits = 0, _Decimals(decimals)
    for batch in table.iter_batches(_BATCH):
        row = np.arange(done, done + batch.num_rows)
        zone, slot = row // clock.slots, row % clock.slots
        done += batch.num_rows
        same = (
            batch["zone"].cast(pa.string()).equals(ids.take(pa.array(zone)))
            and np.array_equal(batch["slot"].to_numpy(), slot)
            and batch["slot_start"].cast(pa.string()).equals(labels.take(pa.array(slot)))
            and np.array_equal(batch["slot_start_utc"].cast(pa.int64()).to_numpy(), clock.starts_utc_us[slot])
        )
        if not same:
            yield "the rows of density.parquet are not those of its zones, window, time zone and slots."
            return
        people, low, high = (batch[name].to_numpy() for name in ("people", "people_low", "people_high"))
        if not (np.isfinite(people).all() and (people >= 0).all() and ((low >= 0) & (low <= high)).all()):
            yield "density.parquet holds a count or an interval that no release has."
            return
        digits.see(people, low, high)
    yield from digits.problems("density.parquet")


def _histogram(folder: Path, manifest: Manifest) -> Iterator[str]:
    public, noted = manifest.public, manifest.input
    grid, euler, about = read_histogram_file(folder / HISTOGRAM)
    _window_us(public)
    if grid.describe() != dict(public["grid"]):
        yield "the grid is not the one that histogram.parquet states."
    if about["trips"] not in (noted.get("trips_with_noise"), noted.get("trips_declared")):
        yield "the number of trips is not the one that histogram.parquet states."
    given = public["given"]
    if given["from"] == "random":
        drawn = random_rectangles(grid, min(_count(given["rectangles"]), 1 << 20), given["seed"])
        if given["sha256"] != rectangles_digest(drawn):
            yield "the given rectangles are not those of their number and seed."
    elif given["seed"] is not None:
        yield "rectangles from a file have no seed."
    digits = _Decimals(_count(public["decimals"]))
    digits.see(*(part for part in (euler.faces, euler.east, euler.north) if part is not None))
    yield from digits.problems(HISTOGRAM)
    if POOL in manifest.columns:
        pool = {name: column.to_numpy() for name, column in _columns(folder / POOL)}
        if not _boxes_inside(pool, grid.columns - 1, grid.rows - 1):
            yield f"{POOL} holds a box outside the grid."
    if ("zones.geojson" in manifest.columns) != (public["zones"] is not None):
        yield "zones are given without their file, or the file without its count and hash."
    elif public["zones"] is not None:
        zones = _read_zones(folder / "zones.geojson")
        # the file is longitude and latitude; manifests of the first version hashed other coordinates
        yield from _zones(public["zones"], zones, hashed="promise_version" in manifest.guarantee)
    yield from _repeated(manifest)


def _synthetic(folder: Path, manifest: Manifest) -> Iterator[str]:
    public, noted = manifest.public, manifest.input
    published = read_synthetic(folder)
    about = published.about
    if about.grid.describe() != dict(public["grid"]):
        yield "the grid is not the one that trips.parquet states."
    if about.step_s != public["step_s"] or public["synthetic"] is not True:
        yield "the step is not the one that trips.parquet states, or it is not called synthetic."
    west, south, east, north = about.grid.box
    begin, end = _window_us(public)
    trips = starts_outside = points_outside = 0
    for group in range((file := pq.ParquetFile(published.path)).num_row_groups):
        names = published.columns
        table = file.read_row_group(group, [names.point, names.time, names.x, names.y])
        first = table[names.point].to_numpy() == 0
        time = table[names.time].cast(pa.int64()).to_numpy()[first]
        x, y = table[names.x].to_numpy(), table[names.y].to_numpy()
        trips += int(first.sum())
        starts_outside += int(((time < begin) | (time >= end)).sum())
        points_outside += int((~((x >= west) & (x <= east) & (y >= south) & (y <= north))).sum())
    if not trips == about.trips == _count(noted["synthetic_trips"]):
        yield "the number of synthetic trips is not the one in trips.parquet."
    if public["count"] not in (None, trips):
        yield "the number of trips that the owner chose is not the one in trips.parquet."
    if starts_outside or points_outside:
        yield "trips.parquet has trips that start outside the window, or points outside the box."
    yield from _repeated(manifest)


def _commute(folder: Path, manifest: Manifest) -> Iterator[str]:
    public, people = manifest.public, manifest.input["synthetic_people"]
    begin, end = _window_us(public)
    table = pq.read_table(folder / "events.parquet", columns=["user", "time", "site"])
    time = table["time"].cast(pa.int64()).to_numpy()
    if ((time < begin) | (time >= end)).any():
        yield "events.parquet has events outside the window."
    if len(table["user"].unique()) > people or public["count"] not in (None, people):
        yield "the number of synthetic people is not the one in events.parquet."
    if len(table["site"].unique()) > public["sites"]["count"] or public["synthetic"] is not True:
        yield "events.parquet has more sites than the manifest counts, or it is not called synthetic."
    yield from _repeated(manifest)


def _trajectories(folder: Path, manifest: Manifest) -> Iterator[str]:
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
    begin, end = _window_us(public)
    if lattice.to_manifest() != dict(stated):
        yield "the numbers of the lattice do not agree with each other."
    if lattice.start_us != begin or lattice.steps * lattice.minutes * 60_000_000 != end - begin:
        yield "the lattice does not begin and end with the window."
    boxes = read_records(folder)
    records = (manifest.read_from_data or public)["records"]  # public in manifests of the first version
    ids = np.unique(boxes["record"])
    if ids.size and (ids[0] < 1 or ids[-1] > records):
        yield "records.parquet has more records than the manifest counts."
    if ids.size and ids.size < public["k"]:
        yield "records.parquet has fewer records than k."
    order = np.lexsort((boxes["t0"], boxes["record"]))
    same = np.diff(boxes["record"][order]) == 0
    epoch = _count(public["epoch_minutes"]) // lattice.minutes
    if (
        epoch < 1
        or not _boxes_inside(boxes, None, None)
        or (boxes["t0"] < 0).any()
        or (boxes["t1"] >= lattice.steps).any()
        or (boxes["t0"][order][1:] <= boxes["t1"][order][:-1])[same].any()
        or (boxes["t0"] // epoch != boxes["t1"] // epoch).any()
    ):
        yield "records.parquet has boxes outside the window, across epochs, or two at a time in one record."
    tau = f"any {public['tau_minutes']} minutes"
    kept = guarantee["verified"] is True and f"at least {public['k']} records" in manifest.promise
    refuted = manifest.promise.startswith(NOTHING_PROMISED)
    if guarantee["verified"] is not (not refuted) or not guarantee["limits"]:
        yield "the release is not called verified as its promise says, or states no limits."
    if tau not in guarantee["adversary"] or (tau in manifest.promise) != kept:
        yield "the promise is not that of a verified release with its k and tau."


def _query(folder: Path, manifest: Manifest) -> Iterator[str]:
    public = manifest.public
    rows, slots = read_answers(folder), _count(public["slots"])
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    queries = [json.loads(line) for line in lines]
    sizes = [(len(each["zones"]), len(each["slots"])) for each in queries]
    same = sizes == [(row["zones"], row["slots"]) for row in rows] and len(rows) == public["queries"]
    named = (
        row["query"] in (each["name"], as_cell(each["name"]))
        for row, each in zip(rows, queries, strict=False)
    )
    if not (same and all(named)):
        yield "the answers are not those of the queries, or another number."
    if any(not 0 <= slot < slots for each in queries for slot in each["slots"]):
        yield "a query asks for a slot outside the window."
    zones = {zone for each in queries for zone in each["zones"]}
    if len(zones) > public["zones"]["count"]:
        yield "the queries name more zones than the manifest counts."
    if any(not 0 <= row["visits_low"] <= row["visits_high"] for row in rows):
        yield "answers.csv holds an interval that no release has."
    if sum(row["how"] == "noise" for row in rows) > public.get("updates", len(rows)):
        yield "more queries were answered with noise than the manifest allows."
    digits = _Decimals(_count(public["decimals"]))
    digits.see(*(np.array([row[name] for row in rows]) for name in ("visits", "visits_low", "visits_high")))
    yield from digits.problems("answers.csv")
    yield from _clock(public, slots)


KINDS: Mapping[str, Callable[[Path, Manifest], Iterator[str]]] = {  # by the file that only this kind has
    "density.parquet": _density,
    HISTOGRAM: _histogram,
    "trips.parquet": _synthetic,
    "events.parquet": _commute,
    RECORDS: _trajectories,
    "answers.csv": _query,
}


def _zones(stated: Mapping[str, Any], zones: Zones, *, hashed: bool = True) -> Iterator[str]:
    if stated["count"] != zones.count or (hashed and stated["sha256"] != zones.digest()):
        yield "the count or the hash of the zones is not that of the zones in the folder."


def _read_zones(path: Path) -> Zones:
    return read_zones(path, on_overlap="allow", holes="allow")


def _clock(public: Mapping[str, Any], slots: int) -> Iterator[str]:
    """Yields what is wrong and returns the clock of the window, if its slots are as many as stated."""
    start, end = (datetime.fromisoformat(public["window"][name]) for name in ("start", "end"))
    step = timedelta(minutes=_count(public["slot_minutes"]))
    written = {"start": start.isoformat(), "end": end.isoformat()}
    if dict(public["window"]) == written and step and abs((end - start) / step - slots) <= SLACK_SLOTS:
        clock = Clock(
            start=start, end=end, time_zone=public["time_zone"], slot_minutes=public["slot_minutes"]
        )
        if clock.slots == slots:
            return clock
    yield "the window does not have the stated number of slots of that length."
    return None


def _window_us(public: Mapping[str, Any]) -> tuple[int, int]:
    start, end = public["window"]["start"], public["window"]["end"]
    return instant_us(start, public["time_zone"]), instant_us(end, public["time_zone"])


def _repeated(manifest: Manifest) -> Iterator[str]:
    """Values that a manifest states twice: parameters of the mechanism, and shares of the spends."""
    public, spends = manifest.public, {spend["name"]: spend for spend in manifest.spends}
    for name, value in public["mechanism"].items():
        law, _, step = name.partition("_")
        known = public.get(name)
        if name in public and value != (known["count"] if isinstance(known, Mapping) else known):
            yield f"{name} of the mechanism is not that of the release."
        if law in ("epsilon", "rho") and step in spends and value != spends[step].get(law):
            yield f"{name} of the mechanism is not what was spent on it."
    if manifest.input.get("trips_declared", public.get("trips_declared")) != public.get("trips_declared"):
        yield "the declared number of trips is stated twice, and differs."


def _columns(path: Path) -> list[tuple[str, pa.ChunkedArray]]:
    table = pq.read_table(path)
    return list(zip(table.column_names, table.columns, strict=True))


def _boxes_inside(boxes: Mapping[str, np.ndarray], last_x: int | None, last_y: int | None) -> bool:
    """Sides in order, and from 0 to the last column and row where these are known."""
    inside = all((boxes[f"{axis}0"] <= boxes[f"{axis}1"]).all() for axis in "txy" if f"{axis}0" in boxes)
    for axis, last in (("x", last_x), ("y", last_y)):
        if last is not None:
            inside &= bool((boxes[f"{axis}0"] >= 0).all() and (boxes[f"{axis}1"] <= last).all())
    return inside


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


class _Decimals:
    """Whether numbers are rounded to a number of decimals, and not to fewer."""

    def __init__(self, decimals: int) -> None:
        self.decimals, self.finer, self.last_used = decimals, False, False
        self.numbers: set[float] = set()  # different ones, up to ENOUGH: a flat map repeats a single number

    def see(self, *arrays: np.ndarray) -> None:
        for array in arrays:
            scaled = np.abs(array[array != 0]) * 10.0**self.decimals
            if len(self.numbers) < ENOUGH:
                self.numbers.update(np.unique(np.rint(scaled))[:ENOUGH].tolist())
            self.finer |= bool((np.abs(scaled - np.rint(scaled)) > 1e-6 + 1e-12 * scaled).any())
            self.last_used |= bool((np.rint(scaled) % 10 != 0).any())

    def problems(self, name: str) -> Iterator[str]:
        coarser = self.decimals > 0 and len(self.numbers) >= ENOUGH and not self.last_used
        if self.finer or coarser:
            yield f"{name} is not rounded to the stated number of decimals."
