"""The owner's report of a trajectory release, as one HTML file that needs nothing else to open.

Everything shown comes from the objects that ran: the lattice, the figures of `shoal.metrics.trajectories`,
what the verifier measured. It holds raw places of people, so the page forbids every request and is written
for its owner alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from shoal.kinds.trajectories import report_tables as tables
from shoal.kinds.trajectories.picture import RecordPicture, local_zone, picture_payload
from shoal.kinds.trajectories.report_tables import (
    MeasuredFigures,
    measured_tables,
    measured_words,
    read_measured,
)
from shoal.metrics.trajectories import GroupedFigures, TrajectoryUtility
from shoal.metrics.trajectory_density import HourlyMaps
from shoal.release.page.page import (
    asset,
    fill,
    float32_base64,
    json_for_script,
    plotly_js,
    scripts,
    write_page,
)
from shoal.release.page.tables import text
from shoal.space.lattice import Lattice

SCRIPTS = ("format.js", "plot.js", "trajectories.js", "trajectory_pictures.js")
COLOUR_QUANTILE = 0.995  # the few fullest cells share the last colour
RUN_FIGURES = (
    *("median_space_m", "q1_space_m", "q3_space_m"),
    *("median_time_min", "q1_time_min", "q3_time_min", "suppressed"),
)


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
    return fill(
        asset("trajectories.html"),
        {
            "title": text(facts.title),
            "css": asset("report.css"),
            "subtitle": tables.subtitle(facts),
            "claim": tables.claim(facts),
            "verdict": tables.verdict(facts),
            "limits": text(tables.LIMITS),
            "notices": tables.notices(facts),
            "tiles": tables.tiles(facts),
            "granularity": tables.granularity_table(facts.utility.granularity),
            "density": tables.density_words(facts),
            "measured": measured_words(measured),
            "measured_table": measured_tables(measured, facts.k),
            "runs": tables.runs_table(facts.runs),
            "picture": tables.picture_words(facts),
            "public": tables.public_table(facts.public),
            "payload": json_for_script(_payload(facts, measured)),
            "plotly": plotly_js(),
            "script": scripts(*SCRIPTS),
        },
    )


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
