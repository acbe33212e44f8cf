"""A clock of slots: which UTC instants begin a slot of the local wall clock.

Rule         a slot begins at every instant whose wall clock is a multiple of `slot_minutes` since local
             midnight, and at the first instant of a local day whose midnight does not exist.
Autumn       up to 60 minutes, a repeated hour gives two slots, told apart by the offset in their label;
             above 60 minutes the second occurrence begins no slot, so one slot lasts longer.
Spring       the missing hour gives no slot.
Public       everything here: the window is configured, never read off events.

>>> clock = Clock.week("2026-03-23", "Europe/Paris")  # the clocks go forward on Sunday the 29th
>>> clock.slots, clock.starts_local()[0]
(167, '2026-03-23T00:00+01:00')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from shoal.errors import PlanError

MINUTE_US = 60_000_000
DAY_US = 1440 * MINUTE_US
MAX_SLOTS = 1_000_000  # public; two years of minutes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLE_US = 3 * 60 * MINUTE_US  # no zone changes twice within 3 hours


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Slots of `slot_minutes` from `start` to `end` (exclusive), both on the wall clock of `time_zone`.

    `start` and `end` may be given as datetimes without offset, as dates, or as ISO strings.
    An ambiguous start or end means its first occurrence, so that windows that touch share no instant.
    """

    start: datetime
    end: datetime
    time_zone: str
    slot_minutes: int = 60

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _naive(self.start, "start"))
        object.__setattr__(self, "end", _naive(self.end, "end"))
        _check_slot_minutes(self.slot_minutes)
        _zone(self.time_zone)
        if self.end <= self.start:
            raise PlanError(
                "clock-window",
                f"the window must end after it starts; got {self.start} to {self.end}.",
                "The end is exclusive: a week from 2026-03-02 ends at 2026-03-09.",
            )
        _check_length(self.end - self.start, self.slot_minutes)
        if not self.slots:  # start and end are one instant; also refuses edges that cannot be computed
            raise PlanError(
                "clock-slots",
                f"the window must hold a slot; the clocks of {self.time_zone} skipped all of {self.start} to "
                f"{self.end}.",
                "Choose a later end.",
            )

    @classmethod
    def week(cls, first_day: str | date, time_zone: str, *, slot_minutes: int = 60) -> Clock:
        """Seven local days from midnight of `first_day`."""
        start = _naive(first_day, "start")
        return cls(start=start, end=start + timedelta(days=7), time_zone=time_zone, slot_minutes=slot_minutes)

    @cached_property
    def edges_us(self) -> np.ndarray:
        """int64 [slots + 1]: where each slot begins and the last one ends, UTC microseconds, increasing."""
        edges = _edges(self.start, self.end, self.time_zone, self.slot_minutes)
        edges.flags.writeable = False
        return edges

    @property
    def slots(self) -> int:
        return len(self.edges_us) - 1

    @property
    def starts_utc_us(self) -> np.ndarray:
        return self.edges_us[:-1]

    def slot_of(self, time_us: np.ndarray) -> np.ndarray:
        """int32: the slot of each instant, -1 outside the window."""
        slot = np.searchsorted(self.edges_us, np.asarray(time_us, np.int64), side="right") - 1
        return np.where(slot < self.slots, slot, -1).astype(np.int32)

    def starts_local(self) -> list[str]:
        """Labels such as 2026-10-25T02:00+01:00, one per slot, never two the same."""
        return [moment.isoformat(timespec="minutes") for moment in self._local_starts]

    @property
    def minutes(self) -> np.ndarray:
        """float64 [slots]: how long each slot lasts; they differ around a change of the clocks."""
        return np.diff(self.edges_us) / MINUTE_US

    @property
    def offset_hours(self) -> float:
        """Offset of the clock from UTC at the start of the window."""
        return (
            self.start.replace(tzinfo=None) - _utc(int(self.edges_us[0])).replace(tzinfo=None)
        ) / timedelta(hours=1)

    @property
    def hours_local(self) -> np.ndarray:
        """float64 [slots]: wall-clock hour of day at which each slot begins (13.5 is half past one)."""
        return np.array([m.hour + m.minute / 60 + m.second / 3600 for m in self._local_starts])

    @property
    def days(self) -> list[str]:
        """The local days that slots begin in, in order."""
        return list(dict.fromkeys(m.date().isoformat() for m in self._local_starts))

    @property
    def day_of_slot(self) -> np.ndarray:
        """int32 [slots]: index into `days`."""
        index = {day: i for i, day in enumerate(self.days)}
        return np.array([index[m.date().isoformat()] for m in self._local_starts], np.int32)

    @cached_property
    def _local_starts(self) -> list[datetime]:
        zone = _zone(self.time_zone)
        return [_utc(int(us)).astimezone(zone) for us in self.starts_utc_us]


def slot_label(start: datetime) -> str:
    """A slot's start for readers, with the offset so that a repeated hour is unambiguous.

    >>> slot_label(datetime.fromisoformat("2026-03-02T08:00:00+01:00"))
    'Mon 2 Mar 2026, 08:00 (UTC+01:00)'
    """
    offset = f" ({start.tzname()})" if start.tzinfo else ""
    return f"{start:%a} {start.day} {start:%b %Y, %H:%M}{offset}"


def slot_word(starts: list[datetime]) -> str:
    """What to call a slot: hour, day, or its length in minutes.

    >>> slot_word([datetime(2026, 3, 2, 0), datetime(2026, 3, 2, 0, 30)])
    '30-minute slot'
    """
    if len(starts) < 2:
        return "slot"
    minutes = round((starts[1] - starts[0]).total_seconds() / 60)
    return {60: "hour", 1440: "day"}.get(minutes, f"{minutes}-minute slot")


def day_ticks(starts: list[datetime], most: int = 8) -> dict[str, list]:
    """Ticks of a slot axis: days where there are at least two, else hours; at most `most` of them.

    Slot numbers rather than clock times on the axis: an hour repeated in autumn keeps its own place.
    """
    days = [slot for slot, start in enumerate(starts) if slot == 0 or start.date() != starts[slot - 1].date()]
    if len(days) > 2:
        chosen = days[:: -(-len(days) // most)]
        return {
            "slots": chosen,
            "texts": [f"{starts[slot]:%a} {starts[slot].day} {starts[slot]:%b}" for slot in chosen],
        }
    chosen = list(range(0, len(starts), -(-len(starts) // most)))
    form = "%H:%M" if len(days) == 1 and len(starts) > 1 else "%a %H:%M"
    return {"slots": chosen, "texts": [starts[slot].strftime(form) for slot in chosen]}


HOUR_KINDS = 48  # hour of day, 24 more on weekends


def hour_kinds(clock: Clock) -> np.ndarray:
    """int64 [slots]: hour of day, 24 more on weekends."""
    weekend = ~np.is_busday(np.array(clock.days, "datetime64[D]"))
    return clock.hours_local.astype(np.int64) + 24 * weekend[clock.day_of_slot]


def instant_us(moment: str, time_zone: str) -> int:
    """UTC microseconds of a start or an end of a window, given as text on the wall clock."""
    return _instant(_naive(moment, "window"), _zone(time_zone))


def window_of(public: Mapping[str, Any]) -> tuple[int, int]:
    """UTC microseconds of the start and the end of a window, as public parameters state it."""
    start, end = public["window"]["start"], public["window"]["end"]
    return instant_us(start, public["time_zone"]), instant_us(end, public["time_zone"])


def _check_length(window: timedelta, slot_minutes: int) -> None:
    """Refuse a window of too many slots before they are made."""
    slots = window // timedelta(minutes=slot_minutes)
    if slots > MAX_SLOTS:
        raise PlanError(
            "clock-slots",
            f"the window has {slots:,} slots of {slot_minutes} minutes; at most {MAX_SLOTS:,} are allowed.",
            "Choose longer slots or a shorter window.",
        )


def _edges(start: datetime, end: datetime, time_zone: str, slot_minutes: int) -> np.ndarray:
    """All slot edges from `start` to `end` inclusive, from the stretches of constant offset around them."""
    zone = _zone(time_zone)
    slot_us = slot_minutes * MINUTE_US
    first_us, last_us = _instant(start, zone), _instant(end, zone)
    pieces = []
    wall_reached = None  # wall clock at the end of the stretch before
    for begin_us, until_us, offset_us in stretches(first_us - 2 * DAY_US, last_us + 2 * DAY_US, zone):
        wall_begin, wall_until = begin_us + offset_us, until_us + offset_us
        wall_first = -(-wall_begin // slot_us) * slot_us
        if wall_reached is not None and wall_reached < wall_begin:  # clocks went forward
            midnight = -(-wall_reached // DAY_US) * DAY_US
            if midnight < wall_begin:  # midnight was skipped: the day begins with the stretch
                pieces.append(np.array([begin_us], np.int64))
        elif wall_reached is not None and slot_minutes > 60:  # clocks went back: no edge twice
            wall_first = max(wall_first, -(-wall_reached // slot_us) * slot_us)
        pieces.append(np.arange(wall_first, wall_until, slot_us, dtype=np.int64) - offset_us)
        wall_reached = wall_until if wall_reached is None else max(wall_reached, wall_until)
    edges = np.unique(np.concatenate(pieces))
    for name, moment, us in (("start", start, first_us), ("end", end, last_us)):
        if us not in edges:
            raise PlanError(
                "clock-alignment",
                f"the {name} must be a slot edge; {moment} in {time_zone} begins no slot of "
                f"{slot_minutes} minutes.",
                "Choose local midnight, or a time that is a multiple of the slot length and not skipped by "
                "a change of the clocks.",
            )
    return edges[(edges >= first_us) & (edges <= last_us)]


def stretches(
    first_us: int, last_us: int, zone: ZoneInfo, sample_us: int = _SAMPLE_US
) -> list[tuple[int, int, int]]:
    """(begin, until, offset) in microseconds: the stretches of constant UTC offset that cover the window.

    Offsets are compared every `sample_us`, within which a zone must not change twice.
    """
    parts = []
    begin, offset = first_us, _offset_us(first_us, zone)
    for us in range(first_us, last_us + sample_us, sample_us):
        if _offset_us(us, zone) == offset:
            continue
        low, high = us - sample_us, us
        while high - low > 1:  # the change is in (low, high]
            middle = (low + high) // 2
            low, high = (middle, high) if _offset_us(middle, zone) == offset else (low, middle)
        parts.append((begin, high, offset))
        begin, offset = high, _offset_us(high, zone)
    parts.append((begin, last_us + sample_us, offset))
    return parts


def _instant(wall: datetime, zone: ZoneInfo) -> int:
    """UTC microseconds of a wall clock time: its first occurrence, or the end of the gap that skips it."""
    us = _microseconds(wall.replace(tzinfo=zone, fold=0).astimezone(UTC))
    shown = _utc(us).astimezone(zone).replace(tzinfo=None)
    if shown == wall:
        return us
    # In a gap, fold=0 uses the offset before it, so `us` lies after the end of the gap.
    earlier = _microseconds(wall.replace(tzinfo=zone, fold=1).astimezone(UTC))
    for begin, _, _ in stretches(earlier - MINUTE_US, us + MINUTE_US, zone)[1:]:
        return begin
    return us


def _offset_us(us: int, zone: ZoneInfo) -> int:
    offset = _utc(us).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)


def _utc(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):  # ZoneInfoNotFoundError is a KeyError
        raise PlanError(
            "time-zone",
            f"the time zone must be an IANA name; got {name!r}.",
            'Pass a name such as "Europe/Paris" or "UTC".',
        ) from None


def _naive(moment: datetime | date | str, name: str) -> datetime:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise PlanError(
                "clock-time",
                f"the {name} must be a local date or time; got {moment!r}.",
                "Write 2026-03-02 or 2026-03-02T06:00.",
            ) from None
    if not isinstance(moment, date):
        raise PlanError("clock-time", f"the {name} must be a local date or time; got {moment!r}.")
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        raise PlanError(
            "clock-offset",
            f"the {name} is read on the local clock and takes no offset; got {moment.isoformat()}.",
            "Leave the offset away and name the time zone instead.",
        )
    if not 1900 <= moment.year <= 2200:
        raise PlanError("clock-range", f"the {name} must lie in the years 1900 to 2200; got {moment.year}.")
    return moment.replace(fold=0)


def _check_slot_minutes(slot_minutes: int) -> None:
    whole = isinstance(slot_minutes, int) and not isinstance(slot_minutes, bool)
    if not whole or not 1 <= slot_minutes <= 1440 or 1440 % slot_minutes:
        raise PlanError(
            "slot-minutes",
            f"slot_minutes must be a whole number that divides 1440; got {slot_minutes!r}.",
            "Use 15, 30, 60, 120 or 1440, say.",
        )
