"""Counts of points for the owner's eyes: how many lie beyond the box, how many steps are slow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.engine.buckets import same_as_before
from shoal.engine.protocol import Sums
from shoal.space.cells import CellGrid

COUNTED = ("points", "outside", "steps", "slow")


@dataclass(frozen=True, kw_only=True)
class PointWatch:
    """Points, those beyond the box, steps from point to point within a trip, those longer than `step_s`."""

    grid: CellGrid
    step_s: float | None = None

    def zero(self) -> Sums:
        return {name: np.zeros((), np.int64) for name in COUNTED}

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        _, _, inside = self.grid.place(batch["x"].to_numpy(), batch["y"].to_numpy())
        found = [inside.size, int(inside.size - inside.sum()), 0, 0]
        if self.step_s is not None:
            trip = batch["trip"].to_numpy()
            same = same_as_before(batch["user"])[1:] & (trip[1:] == trip[:-1])
            apart = np.diff(batch["time_us"].to_numpy())[same]
            found[2:] = apart.size, int((apart > round(self.step_s * 1_000_000)).sum())
        return {name: np.array(value, np.int64) for name, value in zip(COUNTED, found, strict=True)}


def share(watched: Sums, part: str, whole: str) -> float | None:
    """One count as a share of another; None where there is nothing to share."""
    total = int(watched[whole])
    return int(watched[part]) / total if total else None
