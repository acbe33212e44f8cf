"""The owner's report of a trajectory release, as one HTML file that needs nothing else to open.

Everything shown comes from the objects that ran: the lattice, the figures of `shoal.metrics.trajectories`,
what the verifier measured. It holds raw places of people, so the page forbids every request and is written
for its owner alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from shoal.attacks.tracker.evidence import Verified
from shoal.errors import PlanError
from shoal.metrics.trajectories import (
    GroupedFigures,
    LocalClock,
    TrajectoryUtility,
    box_spans,
    covering_boxes,
)
from shoal.metrics.trajectory_density import HourlyMaps, hourly_maps
from shoal.release.page.page import (
    colour_end,
    day,
    distance,
    duration,
    float32_base64,
    minutes,
    number,
    percent,
    render,
)
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples

SCRIPTS = ("format.js", "plot.js", "trip_maps.js", "trajectories.js", "trajectory_pictures.js")
RUN_FIGURES = (
    *("median_space_m", "q1_space_m", "q3_space_m"),
    *("median_time_min", "q1_time_min", "q3_time_min", "suppressed"),
)

RUN_COLUMNS = {
    "data": "Data",
    "users": "Users",
    "k": "k",
    "tau_min": "Tau, min",
    "epoch_min": "Epoch, min",
    "violations": "Violations",
    "suppressed": "Suppressed",
    "median_space_m": "Median space",
    "median_time_min": "Median time",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryFacts:
    """All that the page shows. `utility`, `maps` and `picture` are raw: for the owner's eyes only."""

    title: str
    k: int
    tau_minutes: int
    epoch_minutes: int
    lattice: Lattice
    time_zone: str
    users: int
    utility: TrajectoryUtility = field(repr=False)
    verified: Verified
    measured: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the tracker's, to_plain()
    unicity: Sequence[Mapping[str, Any]] = ()  # points, raw, released: shares of people singled out
    runs: Sequence[Mapping[str, Any]] = ()  # tau_min, RUN_FIGURES where known, name of the line in `data`
    maps: HourlyMaps | None = field(default=None, repr=False)
    picture: RecordPicture | None = field(default=None, repr=False)
    notices: Sequence[str] = ()
    public: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the manifest


def trajectory_report_html(facts: TrajectoryFacts) -> str:
    """The whole page as text."""
    leakage = _leakage(facts.measured.get("leakage_by_lag", ()), facts.epoch_minutes)
    knowledge = _knowledge(facts.measured.get("more_knowledge", ()))
    return render(
        "trajectories.html",
        *SCRIPTS,
        payload={**_payload(facts), "leakage": leakage, "knowledge": knowledge},
        title=facts.title,
        subtitle=_subtitle(facts),
        banner="Owner's eyes only: contains raw places of people. Do not publish.",
        facts=facts,
        utility=facts.utility,
        measured=facts.measured,
        leakage=leakage,
        knowledge=knowledge,
        picture=facts.picture,
        runs=_runs_table(facts.runs),
    )


def _subtitle(facts: TrajectoryFacts) -> list[str]:
    lattice, zone = facts.lattice, local_zone(facts.time_zone)
    first = lattice.start.astimezone(zone)
    last = (lattice.start + timedelta(minutes=lattice.minutes * lattice.steps - 1)).astimezone(zone)
    return [
        f"{facts.users:,} people",
        f"{facts.utility.samples:,} samples",
        f"{facts.utility.boxes:,} published boxes",
        f"{day(first)} to {day(last)} ({facts.time_zone})",
        f"lattice of {number(float(lattice.metres))} m and {duration(lattice.minutes)}",
    ]


def _runs_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs at several tau, with the columns that some run has."""
    columns = [name for name in RUN_COLUMNS if any(name in row for row in rows)]
    return {
        "header": [RUN_COLUMNS[name] for name in columns],
        "rows": [[_run_cell(name, row.get(name)) for name in columns] for row in rows],
        "numeric_from": int("data" in columns),
    }


def _run_cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    forms = {"suppressed": percent, "median_space_m": distance, "median_time_min": minutes}
    if name in forms:
        return forms[name](float(value))
    return value if isinstance(value, str) else number(value)


def _payload(facts: TrajectoryFacts) -> dict[str, Any]:
    first = date.fromisoformat(facts.utility.first_day)
    days = [first + timedelta(days=day) for day in range(len(facts.utility.by_day.samples))]
    return {
        "k": facts.k,
        "byHour": _grouped(facts.utility.by_hour),
        "byDay": {**_grouped(facts.utility.by_day), "days": [f"{day:%a} {day.day} {day:%b}" for day in days]},
        "unicity": [{name: row.get(name) for name in ("points", "raw", "released")} for row in facts.unicity],
        "runs": _runs(facts.runs),
        "maps": _maps(facts.maps, facts.lattice),
        "picture": picture_payload(facts.picture, facts.lattice, local_zone(facts.time_zone)),
    }


def _grouped(figures: GroupedFigures) -> dict[str, Any]:
    return {
        "samples": figures.samples,
        "suppressed": figures.suppressed_share,
        "meanSpace": figures.mean_space_m / 1000,
        "medianSpace": figures.median_space_m / 1000,
        "meanTime": figures.mean_time_min,
        "medianTime": figures.median_time_min,
    }


def _runs(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One line per name, points in order of tau."""
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("tau_min"):
            lines.setdefault(str(row.get("data", "")), []).append(row)
    return [
        {
            "name": name,
            "tau": [float(row["tau_min"]) for row in points],
            **{figure: [row.get(figure) for row in points] for figure in RUN_FIGURES},
        }
        for name, points in (
            (name, sorted(of_name, key=lambda row: float(row["tau_min"]))) for name, of_name in lines.items()
        )
    ]


def _maps(maps: HourlyMaps | None, lattice: Lattice) -> dict[str, Any] | None:
    if maps is None or not maps.raw.size:
        return None
    grid = maps.grid
    side = grid.cell_cells * lattice.metres / 1000
    return {
        "columns": grid.columns,
        "rows": grid.rows,
        "sideKm": side,
        "westKm": grid.first_x * side,
        "southKm": grid.first_y * side,
        "end": colour_end(np.concatenate([maps.raw.ravel(), maps.released.ravel()])),
        "differenceEnd": colour_end(np.abs(maps.released - maps.raw)),
        "raw": float32_base64(maps.raw),
        "released": float32_base64(maps.released),
    }


def _leakage(lags: Sequence[Mapping[str, Any]], epoch_minutes: int) -> list[dict[str, Any]]:
    """Shares covered by time from the known period: on both sides, before it, after it."""
    return [
        {
            "label": lag_words(lag["from_epochs"] * epoch_minutes, lag["to_epochs"] * epoch_minutes),
            "share": lag["share"],
            **{
                side: lag[f"covered_{side}"] / lag[f"samples_{side}"] if lag[f"samples_{side}"] else None
                for side in ("before", "after")
            },
        }
        for lag in lags
        if lag["share"] is not None
    ]


def _knowledge(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = {"fewer": "fewer_than_k_share", "one": "only_one_share"}
    return [
        {"knows": row["knows"], "quartiles": row["quartiles"], **{k: row[v] for k, v in names.items()}}
        for row in rows
        if row["fewer_than_k_share"] is not None
    ]


def lag_words(first: float, last: float) -> str:
    """A range of minutes, in the largest unit both are whole in.

    >>> lag_words(0, 30), lag_words(30, 60), lag_words(60, 120), lag_words(2880, 5760)
    ('0-30 min', '30-60 min', '1-2 h', '2-4 d')
    """
    for size, unit in ((1440, "d"), (60, "h")):
        if first % size == last % size == 0:
            return f"{first // size:g}-{last // size:g} {unit}"
    return f"{first:g}-{last:g} min"


MOST_DRAWN = 3_000  # samples or boxes of the picture
MAP_CELLS = 3_000  # of a map of one hour
MAP_SIDES = (1, 2, 5, 10, 20, 30, 50, 100, 200, 500, 1000)  # lattice cells, then doubled


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordPicture:
    """Samples and boxes of one record in a period of steps, in lattice units."""

    user: str  # as in the raw data
    record: int | None  # as in the released file
    first_step: int
    steps: int
    samples: np.ndarray = field(repr=False)  # [samples, 3] t, x, y
    retained: np.ndarray = field(repr=False)  # bool [samples]
    boxes: np.ndarray = field(repr=False)  # [boxes, 6] t0, t1, x0, x1, y0, y1

    @property
    def suppressed(self) -> int:
        return int((~self.retained).sum())


def raw_views(
    samples: LatticeSamples,
    boxes: Boxes,
    lattice: Lattice,
    clock: LocalClock,
    *,
    name_of: Callable[[int], str],
    record_of: Callable[[int], int | None] = lambda user: None,
) -> tuple[HourlyMaps, RecordPicture]:
    """Maps by hour of day, and a typical user over two days from the first local midnight on.

    `name_of` gives the name of user number j in the raw data, `record_of` the record's in the released file.
    """
    slot_steps = max(1, 60 // lattice.minutes)
    maps = hourly_maps(samples, boxes, clock.hour, cell_cells=map_side(samples), slot_steps=slot_steps)
    day = -(-24 * 60 // lattice.minutes)
    midnight = int(np.searchsorted(clock.day, 1)) if lattice.steps >= 3 * day and clock.hour[0] else 0
    period = {"first_step": midnight, "steps": min(2 * day, lattice.steps)}
    user = typical_user(samples, boxes, **period)
    name, record = name_of(user), record_of(user)
    return maps, record_picture(samples, boxes, user, name=name, record=record, **period)


def record_picture(
    samples: LatticeSamples,
    boxes: Boxes,
    user: int,
    *,
    name: str,
    record: int | None = None,
    first_step: int,
    steps: int,
) -> RecordPicture:
    """User number `user` and the record of the same number, from `first_step` for `steps` steps."""
    if not 0 <= user < samples.users or samples.users != boxes.records:
        raise PlanError("picture-user", f"there is no user number {user} with a record of that number.")
    own = slice(*np.searchsorted(samples.user, (user, user + 1)))
    theirs = slice(*np.searchsorted(boxes.record, (user, user + 1)))
    end = first_step + steps
    rows = np.column_stack([samples.t[own], samples.x[own], samples.y[own]])
    rows = rows[(rows[:, 0] >= first_step) & (rows[:, 0] < end)][:MOST_DRAWN]
    columns = (boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1)
    parts = np.column_stack([column[theirs] for column in columns])
    parts = parts[(parts[:, 1] >= first_step) & (parts[:, 0] < end)][:MOST_DRAWN]
    inside = (parts[None, :, [0, 2, 4]] <= rows[:, None]) & (rows[:, None] <= parts[None, :, [1, 3, 5]])
    return RecordPicture(
        user=name,
        record=record,
        first_step=first_step,
        steps=steps,
        samples=rows,
        retained=np.any(np.all(inside, axis=2), axis=1),
        boxes=parts,
    )


def typical_user(samples: LatticeSamples, boxes: Boxes, *, first_step: int, steps: int) -> int:
    """A user to show: one with more samples in the period than three quarters of the users but not more than
    19 of 20, whose samples lie in boxes of about the median size of all."""
    here = (samples.t >= first_step) & (samples.t < first_step + steps)
    count = np.bincount(samples.user[here], minlength=samples.users)
    positive = count[count > 0]
    if not len(positive):
        return 0
    low, high = np.quantile(positive, (0.75, 0.95))
    space, time = box_spans(boxes, minutes=1, metres=1)
    covering = covering_boxes(samples, boxes)
    retained = here & (covering >= 0)
    size = np.log(space[covering[retained]] * time[covering[retained]])
    total = np.bincount(samples.user[retained], weights=size, minlength=samples.users)
    retained_count = np.bincount(samples.user[retained], minlength=samples.users)
    mean = np.divide(total, retained_count, out=np.full(samples.users, np.inf), where=retained_count > 0)
    away = np.abs(mean - (np.median(size) if len(size) else 0.0))
    away[(count < low) | (count > high)] = np.inf
    return int(np.argmin(away)) if np.isfinite(away).any() else int(np.argmax(count))


def map_side(samples: LatticeSamples) -> int:
    """Lattice cells along a side of the map's cells, so that a page can hold 24 maps."""
    spans = [
        int(column.max()) - int(column.min()) + 1 if samples.count else 1 for column in (samples.x, samples.y)
    ]
    sides = [*MAP_SIDES, *(1000 * 2**power for power in range(1, 20))]
    return next(side for side in sides if (spans[0] / side + 1) * (spans[1] / side + 1) <= MAP_CELLS)


def local_zone(name: str) -> ZoneInfo:
    """The zone of that name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise PlanError("report-zone", f"{name!r} is no time zone.", "Write it like Europe/Paris.") from error


def picture_payload(picture: RecordPicture | None, lattice: Lattice, zone: ZoneInfo) -> dict[str, Any] | None:
    """Samples in the middle of their cell and step, boxes from edge to edge, times on the local clock."""
    if picture is None:
        return None
    # One offset for the period: where clocks change within it, later hours are drawn as before the change.
    start = lattice.start + timedelta(minutes=lattice.minutes * picture.first_step)
    wall = start.astimezone(zone).replace(tzinfo=None)
    km = lattice.metres / 1000
    t, x, y = picture.samples.T
    t0, t1, x0, x1, y0, y1 = picture.boxes.T
    return {
        "start": wall.isoformat(timespec="minutes"),
        "minutes": lattice.minutes * picture.steps,
        "t": _minutes(t + 0.5, picture, lattice),
        "x": np.round((x + 0.5) * km, 4),
        "y": np.round((y + 0.5) * km, 4),
        "retained": picture.retained,
        "boxes": np.column_stack(
            [
                _minutes(t0, picture, lattice),
                _minutes(t1 + 1, picture, lattice),
                *(np.round(edge * km, 4) for edge in (x0, x1 + 1, y0, y1 + 1)),
            ]
        ),
    }


def _minutes(step: np.ndarray, picture: RecordPicture, lattice: Lattice) -> np.ndarray:
    """Minutes from the start of the picture; what reaches beyond is cut at its edge."""
    return np.clip((step - picture.first_step) * lattice.minutes, 0, picture.steps * lattice.minutes)
