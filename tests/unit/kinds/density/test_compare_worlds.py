"""The simulated city of a comparison lies on the plan's map and window, or says why not."""

import json

import numpy as np
import pytest

from shoal.errors import PlanError
from shoal.kinds.density.compare import MOST_USERS, compare, simulated_world
from shoal.kinds.density.plan import METHODS, ComparePlan
from shoal.space.clock import Clock


def zones_file(folder, scale):
    squares = []
    for i in range(3):
        x, y = (2.3 + 0.01 * i, 48.8) if scale == "degrees" else (1000.0 * i, 0.0)
        size = 0.01 if scale == "degrees" else 1000.0
        ring = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]
        geometry = {"type": "Polygon", "coordinates": [ring]}
        squares.append({"type": "Feature", "properties": {"zone": f"Z{i}"}, "geometry": geometry})
    path = folder / f"{scale}.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": squares}))
    return str(path)


def test_own_zones_and_window_are_used(tmp_path):
    window = {"start": "2026-03-04", "end": "2026-03-06", "time_zone": "America/New_York", "slot_minutes": 30}
    world = simulated_world(
        {"space": {"zones": zones_file(tmp_path, "degrees")}, "window": window}, users=80, seed=3
    )
    assert world.zones.ids == ("Z0", "Z1", "Z2")
    assert world.counting.setting.clock == Clock(**window)
    people = world.counting.people()
    assert people.shape == (3, 96)
    assert 80 < people.sum() < 80 * 13.55  # two days of seven
    assert not world.private
    assert any("13.55 visits a week" in words for words in world.assumptions)


def test_planar_zones_have_no_city_of_their_own_and_it_says_so(tmp_path):
    space = {"zones": zones_file(tmp_path, "metres"), "zones_crs": "planar"}
    world = simulated_world({"space": space}, users=50)
    assert world.zones.count == 120  # the town's
    assert any("no place on the globe" in words for words in world.assumptions)


def test_an_undeclared_population_is_bounded_and_said(monkeypatch):
    made = {}

    def stop(preset, *args, **kwargs):
        made["users"] = preset.users
        raise PlanError("stop", "far enough.")

    monkeypatch.setattr("shoal.kinds.density.compare.simulate_in_memory", stop)
    with pytest.raises(PlanError):
        simulated_world({}, city="paris")
    assert made["users"] == MOST_USERS


def test_bad_settings_are_said_as_in_a_plan():
    with pytest.raises(PlanError, match="one kind of zones"):
        simulated_world({"space": {"sites": "x.csv"}}, users=50)
    with pytest.raises(PlanError, match="does not state its window"):
        simulated_world({"window": {"start": "2026-03-02"}}, users=50)


def test_events_are_counted_once_for_all_methods_and_repetitions(tmp_path, monkeypatch):
    world = simulated_world({"space": {"zones": zones_file(tmp_path, "degrees")}}, users=40)
    passes = []
    count = world.counting._count
    monkeypatch.setattr(world.counting, "_count", lambda *bound: passes.append(bound) or count(*bound))
    plan = ComparePlan(
        methods=("gaussian", "laplace", "efpag", "fpa"),
        epsilons=(0.5, 1.0),
        repetitions=2,
        seed=1,
        emd_slots=0,
    )
    found = compare(world.counting, plan)
    assert passes == [(30, 250)]
    assert len(found.runs) == 4 * 2 * 2
    assert {run.delta for run in found.runs if METHODS[run.method].pure} == {None}
    assert np.array_equal(found.exact, world.counting.people())
