"""Small tables: events as Arrow batches, and a released density as lines of CSV."""

from __future__ import annotations

from datetime import UTC

import numpy as np
import pyarrow as pa

from shoal.mechanisms.audit_size import START
from shoal.stages.noisy import DensityEstimate

HOUR_US = 3_600_000_000
START_US = int(START.replace(tzinfo=UTC).timestamp()) * 1_000_000
Event = tuple[int | str, int, int]  # user, time_us, site


def table_bytes(estimate: DensityEstimate) -> bytes:
    """Every zone and slot as a line of CSV, also the zeros."""
    zones, slots = estimate.people.shape
    people, low, high = estimate.people.tolist(), estimate.low.tolist(), estimate.high.tolist()
    lines = [
        f"{zone},{slot},{people[zone][slot]},{low[zone][slot]},{high[zone][slot]}"
        for zone in range(zones)
        for slot in range(slots)
    ]
    return "\n".join(["zone,slot,people,low,high", *lines, ""]).encode()


def read_table(released: bytes, column: str = "high") -> np.ndarray:
    """One column of released bytes, in order of the rows: what an adversary reads."""
    header, *lines = released.decode().split("\n")[:-1]
    position = header.split(",").index(column)
    return np.array([float(line.split(",")[position]) for line in lines])


def event_table(events: list[Event], *, batch_rows: int = 4) -> list[pa.RecordBatch]:
    """Normalised events as small Arrow batches; ids are all int64 or all strings."""
    users = [user for user, _, _ in events]
    kind = pa.string() if any(isinstance(user, str) for user in users) else pa.int64()
    ids = [str(user) for user in users] if kind == pa.string() else users
    table = pa.table(
        {
            "user": pa.array(ids, kind),
            "time_us": pa.array([time for _, time, _ in events], pa.int64()),
            "site": pa.array([site for _, _, site in events], pa.int32()),
        }
    )
    return table.to_batches(max_chunksize=batch_rows)
