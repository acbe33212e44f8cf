"""Planted bugs in the bound of each user's trips, and in the grid they are laid on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.audit.bugs import Bug, Shown, step_bug
from shoal.audit.pairs import NEW, Pair, at
from shoal.audit.pipeline import Pipeline
from shoal.audit.spend_runs import KeepsEverything
from shoal.engine.grid_trips import TripBound, bound_trips
from shoal.stages.trips import GridTrips

ALL = 10**6  # more trips than any user has


def trip_bound_bugs(true: Pipeline) -> list[Bug]:
    """In the bound of each user, and in the grid."""
    m, slots = true.world.ell, true.world.slots
    heavy = tuple((user, at(slot), 0) for user in range(2 * slots) for slot in range(m))
    light = Shown(Pair("one light user among many heavy ones", heavy, ((NEW, at(0), 0),)), KeepsEverything)
    torn = tuple((user, at(slot), slot % 2) for user in range(2 * slots) for slot in range(slots))
    breaks = tuple((NEW, at(slot), 1) for slot in range(m))
    tie = Shown(Pair("a tie of two places, broken", torn, breaks), KeepsEverything)
    bugs = [
        step_bug("a user keeps one trip more", kernel=_one_more),
        step_bug("bound per user not enforced, each trip taken for a unit", bound=_each_trip_a_unit),
        step_bug("cap on the number of all trips not enforced", bound=_no_cap),
        step_bug("users share m x users places", bound=_shared_places),
        replace(step_bug("users keep the trips most popular with all", bound=_popular), shown=tie),
        step_bug("points of a user in several batches", bound=_apart),
        step_bug("box of the grid from the data", bound=_box_from_data),
    ]
    if m > 1:
        bugs.append(replace(step_bug("m from the data", bound=_m_from_mean), shown=light))
    return bugs


def _one_more(**public: Any) -> TripBound:
    """Keeps one trip more, and says so: the mechanism was built for less and must refuse."""
    return TripBound(**{**public, "per_unit": public["per_unit"] + 1, "cap": public["cap"] + 1})


def _unbounded(bound: TripBound) -> TripBound:
    return replace(bound, per_unit=ALL, cap=ALL)


def _each_trip_a_unit(batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """All trips of a user, each taken for a unit of its own: the check of the bound is content."""
    every = bound_trips(batches, _unbounded(bound))
    return _declared(replace(every, unit=np.arange(every.count, dtype=np.int64)), batches, bound)


def _no_cap(batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """The number of all trips without its cap."""
    return replace(bound_trips(batches, replace(bound, cap=ALL)), cap=bound.counted)


def _m_from_mean(batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """Keeps as many trips as users have on average: one user changes everybody's share."""
    every = bound_trips(batches, _unbounded(bound))
    mean = every.count // max(np.unique(every.unit).size, 1)
    kept = bound_trips(batches, replace(bound, per_unit=max(1, min(bound.per_unit, mean))))
    return replace(kept, per_unit=bound.per_unit)


def _shared_places(batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """The bound holds for all users together (m x users trips), not for each of them."""
    every = bound_trips(batches, _unbounded(bound))
    places = min(every.count, bound.per_unit * np.unique(every.unit).size)
    kept = _only(every, np.arange(places))
    return _declared(replace(kept, unit=np.arange(places, dtype=np.int64)), batches, bound)


def _popular(batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """Of a user's trips the m whose first cells are the most popular with all."""
    every = bound_trips(batches, _unbounded(bound))
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
    return _declared(_only(every, np.array(kept, np.int64)), batches, bound)


def _declared(trips: GridTrips, batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """The trips as if they were bounded; the number of all trips is right."""
    right = bound_trips(batches, bound)
    return replace(trips, per_unit=bound.per_unit, cap=bound.counted, all_trips=right.all_trips)


def _only(trips: GridTrips, kept: np.ndarray) -> GridTrips:
    """Some of the trips."""
    paths = [trips.cells[trips.first[i] : trips.first[i + 1]] for i in kept]
    first = np.cumsum([0, *(path.size for path in paths)]).astype(np.int64)
    cells = np.concatenate([np.empty(0, np.int32), *paths])
    return replace(trips, first=first, cells=cells, unit=trips.unit[kept])


def _apart(batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """Batches of few rows, so that users are torn apart."""
    return bound_trips([row for batch in batches for row in _rows(batch)], bound)


def _rows(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch.slice(row, 1) for row in range(batch.num_rows)]


def _box_from_data(batches: list[pa.RecordBatch], bound: TripBound) -> GridTrips:
    """The grid laid over where people are: one user moves the cells of all."""
    x, y = (np.concatenate([np.empty(0), *(b[name].to_numpy() for b in batches)]) for name in ("x", "y"))
    west, south, east, north = bound.grid.box
    inside = (x >= west) & (x < east) & (y >= south) & (y < north)
    if inside.any():
        west, south = float(x[inside].min()) - 0.5, float(y[inside].min()) - 0.5
        east, north = float(x[inside].max()) + 0.5, float(y[inside].max()) + 0.5
    laid = replace(bound.grid, box=(west, south, east, north))
    return replace(bound_trips(batches, replace(bound, grid=laid)), grid=bound.grid)
