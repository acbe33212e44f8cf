"""Events of a source with the number of the place they were seen at: what an engine is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from shoal.errors import SourceError
from shoal.events.readers import scan
from shoal.events.schema import EventSource
from shoal.space.geography import Geography


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedEvents:
    """A description that can be pickled: an engine iterates it, or reads the same source in its own way.

    Batches have columns user, time_us, site; `site` counts the geography's places, -1 is outside all of them.
    """

    source: EventSource
    geography: Geography = field(repr=False)
    window_us: tuple[int, int]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches in no order. The rows were checked before, so an error here tells nothing of them."""
        try:
            yield from self.geography.place(
                scan(self.source, sites=self.geography.site_ids, window_us=self.window_us)
            )
        except (SourceError, OSError, pa.ArrowException):
            raise SourceError(
                "source-changed",
                "the events can no longer be read the way they were checked.",
                "Leave the files alone during a run; `shoal inspect` checks them again.",
            ) from None
