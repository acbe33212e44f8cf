"""Planted bugs in the bound of each user's trips, and in the grid they are laid on.

The same bugs for trips on a grid and for paths with times; `encode` makes the true stage of either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import NEW, Pair, at
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.trips import PathPipeline, TripPipeline
from shoal.auditing.planted.bug import Bug, Families, Shown, light_among_heavy, step_bug
from shoal.auditing.replay import KeepsEverything
from shoal.engine.grid_trips import TripBound
from shoal.engine.path_trips import PathBound
from shoal.engine.trip_pieces import encode_trips
from shoal.stages.trips import ExactPaths

ALL = 10**6  # more trips than any user has
Batches = list[pa.RecordBatch]
Encode = Callable[[Batches, Any], Any]  # GridTrips under a TripBound, ExactPaths under a PathBound


@cache
def _of(bug: Callable[..., Any], encode: Encode) -> Callable[[Batches, Any], Any]:
    """One object per bug and stage: bounded tables are shared between mechanisms by it."""
    return partial(bug, encode)


def trip_bound_bugs(true: Pipeline) -> list[Bug]:
    """In the bound of each user, and in the grid, for histograms of trips."""
    bugs = [
        step_bug("a user keeps one trip more", kernel=_one_more),
        step_bug(
            "bound per user not enforced, each trip taken for a unit", bound=_of(_each_a_unit, encode_trips)
        ),
        step_bug("cap on the number of all trips not enforced", bound=_of(_no_cap, encode_trips)),
        step_bug("users share m x users places", bound=_of(_shared_places, encode_trips)),
        _popular_bug(true, encode_trips),
        step_bug("points of a user in several batches", bound=_of(_apart, encode_trips)),
        step_bug("box of the grid from the data", bound=_of(_box_from_data, encode_trips)),
    ]
    if true.world.ell > 1:
        bugs.append(
            step_bug("m from the data", light_among_heavy(true), bound=_of(_m_from_mean, encode_trips))
        )
    return bugs


def path_bound_bugs(true: Pipeline) -> list[Bug]:
    """In what is a unit and how many trips it has, and in the grid, for generators of trips."""
    each_trip = true.world.size.each_trip
    bugs = [
        step_bug("points of a user in several batches", bound=_of(_apart, encode_trips)),
        step_bug("box from the data", bound=_of(_box_from_data, encode_trips)),
        step_bug("step of time from the data", bound=_step_from_data),
    ]
    pieces = tuple((NEW, at(0, 2 * k + j), 0 if j else -1) for k in range(5) for j in (0, 1))
    cut = Shown(Pair("nobody, and a trip cut into many pieces", (), pieces), KeepsEverything)
    shown, piece = (cut, "piece of a trip") if each_trip else (None, "trip")
    if "trips" in dict(true.spends()):
        no_cap = _of(_no_cap, encode_trips)
        bugs.append(step_bug("cap on the number of trips not enforced", shown, bound=no_cap))
    each_a_unit = _of(_each_a_unit, encode_trips)
    bugs.append(step_bug(f"each {piece} taken for a unit", shown, bound=each_a_unit))
    return bugs if each_trip else [*bugs, _popular_bug(true, encode_trips)]


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


def _each_a_unit(encode: Encode, batches: Batches, bound: Any) -> Any:
    """All trips of a user, each taken for a unit of its own: the check of the bound is content."""
    return _declared(_alone(_every(encode, batches, bound)), encode, batches, bound)


def _alone(trips: Any) -> Any:
    return replace(trips, unit=np.arange(trips.count, dtype=np.int64))


def _no_cap(encode: Encode, batches: Batches, bound: Any) -> Any:
    """The number of all trips without its cap."""
    return replace(encode(batches, bound), all_trips=_every(encode, batches, bound).all_trips)


def _m_from_mean(encode: Encode, batches: Batches, bound: Any) -> Any:
    """Keeps as many trips as users have on average: one user changes everybody's share."""
    every = _every(encode, batches, bound)
    mean = every.count // max(np.unique(every.unit).size, 1)
    kept = encode(batches, replace(bound, per_unit=max(1, min(bound.per_unit, mean))))
    return replace(kept, per_unit=bound.per_unit)


def _shared_places(encode: Encode, batches: Batches, bound: Any) -> Any:
    """The bound holds for all users together (m x users trips), not for each of them."""
    every = _every(encode, batches, bound)
    places = min(every.count, bound.per_unit * np.unique(every.unit).size)
    return _declared(_alone(_only(every, list(range(places)))), encode, batches, bound)


def _popular_bug(true: Pipeline, encode: Encode) -> Bug:
    slots = range(true.world.slots)
    torn = tuple((user, at(slot), slot % 2) for user in range(2 * len(slots)) for slot in slots)
    breaks = tuple((NEW, at(slot), 1) for slot in range(true.world.ell))
    tie = Shown(Pair("a tie of two places, broken", torn, breaks), KeepsEverything)
    return step_bug("users keep the trips most popular with all", tie, bound=_of(_popular, encode))


def _popular(encode: Encode, batches: Batches, bound: Any) -> Any:
    """Of a user's trips the m whose first cells are the most popular with all."""
    every = _every(encode, batches, bound)
    begins = every.cells[every.first[:-1]]
    liked = Counter(begins.tolist())
    order = sorted(range(every.count), key=lambda i: (every.unit[i], -liked[begins[i]], begins[i]))
    rank: Counter[int] = Counter()
    kept = []
    for trip in order:
        user = int(every.unit[trip])
        if rank[user] < bound.per_unit:
            kept.append(trip)
        rank[user] += 1
    return _declared(_only(every, kept), encode, batches, bound)


def _only(trips: Any, kept: list[int]) -> Any:
    """Some of the trips."""
    rows = [np.arange(trips.first[i], trips.first[i + 1]) for i in kept]
    of_trips, of_visits = np.array(kept, np.int64), np.concatenate([np.empty(0, np.int64), *rows])
    taken = {"cells": of_visits, "tick": of_visits, "stay": of_visits, "start_us": of_trips, "unit": of_trips}
    first = np.cumsum([0, *(each.size for each in rows)]).astype(np.int64)
    parts = {name: vars(trips)[name][at] for name, at in taken.items() if name in vars(trips)}
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


def _step_from_data(batches: Batches, bound: PathBound) -> ExactPaths:
    """Steps as long as points are apart on average: one user moves the ticks of all."""
    apart = np.concatenate([np.empty(0), *(np.diff(b["time_us"].to_numpy()) / 1e6 for b in batches)])
    usual = apart[(apart > 0) & (apart < 1800)]
    step_s = max(float(np.rint(usual.mean())), 1.0) if usual.size else bound.step_s
    return replace(encode_trips(batches, replace(bound, step_s=step_s)), step_s=bound.step_s)


FAMILIES: Families = {TripPipeline: (trip_bound_bugs,), PathPipeline: (path_bound_bugs,)}
