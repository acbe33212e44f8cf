"""One table of methods on a small simulated town."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from shoal.errors import PlanError
from shoal.kinds.trajectories.compare import (
    TrajectoryComparison,
    compare_trajectories,
    compared_methods,
    only,
)
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import LatticeSamples

STEPS = 480
LATTICE = Lattice(start=datetime(2026, 3, 2, tzinfo=UTC), steps=STEPS, origin=(-4.4, 5.1))


@pytest.fixture(scope="module")
def town():
    """80 people between a home and a work place of 12, with 14 samples each."""
    rng = np.random.default_rng(3)
    places = rng.integers(0, 80, (12, 2))
    user = np.repeat(np.arange(80), 14)
    t = rng.integers(0, STEPS, len(user))
    anchors = rng.integers(0, 12, (80, 2))
    at = places[anchors[user, (t > STEPS // 2).astype(int)]]
    return LatticeSamples.of(user, t, at[:, 0], at[:, 1], users=80, steps=STEPS)


@pytest.fixture(scope="module")
def told(town):
    return compare_trajectories(town, LATTICE, TrajectoryComparison(users=60))


def test_every_method_has_a_row_and_keeps_its_promise(told):
    rows = {row["method"]: row for row in told["rows"]}
    assert list(rows) == list(compared_methods())
    assert not any("refused" in row for row in rows.values())
    for name, row in rows.items():
        if name != "published":  # known to leave some people unhidden
            assert row["broken"] in (None, 0), name
    assert [name for name, row in rows.items() if not row["truthful"]] == ["nwa"]
    assert [name for name, row in rows.items() if row["broken"] is None] == ["raw", "grid", "h3"]
    json.dumps(told, allow_nan=False)


def test_the_table_shows_what_each_hides(told):
    rows = {row["method"]: row for row in told["rows"]}
    linked = {name: [each["linked"] for each in row["unicity"]["exact"]] for name, row in rows.items()}
    assert linked["raw"][3] > 0.9
    assert linked["raw"] == sorted(linked["raw"])
    assert linked["km1"][0] == linked["grid-k"][0] == linked["kte"][0] == 0
    assert linked["km2"][:2] == [0, 0]
    assert linked["full-length"] == [0, 0, 0, 0]
    assert rows["raw"]["suppressed"] == rows["grid"]["suppressed"] == 0
    assert rows["raw"]["space_m"]["median"] == 200
    assert rows["raw"]["time_min"]["median"] == 1
    assert rows["raw"]["window"]["learned"] > rows["grid"]["window"]["learned"]
    assert rows["raw"]["below_k"] > 0
    assert rows["full-length"]["below_k"] == rows["kte"]["below_k"] == 0
    assert rows["grid"]["unicity"]["coarse"][3]["linked"] <= linked["raw"][3]


def test_people_are_a_seeded_sample(town, told):
    assert (told["users"], told["of_users"]) == (60, 80)
    plan = TrajectoryComparison(users=60, methods=("raw",))
    again = compare_trajectories(town, LATTICE, plan)["rows"][0]
    assert again["boxes"] == told["rows"][0]["boxes"]
    some = only(town, np.array([3, 5]))
    assert some.users == 2
    assert some.t.tolist() == town.t[np.isin(town.user, [3, 5])].tolist()
    assert np.unique(some.user).tolist() == [0, 1]


def test_refusals_are_rows_and_bad_settings_refused(town):
    planar = Lattice(start=LATTICE.start, steps=STEPS, origin=(0.0, 0.0), planar=True)
    told = compare_trajectories(town, planar, TrajectoryComparison(methods=("h3", "raw")))
    assert told["rows"][0]["refused"].startswith("h3-planar")
    assert "seconds" in told["rows"][1]
    for bad in ({"methods": ("glove",)}, {"k": 1}, {"users": 1}, {"tau_minutes": 0}):
        with pytest.raises(PlanError):
            TrajectoryComparison(**bad)


def test_another_lattice(town):
    """Squares that are not whole cells are left out; who cannot do without is refused in its row."""
    wide = Lattice(start=LATTICE.start, steps=STEPS, origin=LATTICE.origin, metres=250.0, minutes=7)
    plan = TrajectoryComparison(methods=("raw", "km2", "grid"), tau_minutes=28, epoch_minutes=28)
    rows = compare_trajectories(town, wide, plan)["rows"]
    assert rows[0]["space_m"]["median"] == 500
    assert rows[0]["time_min"]["median"] == 7
    assert rows[1]["refused"].startswith("slot-minutes")
    hours = Lattice(start=LATTICE.start, steps=STEPS, origin=LATTICE.origin, metres=250.0)
    row = compare_trajectories(town, hours, TrajectoryComparison(methods=("km2",)))["rows"][0]
    assert row["broken"] == 0
    assert row["boxes"] > 0
