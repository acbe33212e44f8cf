"""How many rows and users of a source lie in a public window and public zones, and why the others do not.

Exact figures of private data: for the owner's eyes, never released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.events.readers import scan
from shoal.events.schema import EventSource
from shoal.space.geography import Geography

REMEDIES = {
    "before the window": "Check --start and --time-zone.",
    "after the window": "Check --end and --time-zone.",
    "at 0,0": "A missing position is often written so; leave these rows out of the file.",
    "outside the zones, and inside with longitude and latitude swapped": "Check --column lon= and lat=.",
    "outside the zones": "Check that the zones are of this place, and their coordinate system.",
    "at sites whose cells lie outside the zones": "Check that zones and sites are of the same place.",
}


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Rows are counted under the first reason that applies; users by any row."""

    rows: int
    rows_inside: int
    users: int
    users_inside: int
    outside: Mapping[str, int]  # reason, of REMEDIES -> rows

    def as_json(self) -> dict:
        return {**vars(self), "outside": dict(self.outside)}

    def facts(self) -> list[tuple[str, str]]:
        """Shares, for the terminal."""
        return [
            (f"{name} inside", f"{inside:,} of {whole:,} ({inside / whole if whole else 0:.1%})")
            for name, inside, whole in (
                ("rows", self.rows_inside, self.rows),
                ("users", self.users_inside, self.users),
            )
        ]

    def table(self) -> list[tuple[str, str, str]]:
        """Reason, rows, remedy."""
        return [(reason, f"{rows:,}", REMEDIES[reason]) for reason, rows in self.outside.items() if rows]


def coverage(
    source: EventSource,
    *,
    geography: Geography | None = None,
    window_us: tuple[int, int] | None = None,
    sites: Sequence[str] | None = None,
) -> Coverage:
    """Counts all good rows, of trip lists every point, of journeys both ends."""
    outside = dict.fromkeys(REMEDIES, 0)
    rows = rows_inside = 0
    users: list[pa.Array] = []
    users_inside: list[pa.Array] = []
    for batch in scan(source, sites=sites if geography is None else geography.site_ids):
        left = np.ones(batch.num_rows, bool)
        for reason, met in _reasons(batch, geography, window_us):
            outside[reason] += int((left & met).sum())
            left &= ~met
        rows, rows_inside = rows + batch.num_rows, rows_inside + int(left.sum())
        users.append(batch["user"].unique())
        users_inside.append(batch["user"].filter(pa.array(left)).unique())
    return Coverage(
        rows=rows,
        rows_inside=rows_inside,
        users=_distinct(users),
        users_inside=_distinct(users_inside),
        outside=outside,
    )


def _distinct(parts: list[pa.Array]) -> int:
    return len(pa.chunked_array(parts).unique()) if parts else 0


def _reasons(batch: pa.RecordBatch, geography: Geography | None, window_us: tuple[int, int] | None):
    """Each reason that can apply, with the rows that it applies to, in the order of counting."""
    if window_us is not None:
        time_us = batch["time_us"].to_numpy()
        yield "before the window", time_us < window_us[0]
        yield "after the window", time_us >= window_us[1]
    if geography is None:
        return
    place = next(iter(geography.place([batch])))["site"].to_numpy()
    if geography.sites is not None:
        lost = np.asarray(geography.weights.matrix.sum(axis=0)).ravel() == 0
        yield "at sites whose cells lie outside the zones", lost[place]
        return
    x, y = batch["x"].to_numpy(), batch["y"].to_numpy()
    away = place < 0
    yield "at 0,0", away & (x == 0) & (y == 0)
    swapped = np.zeros(len(away), bool)
    swapped[away] = geography.zones.locate(y[away], x[away]) >= 0
    yield "outside the zones, and inside with longitude and latitude swapped", swapped
    yield "outside the zones", away
