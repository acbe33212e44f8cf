"""The error to expect of releases made of trips, read off measured tables: from public parameters alone.

Both default methods err by the signal s = epsilon * trips: so much is bought. The tables below are of San
Francisco cabs (docs/results/histogram.md, synthetic.md), promise per trip, pure epsilon; between their points
the logarithms are joined by lines, beyond them nothing is said. Other data lay within a factor of 1.6.
Where other settings were not measured, there is no figure rather than a wrong one: per user it depends on how
many trips people make, which is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from shoal.kinds.histogram.prepare import PreparedHistogram
    from shoal.kinds.synthetic.prepare import PreparedSynthetic

# signal -> mean absolute error of a random rectangle, as a share of all trips; method boxes
RECTANGLES = {
    10: 0.0806,
    100: 0.0436,
    500: 0.0193,
    1000: 0.0142,
    10_000: 0.0079,
    50_000: 0.0058,
    219_818: 0.0042,
}
# signal -> mean relative error of a random rectangle, floor 1 % of the trips; method bridges
RANGES = {5_000: 0.26, 10_000: 0.17, 50_000: 0.057, 100_000: 0.044}
OFF_BY = 1.6


def expected_rectangles(prepared: PreparedHistogram) -> dict[str, Any] | None:
    """Of a histogram by `boxes`, per trip, their number declared: the error as a share of all trips."""
    plan = prepared.plan
    if plan.method != "boxes" or plan.trips is None or plan.unit != "trip":
        return None
    return _read(RECTANGLES, plan.epsilon * plan.trips, "of all trips, for a random rectangle")


def expected_ranges(prepared: PreparedSynthetic) -> dict[str, Any] | None:
    """Of synthetic trips by `bridges`, per trip and pure: the relative error of a random rectangle."""
    plan = prepared.plan
    if plan.method != "bridges" or plan.trips is None or plan.unit != "trip" or plan.delta is not None:
        return None
    return _read(RANGES, plan.epsilon * plan.trips, "of the trips that cross a random rectangle")


def _read(table: dict[int, float], signal: float, of: str) -> dict[str, Any] | None:
    """
    >>> _read({10: 0.1, 1000: 0.001}, 100, "of all")["share"]
    0.01
    >>> _read({10: 0.1, 1000: 0.001}, 5, "of all") is None
    True
    """
    points = list(table)
    if not points[0] <= signal <= points[-1]:
        return None
    share = np.exp(np.interp(np.log(signal), np.log(points), np.log(list(table.values()))))
    return {"share": round(float(share), 6), "of": of, "off_by": OFF_BY}
