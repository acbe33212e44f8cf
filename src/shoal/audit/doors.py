"""All visits of a small table behind a door that lets only bounded sums out: `UserVisits` at audit size.

The sums are made by the package's own kernel on the whole table at once; that engines bring the events of a
user together is for the pipelines of bounded visits, which run through one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import scipy.sparse

from shoal.engine.clipped import ClippedKernel, clipped_sum
from shoal.engine.protocol import Progress, Sums, UserKernel
from shoal.mechanisms.registry import AUDIT_CLIP
from shoal.space.setting import Setting
from shoal.stages.bounded import BoundedVisits
from shoal.stages.clipped import TIME_LATTICE, ClippedSum, View

MOST = 100  # visits of a user that enter a clipped sum: more than there are


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
class ClippedVisits:
    """The number of users, the capped number of visits, and clipped sums of any view."""

    users: int
    visits: int
    cap: int
    events: list[pa.RecordBatch] = field(repr=False)
    edges_us: np.ndarray = field(repr=False)
    run_key: bytes = field(repr=False)
    kernel: type[ClippedKernel] = ClippedKernel

    @classmethod
    def of(
        cls, bounded: BoundedVisits, events: list[pa.RecordBatch], run_key: bytes, edges_us: np.ndarray
    ) -> ClippedVisits:
        return cls(
            users=bounded.users,
            visits=bounded.visits_capped,
            cap=bounded.cap,
            events=events,
            edges_us=edges_us,
            run_key=run_key,
        )

    def clipped(self, view: View) -> ClippedSum:
        places = view.space.shape[1]  # type: ignore[index]
        public = {"edges_us": self.edges_us, "places": places, "most": MOST, "run_key": self.run_key}
        return clipped_sum(WholeTable(), self.events, view, self.kernel.of(view, **public))


def audit_view(setting: Setting) -> View:
    """A public view of zones and slots whose columns overlap, so that norms are not sums over visits."""
    slot = np.arange(setting.slots)
    waves = np.cos(np.pi * (slot[:, None] + 0.5) * slot / setting.slots) + (slot[:, None] == slot)
    return View(
        space=scipy.sparse.csr_array(setting.weights.matrix),
        space_lattice=setting.weights.lattice,
        time=np.rint(waves * TIME_LATTICE).astype(np.int64),
        clip=AUDIT_CLIP,
    )
