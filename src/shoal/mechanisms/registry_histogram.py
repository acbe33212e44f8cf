"""The histogram mechanisms, as they are audited: eight places on a grid of a few cells.

A user of the audit goes from place to place; a trip ends where nothing is seen of the user for some time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shoal.mechanisms.audit_size import PATHS, AuditSize
from shoal.mechanisms.entry import Entry, Mechanism
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.privacy.budget import Budget
from shoal_baselines.mechanisms.histogram_dawa import HistogramDawa
from shoal_baselines.mechanisms.histogram_dqam import HistogramDqam
from shoal_baselines.mechanisms.histogram_laplace import HistogramLaplace
from shoal_baselines.mechanisms.histogram_mwem import HistogramMwem
from shoal_baselines.mechanisms.histogram_prish import HistogramPrish

MANY_TRIPS = 10**12  # declared: the schedule of boxes is then at its end, at any epsilon
AUDIT_BOXES = 48  # of the pool: its size costs time, not privacy
AUDIT_ROUNDS = 4  # of six rectangles, so that one more is a bug
FEW_ROUNDS = 2  # where shares are measured: they add up over three of the rectangles at most
TWO_TRIPS = AuditSize(layout=PATHS, slots=6, ell=2, cap=4)
ONE_TRIP = AuditSize(layout=PATHS, slots=6, ell=1, cap=3)
ONE_OF_TWO = AuditSize(layout=PATHS, slots=2, ell=1, cap=2)  # tight
# Two trips alike, one of which is kept: through all given rectangles, or within one cell of half of them.
THROUGH = ((0, 0), (0, 1), (1, 0), (1, 1))
STAYS = ((0, 1), (1, 1))


def _trips(kind: Any, declared: int | None = None, **more: int) -> Callable[[Budget, AuditSize], Mechanism]:
    def make(budget: Budget, size: AuditSize) -> Any:
        return kind.within(budget, size.trips(declared), **more)

    return make


TOTALS = ("trips", "all_trips")
MODEL = "trips in any rectangle of a grid"
SHARES = "shares of trips in cells of a grid"
PURE = "epsilon-DP, epsilon = trips + all_trips"
RHO = "rho-zCDP, rho = trips + all_trips"
RHO_ROUNDS = f"{RHO} + T ((2 m / b)^2 / 8 + m^2 / (2 sigma^2))"
RHO_LAPLACE = f"{RHO} + m^2 / (2 sigma^2)"
RHO_DAWA = f"{RHO} + sum over levels (2 m)^2 / (2 sigma_i^2) + m^2 / (2 sigma^2)"
RHO_DQAM = f"{RHO_DAWA} + T ((2 m / b)^2 / 8 + m^2 / (2 sigma'^2))"
LAPLACE = Entry(
    mechanism=HistogramLaplace,
    releases=SHARES,
    guarantee=f"{PURE} + m / b",
    spends=(*TOTALS, "cells"),
    pure=True,
    make=_trips(HistogramLaplace),
    size=TWO_TRIPS,
    tight=ONE_OF_TWO,
    worst=STAYS,
)
MWEM = Entry(
    mechanism=HistogramMwem,
    releases=f"{SHARES}, learned from few rectangles",
    guarantee=f"{PURE} + T (2 m / b + m / b')",
    spends=(*TOTALS, "select", "answers"),
    pure=True,
    make=_trips(HistogramMwem, rounds=FEW_ROUNDS),
    size=TWO_TRIPS,
    tight=ONE_OF_TWO,
    worst=STAYS,
    reach={"select": 0.8, "answers": 0.5},  # the stay is in half of the rectangles
)
DAWA = Entry(
    mechanism=HistogramDawa,
    releases=f"{SHARES}, in buckets along a curve",
    guarantee=f"{PURE} + sum over levels 2 m / b_i + m / b",
    spends=(*TOTALS, "costs", "buckets"),
    pure=True,
    make=_trips(HistogramDawa),
    size=TWO_TRIPS,
    tight=ONE_OF_TWO,
    worst=STAYS,
)
PRISH = Entry(
    mechanism=HistogramPrish,
    releases=f"{MODEL}, learned from few of them",
    guarantee=f"{PURE} + T (2 m / b + m / b')",
    spends=(*TOTALS, "select", "answers"),
    pure=True,
    make=_trips(HistogramPrish, rounds=AUDIT_ROUNDS),
    size=TWO_TRIPS,
    tight=ONE_OF_TWO,
    worst=THROUGH,
)
DQAM = Entry(
    mechanism=HistogramDqam,
    releases=f"{MODEL}, learned from few of them and the densities of regions",
    guarantee=f"{PURE} + sum over levels 2 m / b_i + m / b'' + T (2 m / b + m / b')",
    spends=(*TOTALS, "costs", "densities", "select", "answers"),
    pure=True,
    make=_trips(HistogramDqam, rounds=AUDIT_ROUNDS, first=0),
    size=TWO_TRIPS,
    tight=ONE_OF_TWO,
    worst=THROUGH,
    reach={"costs": 0.75},  # a trip that is spread is more even
)
BOXES = Entry(
    mechanism=HistogramBoxes,
    releases=f"{MODEL}, from a weighted pool of boxes",
    guarantee=f"{PURE} + boxes, the shares of whose histograms add up",
    spends=(*TOTALS, "boxes"),
    pure=True,
    make=_trips(HistogramBoxes, boxes=AUDIT_BOXES),
    size=TWO_TRIPS,
    tight=ONE_OF_TWO,
    worst=THROUGH,
    reach={"boxes": 0.9},
)
LARGE = replace(
    BOXES,
    guarantee="epsilon-DP, epsilon = all_trips + boxes, the shares of whose histograms and rectangles add up",
    spends=("all_trips", "boxes"),
    make=_trips(HistogramBoxes, MANY_TRIPS, boxes=AUDIT_BOXES),
    size=replace(TWO_TRIPS, cells=4),  # its histograms are fine: fewer cells, fewer bins
    tight=replace(ONE_OF_TWO, cells=4),
    reach={"boxes": 0.75},  # choices are paid for, and do not show along one path
)


def _zcdp(entry: Entry, guarantee: str, **reach: float) -> Entry:
    """The same with a budget in rho, and a user with one trip at most."""
    return replace(entry, guarantee=guarantee, pure=False, size=ONE_TRIP, reach=reach)


HISTOGRAMS: dict[str, Entry] = {
    "histogram-laplace": LAPLACE,
    "histogram-laplace-zcdp": _zcdp(LAPLACE, RHO_LAPLACE),
    "histogram-mwem": MWEM,
    "histogram-mwem-zcdp": _zcdp(MWEM, RHO_ROUNDS, select=0.64, answers=0.5),
    "histogram-dawa": DAWA,
    "histogram-dawa-zcdp": _zcdp(DAWA, RHO_DAWA),
    "histogram-prish": PRISH,
    "histogram-prish-zcdp": _zcdp(PRISH, RHO_ROUNDS),
    "histogram-dqam": DQAM,
    "histogram-dqam-zcdp": _zcdp(DQAM, RHO_DQAM, costs=0.38),
    "histogram-boxes": BOXES,
    "histogram-boxes-large": LARGE,
}
