from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from shoal.errors import PlanError
from shoal.events.simulate import PRESETS
from shoal.events.simulate.rhythm import count_running, hour_starts


@pytest.mark.parametrize(
    ("mean", "sd", "largest"), [(13.55, 18.33, 732), (151.2, 99.4, 6088), (3.0, 2.0, 40)]
)
def test_visit_numbers_have_the_wanted_mean_sd_and_maximum(mean, sd, largest):
    chance = np.diff(count_running(mean, sd, largest), prepend=0)
    visits = np.arange(1, largest + 1)
    assert chance.min() >= 0
    assert len(chance) == largest
    assert chance.sum() == pytest.approx(1)
    assert chance @ visits == pytest.approx(mean, rel=1e-3)
    assert np.sqrt(chance @ (visits - chance @ visits) ** 2) == pytest.approx(sd, rel=1e-3)


def test_paris_users_nearly_reach_the_printed_maximum():
    table = count_running(13.55, 18.33, 732)
    beyond = 1_992_846 * (1 - table[660 - 1])  # users with more than 660 visits
    assert 3 < beyond < 100


def test_impossible_visit_numbers_are_refused():
    with pytest.raises(PlanError, match="simulate-visits"):
        count_running(13.55, 400.0, 732)


def test_local_hours_are_right_when_clocks_go_forward():
    starts = hour_starts(replace(PRESETS["town"], weeks=5))  # Paris goes to summer time on 29 March 2026

    def at(day_of_window, hour):
        return datetime.fromtimestamp(int(starts[24 * day_of_window + hour]), UTC).isoformat()

    assert at(0, 0) == "2026-03-01T23:00:00+00:00"
    assert at(27, 1) == "2026-03-29T00:00:00+00:00"
    assert at(27, 3) == "2026-03-29T01:00:00+00:00"
    assert at(28, 0) == "2026-03-29T22:00:00+00:00"
