"""The seam between kernels and engines.

An engine does one thing: bring all events of a user together and run a kernel over user-complete
batches, summing what it returns. A kernel turns a batch into named integer arrays of fixed shape.
Integer sums do not depend on order, and a kernel's choices depend on its key and the user alone; so
every engine, any split and any number of threads give the same sums bit by bit.

Trips are asked several times, each question chosen by the noisy answers before it: an engine encodes them
once, keeps them where it keeps data, and answers each question with a sum. Blocks of people are worked on
apart, where the engine has space for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

Sums = dict[str, np.ndarray]
Progress = Callable[[str, int], None]  # what was done, how many rows of it
Cut = Callable[[pa.RecordBatch], pa.RecordBatch]
# Events of a user in a release; public, stated in the manifest: a position every second of a week.
MOST_EVENTS = 1_000_000
Item = TypeVar("Item")
Made = TypeVar("Made")


class UserKernel(Protocol):
    """A function of user-complete batches; frozen, picklable, and silent about its run key."""

    @property
    def run_key(self) -> bytes: ...

    def __call__(self, batch: pa.RecordBatch) -> Sums: ...

    def zero(self) -> Sums:
        """The sums over no users at all."""
        ...


class PointBatches(Protocol):
    """Points of trips in user-complete batches: `shoal.events.trip_reader.TripPoints`."""

    def batches(self, cut: Cut | None = None) -> Iterator[pa.RecordBatch]:
        """`cut` bounds the points of a user before trips are found among them."""
        ...


class Encoder(Protocol):
    """Points to encoded trips, bounded per unit; frozen and picklable."""

    @property
    def run_key(self) -> bytes: ...

    @property
    def each_trip(self) -> bool: ...

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """The trips of a batch."""
        ...

    def join(self, parts: Sequence[Any]) -> Any:
        """Trips of many batches as one stage, checked to be user-complete."""
        ...

    def queries(self, stage: Any) -> Any:
        """Sums over a stage, and nothing else."""
        ...


class Watch(Protocol):
    """Counts of points for the owner's eyes."""

    def zero(self) -> Sums: ...

    def __call__(self, batch: pa.RecordBatch) -> Sums: ...


class Held(Protocol):
    """Encoded trips where the engine keeps them."""

    @property
    def watched(self) -> Sums: ...

    def queries(self) -> Any:
        """The query interface of a mechanism: sums over all trips."""
        ...

    def gather(self) -> tuple[Any, float]:
        """The stage itself, for the owner's figures: all of it, or of a share of the units, and the share."""
        ...


class Engine(Protocol):
    """Brings each user's events together and sums a kernel over all users.

    `events` is any iterable of batches; runs pass `shoal.events.readers.PlacedEvents`, which also describes
    the source, so that an engine on a cluster can read it there instead of iterating it here.
    """

    @property
    def name(self) -> str: ...

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums: ...


class TripEngine(Engine, Protocol):
    """Encodes trips once and answers many questions about them."""

    def hold(
        self, points: PointBatches, encoder: Encoder, watch: Watch, progress: Progress | None = None
    ) -> Held: ...


@runtime_checkable
class ReadsSources(Protocol):
    """An engine that opens sources itself, where only it can reach them."""

    def open_source(self, plan: Any) -> Any: ...


@runtime_checkable
class WorksElsewhere(Protocol):
    """An engine that works on pieces apart from this process, several at a time."""

    def each(self, work: Callable[[Item], Made], items: Iterable[Item], count: int) -> Iterator[Made]:
        """work(item) for every item, in order."""
        ...


def no_progress(what: str, rows: int) -> None:
    """Shows nothing."""


def passed_on(name: str) -> Any:
    """A property that reads an attribute of an attribute, as "trips.grid"."""
    return property(attrgetter(name))


def add_sums(total: Sums, part: Sums) -> None:
    """Add `part` into `total`, in place."""
    for name, values in part.items():
        total[name] += values
