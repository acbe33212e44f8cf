"""Trips of the histogram benchmark: real and simulated, as user-complete batches and as paths on a grid.

    sf      passengers of 536 San Francisco cabs: runs of `occupied` fixes with gaps under 5 minutes
    porto   taxi trips of Porto; the 200 without a taxi's id are a user each
    tdrive  one hour of Beijing taxis: points with gaps under 30 minutes
    town    the simulator's GPS trips of the preset `town`, all users with a logger, one week

Every trip is cut to its longest stretch (in fixes) inside the public box; trips of fewer than 2 fixes (sf: 3)
are dropped.

    name    trips     users   fixes per trip   cells per trip at 256 x 256 (different ones)
    sf      439,636     536      10.2             86.4 (84.4)
    porto     1,000     548      45.7            103.1 (98.4)
    tdrive    8,307   8,208      17.2             81.6 (76.2)
    town    160,430   8,000      35.6             85.3 (84.1)

Real files come from SHOAL_DATA, as in real_cities.py. The trips are kept in benchmarks/out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.real_cities import data_folder, real_file
from benchmarks.table import OUT
from shoal.engine.engine import encode_trips
from shoal.engine.trip_pieces import TripBound
from shoal.events.schema import TripRule
from shoal.events.trips import NO_TRIP, split_trips
from shoal.space.cells import CellGrid
from shoal.stages.trips import GridTrips

BOXES = {
    "sf": (-122.52, 37.70, -122.36, 37.83),
    "porto": (-8.70, 41.10, -8.52, 41.25),
    "tdrive": (116.1, 39.7, 116.7, 40.1),
    "town": (4.98, 47.28, 5.10, 47.36),
}
FILES = {
    "sf": tuple(f"cabspotting/cabspotting_part{i}.parquet" for i in (0, 1)),
    "porto": ("trips/porto_sample_trips.parquet",),
    "tdrive": ("trips/tdrive_slice.parquet",),
    "town": (),
}
FEWEST = {"sf": 3, "porto": 2, "tdrive": 2, "town": 2}  # fixes of a trip
TOWN_USERS = 8_000  # who make 160,000 trips in a week
SCALE_USERS = 51_000  # about a million
BATCH_POINTS = 500_000
PORTO_STEP_S = 15  # between two points
COLUMNS = ("user", "first", "x", "y", "time_s")


@dataclass(frozen=True, eq=False)
class TripPoints:
    """Trips in order of their users: x, y of trip i are those of rows first[i] to first[i + 1]."""

    user: np.ndarray  # int64 [trips]
    first: np.ndarray  # int64 [trips + 1]
    x: np.ndarray
    y: np.ndarray
    time_s: np.ndarray  # int64

    @property
    def count(self) -> int:
        return self.user.size

    def take(self, kept: np.ndarray) -> TripPoints:
        """The trips at these places, in rising order."""
        size = self.first[kept + 1] - self.first[kept]
        first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        rows = np.repeat(self.first[kept] - first[:-1], size) + np.arange(first[-1])
        return TripPoints(self.user[kept], first, self.x[rows], self.y[rows], self.time_s[rows])

    def batches(self, points: int = BATCH_POINTS) -> Iterator[pa.RecordBatch]:
        """user, trip, x, y, time_us; no user is in two batches."""
        owner = np.flatnonzero(np.diff(self.user, prepend=np.int64(-1)))  # the first trip of each user
        owner = np.append(owner, self.count)
        begin = 0
        while begin < owner.size - 1:
            end = int(np.searchsorted(self.first[owner], self.first[owner[begin]] + points, "right")) - 1
            end = max(end, begin + 1)
            yield self._batch(int(owner[begin]), int(owner[end]))
            begin = end

    def _batch(self, begin: int, end: int) -> pa.RecordBatch:
        rows = slice(self.first[begin], self.first[end])
        size = np.diff(self.first[begin : end + 1])
        columns = np.repeat(self.user[begin:end], size), np.repeat(np.arange(begin, end), size)
        places = self.x[rows], self.y[rows], self.time_s[rows] * 1_000_000
        return pa.record_batch([*columns, *places], ["user", "trip", "x", "y", "time_us"])


def load_trips(
    name: str,
    resolution: int,
    n: int | None = None,
    seed: int = 0,
    unit: str = "trip",
    per_unit: int = 1,
    cap: int | None = None,
) -> GridTrips:
    """Paths of `n` trips (None: all), drawn by trip and without replacement, on resolution x resolution.

    Unit "user": of each user at most `per_unit` of the drawn trips are kept.
    """
    grid = CellGrid(box=BOXES[name], columns=resolution, rows=resolution)
    bound = TripBound(
        grid=grid, per_unit=per_unit, cap=cap, each_trip=unit == "trip", run_key=seed.to_bytes(16, "little")
    )
    return encode_trips(sample_points(name, n, seed).batches(), bound)


def sample_points(name: str, n: int | None = None, seed: int = 0) -> TripPoints:
    """All usable trips, or `n` of them by a public seed."""
    points = trip_points(name)
    if n is None:
        return points
    if n > points.count:
        raise SystemExit(f"{name} has {points.count:,} trips; {n:,} were asked for.")
    drawn = np.random.Generator(np.random.Philox(seed)).choice(points.count, n, replace=False)
    return points.take(np.sort(drawn))


def missing(name: str) -> str | None:
    """Why this data cannot be had, or None."""
    gone = [file for file in FILES[name] if not (data_folder() / file).exists()]
    return f"{gone[0]} is not in the folder of the real data (SHOAL_DATA)" if gone else None


def trip_points(name: str) -> TripPoints:
    """Usable trips of a data set; made on the first call."""
    path = OUT / f"trips-{name}.npz"
    if not path.exists():
        made = _longest_inside(READERS[name](), BOXES[name], FEWEST[name])
        OUT.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, **{column: getattr(made, column) for column in COLUMNS})
        partial.replace(path)
    with np.load(path) as kept:
        return TripPoints(*(kept[column] for column in COLUMNS))


def scale_source(users: int = SCALE_USERS) -> Path:
    """A folder of Parquet files with about a million simulated trips, a row each; made on the first call."""
    return _town(users) / "trips"


def _longest_inside(points: TripPoints, box: tuple[float, float, float, float], fewest: int) -> TripPoints:
    """Every trip cut to its longest stretch inside the box (the first of equals), if that is long enough."""
    west, south, east, north = box
    x, y = points.x, points.y
    inside = (x >= west) & (x <= east) & (y >= south) & (y <= north)
    trip = np.repeat(np.arange(points.count), np.diff(points.first))
    fresh = np.ones(x.size, bool)
    fresh[1:] = (trip[1:] != trip[:-1]) | (inside[1:] != inside[:-1])
    begin = np.flatnonzero(fresh)
    size = np.diff(np.append(begin, x.size))
    begin, size = begin[inside[begin]], size[inside[begin]]
    best = np.lexsort((begin, -size, trip[begin]))  # by trip, the longest first
    of = trip[begin[best]]
    best = best[np.diff(of, prepend=-1) != 0]
    best = best[size[best] >= fewest]
    begin, size = begin[best], size[best]
    first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    rows = np.repeat(begin - first[:-1], size) + np.arange(first[-1])
    return TripPoints(points.user[trip[begin]], first, x[rows], y[rows], points.time_s[rows])


def _split(user: np.ndarray, time_s: np.ndarray, x, y, rule: TripRule, flag=None) -> TripPoints:
    """Points sorted by user and time, cut into trips."""
    time_s = time_s.astype(np.int64)
    trip = split_trips(user, time_s * 1_000_000, x, y, rule, flag)
    kept = trip != NO_TRIP
    user, trip, x, y, time_s = (column[kept] for column in (user.astype(np.int64), trip, x, y, time_s))
    begin = np.flatnonzero((np.diff(user, prepend=-1) != 0) | (np.diff(trip, prepend=-1) != 0))
    return TripPoints(user[begin], np.append(begin, x.size).astype(np.int64), x, y, time_s)


def _sf() -> TripPoints:
    import duckdb

    table = duckdb.read_parquet([str(real_file(name)) for name in FILES["sf"]]).query(
        "fixes",
        "SELECT dense_rank() OVER (ORDER BY user_id) AS cab, * FROM fixes WHERE user_id <> 'mfeuer' AND "
        "lat_e5 BETWEEN 3700000 AND 3850000 AND lon_e5 BETWEEN -12320000 AND -12100000 "
        "ORDER BY cab, timestamp",
    )
    rows = table.fetchnumpy()
    rule = TripRule(gap_minutes=5, flag=True)
    x, y = rows["lon_e5"] / 1e5, rows["lat_e5"] / 1e5
    return _split(rows["cab"], rows["timestamp"], x, y, rule, rows["occupied"])


def _porto() -> TripPoints:
    columns = ["taxi_id", "timestamp", "lon", "lat"]
    rows = pq.read_table(real_file(FILES["porto"][0]), columns=columns).to_pylist()
    taxis = {row["taxi_id"]: i for i, row in enumerate(rows) if row["taxi_id"] is not None}
    user = np.array([taxis.get(row["taxi_id"], i) for i, row in enumerate(rows)])
    order = np.argsort(user, kind="stable")
    lists = [rows[i] for i in order]
    first = np.concatenate([[0], np.cumsum([len(row["lon"]) for row in lists])]).astype(np.int64)
    x, y = (np.concatenate([row[name] for row in lists]) for name in ("lon", "lat"))
    begin = np.array([row["timestamp"] or 0 for row in lists], np.int64)
    time_s = np.repeat(begin - PORTO_STEP_S * first[:-1], np.diff(first)) + PORTO_STEP_S * np.arange(x.size)
    return TripPoints(user[order], first, x, y, time_s)


def _tdrive() -> TripPoints:
    table = pq.read_table(real_file(FILES["tdrive"][0])).sort_by(
        [("user_id", "ascending"), ("timestamp", "ascending")]
    )
    user, time_s, x, y = (table[name].to_numpy() for name in ("user_id", "timestamp", "lon", "lat"))
    return _split(user, time_s, x, y, TripRule(gap_minutes=30))


def _simulated() -> TripPoints:
    from shoal.events.source import open_source
    from shoal.events.trips import read_trips

    parts = list(read_trips(open_source(str(_town(TOWN_USERS) / "trips" / "part-*.parquet"))))
    table = pa.Table.from_batches(parts)
    user, trip, x, y, time_us = (table[name].to_numpy() for name in ("user", "trip", "x", "y", "time_us"))
    fresh = np.ones(user.size, bool)
    fresh[1:] = (user[1:] != user[:-1]) | (trip[1:] != trip[:-1])
    begin = np.flatnonzero(fresh)
    _, number = np.unique(user[begin], return_inverse=True)
    return TripPoints(number.astype(np.int64), np.append(begin, x.size), x, y, time_us // 1_000_000)


def _town(users: int, seed: int = 1) -> Path:
    from shoal.events.simulate import preset_named
    from shoal.events.simulate.city import city_identity, holds_city, simulate_city

    preset = replace(preset_named("town"), users=users, what=("trips",), trip_share=1.0)
    folder = OUT / f"city-town-trips-{users}-{seed}"
    if not holds_city(folder, city_identity(preset, seed, None, None)):
        print(f"simulating the trips of {users:,} users of town ...", flush=True)
        simulate_city(preset, folder, seed=seed)
    return folder


READERS: dict[str, Callable[[], TripPoints]] = {
    "sf": _sf,
    "porto": _porto,
    "tdrive": _tdrive,
    "town": _simulated,
}
