"""The owner's report of a density release, as one HTML file that needs nothing else to open.

Everything shown comes from the objects that ran: the manifest, the zones, the raw and released arrays.
The page carries a policy that forbids every request, so raw figures cannot leave through it.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import OutputError, PlanError
from shoal.metrics.density import density_utility
from shoal.release.report import tables
from shoal.release.report.encode import json_for_script
from shoal.release.report.payload import density_payload

if TYPE_CHECKING:
    from shoal.space.zones import Zones

# Above this many numbers the page would grow past what a browser opens at ease (16 bytes each, as text more).
MAX_DRAWN_VALUES = 2_000_000
SCRIPTS = ("format.js", "map.js", "charts.js", "main.js")


@dataclass(frozen=True, kw_only=True)
class DensityReportInputs:
    """What a density run leaves for its owner. `exact` is raw: the report is for the owner's eyes only."""

    manifest: dict[str, Any] = field(repr=False)
    zones: Zones = field(repr=False)
    slot_starts: list[str] = field(repr=False)  # local ISO time with offset, one per slot
    exact: np.ndarray = field(repr=False)  # float [zones, slots], raw people
    released: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)  # ends of the 95 % interval
    high: np.ndarray = field(repr=False)
    budget: dict[str, Any]  # population, currency, limit, spent_before, this_release, left; may be empty
    title: str


def write_density_report(path: Path, inputs: DensityReportInputs) -> Path:
    """Write the owner's report to `path` (readable by the owner alone) and return the path."""
    path = Path(path)
    page = density_report_html(inputs)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes the file 0600; the rename leaves the old report or the new one, never half of one.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".report-", suffix=".html")
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(page)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise _unwritable(path, error) from error
    return path


def density_report_html(inputs: DensityReportInputs) -> str:
    """The whole page as text."""
    local_starts = _checked_starts(inputs)
    utility = density_utility(
        inputs.exact,
        inputs.released,
        inputs.low,
        inputs.high,
        hour_of_day=np.array([start.hour for start in local_starts]),
    )
    slots_drawn = min(utility.slots, max(1, MAX_DRAWN_VALUES // utility.zones))
    payload = density_payload(inputs, utility, local_starts, slots_drawn)
    return _fill(
        _asset("page.html"),
        {
            "title": tables.text(inputs.title),
            "css": _asset("report.css"),
            "sentence": tables.guarantee_sentence(inputs.manifest),
            "subtitle": tables.subtitle(inputs.manifest, local_starts, utility),
            "key_figures": tables.key_figures(inputs.manifest, utility),
            "notices": tables.notices(inputs.manifest, utility, slots_drawn),
            "error_table": tables.error_table(utility),
            "budget": tables.budget_table(inputs.budget),
            "spends": tables.spends_table(inputs.manifest),
            "plan": tables.plan_table(inputs.manifest),
            "payload": json_for_script(payload),
            "plotly": _plotly_js(),
            "script": "\n".join(_asset(name) for name in SCRIPTS),
        },
    )


def _checked_starts(inputs: DensityReportInputs) -> list[datetime]:
    zones, slots = len(inputs.zones.ids), len(inputs.slot_starts)
    if np.shape(inputs.exact) != (zones, slots):
        raise PlanError(
            "report-shape",
            f"there must be one row per zone and one column per slot; got {list(np.shape(inputs.exact))} "
            f"for {zones} zones and {slots} slots.",
            "Pass the zones and slots the arrays were computed on.",
        )
    try:
        return [datetime.fromisoformat(start) for start in inputs.slot_starts]
    except ValueError as error:
        raise PlanError(
            "report-slots",
            f"slot starts must be ISO times; {error}.",
            "Write them like 2026-03-02T00:00:00+01:00.",
        ) from error


def _fill(template: str, parts: dict[str, str]) -> str:
    """Replace {{name}} once each, in one pass, so that what is put in is never read as a placeholder."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], template)


def _asset(name: str) -> str:
    return resources.files("shoal.release.report").joinpath("assets", name).read_text(encoding="utf-8")


def _plotly_js() -> str:
    """The library as the wheel ships it: 4.8 MB, of which there is no smaller bundle inside."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", "<\\/script")


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        "report-unwritable",
        f"the report needs a folder it can write to; {path} gave: {error.strerror}.",
        "Choose another folder or free some space.",
    )
