"""How many records, at which local hours; and the random streams they are drawn from."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from scipy.stats import chisquare, kstest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.events.simulate import PRESETS, preset_named
from shoal.events.simulate.people import normal, open_stream, pick, uniform, user_id
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


def draws(make, n=20_000, seed=5):
    state = np.empty(1, np.uint64)
    open_stream(state, seed, 17, 2, 3)
    return np.array([make(state) for _ in range(n)])


def test_draws_have_their_distributions_and_start_again_at_the_same_point():
    assert kstest(draws(uniform), "uniform").pvalue > 1e-4
    assert kstest(draws(normal), "norm").pvalue > 1e-4
    chance = np.array([0.5, 0.0, 0.2, 0.3])
    found = np.bincount(draws(lambda state: pick(state, np.cumsum(chance))), minlength=4)
    assert found[1] == 0
    assert chisquare(found[[0, 2, 3]], 20_000 * chance[[0, 2, 3]]).pvalue > 1e-4
    assert np.array_equal(draws(uniform, 50), draws(uniform, 50))
    assert not np.array_equal(draws(uniform, 50), draws(uniform, 50, seed=6))


def test_streams_and_user_ids_are_unrelated():
    state = np.empty(1, np.uint64)
    firsts = []
    for user in range(20_000):
        open_stream(state, 5, user, 0, 1)
        firsts.append(uniform(state))
    assert kstest(firsts, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(firsts[:-1], firsts[1:])[0, 1]) < 5 / np.sqrt(20_000)
    ids = np.array([user_id(i, 9) for i in range(50_000)])
    assert len(np.unique(ids)) == len(ids)
    assert ids.min() >= 0
    assert ids.max() < 2**40
    assert abs(np.corrcoef(np.arange(len(ids)), ids)[0, 1]) < 0.05


def test_no_clock_change_inside_a_preset_window():
    for preset in PRESETS.values():
        zone = ZoneInfo(preset.time_zone)
        assert preset.start.weekday() == 0
        offsets = {
            zone.utcoffset(datetime(day.year, day.month, day.day)) for day in (preset.start, preset.end)
        }
        assert len(offsets) == 1, preset.name


def test_presets_go_through_json_and_unknown_ones_list_the_known():
    row = json.loads(json.dumps(PRESETS["tfl"].as_json()))
    assert row["start"] == "2026-02-02"
    assert row["what"] == ["transit"]
    with pytest.raises(PlanError, match="town, paris"):
        preset_named("london")


@for_each(
    "change",
    [
        {"users": 0},
        {"weeks": 0},
        {"weeks": 105},
        {"sites": 7000},
        {"start": date(2026, 3, 3)},
        {"visits_mean": 1.0},
        {"area_km2": 0.0},
        {"zone_pieces": 0},
        {"rush": 0.5},
        {"concert": 0.6},
        {"what": ()},
        {"what": ("events", "rumours")},
    ],
)
def test_a_preset_that_makes_no_sense_is_refused(change):
    with pytest.raises(PlanError):
        replace(PRESETS["town"], **change)
