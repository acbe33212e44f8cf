"""The seam between kernels and engines.

An engine does one thing: bring all events of a user together and run a kernel over user-complete
batches, summing what it returns. A kernel turns a batch into named integer arrays of fixed shape.
Integer sums do not depend on order, and a kernel's choices depend on its key and the user alone; so
every engine, any split and any number of threads give the same sums bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
import pyarrow as pa

Sums = dict[str, np.ndarray]
Progress = Callable[[str, int], None]  # what was done, how many rows of it


class UserKernel(Protocol):
    """A function of user-complete batches; frozen, picklable, and silent about its run key."""

    @property
    def run_key(self) -> bytes: ...

    def __call__(self, batch: pa.RecordBatch) -> Sums: ...

    def zero(self) -> Sums:
        """The sums over no users at all."""
        ...


class Engine(Protocol):
    """Brings each user's events together and sums a kernel over all users.

    `events` is any iterable of batches; flows pass `shoal.events.placed.PlacedEvents`, which also describes
    the source, so that an engine on a cluster can read it there instead of iterating it here.
    """

    @property
    def name(self) -> str: ...

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums: ...


def add_sums(total: Sums, part: Sums) -> None:
    """Add `part` into `total`, in place."""
    for name, values in part.items():
        total[name] += values
