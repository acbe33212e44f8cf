import json
from dataclasses import replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.events.simulate import PRESETS, preset_named


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
