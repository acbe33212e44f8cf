"""All visits of a small table behind a door that lets only bounded sums out: `UserVisits` at audit size.

The sums are made by the package's own kernel on the whole table at once; that an engine brings the events of
a user together is for the pipelines of bounded visits, which run through one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import scipy.sparse

from shoal.engine.clipped import EngineVisits
from shoal.engine.protocol import Progress, Sums, UserKernel
from shoal.mechanisms.registry import AUDIT_CLIP
from shoal.space.setting import Setting
from shoal.stages.clipped import ClippedSum, View, on_lattice


class WholeTable:
    """An engine for tables that fit a batch."""

    name = "whole table"

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums:
        batches = list(events)
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
        return kernel(rows[0]) if rows else kernel.zero()


@dataclass(frozen=True, kw_only=True, eq=False)
class Door(EngineVisits):
    """The package's door to visits; sums that were asked for are kept, since the audit asks often."""

    kept: dict[tuple, ClippedSum] = field(init=False, default_factory=dict, repr=False)

    def clipped(self, *views: View) -> list[ClippedSum]:
        keys = [(view.space.toarray().tobytes(), view.time.tobytes(), view.clip) for view in views]
        new = [view for key, view in zip(keys, views, strict=True) if key not in self.kept]
        fresh = iter(super().clipped(*new) if new else ())
        for key in keys:
            if key not in self.kept:
                self.kept[key] = next(fresh)
        return [self.kept[key] for key in keys]


@lru_cache(maxsize=16)
def audit_view(setting: Setting) -> View:
    """A public view of zones and slots whose columns overlap, so that norms are not sums over visits."""
    slot = np.arange(setting.slots)
    waves = np.cos(np.pi * (slot[:, None] + 0.5) * slot / setting.slots) + (slot[:, None] == slot)
    return View(
        space=scipy.sparse.csr_array(setting.weights.matrix),
        space_lattice=setting.weights.lattice,
        time=on_lattice(waves),
        clip=AUDIT_CLIP,
    )
