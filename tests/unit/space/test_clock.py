from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.clock import Clock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def brute_force_edges(start: str, end: str, time_zone: str, slot_minutes: int) -> list[int]:
    """Walk every UTC minute, look at the wall clock, apply the rule as it is written."""
    zone = ZoneInfo(time_zone)
    first, last = datetime.fromisoformat(start), datetime.fromisoformat(end)
    minute = first.replace(tzinfo=UTC) - timedelta(hours=30)
    edges, seen, day_before = [], set(), None
    while minute < last.replace(tzinfo=UTC) + timedelta(hours=30):
        wall = minute.astimezone(zone).replace(tzinfo=None, fold=0)
        multiple = (wall.hour * 60 + wall.minute) % slot_minutes == 0
        new_day_without_midnight = day_before is not None and wall.date() > day_before and not multiple
        repeated = slot_minutes > 60 and wall in seen
        if (multiple or new_day_without_midnight) and not repeated and first <= wall <= last:
            edges.append((minute - EPOCH) // timedelta(microseconds=1))
            seen.add(wall)
        day_before = wall.date() if day_before is None else max(day_before, wall.date())
        if wall == last:
            break  # the first occurrence of the end closes the window
        minute += timedelta(minutes=1)
    return edges


WINDOWS = [
    ("2026-03-27", "2026-03-31", "Europe/Paris"),  # forward
    ("2026-10-23", "2026-10-27", "Europe/Paris"),  # back
    ("2026-04-03", "2026-04-07", "Australia/Lord_Howe"),  # back by 30 minutes
    ("2026-10-02", "2026-10-06", "Australia/Lord_Howe"),  # forward by 30 minutes
    ("2026-06-01", "2026-06-03", "Asia/Kathmandu"),  # +05:45
    ("2018-11-02", "2018-11-06", "America/Sao_Paulo"),  # midnight does not exist
    ("2018-02-16", "2018-02-20", "America/Sao_Paulo"),  # 23:00 comes twice
    ("2026-10-30", "2026-11-03", "America/Havana"),  # midnight comes twice
    ("2026-06-01", "2026-06-03", "UTC"),
]


@for_each("slot_minutes", [15, 20, 60, 90, 120, 720, 1440])
@for_each(("start", "end", "time_zone"), WINDOWS)
def test_edges_against_a_walk_over_minutes(start, end, time_zone, slot_minutes):
    clock = Clock(start=start, end=end, time_zone=time_zone, slot_minutes=slot_minutes)
    assert clock.edges_us.tolist() == brute_force_edges(start, end, time_zone, slot_minutes)
    assert (np.diff(clock.edges_us) > 0).all()
    assert len(set(clock.starts_local())) == clock.slots


def test_days_without_midnight_and_hours_that_come_twice():
    clock = Clock(start="2018-11-03", end="2018-11-06", time_zone="America/Sao_Paulo", slot_minutes=1440)
    assert clock.starts_local()[1] == "2018-11-04T01:00-02:00"
    assert clock.minutes.tolist() == [1440, 1380, 1440]
    clock = Clock(start=date(2026, 10, 24), end=datetime(2026, 10, 26), time_zone="Europe/Paris")
    assert clock.days == ["2026-10-24", "2026-10-25"]
    assert np.bincount(clock.day_of_slot).tolist() == [24, 25]
    assert clock.hours_local[24:29].tolist() == [0, 1, 2, 2, 3]
    clock = Clock(start="2025-01-01", end="2027-01-01", time_zone="Europe/Paris", slot_minutes=1440)
    assert clock.slots == 730
    assert sorted(set(clock.minutes.tolist())) == [1380, 1440, 1500]
    assert (clock.minutes != 1440).sum() == 4


@for_each("day", ["2018-11-04", "2026-10-25", "2026-03-29"])
@for_each("time_zone", ["America/Sao_Paulo", "Europe/Paris", "America/Havana"])
def test_windows_that_touch_share_one_edge(day, time_zone):
    middle = datetime.fromisoformat(day)
    before = Clock(start=middle - timedelta(days=1), end=middle, time_zone=time_zone)
    after = Clock(start=middle, end=middle + timedelta(days=1), time_zone=time_zone)
    assert before.edges_us[-1] == after.edges_us[0]


def test_slots_at_edges_and_a_century_of_minutes(monkeypatch):
    clock = Clock.week("2026-10-19", "Europe/Paris")
    edges = clock.edges_us
    assert clock.slot_of(edges).tolist() == [*range(169), -1]
    assert clock.slot_of(edges - 1).tolist() == [-1, *range(169)]
    assert clock.slot_of(np.array([], np.int64)).dtype == np.int32
    monkeypatch.setattr("shoal.space.clock._edges", None)
    with pytest.raises(PlanError, match="clock-slots: the window has 52,596,000 slots of 1 minutes"):
        Clock(start="2000-01-01", end="2100-01-01", time_zone="Europe/Paris", slot_minutes=1)


BAD = {
    "slot-minutes": [
        {"slot_minutes": 7},
        {"slot_minutes": 0},
        {"slot_minutes": 60.0},
        {"slot_minutes": 2880},
    ],
    "time-zone": [{"time_zone": "Europe/Pariss"}, {"time_zone": "../etc/passwd"}, {"time_zone": ""}],
    "clock-window": [{"end": "2026-03-02"}, {"end": "2026-03-01"}],
    "clock-slots": [  # Samoa had no 30 December
        {"start": "2011-12-30", "end": "2011-12-31", "time_zone": "Pacific/Apia", "slot_minutes": 1440}
    ],
    "clock-time": [{"start": "2 March"}, {"start": 5}],
    "clock-offset": [{"start": "2026-03-02T00:00+01:00"}],
    "clock-range": [{"start": "0001-01-01"}, {"end": "9999-12-31"}],
    "clock-alignment": [
        {"start": "2026-03-02T00:30"},
        {"start": "2026-03-02T01:00", "slot_minutes": 120},
        {"start": "2026-03-29T02:00", "end": "2026-03-30", "slot_minutes": 120},
    ],
}


@for_each(("code", "change"), [(code, change) for code in BAD for change in BAD[code]])
def test_bad_clocks(code, change):
    good = {"start": "2026-03-02", "end": "2026-03-09", "time_zone": "Europe/Paris", "slot_minutes": 60}
    with pytest.raises(PlanError, match=code):
        Clock(**{**good, **change})
