"""`shoal synthesize run` at its edges: odd trips, nobody, tiny budgets, wrong plans, a failure halfway."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from shoal.kinds.synthetic import build as flow
from shoal.kinds.synthetic.build import encoded
from shoal.release.trip_files import read_synthetic
from shoal.release.verify import check_release


def test_trips_of_one_point_are_trips(walks, command):
    walks.write([(user, [(350, 250)]) for user in range(300)])
    release, _, _ = walks.released(command)
    paths = encoded(read_synthetic(release))
    assert np.mean((paths.moves == 0) & (paths.starts == 2 * 8 + 3)) > 0.9


def test_mixed_sampling_and_a_step_below_it_are_told_to_the_owner_alone(walks, command):
    walks.write([(user, [(50, 50), (650, 50)]) for user in range(100)], seconds=600)
    release, _, _ = walks.released(command)
    figures = json.loads((walks.folder / "owner" / "utility.json").read_text())
    assert figures["steps_longer_than_step_s_share"] == 1
    assert "longer than the time step" in (walks.folder / "owner" / "report.html").read_text()
    assert "longer than" not in (release / "README.md").read_text()


def test_nobody_in_the_box_is_a_release_of_noise(walks, command):
    walks.write([(1, [(5000, 50), (5100, 50)])])
    walks.flags["--epsilon"] = 1
    assert "nobody-counted" in command(*walks.arguments("--count", 50))[2]
    release, _, _ = walks.released(command, "--count", 50, "--allow-empty")
    assert not check_release(release).problems
    assert encoded(read_synthetic(release)).count == 50


def test_a_tiny_epsilon_is_a_valid_release(walks, command):
    walks.write(walks.trips)
    walks.flags["--epsilon"] = 0.001
    release, _, _ = walks.released(command, "--count", 100)
    assert not check_release(release).problems
    assert encoded(read_synthetic(release)).count == 100
    walks.flags |= {"--epsilon": 1e-9, "--out": walks.folder / "second"}
    code, _, err = command(*walks.arguments())
    assert code == 2
    assert "--epsilon" in err


def test_a_number_that_is_noise_alone_is_not_written_without_end(walks, command, monkeypatch):
    walks.write(walks.trips)
    monkeypatch.setattr(flow, "MOST_UNASKED", 60)
    release, _, _ = walks.released(command)
    assert read_synthetic(release).about.trips == 60
    assert walks.manifest_of(release)["input"]["synthetic_trips"] == 60
    assert walks.manifest_of(release)["input"]["trips_with_noise"] == pytest.approx(400, abs=1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"--box": "0,800,800,0"}, "box-range"),
        ({"--box": None}, "box-missing"),
        ({"--cell-m": 0.1}, "grid-size"),
        ({"--cell-m": 1}, "grid-size"),
        ({"--cells": 8}, "grid-size"),
        ({"--step-s": 0.5}, "step-range"),
        ({"--step-s": 90000}, "step-range"),
        ({"--method": "bridge"}, "synthetic-method"),
        ({"--count": 0}, "plan-range"),
        ({"--trips": 0}, "plan-range"),
        ({"--trips-cap": 0}, "plan-range"),
        ({"--trips-per-user": 0}, "plan-range"),
        ({"--jump-m": -5}, "plan-range"),
        ({"--format": "shp"}, "trip-format"),
        ({"--format": "gpx"}, "trip-format"),  # the source is planar
        ({"--unit": "cab"}, "plan-unit"),
    ],
)
def test_bad_plans_say_the_rule_and_spend_nothing(walks, command, change, code):
    walks.write(walks.trips[:3])
    walks.flags |= change
    status, _, err = command(*walks.arguments())
    assert status == 2
    assert err.split(":")[0] == code, err
    assert "Traceback" not in err
    assert walks.spent() == 0
    assert not (walks.folder / "release").exists()


def test_sites_are_refused_with_a_remedy(walks, command):
    time = pa.array([walks.start], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": [1], "time": time, "site": ["S1"]}), walks.source)
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "trips-need-points")
    assert "--method commute" in err


def test_a_method_of_sites_refuses_points_and_settings_it_would_not_read(walks, command):
    walks.write(walks.trips[:3])
    walks.flags |= {"--method": "commute"}
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "synthetic-options")
    assert "box" in err
    walks.flags |= {"--box": None, "--cell-m": None, "--trips-cap": None}
    code, _, err = command(*walks.arguments())
    assert (code, err.split(":")[0]) == (2, "commute-needs-sites")
    code, _, err = command(*walks.arguments("--unit", "trip"))
    assert (code, err.split(":")[0]) == (2, "plan-unit")
    assert walks.spent() == 0


def test_a_run_that_fails_while_writing_leaves_nothing_half_written(walks, command, monkeypatch):
    walks.write(walks.trips)
    real = flow.path_points

    def full_disk(paths, seed, low, high):
        if low:
            raise OSError(28, "No space left on device")
        return real(paths, seed, low, high)

    monkeypatch.setattr(flow, "path_points", full_disk)
    monkeypatch.setattr(flow, "CHUNK", 100)
    code, _, err = command(*walks.arguments())
    assert code == 5, err
    assert "No space left" in err
    assert not (walks.folder / "release").exists()
    assert not [each for each in walks.folder.iterdir() if each.name.startswith(".")]
    assert walks.spent() == 0  # found out before the reserve
