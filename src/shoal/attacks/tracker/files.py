"""Read a published trajectory release and the owner's key: manifest, boxes, and the rule that places a point.

Own loading and own arithmetic, from the manifest alone: a mistake of the code that wrote the release cannot
hide itself here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.attacks.tracker.keyed import Key, number_of, read_key
from shoal.attacks.tracker.tables import MOST_CELLS
from shoal.errors import OutputError, PlanError, SourceError

BOX_COLUMNS = ("record", "t0", "t1", "x0", "x1", "y0", "y1")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a manifest says: the lattice, and k people in every window of tau."""

    start: datetime
    steps: int
    minutes: int
    origin: tuple[float, float]
    metres: float
    metres_per_unit: tuple[float, float]
    planar: bool
    k: int
    tau_minutes: int
    epoch_minutes: int
    records: int

    @property
    def start_us(self) -> int:
        return (self.start - EPOCH) // timedelta(microseconds=1)

    @property
    def window_us(self) -> tuple[int, int]:
        return self.start_us, self.start_us + self.steps * self.minutes * 60_000_000

    def in_steps(self, minutes: int, name: str) -> int:
        if minutes < 1 or minutes % self.minutes:
            raise PlanError(
                "claim-steps",
                f"{name} must be whole steps of {self.minutes} minutes; got {minutes} minutes.",
                f"Pass a multiple of {self.minutes}.",
            )
        return minutes // self.minutes

    def time_of(self, step: int) -> str:
        """ISO time in UTC at which a step begins."""
        return (self.start.astimezone(UTC) + timedelta(minutes=step * self.minutes)).isoformat()

    def snap(self, time_us: np.ndarray, first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
        """int32 t, x, y: floor of what has passed since the start, and of cells from the origin."""
        t = np.floor_divide(time_us - self.start_us, self.minutes * 60_000_000)
        placed = [t.astype(np.int32)]
        for value, origin, scale in zip((first, second), self.origin, self.metres_per_unit, strict=True):
            cell = np.floor((value - origin) * scale / self.metres)
            if len(cell) and not np.abs(cell).max() < MOST_CELLS:
                raise SourceError("far-sample", "a sample lies too far from the lattice.", "Check RAW.")
            placed.append(cell.astype(np.int32))
        return placed


def read_claim(folder: Path) -> Claim:
    """The claim of a release folder."""
    try:
        return claim_of(json.loads((folder / "manifest.json").read_text("utf-8")), folder)
    except OSError:
        raise OutputError(
            "no-release", f"there is no trajectory release at {folder}: no manifest.", "Check the path."
        ) from None
    except (ValueError, TypeError, KeyError):
        raise _no_claim(folder) from None


def claim_of(manifest: Any, folder: Path) -> Claim:
    """The claim that a manifest makes; earlier ones have the number of records among their parameters."""
    try:
        public = manifest["public"]
        counted = {**public, **manifest.get("read_from_data", {})}
        lattice = public["lattice"]
        start = datetime.fromisoformat(lattice["start"])
        if start.tzinfo is None:
            raise ValueError("no time zone")
        claim = Claim(
            start=start,
            origin=_two(lattice["origin"]),
            metres=float(lattice["metres"]),
            metres_per_unit=_two(lattice["metres_per_unit"]),
            planar=str(lattice["coordinates"]).startswith("planar"),
            **{name: _whole(lattice[name]) for name in ("steps", "minutes")},
            **{name: _whole(public[name]) for name in ("k", "tau_minutes", "epoch_minutes")},
            records=_whole(counted["records"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _no_claim(folder) from None
    if min(claim.steps, claim.minutes) < 1 or not claim.metres > 0:
        raise OutputError("not-trajectories", f"the lattice in {folder} makes no sense.", "Run it again.")
    return claim


def _no_claim(folder: Path) -> OutputError:
    return OutputError(
        "not-trajectories",
        f"the manifest in {folder} is not one of a trajectory release.",
        "Pass the folder that `shoal trajectories run` wrote.",
    )


def _two(values: Any) -> tuple[float, float]:
    first, second = (float(value) for value in values)
    return first, second


def _whole(value: Any) -> int:
    if value != int(value):
        raise ValueError("not whole")
    return int(value)


def read_key_file(path: Path, *, said: int) -> Key:
    """The owner's record key."""
    table = _open(path, "record-key", "the record key").read()
    if not {"user", "record"} <= set(table.column_names):
        raise SourceError("record-key", f"{path} needs columns user and record.", "Check --key.")
    users, records = table["user"], table["record"]
    if users.null_count or records.null_count or not pa.types.is_integer(records.type):
        raise SourceError("record-key", f"{path} has empty cells, or records that are no numbers.", "")
    if pa.types.is_integer(users.type):
        return read_key(users.cast(pa.int64()).to_numpy(), records.to_numpy(), said=said)
    return read_key(users.cast(pa.string()).to_pylist(), records.to_numpy(), said=said)


def read_boxes(folder: Path, key: Key) -> list[np.ndarray]:
    """Columns of all boxes; the first is the record's row in the key, -1 where it is not there."""
    file = _open(folder / "records.parquet", "no-records", "the released records")
    missing = [name for name in BOX_COLUMNS if name not in file.schema_arrow.names]
    if missing:
        raise OutputError("no-records", f"records.parquet has no column {missing[0]}.", "Check the folder.")
    columns = [np.empty(file.metadata.num_rows, np.int32) for _ in BOX_COLUMNS]
    done = 0
    for batch in file.iter_batches(1_000_000, columns=list(BOX_COLUMNS)):
        for place, name in enumerate(BOX_COLUMNS):
            column = batch[name]
            if column.null_count or not pa.types.is_integer(column.type):
                raise OutputError("no-records", f"column {name} must be whole numbers.", "Check the folder.")
            values = column.to_numpy()
            if place and len(values) and not np.abs(values.astype(np.int64)).max() < 2**31:
                raise OutputError("no-records", f"column {name} has numbers out of range.", "")
            values = values if place else number_of(key.records, values)
            columns[place][done : done + len(batch)] = values
        done += len(batch)
    return columns


def _open(path: Path, code: str, what: str) -> pq.ParquetFile:
    error = SourceError if code == "record-key" else OutputError
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException):
        raise error(code, f"{what} cannot be read from {path}.", "Check the path.") from None
