"""The owner's report of a trajectory release, as one HTML file that needs nothing else to open.

Everything shown comes from the objects that ran: the lattice, the figures of `shoal.metrics.trajectories`,
what the verifier measured. It holds raw places of people, so the page forbids every request and is written
for its owner alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from shoal.kinds.trajectories.picture import RecordPicture, local_zone, picture_payload
from shoal.metrics.trajectories import GroupedFigures, TrajectoryUtility
from shoal.metrics.trajectory_density import HourlyMaps
from shoal.release.page.formats import day, distance, duration, minutes, number, percent
from shoal.release.page.page import float32_base64, render, write_page
from shoal.space.lattice import Lattice

SCRIPTS = ("format.js", "plot.js", "trip_maps.js", "trajectories.js", "trajectory_pictures.js")
COLOUR_QUANTILE = 0.995  # the few fullest cells share the last colour
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
    "seconds": "Seconds",
}


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What the verifier found: pairs of a user and a start that were checked, and those that failed."""

    pairs: int
    violations: int
    faults: int = (
        0  # boxes or samples that break a rule of their own: no own sample, overlap, a sample outside
    )
    seconds: float | None = None

    @property
    def passed(self) -> bool:
        return self.violations == 0 and self.faults == 0


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
    verified: Verified | None = None  # None: not checked
    measured: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the tracker's, to_plain()
    unicity: Sequence[Mapping[str, Any]] = ()  # points, raw, released: shares of people singled out
    runs: Sequence[Mapping[str, Any]] = ()  # tau_min, RUN_FIGURES where known, name of the line in `data`
    maps: HourlyMaps | None = field(default=None, repr=False)
    picture: RecordPicture | None = field(default=None, repr=False)
    notices: Sequence[str] = ()
    public: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the manifest


def trajectory_report(path: Path, facts: TrajectoryFacts) -> Path:
    """Write the owner's report to `path` (readable by the owner alone) and return the path."""
    return write_page(Path(path), trajectory_report_html(facts))


def trajectory_report_html(facts: TrajectoryFacts) -> str:
    """The whole page as text."""
    measured = read_measured(facts.measured, epoch_minutes=facts.epoch_minutes)
    return render(
        "trajectories.html",
        *SCRIPTS,
        payload=_payload(facts, measured),
        title=facts.title,
        subtitle=_subtitle(facts),
        banner="Owner's eyes only: contains raw places of people. Do not publish.",
        facts=facts,
        utility=facts.utility,
        measured=measured,
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
    return value if isinstance(value, str) else f"{value:,.0f}" if name == "seconds" else number(value)


def _payload(facts: TrajectoryFacts, measured: MeasuredFigures) -> dict[str, Any]:
    first = date.fromisoformat(facts.utility.first_day)
    days = [first + timedelta(days=day) for day in range(len(facts.utility.by_day.samples))]
    return {
        "k": facts.k,
        "byHour": _grouped(facts.utility.by_hour),
        "byDay": {**_grouped(facts.utility.by_day), "days": [f"{day:%a} {day.day} {day:%b}" for day in days]},
        "leakage": measured.leakage,
        "knowledge": measured.knowledge,
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
    people = np.concatenate([each[each > 0] for each in (maps.raw, maps.released)])
    difference = np.abs(maps.released - maps.raw)
    return {
        "columns": grid.columns,
        "rows": grid.rows,
        "sideKm": side,
        "westKm": grid.first_x * side,
        "southKm": grid.first_y * side,
        "end": float(np.quantile(people, COLOUR_QUANTILE)) if len(people) else 1.0,
        "differenceEnd": float(np.quantile(difference[difference > 0], COLOUR_QUANTILE))
        if difference.any()
        else 1.0,
        "raw": float32_base64(maps.raw),
        "released": float32_base64(maps.released),
    }


OWN_TABLES = (
    "candidates_quartiles",
    "leakage_by_lag",
    "more_knowledge",
    "same_record",
    "limits",
    "windows",
    "seed",
)


@dataclass(frozen=True, kw_only=True)
class MeasuredFigures:
    """Leakage by lag, what more knowledge does, recurring pairs; `rest` is what has no place of its own."""

    leakage: list[dict[str, Any]] = field(default_factory=list)  # label, share
    knowledge: list[dict[str, Any]] = field(default_factory=list)  # knows, fewer, one, quartiles
    candidates: tuple[float, float, float] | None = None
    pairs: Mapping[str, Any] = field(default_factory=dict)
    windows: int | None = None  # drawn at random, from `seed`
    seed: int | None = None
    rest: dict[str, Any] = field(default_factory=dict)

    @property
    def worst(self) -> list[Mapping[str, Any]]:
        """The pairs of a person and another record that recur most."""
        return [pair for pair in self.pairs.get("worst") or [] if isinstance(pair, Mapping)]

    @property
    def empty(self) -> bool:
        return not (self.leakage or self.knowledge or self.candidates or self.pairs or self.rest)


def read_measured(measured: Mapping[str, Any], *, epoch_minutes: int) -> MeasuredFigures:
    """The figures of `Measured.to_plain()`, lags in hours and minutes."""
    pairs = measured.get("same_record")
    return MeasuredFigures(
        leakage=[
            {
                "label": lag_words(row["from_epochs"] * epoch_minutes, row["to_epochs"] * epoch_minutes),
                **_share(row),
            }
            for row in _rows(measured, "leakage_by_lag", "from_epochs", "to_epochs", "share")
        ],
        knowledge=[
            {
                "knows": str(row["knows"]),
                "fewer": row["fewer_than_k_share"],
                "one": row.get("only_one_share"),
                "quartiles": _three(row.get("quartiles")),
            }
            for row in _rows(measured, "more_knowledge", "knows", "fewer_than_k_share")
        ],
        candidates=_three(measured.get("candidates_quartiles")),
        pairs=pairs if isinstance(pairs, Mapping) else {},
        windows=measured.get("windows"),
        seed=measured.get("seed"),
        rest={name: value for name, value in measured.items() if name not in OWN_TABLES},
    )


def lag_words(first: float, last: float) -> str:
    """A range of minutes, in the largest unit both are whole in.

    >>> lag_words(0, 30), lag_words(30, 60), lag_words(60, 120), lag_words(2880, 5760)
    ('0-30 min', '30-60 min', '1-2 h', '2-4 d')
    """
    for size, unit in ((1440, "d"), (60, "h")):
        if first % size == last % size == 0:
            return f"{first // size:g}-{last // size:g} {unit}"
    return f"{first:g}-{last:g} min"


def _rows(measured: Mapping[str, Any], name: str, *needed: str) -> Iterable[Mapping[str, Any]]:
    rows = measured.get(name)
    if isinstance(rows, Sequence) and not isinstance(rows, str):
        yield from (
            row
            for row in rows
            if isinstance(row, Mapping) and all(row.get(each) is not None for each in needed)
        )


def _share(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of both sides, and of the time before and after the stretch where they were counted apart."""
    sides = {}
    for side in ("before", "after"):
        samples, covered = row.get(f"samples_{side}"), row.get(f"covered_{side}")
        sides[side] = covered / samples if samples and covered is not None else None
    return {"share": row["share"], **sides}


def _three(value: Any) -> tuple[float, float, float] | None:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 3:
        return value[0], value[1], value[2]
    return None
