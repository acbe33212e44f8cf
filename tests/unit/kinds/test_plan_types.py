"""Plans with values of a wrong type, size or name are refused with a clear error."""

from __future__ import annotations

import os

import pytest

from shoal.errors import PlanError
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.plan import read_plan
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.trajectories.plan import TrajectoryPlan

GOOD = """
population = "paris"
epsilon = 1.0
[source]
paths = ["events.csv"]
[window]
start = "2026-03-02"
end = "2026-03-09"
time_zone = "Europe/Paris"
[space]
zones = "zones.geojson"
"""


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("epsilon = 1.0", "epsilon = " + "9" * 4301, "plan-file"),
        ("epsilon = 1.0", "epsilon = " + "9" * 4000, "plan-range"),
        ("epsilon = 1.0", 'epsilon = "1"', "plan-type"),
        ("epsilon = 1.0", "epsilon = [1]", "plan-type"),
        ('["events.csv"]', "5", "plan-type"),
        ('["events.csv"]', "[5]", "plan-type"),
        ('["events.csv"]', '["a\\u0000b"]', "plan-text"),
        ('["events.csv"]', '["' + "a" * 256 + '.csv"]', "plan-text"),
        ("[source]", "source = 5\n[other]", "plan-type"),
        ("\npop", "\nspace = 5\npop", "plan-file"),
        ("[source]", "[source]\ncolumns = 5", "plan-type"),
        ("[source]", '[source]\ncolumns = {user = 5}', "plan-type"),
        ("[source]", "[source]\ncoordinate_scale = " + "9" * 400, "plan-range"),
        ("[space]", "[space]\nbox = [1, 2, 3]", "plan-type"),
        ("[space]", '[space]\nbox = [1, 2, 3, "4"]', "plan-type"),
        ('population = "paris"', f'population = "paris"\nout = "{"o" * 256}"', "plan-text"),
        ('population = "paris"', f'population = "paris"\nowner = "{"o" * 256}"', "plan-text"),
        ('population = "paris"', "population = 2026-03-02", "plan-type"),
        ("epsilon = 1.0", "epsilon = " + "[" * 20_000, "plan-file"),
    ],
)  # fmt: skip
def test_a_plan_of_wrong_values_is_refused(tmp_path, before, after, code):
    assert before in GOOD
    path = tmp_path / "plan.toml"
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(PlanError) as caught:
        DensityPlan.from_settings(read_plan(path))
    assert caught.value.code == code
    for kind in (TrajectoryPlan, HistogramPlan, SyntheticPlan):
        with pytest.raises(PlanError):
            kind.from_settings(read_plan(path))


def test_a_plan_that_is_too_large_or_not_text_is_refused(tmp_path):
    path = tmp_path / "plan.toml"
    for content in (b"# comment\n" * 7000, b"a" + b".a" * 20_000 + b" = 1", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(PlanError, match="plan-file"):
            read_plan(path)


def test_a_plan_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "plan.toml")
    for path in (tmp_path / "plan.toml", tmp_path):
        with pytest.raises(PlanError, match=r"plan-file: the plan .* is not a file"):
            read_plan(path)
