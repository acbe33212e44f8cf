"""Offsets per local day against the standard library, moment by moment."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.loops import for_each, tiers

from shoal.events.normalise import DAY_US, zone_days
from shoal.events.schema import FIRST_US, LAST_US
from shoal.space.clock import stretches

EPOCH = datetime(1970, 1, 1)


def from_table(rows, local: datetime):
    """UTC by the table: a time, "fold" or "gap"."""
    at = (local - EPOCH) // timedelta(microseconds=1)
    row = rows[at // DAY_US]
    if row["lo_us"] <= at < row["hi_us"]:
        return "fold" if row["fold"] else "gap"
    offset = row["before_us"] if at < row["lo_us"] else row["after_us"]
    return EPOCH + timedelta(microseconds=at - offset)


def from_library(zone: ZoneInfo, local: datetime):
    """UTC by zoneinfo: both readings of the local time must agree and lead back to it."""
    readings = [local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    fitting = {each for each in readings if each.astimezone(zone).replace(tzinfo=None) == local}
    if len(fitting) == 1:
        return fitting.pop().replace(tzinfo=None)
    return "fold" if fitting else "gap"


ZONES = [
    *("Europe/Paris", "America/Los_Angeles", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata"),
    *("Pacific/Apia", "Africa/Casablanca", "Atlantic/Azores", "Africa/Monrovia", "Etc/GMT+12"),
]


@pytest.mark.parametrize("minutes_apart", tiers([25, 145], (145,)))
@for_each("name", ZONES)
def test_every_change_of_a_zone_agrees_with_the_standard_library(name, minutes_apart):
    zone = ZoneInfo(name)
    table = zone_days(name)
    rows = {row["day"]: row for row in table.to_pylist()}
    changes = [at for at, _, _ in stretches(FIRST_US, LAST_US, zone, DAY_US)[1:]]
    assert changes or name in ("Etc/GMT+12", "Asia/Kolkata")
    ordinary = [at * DAY_US for at in range(1, 47_000, 1997)]
    for at in [*changes[:40], *changes[-4:], *ordinary]:
        moment = EPOCH + timedelta(microseconds=at)
        for minutes in range(-36 * 60, 36 * 60, minutes_apart):
            local = moment + timedelta(minutes=minutes)
            if EPOCH <= local < datetime(2100, 1, 1):
                assert from_table(rows, local) == from_library(zone, local), local
