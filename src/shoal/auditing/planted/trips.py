"""Planted bugs of trips: noise, sums over trips, numbers of trips, `boxes`, and the bound of each user.

The bugs of the bound and of the grid are the same for histograms and for generators of trips: they start from
the pipeline's own bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import NEW, Pair, at, table_bytes
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.trips import CountedTrips, PathPipeline, TripPipeline
from shoal.auditing.planted.bug import (
    Bug,
    ChangedPart,
    Families,
    Rule,
    Shown,
    call_bug,
    crowd_of,
    interface_bug,
    light_among_heavy,
    method_bug,
    noise_bug,
    one_user,
    result_bug,
    rule_bugs,
    step_bug,
)
from shoal.auditing.planted.calls import (
    THIN_CROWDS,
    Between,
    Draw,
    call_bugs,
    of_scale,
    scaled_bug,
    spend_bugs,
)
from shoal.engine.trip_pieces import TripBound
from shoal.engine.trip_queries import TripQueries, exact_euler
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.postprocess.histogram.box_model import BoxModel, BoxPool
from shoal.privacy.noise import Noise
from shoal.space.cells import Rectangles
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import BinsLike

BIG = 50  # trips
# Sites one after the other: this trip leaves rectangles and comes back.
BACK_AND_FORTH = (4, 6, 1, 7, 2, 3, 5, 0)
ALL = 10**6  # more trips than any user has
Batches = list[pa.RecordBatch]
Encode = Callable[[Batches, Any], Any]  # GridTrips under a TripBound, ExactPaths under a PathBound


def back_and_forth(true: Pipeline) -> Shown:
    """One user, all of whose trips enter rectangles again and again."""
    return one_user("comes back", true, BACK_AND_FORTH)


def trip_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism, and half the noise from a number of trips on."""
    thin = noise_bug(
        "half the noise above 50 trips",
        partial(
            Between,
            only=("trips", "all_trips"),
            add=lambda draw, exact, scale: draw(exact, scale / 2 if exact.max() > BIG else scale),
        ),
        shown=crowd_of(BIG // true.world.size.ell, true),
    )
    return [*(bug for bug in call_bugs(true) if bug.name != THIN_CROWDS), thin]


def trip_spend_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of one spend among several.

    The number of all trips is cut to what the number of kept ones allows: far below a declared one it is not
    seen at all.
    """
    hidden = "all_trips: no noise" if true.mechanism.setting.trips is not None else ""
    return [bug for bug in spend_bugs(true) if bug.name != hidden]


def per_unit_bugs(true: Pipeline) -> list[Bug]:
    """Charged for fewer trips than a unit may have."""
    m = true.world.size.ell
    charged_once = scaled_bug("second trip of a user not counted in the sensitivity", 1 / m)
    return [charged_once, scaled_bug("sqrt(m) where m is needed", math.sqrt(1 / m))] if m > 1 else []


# --- the query interface ----------------------------------------------------------------------------------


def euler_bug(true: Pipeline) -> Bug:
    """The Euler answer where distinct trips are meant: a trip that comes back counts again."""

    def distinct(queries: TripQueries, rectangles: Rectangles) -> np.ndarray:
        return exact_euler(queries.trips).answers(rectangles).astype(np.int64)

    name = "Euler answer measured with sensitivity 1"
    return interface_bug(name, back_and_forth(true), distinct=distinct)


def trip_count_bugs(true: Pipeline) -> list[Bug]:
    """Rules on raw numbers of trips."""
    bugs = rule_bugs(true, _ruled, low="raw counts", high="counts", each=true.world.size.ell)
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
        result_bug(
            "number of trips read off the data for free",
            trips=lambda _, exact: float(max(exact.count(), 1)),
        ),
        result_bug("estimates mixed with the exact Euler histogram", euler=_exact_faces),
        step_bug("cells of the longest trip written", write=_write_pieces),
        call_bug("normalised to the exact number of trips", _with_exact_trips),
    ]


def _with_exact_trips(true: Any, exact: TripQueries, noise: Noise) -> NoisyHistogram:
    """The noisy number of trips is published, and the exact one used."""
    totals = ChangedPart(true.mechanism.totals, lambda noisy, trips: (float(max(trips.count(), 1)), noisy[1]))
    return replace(true(exact, noise, totals=totals), trips=totals.true_results[0][0])


def _exact_faces(noisy: NoisyHistogram, exact: TripQueries) -> Any:
    """A rectangle's estimate mixed with that of the exact Euler histogram."""
    return replace(noisy.euler, faces=0.9 * noisy.euler.faces + 0.1 * exact_euler(exact.trips).faces)


def _write_pieces(estimate: Any, bounded: CountedTrips) -> bytes:
    longest = int(np.diff(bounded.trips.first).max(initial=0))
    return table_bytes(estimate) + f"# longest trip {longest} cells\n".encode()


# --- boxes ------------------------------------------------------------------------------------------------


def boxes_bugs(true: Pipeline) -> list[Bug]:
    """Histograms, their bins, and (where trips are many) rectangles."""
    if not isinstance(true.mechanism, HistogramBoxes):
        return []
    crowd, setting = crowd_of(64, true), true.mechanism.setting
    charged_once = "charged as if they were of different trips"
    bugs = [
        interface_bug("a trip counts in two bins", binned=_two_bins),
        method_bug(f"histograms {charged_once}", crowd, _nano=lambda self, _share: self.boxes_nano),
        method_bug("bins of the second stage from exact trips", crowd, _counts=_counts_on_exact_bins),
    ]
    if setting.trips is None:
        return bugs
    return [
        *bugs,
        euler_bug(true),
        _rectangle_bug(f"rounds of rectangles {charged_once}", of_scale(1 / setting.given.count)),
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


# --- the bound of each user's trips, and the grid ---------------------------------------------------------


def trip_bound_bugs(true: Pipeline) -> list[Bug]:
    """In the bound of each user, and in the grid, for histograms of trips."""
    m_from_mean = bound_bug(true, "m from the data", _m_from_mean, light_among_heavy(true))
    return [
        step_bug("a user keeps one trip more", kernel=_one_more),
        bound_bug(true, "bound per user not enforced, each trip taken for a unit", _each_a_unit),
        bound_bug(true, "cap on the number of all trips not enforced", _no_cap),
        bound_bug(true, "users share m x users places", _shared_places),
        _popular_bug(true),
        bound_bug(true, "points of a user in several batches", _apart),
        bound_bug(true, "box of the grid from the data", _box_from_data),
        *([m_from_mean] if true.world.size.ell > 1 else []),
    ]


def path_bound_bugs(true: Pipeline) -> list[Bug]:
    """In the unit, its number of trips, and the grid, for generators of trips."""
    each_trip = true.world.size.each_trip
    pieces = tuple((NEW, at(0, 2 * k + j), 0 if j else -1) for k in range(5) for j in (0, 1))
    shown = Shown(Pair("nobody, and a trip cut into many pieces", (), pieces)) if each_trip else None
    unit = "piece of a trip" if each_trip else "trip"
    bugs = [
        bound_bug(true, "points of a user in several batches", _apart),
        bound_bug(true, "box from the data", _box_from_data),
        bound_bug(true, "step of time from the data", _step_from_data),
        bound_bug(true, f"each {unit} taken for a unit", _each_a_unit, shown),
    ]
    if "trips" in dict(true.spends()):
        bugs.append(bound_bug(true, "cap on the number of trips not enforced", _no_cap, shown))
    return bugs if each_trip else [*bugs, _popular_bug(true)]


def bound_bug(true: Pipeline, name: str, change: Callable[..., Any], shown: Shown | None = None) -> Bug:
    """Another bound than the true one: `change(true bound, batches, parameters)`."""
    return step_bug(name, shown, bound=_of(change, true.bound))


@cache
def _of(change: Callable[..., Any], encode: Encode) -> Callable[[Batches, Any], Any]:
    """One object per bug and stage: bounded tables are shared between mechanisms by it."""
    return partial(change, encode)


def _one_more(**public: Any) -> TripBound:
    """Keeps one trip more, and says so: the mechanism was built for less and must refuse."""
    return TripBound(**{**public, "per_unit": public["per_unit"] + 1, "cap": public["cap"] + 1})


def _every(encode: Encode, batches: Batches, bound: Any) -> Any:
    """All trips, without a bound."""
    return encode(batches, replace(bound, per_unit=ALL, cap=ALL, each_trip=False))


def _declared(trips: Any, encode: Encode, batches: Batches, bound: Any) -> Any:
    """The trips as if they were bounded; the number of all trips is right."""
    right = vars(encode(batches, bound))
    public = ("per_unit", "cap", "all_trips", "each_trip")
    return replace(trips, **{name: right[name] for name in public if name in right})


def _alone(trips: Any) -> Any:
    return replace(trips, unit=np.arange(trips.count, dtype=np.int64))


def _each_a_unit(encode: Encode, batches: Batches, bound: Any) -> Any:
    """All trips of a user, each taken for a unit of its own: the check of the bound is content."""
    return _declared(_alone(_every(encode, batches, bound)), encode, batches, bound)


def _no_cap(encode: Encode, batches: Batches, bound: Any) -> Any:
    """The number of all trips without its cap."""
    return replace(encode(batches, bound), all_trips=_every(encode, batches, bound).all_trips)


def _m_from_mean(encode: Encode, batches: Batches, bound: Any) -> Any:
    """Keeps as many trips as users have on average: one user changes everybody's share."""
    every = _every(encode, batches, bound)
    mean = every.count // max(np.unique(every.unit).size, 1)
    bounded = encode(batches, replace(bound, per_unit=max(1, min(bound.per_unit, mean))))
    return replace(bounded, per_unit=bound.per_unit)


def _shared_places(encode: Encode, batches: Batches, bound: Any) -> Any:
    """The bound holds for all users together (m x users trips), not for each of them."""
    every = _every(encode, batches, bound)
    places = min(every.count, bound.per_unit * np.unique(every.unit).size)
    return _declared(_alone(_only(every, list(range(places)))), encode, batches, bound)


def _popular_bug(true: Pipeline) -> Bug:
    slots = range(true.world.slots)
    torn = tuple((user, at(slot), slot % 2) for user in range(2 * len(slots)) for slot in slots)
    breaks = tuple((NEW, at(slot), 1) for slot in range(true.world.size.ell))
    tie = Shown(Pair("a tie of two places, broken", torn, breaks))
    return bound_bug(true, "users keep the trips most popular with all", _popular, tie)


def _popular(encode: Encode, batches: Batches, bound: Any) -> Any:
    """Keeps the m trips of a user whose first cells are the most popular with all."""
    every = _every(encode, batches, bound)
    begins = every.cells[every.first[:-1]].tolist()
    liked, units = Counter(begins), every.unit.tolist()
    order = sorted(range(every.count), key=lambda i: (units[i], -liked[begins[i]], begins[i]))
    ranked = [(trip, rank) for _, mine in groupby(order, units.__getitem__) for rank, trip in enumerate(mine)]
    chosen = [trip for trip, rank in ranked if rank < bound.per_unit]
    return _declared(_only(every, chosen), encode, batches, bound)


def _only(trips: Any, chosen: list[int]) -> Any:
    """Some of the trips."""
    rows = [np.arange(trips.first[i], trips.first[i + 1]) for i in chosen]
    per_trip, per_visit = np.array(chosen, np.int64), np.concatenate([np.empty(0, np.int64), *rows])
    places = {
        "cells": per_visit,
        "tick": per_visit,
        "stay": per_visit,
        "start_us": per_trip,
        "unit": per_trip,
    }
    parts = {name: vars(trips)[name][at] for name, at in places.items() if name in vars(trips)}
    first = np.cumsum([0, *(each.size for each in rows)]).astype(np.int64)
    return replace(trips, first=first, **parts)


def _apart(encode: Encode, batches: Batches, bound: Any) -> Any:
    """Batches of one row, so that users and trips are torn apart."""
    return encode([batch.slice(row, 1) for batch in batches for row in range(batch.num_rows)], bound)


def _box_from_data(encode: Encode, batches: Batches, bound: Any) -> Any:
    """The grid laid over where people are: one user moves the cells of all."""
    x, y = (np.concatenate([np.empty(0), *(b[name].to_numpy() for b in batches)]) for name in ("x", "y"))
    west, south, east, north = bound.grid.box
    inside = (x >= west) & (x < east) & (y >= south) & (y < north)
    if inside.any():
        west, south = float(x[inside].min()) - 0.5, float(y[inside].min()) - 0.5
        east, north = float(x[inside].max()) + 0.5, float(y[inside].max()) + 0.5
    laid = replace(bound.grid, box=(west, south, east, north))
    return replace(encode(batches, replace(bound, grid=laid)), grid=bound.grid)


def _step_from_data(encode: Encode, batches: Batches, bound: Any) -> Any:
    """Steps as long as points are apart on average: one user moves the ticks of all."""
    apart = np.concatenate([np.empty(0), *(np.diff(b["time_us"].to_numpy()) / 1e6 for b in batches)])
    usual = apart[(apart > 0) & (apart < 1800)]
    step_s = max(float(np.rint(usual.mean())), 1.0) if usual.size else bound.step_s
    return replace(encode(batches, replace(bound, step_s=step_s)), step_s=bound.step_s)


FAMILIES: Families = {
    TripPipeline: (
        *(trip_call_bugs, trip_spend_bugs, per_unit_bugs, trip_count_bugs, trip_total_bugs, boxes_bugs),
        trip_bound_bugs,
    ),
    PathPipeline: (path_bound_bugs,),
}
