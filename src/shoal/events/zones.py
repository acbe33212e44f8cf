"""Offsets of a time zone per local day, so that naive local times become UTC by a plain join.

A local time that a clock shows twice (autumn) is ambiguous, one it never shows (spring) does not exist. Both
are bad rows: any silent choice would move people by an hour.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from shoal.errors import PlanError
from shoal.events.schema import FIRST_US, LAST_US

DAY_US = 86_400_000_000


@lru_cache(maxsize=8)
def zone_days(time_zone: str) -> pa.Table:
    """One row per local day: offset before and after the day's change, and the odd stretch between.

    A local time before `lo_us` has offset `before_us`, from `hi_us` on it has `after_us`; in between it is
    ambiguous (`fold` true) or does not exist. On ordinary days `lo_us = hi_us = 0`.
    """
    changes = offset_changes(time_zone)
    days = np.arange(FIRST_US // DAY_US - 1, LAST_US // DAY_US + 2)
    first = changes[0][1] if changes else offset_us(ZoneInfo(time_zone), FIRST_US)
    offsets = np.array([first, *(new for _, _, new in changes)], dtype=np.int64)
    # A local time comes after a change once it is past the odd stretch; no ordinary day holds one.
    passed = np.array([at + max(old, new) for at, old, new in changes], dtype=np.int64)
    offset = offsets[np.searchsorted(passed, days * DAY_US + DAY_US // 2, side="right")]
    table = {"day": days, "lo_us": np.zeros_like(days), "hi_us": np.zeros_like(days)}
    table |= {"before_us": offset.copy(), "after_us": offset.copy(), "fold": np.zeros(len(days), dtype=bool)}
    for at, old, new in changes:
        lo, hi = at + min(old, new), at + max(old, new)
        for day in range(lo // DAY_US, (hi - 1) // DAY_US + 1):
            row = day - days[0]
            table["lo_us"][row], table["hi_us"][row] = lo, hi
            table["before_us"][row], table["after_us"][row] = old, new
            table["fold"][row] = new < old
    return pa.table(table)


def offset_changes(time_zone: str) -> list[tuple[int, int, int]]:
    """Moments (UTC, us) at which the offset changes, with the offset before and after."""
    zone = checked_zone(time_zone)
    changes = []
    old = offset_us(zone, FIRST_US - DAY_US)
    for start in range(FIRST_US - DAY_US, LAST_US + DAY_US, DAY_US):
        new = offset_us(zone, start + DAY_US)
        if new != old:
            changes.append((change_between(zone, start, start + DAY_US, old), old, new))
            old = new
    return changes


def change_between(zone: ZoneInfo, lo: int, hi: int, old: int) -> int:
    """The first whole second in (lo, hi] at which the offset is no longer `old`."""
    lo, hi = lo // 1_000_000, hi // 1_000_000
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if offset_us(zone, middle * 1_000_000) == old:
            lo = middle
        else:
            hi = middle
    return hi * 1_000_000


def offset_us(zone: ZoneInfo, time_us: int) -> int:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    offset = moment.astimezone(zone).utcoffset() or timedelta()
    return offset // timedelta(microseconds=1)


def checked_zone(time_zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise PlanError(
            "unknown-time-zone",
            f'no time zone is called "{time_zone}".',
            'Use a name of the tz database, as "Europe/Paris" or "UTC".',
        ) from None
