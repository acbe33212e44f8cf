"""Compare a manifest with what the files of its release determine, without a hash from elsewhere.

    columns of every table, package and day             all kinds
    README.md                                           rendered again from the manifest
    zones, window, slots, decimals, grid, sizes         by kind: `problems` in its `published.py`

A hash in the same folder can be replaced together with what it protects. These checks reject a manifest that
was changed alone. Only a hash or a signature from the owner shows that manifest and files were changed alike.
docs/verify.md lists which values are determined, and a test changes each of them.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import ShoalError
from shoal.kinds.kind import KINDS
from shoal.release.manifest import Manifest
from shoal.release.readme import README, readme_problems
from shoal.space.clock import Clock, instant_us

if TYPE_CHECKING:
    from shoal.space.places import Zones

UNREADABLE = (ShoalError, OSError, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError)
SLACK_SLOTS = 200  # of clock changes, before the slots of a window are worked out
ENOUGH = 100  # different numbers, one of which uses the last decimal unless there is none
FIRST_DAY = date(2020, 1, 1)  # no release is older
BATCH = 1 << 18
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
    kinds = [kind for kind in KINDS.values() if kind.main_file in manifest.columns]
    checks += [kind.problems(folder, manifest) for kind in kinds]
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


def zone_problems(stated: Mapping[str, Any], zones: Zones, *, hashed: bool = True) -> Iterator[str]:
    if stated["count"] != zones.count or (hashed and stated["sha256"] != zones.digest()):
        yield "the count or the hash of the zones is not that of the zones in the folder."


def published_zones(path: Path) -> Zones:
    from shoal.space.places import read_zones

    return read_zones(path, on_overlap="allow", holes="allow")


def clock_of(public: Mapping[str, Any], slots: int) -> Iterator[str]:
    """Yields what is wrong and returns the clock of the window, if its slots are as many as stated."""
    start, end = (datetime.fromisoformat(public["window"][name]) for name in ("start", "end"))
    step = timedelta(minutes=count_of(public["slot_minutes"]))
    written = {"start": start.isoformat(), "end": end.isoformat()}
    if dict(public["window"]) == written and step and abs((end - start) / step - slots) <= SLACK_SLOTS:
        clock = Clock(
            start=start, end=end, time_zone=public["time_zone"], slot_minutes=public["slot_minutes"]
        )
        if clock.slots == slots:
            return clock
    yield "the window does not have the stated number of slots of that length."
    return None


def window_of(public: Mapping[str, Any]) -> tuple[int, int]:
    start, end = public["window"]["start"], public["window"]["end"]
    return instant_us(start, public["time_zone"]), instant_us(end, public["time_zone"])


def repeated_values(manifest: Manifest) -> Iterator[str]:
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


def columns_of(path: Path) -> list[tuple[str, pa.ChunkedArray]]:
    table = pq.read_table(path)
    return list(zip(table.column_names, table.columns, strict=True))


def boxes_inside(boxes: Mapping[str, np.ndarray], last_x: int | None, last_y: int | None) -> bool:
    """Sides in order, and from 0 to the last column and row where these are known."""
    inside = all((boxes[f"{axis}0"] <= boxes[f"{axis}1"]).all() for axis in "txy" if f"{axis}0" in boxes)
    for axis, last in (("x", last_x), ("y", last_y)):
        if last is not None:
            inside &= bool((boxes[f"{axis}0"] >= 0).all() and (boxes[f"{axis}1"] <= last).all())
    return inside


def count_of(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


class Decimals:
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
