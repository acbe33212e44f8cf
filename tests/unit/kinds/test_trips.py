"""The error to expect of trips: a measured table, and nothing beyond it."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from shoal.kinds.histogram.prepare import RECTANGLES, PreparedHistogram
from shoal.kinds.synthetic.prepare import RANGES, PreparedSynthetic

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


def test_points_of_the_table_come_back():
    for signal, share in RECTANGLES.items():
        assert rectangles(trips=signal * 10)["share"] == pytest.approx(share, rel=1e-4)
    for signal, share in RANGES.items():
        plan: Any = SimpleNamespace(plan=Plan(method="bridges", trips=signal, epsilon=1.0), each_trip=True)
        told = PreparedSynthetic.foreseen(plan, LEDGER)["expected_share"]
        assert told["share"] == pytest.approx(share, rel=1e-4)


def test_a_larger_epsilon_errs_less():
    shares = [rectangles(epsilon=epsilon)["share"] for epsilon in (0.01, 0.1, 0.5, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]


@pytest.mark.parametrize(
    "said", [{"unit": "user"}, {"trips": None}, {"method": "dqam"}, {"trips": 10}, {"trips": 10**9}]
)
def test_what_was_not_measured_has_no_figure(said):
    assert rectangles(**said) is None
