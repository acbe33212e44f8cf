"""Planted bugs of histograms of trips: noise, sums over trips, numbers of trips, and `boxes`."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shoal.auditing.pairs import table_bytes
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.trips import CountedTrips, TripPipeline
from shoal.auditing.planted.bug import (
    Bug,
    ChangedPart,
    Families,
    Rule,
    Shown,
    call_bug,
    crowd_of,
    interface_bug,
    method_bug,
    noise_bug,
    one_user,
    rule_bugs,
    step_bug,
)
from shoal.auditing.planted.calls import Between, Draw, call_bugs, scaled_bug, spend_bugs
from shoal.engine.euler import exact_euler
from shoal.engine.trip_queries import TripQueries
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.postprocess.histogram.box_model import BoxModel
from shoal.postprocess.histogram.box_pool import BoxPool
from shoal.privacy.noise import Noise
from shoal.space.rectangles import Rectangles
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import BinsLike

BIG = 50  # trips
# Sites one after the other: this trip leaves rectangles and comes back.
BACK_AND_FORTH = (4, 6, 1, 7, 2, 3, 5, 0)


def back_and_forth(true: Pipeline) -> Shown:
    """One user, all of whose trips enter rectangles again and again."""
    return one_user("comes back", true, BACK_AND_FORTH)


def trip_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism, and half the noise from a number of trips on."""
    thin = noise_bug(
        "half the noise above 50 trips",
        partial(Between, only=("trips", "all_trips"), add=_thin_when_big),
        shown=crowd_of(BIG // true.world.ell, true),
    )
    return [*(bug for bug in call_bugs(true) if bug.name != "half the noise above 50 visits"), thin]


def trip_spend_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of one spend among several.

    The number of all trips is cut to what the number of kept ones allows: far below a declared one it is not
    seen at all.
    """
    hidden = "all_trips: no noise" if true.mechanism.setting.trips is not None else ""
    return [bug for bug in spend_bugs(true) if bug.name != hidden]


def _thin_when_big(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    return draw(exact, scale / 2 if exact.max() > BIG else scale)


def per_unit_bugs(true: Pipeline) -> list[Bug]:
    """Charged for fewer trips than a unit may have."""
    m = true.world.ell
    if m == 1:
        return []
    return [
        scaled_bug("second trip of a user not counted in the sensitivity", 1 / m),
        scaled_bug("sqrt(m) where m is needed", math.sqrt(1 / m)),
    ]


# --- the query interface ----------------------------------------------------------------------------------


def euler_bug(true: Pipeline) -> Bug:
    """The Euler answer where distinct trips are meant: a trip that comes back counts again."""

    def distinct(queries: TripQueries, rectangles: Rectangles) -> np.ndarray:
        return exact_euler(queries.trips).answers(rectangles).astype(np.int64)

    name = "Euler answer measured with sensitivity 1"
    return interface_bug(name, back_and_forth(true), distinct=distinct)


def trip_count_bugs(true: Pipeline) -> list[Bug]:
    """Rules on raw numbers of trips."""
    bugs = rule_bugs(true, _ruled, low="raw counts", high="counts", each=true.world.ell)
    if "trips" in dict(true.spends()):
        bugs.append(interface_bug("all trips measured as kept ones", count=TripQueries.all_trips))
    return bugs


def _ruled(name: str, rule: Rule) -> Bug:
    """Every number of trips changed by a rule; shares of trips by the same rule on whole trips."""

    def shared_faces(queries: TripQueries, lattice: int) -> np.ndarray:
        units = queries.shared_faces(lattice)
        return rule(units // lattice) * lattice + units % lattice

    return interface_bug(
        name,
        count=lambda queries: int(rule(np.array([queries.count()]))[0]),
        distinct=lambda queries, rectangles: rule(queries.distinct(rectangles)),
        shared_faces=shared_faces,
        binned=lambda queries, bins: rule(queries.binned(bins)),
    )


# --- totals and output ------------------------------------------------------------------------------------


def trip_total_bugs(true: Pipeline) -> list[Bug]:
    return [
        call_bug("number of trips read off the data for free", _free_trips),
        call_bug("estimates mixed with the exact Euler histogram", _exact_faces),
        step_bug("cells of the longest trip written", write=_write_pieces),
        call_bug("normalised to the exact number of trips", _with_exact_trips),
    ]


def _free_trips(true: Any, exact: TripQueries, noise: Noise) -> NoisyHistogram:
    """The exact number of trips in the release, for nothing."""
    return replace(true(exact, noise), trips=float(max(exact.count(), 1)))


def _with_exact_trips(true: Any, exact: TripQueries, noise: Noise) -> NoisyHistogram:
    """The noisy number of trips is published, and the exact one used."""
    totals = ChangedPart(true.mechanism.totals, lambda noisy, trips: (float(max(trips.count(), 1)), noisy[1]))
    return replace(true(exact, noise, totals=totals), trips=totals.true_results[0][0])


def _exact_faces(true: Any, exact: TripQueries, noise: Noise) -> NoisyHistogram:
    """A rectangle's estimate mixed with that of the exact Euler histogram."""
    made = true(exact, noise)
    faces = 0.9 * made.euler.faces + 0.1 * exact_euler(exact.trips).faces
    return replace(made, euler=replace(made.euler, faces=faces))


def _write_pieces(estimate: Any, bounded: CountedTrips) -> bytes:
    longest = int(np.diff(bounded.trips.first).max(initial=0))
    return table_bytes(estimate) + f"# longest trip {longest} cells\n".encode()


# --- boxes ------------------------------------------------------------------------------------------------


def boxes_bugs(true: Pipeline) -> list[Bug]:
    """Histograms, their bins, and (where trips are many) rectangles."""
    if not isinstance(true.mechanism, HistogramBoxes):
        return []
    crowd = crowd_of(64, true)
    bugs = [
        interface_bug("a trip counts in two bins", binned=_two_bins),
        method_bug(
            "histograms charged as if they were of different trips",
            crowd,
            _nano=lambda self, _share: self.boxes_nano,
        ),
        method_bug("bins of the second stage from exact trips", crowd, _counts=_counts_on_exact_bins),
    ]
    if true.mechanism.setting.trips is None:
        return bugs
    wanted = true.mechanism.setting.given.count
    return [
        *bugs,
        euler_bug(true),
        _rectangle_bug(
            "rounds of rectangles charged as if they were of different trips",
            lambda draw, exact, scale: draw(exact, scale / wanted),
        ),
        _rectangle_bug("answers of rectangles without noise", lambda draw, exact, scale: exact),
        method_bug("rectangles measured twice for one price", _rectangles=_twice),
    ]


def _rectangle_bug(name: str, change: Any) -> Bug:
    """Rectangles are the numbers that are asked for one by one."""

    def add(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
        return change(draw, exact, scale) if exact.size == 1 else draw(exact, scale)

    return noise_bug(name, partial(Between, only="boxes", add=add))


def _two_bins(queries: TripQueries, bins: BinsLike) -> np.ndarray:
    once = queries.binned(bins)
    return once + np.roll(once, 1)


def _counts_on_exact_bins(self: Any, counts: Any, model: BoxModel, trips: TripQueries, noise: Noise) -> Any:
    """Borders follow the trips themselves, not the pool that noisy answers made."""
    if model.bins:
        x0, x1, y0, y1, shape = (np.asarray(part, np.int64) for part in trips._summaries)
        pool = BoxPool(x0=x0, x1=x1, y0=y0, y1=y1, shape=shape)
        model = replace(model, pool=pool, weight=np.ones(x0.size))
    return HistogramBoxes._counts(self, counts, model, trips, noise)


def _twice(self: Any, row: Any, model: BoxModel, trips: TripQueries, noise: Noise) -> BoxModel:
    once = HistogramBoxes._rectangles(self, row, model, trips, noise)
    return HistogramBoxes._rectangles(self, row, once, trips, noise)


FAMILIES: Families = {
    TripPipeline: (
        *(trip_call_bugs, trip_spend_bugs, per_unit_bugs, trip_count_bugs, trip_total_bugs, boxes_bugs),
    )
}
