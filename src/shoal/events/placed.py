"""Events of a source with the number of the place they were seen at: what an engine is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from shoal.errors import SourceError
from shoal.events.readers import scan
from shoal.events.schema import EventSource
from shoal.space.geography import Geography


class EventsOf(Protocol):
    """Events described, so that an engine may read them in its own way: what to scan, how to place it."""

    @property
    def source(self) -> EventSource: ...

    @property
    def sites(self) -> Sequence[str] | None: ...

    @property
    def window_us(self) -> tuple[int, int]: ...

    def place(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteEvents:
    """Events that name sites, counted in the order of `sites`: columns user, time_us, site."""

    source: EventSource
    sites: Sequence[str] | None = field(repr=False)
    window_us: tuple[int, int]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return scan_placed(self)

    def place(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.select(["user", "time_us", "site"]) for batch in batches)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedEvents:
    """A description that can be pickled: an engine iterates it, or reads the same source in its own way.

    Batches have columns user, time_us, site; `site` counts the geography's places, -1 is outside all of them.
    """

    source: EventSource
    geography: Geography = field(repr=False)
    window_us: tuple[int, int]

    @property
    def sites(self) -> Sequence[str] | None:
        return self.geography.site_ids

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return scan_placed(self)

    def place(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.geography.place(batches)


def scan_placed(events: EventsOf) -> Iterator[pa.RecordBatch]:
    """Batches in no order. The rows were checked before, so an error here tells nothing of them."""
    try:
        yield from events.place(scan(events.source, sites=events.sites, window_us=events.window_us))
    except (SourceError, OSError, pa.ArrowException):
        raise source_changed() from None


def source_changed() -> SourceError:
    return SourceError(
        "source-changed",
        "the events can no longer be read the way they were checked.",
        "Leave the files alone during a run; `shoal inspect` checks them again.",
    )
