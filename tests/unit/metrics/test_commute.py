"""Figures of commutes: by hand, and against scipy."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from shoal.metrics.commute import SiteEvents, commute_figures, commute_km, emd_line, jsd, lives_of
from shoal.space.clock import Clock
from shoal.space.setting import CommuteSetting

ZONE = "Europe/Paris"
XY = np.array([[0.0, 0.0], [3000.0, 0.0], [0.0, 4000.0]])
SETTING = CommuteSetting(site_xy_m=XY, clock=Clock.week("2026-03-02", ZONE), regions=3)


def at(day, hour):
    return int(datetime(2026, 3, day, hour, 30, tzinfo=ZoneInfo(ZONE)).timestamp() * 1e6)


def events(rows):
    user, time_us, site = (np.array(column) for column in zip(*rows, strict=True))
    return SiteEvents(user=user, time_us=time_us, site=site)


ROWS = [
    *((4, at(2, 22), 1), (4, at(3, 6), 1), (4, at(4, 23), 0), (4, at(3, 10), 2)),  # lives at 1, works at 2
    *(
        (9, at(7, 19), 2),
        (9, at(8, 20), 0),
        (9, at(8, 12), 0),
        (9, at(2, 9), 0),
    ),  # a tie at night: 0 has more
    *(
        (5, at(7, 11), 1),
        (5, at(1, 23), 2),
        (5, at(9, 0), 2),
        (5, at(3, 3), -1),
    ),  # outside the window, no site
    (6, at(2, 16), 1),  # no night
]


def test_homes_and_works_by_hand():
    lives = lives_of(events(ROWS), SETTING)  # users 4, 5, 6, 9
    assert lives.home.tolist() == [1, -1, -1, 0]
    assert lives.work.tolist() == [2, -1, 1, 0]
    assert lives.calls.tolist() == [4, 1, 1, 4]
    assert commute_km(lives, SETTING).tolist() == [5.0, 0.0]
    assert lives.maps.sum() == 10
    assert lives.maps[1, 22] == 1
    assert lives.maps[1, 24 + 11] == 1


def test_the_same_events_have_no_error_and_others_have():
    one = events(ROWS)
    order = np.random.default_rng(0).permutation(len(ROWS))
    renamed = SiteEvents(user=one.user[order] + 100, time_us=one.time_us[order], site=one.site[order])
    same = commute_figures(one, renamed, SETTING)
    assert all(value == pytest.approx(0, abs=1e-12) for value in same.values())
    moved = events([(user, time, (site + 1) % 3 if user == 4 else site) for user, time, site in ROWS])
    figures = commute_figures(one, moved, SETTING)
    assert figures["commute_emd_km"] == pytest.approx((5 - 4) / 2)  # user 4 now lives at 2 and works at 0
    assert figures["hours_error"] == pytest.approx(0)
    assert figures["homes_jsd"] == pytest.approx(0.5)
    assert figures["hours_emd_km"] > 0


def test_hours_error_by_hand_and_nobody_is_no_number():
    one, two = events([(1, at(2, 8), 0), (1, at(2, 9), 0)]), events([(1, at(2, 8), 0), (1, at(2, 10), 0)])
    figures = commute_figures(one, two, SETTING)
    assert figures["hours_error"] == pytest.approx(1 / 24)
    assert figures["hours_week_error"] == pytest.approx(1 / 48)
    lonely = events([(1, at(2, 12), 0)])
    figures = commute_figures(events(ROWS), lonely, SETTING)
    assert np.isnan(figures["commute_emd_km"])
    assert np.isnan(figures["homes_jsd"])


def test_distances_against_sorted_samples_and_scipy():
    generator = np.random.default_rng(1)
    for _ in range(20):
        one, two = generator.gamma(2, 1, 12), generator.gamma(2, 2, 6)
        apart = np.abs(np.sort(one) - np.repeat(np.sort(two), 2))  # the cheapest way to pair them up
        assert emd_line(one, two) == pytest.approx(apart.mean())
        p, q = generator.integers(0, 9, 12) + 0.1, generator.integers(0, 9, 12)
        if q.sum():
            assert jsd(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2)
