"""Worlds of trips and of calls at sites: for histograms, synthetic trips and commutes, end to end."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from shoal.auditing.end_to_end.worlds import (
    CROWDS,
    WINDOWS,
    Rows,
    World,
    currency_of,
    slot_times,
    stored,
    takes_delta,
    user_ids,
)

BOX = (2.30, 48.80, 2.36, 48.84)  # six columns and four rows of 0.01 degrees
COLUMNS, ROWS = 6, 4
USUAL_CAP, ABOVE_USUAL = 40, "60 trips"
HEAVY = ("many trips", "one long trip", "a trip of one point", "in and out of the box")
STAY_S = 2**21 + 50  # steps of a second: a stay of one step beside it is below a lattice step


def trip_world(kind: str, method: str, number: int, seed: int) -> World:
    """Points of trips for a histogram or a generator; trips are named, or found by gaps."""
    rng = random.Random(f"{seed} {kind} {method} {number}")
    if kind == "synthetic" and number % 4 == 3:
        return _long_stays(method, number)
    start, end, zone = WINDOWS[number % len(WINDOWS)]
    moments = slot_times(start, end, zone)
    ids = user_ids(number, CROWDS[number % len(CROWDS)])
    per_trip = number % 5 == 4 or number % 10 == 5  # with a delta and without

    def rows_of(users: list[Any]) -> Rows:
        rows: Rows = []
        for user in users:
            for k in range(rng.choice((1, 1, 2, 5))):
                rows += _walk(rng, user, f"t{k}", moments[k % len(moments)], rng.randrange(1, 8))
        return rows

    usual = number % 6 == 2 and not per_trip  # the bounds that plans have by default or as an example
    table, habit = rows_of(ids[:-1]), ABOVE_USUAL if usual else HEAVY[number % len(HEAVY)]
    added = _added(rng, habit, ids[-1], moments)
    if per_trip:  # one trip more, of somebody who has others
        owner = ids[0] if len(ids) > 1 else ids[-1]
        for k in range(5, 9):
            table += _walk(rng, owner, f"t{k}", moments[k % len(moments)], 6)
        added = _walk(rng, owner, "added", moments[-1], 7)
    size: dict[str, Any] = {} if number % 2 else {"trips": 40}
    bound = {} if per_trip else {"trips_per_user": (1, 2)[number % 2], "trips_cap": 3 if number % 4 else None}
    bound = {"trips_cap": USUAL_CAP} if usual else bound
    settings = {
        "method": method,
        "epsilon": (1.0, 4.0, 0.3)[number % 3],
        "delta": 1e-6 if takes_delta(kind, method) and number % 2 == 0 else None,
        "unit": "trip" if per_trip else "user",
        "window": {"start": start, "end": end, "time_zone": zone},
        "space": {"box": BOX, "cells": f"{COLUMNS}x{ROWS}"},
        **size,
        **bound,
        **_of_kind(kind, number),
    }
    named = per_trip or number % 2 == 0
    if not named:
        settings["trip_rule"] = {"gap_minutes": 20.0}

    def strip(rows: Rows) -> Rows:
        return rows if named else [(row[0], *row[2:]) for row in rows]

    given = {name: value for name, value in settings.items() if value is not None}
    return World(
        name=f"{number}: {len(ids) - 1} users, {'one trip more' if per_trip else habit}, {start}",
        settings=given,
        columns=("user", "trip", "time", "lon", "lat") if named else ("user", "time", "lon", "lat"),
        table=strip(table),
        added=strip(added),
        far=strip(rows_of(user_ids(number, 75))),
        **stored(number),
        currency=currency_of(number, pure=kind == "histogram" and "delta" not in given and number % 4 > 1),
        keyed=frozenset({"files"} if kind == "synthetic" else ())
        | (frozenset() if per_trip else {"queries"}),
    )


def _of_kind(kind: str, number: int) -> dict[str, Any]:
    if kind == "histogram":
        return {"given": 40}
    return {"step_s": 60.0, "count": 25 if number % 3 else None}


def _spot(x: float, y: float) -> tuple[float, float]:
    """Longitude and latitude of a place in cells from the south-west corner."""
    return round(BOX[0] + 0.01 * x, 6), round(BOX[1] + 0.01 * y, 6)


def _walk(rng: random.Random, user: Any, trip: str, moment: datetime, steps: int) -> Rows:
    """A trip of a point and some more, one or two minutes apart, at most a cell away from each other."""
    x, y = rng.uniform(0, COLUMNS), rng.uniform(0, ROWS)
    rows = []
    for k in range(steps):
        rows.append((user, trip, moment + timedelta(minutes=k, seconds=rng.randrange(30)), *_spot(x, y)))
        x = min(max(x + rng.uniform(-1, 1), 0.01), COLUMNS - 0.01)
        y = min(max(y + rng.uniform(-1, 1), 0.01), ROWS - 0.01)
    return rows


def _added(rng: random.Random, habit: str, user: Any, moments: list[datetime]) -> Rows:
    """The rows of the added user."""
    if habit in ("many trips", ABOVE_USUAL):  # all alike, so that they add up in the same cells
        starts = (0, 30) if habit == "many trips" else range(0, 60, 5)
        times = [moment + timedelta(minutes=start) for moment in moments for start in starts]
        return [
            (user, f"t{k}", at + timedelta(minutes=step), *_spot(0.5 + step, 1.5))
            for k, at in enumerate(times)
            for step in range(4)
        ]
    if habit == "one long trip":
        return _walk(rng, user, "t0", moments[0], 50)
    if habit == "a trip of one point":
        return [(user, "t0", moments[1], *_spot(3.5, 2.5))]
    minute = timedelta(minutes=1)
    return [(user, "t0", moments[0] + k * minute, *_spot(2.5 + 9 * (k % 2), 1.5)) for k in range(30)]


def _long_stays(method: str, number: int) -> World:
    """Stays of one second beside one of 24 days, in steps of a second; the others stay where it was short."""
    ids = user_ids(3 * number, 24)  # the added user's rows come first
    start = datetime.fromisoformat("2026-03-02T00:00:00+00:00")
    second = timedelta(seconds=1)

    def stay(user: Any, steps: int) -> Rows:
        times = [start, start + steps * second, start + (steps + 1) * second, start + (steps + 3) * second]
        return [
            (user, "t0", at, *_spot(0.5 + k // 2, 0.5)) for k, at in enumerate(times)
        ]  # cell 0, then cell 1

    def short(user: Any) -> Rows:
        return [(user, "t0", start + k * second, *_spot(1.5, 0.5)) for k in (0, 30)]

    return World(
        name=f"{number}: 24 users, stays of 2^21 : 1",
        settings={
            "method": method,
            "epsilon": 1.0,
            "window": {"start": "2026-03-02", "end": "2026-04-02", "time_zone": "Europe/Paris"},
            "space": {"box": BOX, "cells": f"{COLUMNS}x{ROWS}"},
            "step_s": 1.0,
            "count": 25,
        },
        columns=("user", "trip", "time", "lon", "lat"),
        table=[row for user in ids[:-1] for row in short(user)],
        added=stay(ids[-1], STAY_S),
        far=[row for user in ids for row in stay(user, STAY_S)],
        **stored(number),
        keyed=frozenset({"files"}),
    )


SITES = [(2.30 + 0.02 * i, 48.80 + 0.015 * ((3 * i) % 5)) for i in range(7)]
NIGHT_AND_WORK = (2, 10, 15, 22)  # hours


def call_world(kind: str, method: str, number: int, seed: int) -> World:
    """Records of sites for commutes: homes at night, work places by day, over a change of the clocks."""
    rng = random.Random(f"{seed} {kind} {method} {number}")
    start, end, zone = (
        ("2026-03-27", "2026-03-30", "Europe/Paris"),
        ("2026-10-23", "2026-10-26", "Europe/Paris"),
    )[number % 2]
    moments = slot_times(start, end, zone)
    ids = user_ids(number, CROWDS[number % len(CROWDS)])

    def calls(user: Any, home: int, work: int, count: int) -> Rows:
        rows = []
        for k in range(count):
            day, hour = k // 4 % 3, NIGHT_AND_WORK[k % 4]
            site = home if hour in (2, 22) else work
            if home == work:  # as often at one site as at the next, by night and by day
                site = (home + k % 4 // 2) % len(SITES)
            elif k % 9 == 8:
                site = (home + k) % len(SITES)
            at = moments[24 * day + hour] + timedelta(minutes=k % 60)
            rows.append((user, at, f"s{site}"))
        return rows

    def rows_of(users: list[Any]) -> Rows:
        rows = []
        for user in users:
            home, other = rng.randrange(len(SITES)), rng.randrange(len(SITES))
            work = rng.choice((home, other))
            rows += calls(user, home, work, rng.choice((1, 3, 12, 60)))
        rng.shuffle(rows)
        return rows

    added = calls(ids[-1], 0, 4, (60, 1, 300, 12)[number % 4])
    rows = [f"s{i},{lon!r},{lat!r}" for i, (lon, lat) in enumerate(SITES)]
    return World(
        name=f"{number}: {len(ids) - 1} users, {len(added)} calls, {start}",
        settings={
            "method": method,
            "epsilon": (1.0, 4.0)[number % 2],
            **({"delta": 1e-6} if number % 2 else {}),
            **({"count": 20} if number % 3 else {}),
            "window": {"start": start, "end": end, "time_zone": zone},
            "space": {"sites": "sites.csv"},
        },
        columns=("user", "time", "site"),
        table=rows_of(ids[:-1]),
        added=added,
        far=rows_of(user_ids(number, 75)),
        public={"sites.csv": "\n".join(["site,lon,lat", *rows, ""])},
        **stored(number),
        keyed=frozenset({"files"}),
    )
