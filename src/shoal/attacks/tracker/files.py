"""Loads a published trajectory release and the owner's key, from the manifest alone, for the verifier.

Users and records have ids of any kind: the rows of the key number them, and the key itself is checked. The
loading and the arithmetic that places a point are written here anew, so that a mistake of the code that wrote
the release cannot hide itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.attacks.tracker.evidence import make_tables
from shoal.attacks.tracker.tables import MOST_CELLS, Tables
from shoal.errors import OutputError, PlanError, SourceError

# what can be wrong with the key: name -> in words, for counts
KEY_STRUCTURE = {
    "users_twice_in_key": "users that stand in the key more than once",
    "records_twice_in_key": "records that stand in the key more than once",
    "users_without_key": "users with samples that are not in the key",
    "key_users_without_sample": "users in the key without a sample in the window",
    "records_without_key": "boxes of records that are not in the key",
    "records_not_as_said": "records more or fewer than the manifest says",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Key:
    """Row j of the key is user j and record j of the tables; only the first of repeated ids counts."""

    users: np.ndarray = field(repr=False)
    records: np.ndarray = field(repr=False)
    structure: Mapping[str, int]

    @property
    def size(self) -> int:
        return len(self.users)


def read_key(
    users: Sequence | np.ndarray, records: Sequence | np.ndarray, *, declared: int | None = None
) -> Key:
    """Drops and counts rows that repeat a user or a record; `declared` is the manifest's number of records.

    >>> read_key(["a", "b", "b"], [7, 9, 4]).structure["users_twice_in_key"]
    1
    """
    who, numbers = np.asarray(users), np.asarray(records)
    if who.ndim != 1 or who.shape != numbers.shape:
        raise PlanError("key-shape", "the key must be as many users as records.")
    new_user, new_record = _first(who), _first(numbers)
    good = new_user & new_record
    structure = {
        "users_twice_in_key": int((~new_user).sum()),
        "records_twice_in_key": int((~new_record).sum()),
        "records_not_as_said": abs(int(declared) - len(who)) if declared is not None else 0,
    }
    return Key(users=who[good], records=numbers[good], structure=structure)


def _first(ids: np.ndarray) -> np.ndarray:
    """Whether a value stands here for the first time."""
    first = np.zeros(len(ids), np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return first


def number_of(ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    """int32: the row of each value in `ids`, -1 where it is not there."""
    if not len(ids) or not len(values):
        return np.full(len(values), -1, np.int32)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids, values, sorter=order), len(ids) - 1)
    rows = order[place].astype(np.int32)
    return np.where(ids[rows] == values, rows, np.int32(-1))


def keyed_tables(
    samples: Sequence[np.ndarray], boxes: Sequence[np.ndarray], key: Key, *, steps: int, strangers: int = 0
) -> Tables:
    """Tables of numbered samples (user row or -1, t, x, y) and boxes (record row or -1, ...).

    `strangers` are users with samples that are not in the key, where their samples were left out already.
    """
    user, *rest = samples
    known = user >= 0
    if not known.all():
        user, rest = user[known], [column[known] for column in rest]
    tables = make_tables((user, *rest), boxes, users=key.size, steps=steps)
    empty = int((np.diff(tables.sample_start) == 0).sum())
    lost = np.asarray(boxes[0]) < 0
    tables.structure.update(
        **key.structure,
        users_without_key=strangers,
        key_users_without_sample=empty,
        records_without_key=int(lost.sum()),
    )
    tables.structure["boxes_of_no_record"] -= int(lost.sum())
    return tables


BOX_COLUMNS = ("record", "t0", "t1", "x0", "x1", "y0", "y1")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim of a manifest: the lattice, and k people in every window of tau."""

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


def read_key_file(path: Path, *, declared: int) -> Key:
    """The owner's record key."""
    table = _open(path, "record-key", "the record key").read()
    if not {"user", "record"} <= set(table.column_names):
        raise SourceError("record-key", f"{path} needs columns user and record.", "Check --key.")
    users, records = table["user"], table["record"]
    if users.null_count or records.null_count or not pa.types.is_integer(records.type):
        raise SourceError("record-key", f"{path} has empty cells, or records that are no numbers.", "")
    if pa.types.is_integer(users.type):
        return read_key(users.cast(pa.int64()).to_numpy(), records.to_numpy(), declared=declared)
    return read_key(users.cast(pa.string()).to_pylist(), records.to_numpy(), declared=declared)


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
