"""Worlds for the end-to-end replay: public files, a plan, a table, one unit's rows, and a far table.

Every world is a function of a kind, a number and a seed. The number walks the cases that bugs hide in:
crowds of 0, 1 and 29 to 31 users, users above every bound, sites on the border of zones, weights of
2^21 : 1, changes of the clocks, odd and long ids, sizes that are declared or not, rows of which some are on
disk or most are malformed, a file for each user, and events of others that equal those of the added user.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.auditing.end_to_end.stops import switched_off
from shoal.engine import engine
from shoal.engine.buckets import MOST_EVENTS, cut_users
from shoal.engine.engine import ROWS_PER_CALL, DuckEngine, Progress, Sums, UserKernel
from shoal.release.manifest import CASES, GAUSSIAN

Row = tuple[Any, ...]  # user, [trip], time, then site or two coordinates
Rows = list[Row]

CROWDS = (30, 0, 12, 29, 1, 31)  # users besides the added one
WINDOWS = (  # start, end, time zone: two changes of the clocks among them
    ("2026-03-29T00:00", "2026-03-29T06:00", "Europe/Paris"),
    ("2026-10-25T01:00", "2026-10-25T06:00", "Europe/Paris"),
    ("2026-06-01T08:00", "2026-06-01T13:00", "UTC"),
)
ADDED = ("at every bound", "once", "everywhere", "one event many times", "mostly outside")


@dataclass(frozen=True, kw_only=True)
class ChoppedEngine(DuckEngine):
    """The default engine with rows in small batches, some of which go to disk while others wait in memory.

    Its other sizes, which no run reaches here otherwise, may be small as well.
    """

    rows: int = 7
    rows_per_call: int = ROWS_PER_CALL
    most_events: int = MOST_EVENTS
    spill_mib: float = 1000 / 2**20  # pyright: ignore[reportIncompatibleVariableOverride]

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums:
        with self._small():
            return super().sum_users(self._chopped(events), kernel, progress)

    def hold(self, *points: Any, **more: Any) -> Any:
        with self._small():
            return super().hold(*points, **more)

    def _small(self) -> Any:
        return patch.multiple(
            engine, ROWS_PER_CALL=self.rows_per_call, cut_users=partial(cut_users, most=self.most_events)
        )

    def _chopped(self, events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in events:
            for start in range(0, batch.num_rows, self.rows):
                yield batch.slice(start, self.rows)


@dataclass(frozen=True, kw_only=True)
class World:
    """A public setting, a table, the rows of one more unit, and another table altogether."""

    name: str
    settings: Mapping[str, Any]
    columns: tuple[str, ...]
    table: Rows = field(repr=False)
    added: Rows = field(repr=False)
    far: Rows = field(repr=False)
    public: Mapping[str, str] = field(default_factory=dict, repr=False)  # files by name
    engine_sizes: str = ""  # "spill", or "small" in every respect; else those of a release
    parquet: bool = False
    files: str = ""  # "glob" or "folder" of a file per user; else one file
    currency: str = "rho"  # of the population, or "pots"
    keyed: frozenset[str] = frozenset()  # what other run keys must change: exact "queries", "files"
    mostly_bad: bool = False  # in text, as many rows of the added unit are malformed as there are others

    def larger(self) -> Rows:
        """The table with the added rows spread through it; in text, with malformed ones among them."""
        rows, added = list(self.table), list(self.added)
        if not self.parquet and added:
            bad = ("not a time", "2026-06-01T09:00:00", "")  # one without an offset
            at = self.columns.index("time")
            bad *= (len(rows) + len(added)) // len(bad) + 1 if self.mostly_bad else 1
            added += [(*added[0][:at], text, *added[0][at + 1 :]) for text in bad]
        for i, row in enumerate(added):
            rows.insert((7 * i + 3) % (len(rows) + 1), row)
        return rows

    def engine(self, folder: Path) -> DuckEngine:
        if not self.engine_sizes:
            return DuckEngine(threads=2, temp_folder=str(folder))
        engine = ChoppedEngine(threads=1, temp_folder=str(folder))
        return replace(engine, rows_per_call=3, most_events=8) if self.engine_sizes == "small" else engine

    def write(self, rows: Rows, folder: Path) -> dict[str, Any]:
        """Files of the world with this table; the settings of a plan that reads them."""
        for name, text in self.public.items():
            (folder / name).write_text(text, "utf-8")
        events = self._write_events(rows, folder, ".parquet" if self.parquet else ".csv")
        space = {
            name: str(folder / value) if value in self.public else value
            for name, value in self.settings.get("space", {}).items()
        }
        named = {name: name for name in self.columns}
        source = {"paths": (str(events),), "columns": named, **switched_off()}
        return {
            **self.settings,
            "space": space,
            "source": source,
            "out": str(folder / "release"),
            "owner": str(folder / "owner"),
        }

    def _write_events(self, rows: Rows, folder: Path, suffix: str) -> Path:
        """The path that a plan gives for the source: one file, or a folder or pattern of a file per user."""
        if not self.files:
            _write_rows(folder / f"events{suffix}", self.columns, rows)
            return folder / f"events{suffix}"
        folder = folder / "events"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, user in enumerate(dict.fromkeys(row[0] for row in rows)):
            own = [row for row in rows if row[0] == user]
            _write_rows(folder / f"{number}{suffix}", self.columns, own)
        return folder if self.files == "folder" else folder / f"*{suffix}"


def _write_rows(path: Path, columns: tuple[str, ...], rows: Rows) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            for row in rows:
                writer.writerow(each.isoformat() if isinstance(each, datetime) else each for each in row)
        return
    kinds = {"time": pa.timestamp("us", "UTC"), "lon": pa.float64(), "lat": pa.float64()}
    text = rows and any(isinstance(row[0], str) for row in rows)
    values = {name: [row[i] for row in rows] for i, name in enumerate(columns)}
    arrays = {}
    for name, column in values.items():
        kind = kinds.get(name, pa.string() if name != "user" or text else pa.int64())
        arrays[name] = pa.array(column, kind)
    pq.write_table(pa.table(arrays), path, row_group_size=16)


def stored(number: int) -> dict[str, Any]:
    """How the rows of a world lie in files, and the sizes of the engine that reads them."""
    return {
        "engine_sizes": ("small", "", "spill", "")[number % 4],
        "parquet": number % 4 in (1, 2),
        "files": {3: "glob", 5: "folder"}.get(number % 6, ""),
        "mostly_bad": number % 8 == 4,
    }


# Users

ODD = ("é", "日本", "x", "a,b", 'q"q', " s ")
IDS = (
    lambda i: i,
    lambda i: f"u{i:03d}",
    lambda i: ODD[i // 2 % 6] + f"{i // 2:060d}.{i}",  # two users each are alike in 60 letters and more
    lambda i: -(2**62) + i if i % 2 else 2**62 - i,
)


def user_ids(style: int, count: int) -> list[Any]:
    """Ids of `count` users and, last, of the added one, which comes first, last or between in any order."""
    ids = [IDS[style % len(IDS)](i) for i in range(1, count + 2)]
    at = (0, -1, count // 2)[style % 3]
    ids.append(ids.pop(at))
    return ids


# Events at sites and points


def strips(edges: list[float]) -> str:
    """Zones side by side, planar, as GeoJSON."""
    features = []
    for i, (west, east) in enumerate(pairwise(edges)):
        ring = [[west, 0.0], [east, 0.0], [east, 10.0], [west, 10.0], [west, 0.0]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": {"zone": f"Z{i}"}, "geometry": shape})
    return json.dumps({"type": "FeatureCollection", "crs": None, "features": features})


def site_list(points: list[tuple[float, float]]) -> str:
    rows = [f"s{i},{x!r},{y!r}" for i, (x, y) in enumerate(points)]
    return "\n".join(["site,x,y", *rows, ""])


BORDER_SITES = [(10.0, 3.0), (10.0, 7.0), (20.0, 5.0)]  # no cell lies wholly in one zone
PLACES = {
    "sites on borders": (strips([0.0, 10.0, 20.0, 30.0]), BORDER_SITES),
    # the second zone is 2^-21 of the cells that it cuts; the third a quarter
    "a weight of 2^-21": (strips([0.0, 10.0, 10.0 + 2.0**-17, 20.0, 30.0]), BORDER_SITES),
}


def event_world(kind: str, method: str, number: int, seed: int) -> World:
    """Site or point events for a density or a query."""
    rng = random.Random(f"{seed} {kind} {method} {number}")
    start, end, zone = WINDOWS[number % len(WINDOWS)]
    layout = (*PLACES, "points")[number % 3]
    moments = slot_times(start, end, zone)
    ids = user_ids(number, CROWDS[number % len(CROWDS)])
    spots: list[tuple[Any, ...]]
    if layout == "points":
        spots = [(2.305, 48.805), (2.315, 48.806), (2.325, 48.815), (2.3105, 48.812)]
        space: dict[str, Any] = {"box": (2.30, 48.80, 2.33, 48.82), "cell_m": 1000.0}
        public, columns = {}, ("user", "time", "lon", "lat")
        part: dict[str, Any] = {"bbox": [2.30, 48.80, 2.32, 48.82]}
    else:
        zones, sites = PLACES[layout]
        spots = [(f"s{i}",) for i in range(len(sites))]
        space = {"zones": "zones.geojson", "sites": "sites.csv", "zones_crs": "planar", "sites_crs": "planar"}
        public = {"zones.geojson": zones, "sites.csv": site_list(sites)}
        columns, part = ("user", "time", "site"), {"zones": ["Z0", "Z1"]}

    def rows_of(users: Iterable[Any]) -> Rows:
        rows = []
        for user in users:
            habit = rng.choice(("one", "few", "heavy", "still"))
            count = {"one": 1, "few": 3, "heavy": 4 * len(moments), "still": len(moments)}[habit]
            spot = rng.choice(spots)
            for k in range(count):
                at = moments[k % len(moments)] + timedelta(minutes=rng.randrange(60))
                rows.append((user, at, *(spot if habit == "still" else rng.choice(spots))))
        rng.shuffle(rows)
        return rows

    narrow = [{**part, "slots": [1, 2]}]
    all_asks = [{}, {"slots": [0, 1]}, part, *narrow]
    asks = (narrow, all_asks, [{}], all_asks)[number % 4]
    added = added_events(ADDED[number % len(ADDED)], ids[-1], moments, spots, number)
    # The only event of some users is, but for the id, one of the added user's.
    alike = [(user, *row[1:]) for user, row in zip(ids[4:12], added, strict=False) if user != ids[-1]]
    others = [user for user in ids[:-1] if user not in {row[0] for row in alike}]
    return World(
        name=f"{number}: {len(ids) - 1} users, {ADDED[number % len(ADDED)]}, {layout}, {start}",
        settings={
            "method": method,
            "epsilon": (1.0, 0.3, 4.0)[number % 3],
            "ell": 2,
            "window": {"start": start, "end": end, "time_zone": zone},
            "space": space,
            **({"users": 50} if number % 2 and method == "best" else {}),
            **({"cap": 3} if kind == "density" else {"updates": 3, "asks": asks}),
        },
        columns=columns,
        table=rows_of(others) + alike,
        added=added,
        far=rows_of(user_ids(number, 75)),
        public=public,
        **stored(number),
        currency=currency_of(number, pure=not takes_delta(kind, method) and number % 4 < 2),
        keyed=frozenset() if method == "best" else frozenset({"queries"}),
    )


def currency_of(number: int, *, pure: bool) -> str:
    """How the population of a world counts: in turn with two pots and with one limit."""
    return "epsilon" if pure else ("rho", "pots")[number % 2]


def takes_delta(kind: str, method: str) -> bool:
    """Whether the noise of a method can be Gaussian, by the audit cases of the method."""
    families = {case.family for case in CASES.values() if (case.kind, case.method) == (kind, method)}
    return GAUSSIAN in families


def slot_times(start: str, end: str, zone: str) -> list[datetime]:
    """The start of each hour of a window, on a clock that may change within it."""
    first, last = (
        datetime.fromisoformat(each).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for each in (start, end)
    )
    return [first + timedelta(hours=k) for k in range(int((last - first).total_seconds() // 3600))]


def added_events(habit: str, user: Any, moments: list[datetime], spots: list, number: int) -> Rows:
    """The rows of the added user."""
    spot = spots[number % len(spots)]
    minute = timedelta(minutes=1)
    if habit == "at every bound":
        return [(user, moment + minute, *spot) for moment in moments]
    if habit == "once":
        return [(user, moments[number % len(moments)] + minute, *spot)]
    if habit == "one event many times":
        return [(user, moments[0] + minute, *spot)] * 40
    if habit == "mostly outside":  # of the window, and of the sites or zones
        away = ("nowhere",) if len(spot) == 1 else (12.0, 45.0)
        late = moments[-1] + timedelta(hours=1)
        times = (moments[0] - minute, late, late + timedelta(days=900), moments[1] + minute)
        return [*((user, at, *spot) for at in times), (user, moments[1], *away), (user, moments[2], *away)]
    return [(user, moment + k * minute, *each) for moment in moments for k, each in enumerate(spots)]
