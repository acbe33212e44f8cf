"""Plans with values of a wrong type, size or name are refused with a clear error.
The error to expect of trips: a measured table, and nothing beyond it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from shoal.errors import PlanError
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.histogram.prepare import RECTANGLES, PreparedHistogram
from shoal.kinds.plan import read_plan
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.synthetic.prepare import RANGES, PreparedSynthetic
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


def test_a_plan_is_a_regular_file_of_text_and_not_too_large(tmp_path):
    path = tmp_path / "plan.toml"
    for content in (b"# comment\n" * 7000, b"a" + b".a" * 20_000 + b" = 1", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(PlanError, match="plan-file"):
            read_plan(path)
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path / "pipe.toml", tmp_path):
        with pytest.raises(PlanError, match=r"plan-file: the plan .* is not a file"):
            read_plan(path)


LEDGER: Any = None  # not looked at


@dataclass
class Plan:
    method: str = "boxes"
    trips: int | None = 100_000
    unit: str = "trip"
    epsilon: float = 0.1
    delta: float | None = None


def rectangles(**said):
    plan: Any = SimpleNamespace(plan=Plan(**said))
    return PreparedHistogram.foreseen(plan, LEDGER)["expected_share"]


def test_points_of_the_table_come_back_and_a_larger_epsilon_errs_less():
    for signal, share in RECTANGLES.items():
        assert rectangles(trips=signal * 10)["share"] == pytest.approx(share, rel=1e-4)
    for signal, share in RANGES.items():
        plan: Any = SimpleNamespace(plan=Plan(method="bridges", trips=signal, epsilon=1.0), each_trip=True)
        told = PreparedSynthetic.foreseen(plan, LEDGER)["expected_share"]
        assert told["share"] == pytest.approx(share, rel=1e-4)
    shares = [rectangles(epsilon=epsilon)["share"] for epsilon in (0.01, 0.1, 0.5, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]


@pytest.mark.parametrize(
    "said", [{"unit": "user"}, {"trips": None}, {"method": "dqam"}, {"trips": 10}, {"trips": 10**9}]
)
def test_what_was_not_measured_has_no_figure(said):
    assert rectangles(**said) is None
