"""The public setting of commutes: parts of the day by the local clock, refused plans, the plane of sites."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.space.clock import Clock
from shoal.space.places import Sites
from shoal.space.setting import CommuteSetting, commute_setting

XY = np.array([[0.0, 0.0], [3000.0, 0.0], [0.0, 4000.0]])


def test_parts_follow_the_local_clock_where_it_changes():
    clock = Clock.week("2026-03-23", "Europe/Paris")  # Sunday the 29th has 23 hours
    setting = CommuteSetting(site_xy_m=XY, clock=clock)
    for slot, us in enumerate(clock.starts_utc_us):
        local = datetime.fromtimestamp(us / 1e6, ZoneInfo("Europe/Paris"))
        weekend, night = local.weekday() >= 5, local.hour in (19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6)
        part = 0 if night else 3 if weekend else 1 if local.hour in range(9, 17) else 2
        assert setting.part_of_slot[slot] == part
        assert setting.kind_of_slot[slot] == local.hour + 24 * weekend


def test_classes_of_distance_cover_the_city():
    setting = CommuteSetting(site_xy_m=XY, clock=Clock.week("2026-03-02", "UTC"), distances=4)
    assert setting.distance_ends_m.tolist() == [5000 / 16, 5000 / 4, 5000 * 9 / 16]


@for_each(
    ("code", "changed"),
    [
        ("site-list", {"site_xy_m": np.zeros((0, 2))}),
        ("site-list", {"site_xy_m": np.array([[0.0, np.nan]])}),
        ("commute-classes", {"regions": 0}),
        ("commute-classes", {"distances": 1}),
        ("slot-minutes", {"clock": Clock.week("2026-03-02", "UTC", slot_minutes=120)}),
    ],
)
def test_what_cannot_be_is_refused(code, changed):
    with pytest.raises(PlanError, match=code):
        CommuteSetting(**{"site_xy_m": XY, "clock": Clock.week("2026-03-02", "UTC"), **changed})


def test_sites_are_put_on_a_plane_in_metres():
    sites = Sites(ids=("a", "b", "c"), x=np.array([5.0, 5.0, 5.01]), y=np.array([47.0, 47.01, 47.0]))
    xy = commute_setting(sites, Clock.week("2026-03-02", "UTC"), regions=2).site_xy_m
    degree_m = 2 * np.pi * 6_371_000 / 360
    assert np.hypot(*(xy[0] - xy[1])) == pytest.approx(0.01 * degree_m, rel=0.005)
    east = 0.01 * degree_m * np.cos(np.radians(47))
    assert np.hypot(*(xy[0] - xy[2])) == pytest.approx(east, rel=0.005)
