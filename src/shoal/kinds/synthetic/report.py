"""Synthetic trips as one HTML page: for anyone, or for their owner with the real ones beside them.

The public page is drawn from the published trips alone. The owner's holds figures of real trips: it forbids
every request and is written for its owner alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from shoal.kinds.synthetic import report_tables as tables
from shoal.metrics.patterns import (
    distance_histogram,
    duration_histogram,
    length_histogram,
    stay_histogram,
    visits_per_cell,
)
from shoal.release.page.page import (
    asset,
    colour_end,
    drawn_blocks,
    fill,
    float32_base64,
    json_for_script,
    plotly_js,
    scripts,
    write_page,
)
from shoal.release.page.tables import text
from shoal.space.cell_paths import CellPaths

SCRIPTS = ("format.js", "plot.js", "trip_maps.js", "synthetic.js")
PER = 1_000.0  # visits are drawn per so many trips
QUARTER_US = 900_000_000  # offsets of time zones are whole quarters of an hour
NEAREST_BINS = 24
LEAST_SHARE = 0.003  # of trips, that a bin of its own needs at the end of a distribution


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestTrips:
    """How near trips come to real ones: metres for each synthetic trip asked for, and for each real one."""

    synthetic_m: np.ndarray = field(repr=False)  # to the nearest real trip
    real_m: np.ndarray = field(repr=False)  # to the nearest real trip of somebody else
    copies: tuple[float, float]  # shares at 0 m, synthetic and real
    ratios: tuple[float, float]  # medians of nearest / second nearest
    least_cells: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticReportInputs:
    """All that the page shows. With `figures` it is raw: for the owner's eyes only."""

    title: str
    manifest: Mapping[str, Any]
    counts: Mapping[str, int]  # "Synthetic trips" and, for the owner, "Real trips"
    synthetic: CellPaths | None = field(default=None, repr=False)  # None: nothing is drawn
    real: CellPaths | None = field(default=None, repr=False)
    figures: Mapping[str, float] | None = field(default=None, repr=False)  # synthetic against real
    nearest: NearestTrips | None = field(default=None, repr=False)
    budget: Mapping[str, Any] = field(default_factory=dict)
    outside_share: float | None = None  # of the owner's points, beyond the box
    slow_share: float | None = None  # of steps between two points, longer than the step of time

    @property
    def owners(self) -> bool:
        return self.figures is not None


def write_synthetic_report(path: Path, inputs: SyntheticReportInputs) -> Path:
    """Write the page to `path` and return the path."""
    return write_page(Path(path), synthetic_report_html(inputs))


def synthetic_report_html(inputs: SyntheticReportInputs) -> str:
    """The whole page as text."""
    drawn = inputs.synthetic is not None
    return fill(
        asset("synthetic.html"),
        {
            "title": text(inputs.title),
            "css": asset("report.css"),
            "banner": tables.banner(inputs.owners),
            "subtitle": tables.subtitle(inputs),
            "sentence": tables.sentence(inputs.manifest),
            "notices": tables.notices(inputs),
            "tiles": tables.tiles(inputs),
            "sections": tables.sections(inputs),
            "reading": tables.reading(inputs),
            "payload": json_for_script(_payload(inputs)),
            "plotly": plotly_js() if drawn else "",
            "script": scripts(*SCRIPTS) if drawn else "",
        },
    )


def _payload(inputs: SyntheticReportInputs) -> dict[str, Any]:
    synthetic, real = inputs.synthetic, inputs.real
    if synthetic is None:
        return {}
    zone = tables.zone_of(inputs.manifest)
    sides = {"synthetic": synthetic, **({} if real is None else {"real": real})}
    return {
        "map": _maps(sides),
        "spread": {name: _spread(name, sides, zone) for name in tables.SPREADS},
        "nearest": None if inputs.nearest is None else _near(inputs.nearest),
    }


def _maps(sides: Mapping[str, CellPaths]) -> dict[str, Any]:
    """Visits of cells per 1,000 trips; where a side has many cells, means of blocks of them."""
    grid = sides["synthetic"].grid
    shown, block = {}, 1
    for name, paths in sides.items():
        visits = visits_per_cell(paths).reshape(grid.rows, grid.columns) * (PER / max(paths.count, 1))
        shown[name], block = drawn_blocks(visits)
    both = list(shown.values())
    width, height = grid.cell_m
    return {
        **{name: float32_base64(values) for name, values in shown.items()},
        "columns": both[0].shape[1],
        "rows": both[0].shape[0],
        "widthKm": width * block / 1000,
        "heightKm": height * block / 1000,
        "end": colour_end(np.concatenate([values.ravel() for values in both])),
        "differenceEnd": colour_end(np.abs(both[0] - both[-1])),
    }


def _spread(name: str, sides: Mapping[str, CellPaths], zone: str) -> dict[str, Any]:
    """Shares of trips per bin; bins at the end with hardly a trip are drawn as one, which is open."""
    shares = {side: _shares(name, paths, zone) for side, paths in sides.items()}
    if name == "hours":
        return {"bins": 24, "open": False, **{side: each.tolist() for side, each in shares.items()}}
    most = np.maximum.reduce(list(shares.values()))
    filled = np.flatnonzero(most >= LEAST_SHARE)
    last = min((int(filled[-1]) if filled.size else 0) + 1, most.size - 1)
    drawn = {side: [*each[:last].tolist(), float(each[last:].sum())] for side, each in shares.items()}
    return {"bins": last + 1, "open": True, **drawn}


def _shares(name: str, paths: CellPaths, zone: str) -> np.ndarray:
    kinds = {
        "distance": distance_histogram,
        "moves": length_histogram,
        "stay": stay_histogram,
        "duration": duration_histogram,
    }
    counts = np.bincount(local_hours(paths.start_us, zone), minlength=24) if name == "hours" else None
    return (kinds[name](paths) if counts is None else counts) / max(paths.count, 1)


def local_hours(start_us: np.ndarray, zone: str) -> np.ndarray:
    """int64: hour of day where the trips are.

    >>> local_hours(np.array([0, 3_600_000_000]), "Asia/Kolkata").tolist()
    [5, 6]
    """
    quarters, place = np.unique(start_us // QUARTER_US, return_inverse=True)
    there = ZoneInfo(zone)
    hours = [
        datetime.fromtimestamp(int(each) * QUARTER_US // 1_000_000, UTC).astimezone(there).hour
        for each in quarters
    ]
    return np.array(hours, np.int64)[place]


def _near(nearest: NearestTrips) -> dict[str, Any]:
    """Shares of trips by distance, copies in a bin of their own."""
    sides = {"synthetic": nearest.synthetic_m, "real": nearest.real_m}
    known = np.concatenate([each[np.isfinite(each)] for each in sides.values()])
    end = float(np.quantile(known, 0.98)) if known.size else 1.0
    step = max(end, 1.0) / NEAREST_BINS

    def shares(metres: np.ndarray) -> list[float]:
        apart = metres[np.isfinite(metres) & (metres > 0)]
        bins = np.minimum(apart // step, NEAREST_BINS).astype(int) + 1
        counts = np.bincount(bins, minlength=NEAREST_BINS + 2)
        counts[0] = (metres == 0).sum()
        return (counts / max(metres.size, 1)).tolist()

    return {"stepM": step, **{name: shares(metres) for name, metres in sides.items()}}
