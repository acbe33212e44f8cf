"""What adversaries reached, drawn: errors over people, over epsilon, over the hours of the inferred time.

The figures of Pyrgelis et al. 2017: cumulative curves over users (1 to 5), box plots of privacy gain over
epsilon (7 to 9), hourly curves (6). Drawn from plain values; the page opens offline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shoal.kinds.density.compare_page import RAW_BANNER
from shoal.release.page.page import asset, fill, json_for_script, local_times, plotly_js, scripts, write_page
from shoal.release.page.payload import day_ticks, slot_label
from shoal.release.page.tables import text

SCRIPTS = ("format.js", "plot.js", "attack.js")
POINTS = 200  # of a cumulative curve


@dataclass(frozen=True, kw_only=True)
class AttackCurve:
    """One adversary under one prior: its error per user and, where there is one, per slot."""

    prior: str
    goal: str
    name: str  # inference, with its reading
    error: np.ndarray = field(repr=False)  # [users]
    by_slot: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class GainBox:
    """Privacy gain over users of one defence at one epsilon, with the error of its counts."""

    defence: str
    epsilon: float | None
    mre: float | None
    gain: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class AttackReportInputs:
    """All that the page shows."""

    title: str
    subtitle: str
    summary: Sequence[str]
    curves: Sequence[AttackCurve] = field(repr=False)
    boxes: Sequence[GainBox] = field(repr=False)
    boxes_of: str  # which adversary the gains are of
    table: Sequence[Mapping[str, Any]] = field(repr=False)
    slot_starts: list[str] = field(repr=False)


def write_attack_report(path: Path, inputs: AttackReportInputs) -> Path:
    """Write the page to `path`, readable by the owner alone, and return the path."""
    return write_page(Path(path), attack_report_html(inputs))


def attack_report_html(inputs: AttackReportInputs) -> str:
    """The whole page as text."""
    return fill(
        asset("attack.html"),
        {
            "title": text(inputs.title),
            "css": asset("report.css"),
            "banner": text(RAW_BANNER),
            "subtitle": text(inputs.subtitle),
            "summary": "".join(f"<li>{text(line)}</li>" for line in inputs.summary),
            "boxes_of": text(inputs.boxes_of),
            "table": _table(inputs.table),
            "payload": json_for_script(_payload(inputs)),
            "plotly": plotly_js(),
            "script": scripts(*SCRIPTS),
        },
    )


def _payload(inputs: AttackReportInputs) -> dict[str, Any]:
    starts = local_times(inputs.slot_starts)
    level = np.linspace(0, 1, POINTS)
    return {
        "level": level,
        "curves": [
            {
                "prior": curve.prior,
                "goal": curve.goal,
                "name": curve.name,
                "mean": float(curve.error.mean()),
                "error": np.quantile(curve.error, level),
                "bySlot": curve.by_slot,
            }
            for curve in inputs.curves
        ],
        "boxes": [
            {
                "defence": box.defence,
                "epsilon": box.epsilon,
                "mre": box.mre,
                "mean": float(box.gain.mean()),
                "quartiles": np.quantile(box.gain, (0.05, 0.25, 0.5, 0.75, 0.95)),
            }
            for box in inputs.boxes
        ],
        "slotLabels": [slot_label(start) for start in starts],
        "dayTicks": day_ticks(starts),
    }


COLUMNS = {
    "prior": "knows",
    "inference": "does",
    "goal": "goal",
    "measure": "measure",
    "defence": "counts",
    "set_at": "set at",
    "error": "error",
    "error_median": "median",
    "privacy_loss": "loss",
    "privacy_gain": "gain",
    "mre": "MRE of counts",
}


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{text(words)}</th>" for words in COLUMNS.values())
    body = "".join(
        "<tr>" + "".join(f"<td>{text(_cell(name, row.get(name)))}</td>" for name in COLUMNS) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "raw" if name == "defence" else "nothing" if name == "prior" else ""
    return f"{value:.3g}" if name == "set_at" else f"{value:.3f}" if isinstance(value, float) else str(value)
