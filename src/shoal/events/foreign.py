"""A source that this process does not open itself: an engine on a cluster reads it where it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.events.schema import EventSource

if TYPE_CHECKING:
    from shoal.events.checks import RowReport


class ForeignSource(EventSource):
    """Scans and checks of this package ask it instead of opening files."""

    def batches(
        self,
        *,
        sites: Sequence[str] | None,
        window_us: tuple[int, int] | None,
        with_flag: bool,
        by_user: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Normalised events, as `scan` gives them, brought here; `by_user`: sorted by user."""
        raise NotImplementedError

    def row_report(
        self,
        *,
        sites: Sequence[str] | None,
        with_flag: bool,
        progress: Callable[[float], None] | None,
    ) -> RowReport:
        """Every row looked at once, as `check_rows` does."""
        raise NotImplementedError

    def any_row(
        self,
        *,
        sites: Sequence[str] | None,
        window_us: tuple[int, int],
        test: Callable[[pa.RecordBatch], bool],
    ) -> bool:
        """Whether any batch of events passes; `test` can be pickled."""
        raise NotImplementedError

    def contents(self) -> list[str]:
        """What names the rows it holds: digests of its files, or of all its rows."""
        raise NotImplementedError
