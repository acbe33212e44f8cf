"""Synthetic trips as one HTML page: for anyone, or for their owner with the real ones beside them.

The public page is drawn from the published trips alone. The owner's holds figures of real trips: it forbids
every request and is written for its owner alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from shoal.attacks.models.nearest_record import LEAST_CELLS, OwnRecords
from shoal.kinds.trips import cell_maps, grid_subtitle
from shoal.metrics.patterns import (
    Pattern,
    distance_histogram,
    duration_histogram,
    length_histogram,
    stay_histogram,
    top_patterns,
    visits_per_cell,
)
from shoal.release.page.page import UNDEFINED, figure, metres, percent, render
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

SCRIPTS = ("format.js", "plot.js", "trip_maps.js", "synthetic.js")
PER = 1_000.0  # trips, that visits and ways are drawn per
QUARTER_US = 900_000_000  # offsets of time zones are whole quarters of an hour
NEAREST_BINS = 24
SURE = 2.6  # standard errors: one page in a hundred would warn at random
SPREADS = {
    "distance": "Span",
    "moves": "Length",
    "stay": "Stay",
    "duration": "Duration",
    "hours": "Start",
}
LEAST_SHARE = 0.003  # of trips, that a bin of its own needs at the end of a distribution


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticReportInputs:
    """All that the page shows. With `figures` it is raw: for the owner's eyes only."""

    title: str
    manifest: Mapping[str, Any]
    counts: Mapping[str, int]  # "Synthetic trips" and, for the owner, "Real trips"
    synthetic: CellPaths | None = field(default=None, repr=False)  # None: nothing is drawn
    real: CellPaths | None = field(default=None, repr=False)
    figures: Mapping[str, float] | None = field(default=None, repr=False)  # synthetic against real
    nearest: OwnRecords | None = field(default=None, repr=False)
    budget: Mapping[str, Any] = field(default_factory=dict)
    outside_share: float | None = None  # of the owner's points, beyond the box
    slow_share: float | None = None  # of steps between two points, longer than the step of time

    @property
    def owners(self) -> bool:
        return self.figures is not None


def synthetic_report_html(inputs: SyntheticReportInputs) -> str:
    """The whole page as text."""
    drawn = inputs.synthetic is not None
    return render(
        "synthetic.html",
        *(SCRIPTS if drawn else ()),
        payload=_payload(inputs),
        title=inputs.title,
        subtitle=_subtitle(inputs),
        banner="Owner's eyes only: contains figures of real trips. Do not publish." if inputs.owners else "",
        manifest=dict(inputs.manifest),
        counts=inputs.counts,
        figures=inputs.figures or {},
        nearest=None if inputs.nearest is None else _nearest(inputs.nearest),
        owners=inputs.owners,
        drawn=drawn,
        real=inputs.real,
        ways=frequent_ways(inputs.real, inputs.synthetic) if inputs.real and inputs.synthetic else None,
        time_zone=zone_of(inputs.manifest),
        spreads=SPREADS,
        outside_share=inputs.outside_share,
        slow_share=inputs.slow_share,
        budget=dict(inputs.budget),
    )


def zone_of(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("public") or {}).get("time_zone") or "UTC")


def _subtitle(inputs: SyntheticReportInputs) -> list[str]:
    if inputs.synthetic is None:
        return grid_subtitle(None, inputs.manifest)
    return grid_subtitle(inputs.synthetic.grid, inputs.manifest, f"steps of {inputs.synthetic.step_s:g} s")


def _payload(inputs: SyntheticReportInputs) -> dict[str, Any]:
    synthetic, real = inputs.synthetic, inputs.real
    if synthetic is None:
        return {}
    zone = zone_of(inputs.manifest)
    sides = {"synthetic": synthetic, **({} if real is None else {"real": real})}
    return {
        "map": cell_maps(
            synthetic.grid,
            {
                side: visits_per_cell(paths).reshape(synthetic.grid.rows, synthetic.grid.columns)
                * (PER / max(paths.count, 1))
                for side, paths in sides.items()
            },
        ),
        "spread": {name: _spread(name, sides, zone) for name in SPREADS},
        "nearest": None if inputs.nearest is None else _near(inputs.nearest),
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


def _nearest(near: OwnRecords) -> dict[str, Any]:
    """Synthetic trips to real ones, against real ones to those of others; whether more of them are copies."""
    named = (("Synthetic to real", near.synthetic), ("Real to real of somebody else", near.real))
    synthetic, real = near.synthetic.copies, near.real.copies
    more = None  # too few trips to tell
    if not (math.isnan(synthetic) or math.isnan(real)):
        variance = sum(side.copies * (1 - side.copies) / side.distance_m.size for _, side in named)
        more = synthetic > real + SURE * math.sqrt(variance)
    return {
        "copies": (synthetic, real),
        "sizes": (near.synthetic.distance_m.size, near.real.distance_m.size),
        "least_cells": LEAST_CELLS,
        "more_copies": more,
        "rows": [
            [name, percent(side.copies), *_quantiles(side.distance_m), figure(side.ratio)]
            for name, side in named
        ],
    }


def _near(nearest: OwnRecords) -> dict[str, Any]:
    """Shares of trips by distance, copies in a bin of their own."""
    sides = {"synthetic": nearest.synthetic.distance_m, "real": nearest.real.distance_m}
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


def _quantiles(values: np.ndarray) -> list[str]:
    """The median and the nearest tenth of the known distances."""
    known = values[np.isfinite(values)]
    if not known.size:
        return [UNDEFINED, UNDEFINED]
    return [metres(float(np.quantile(known, share))) for share in (0.5, 0.1)]


SHORTEST, LONGEST = 3, 5
DRAWN, LISTED = 100, 8
BOTH, ALONE = "#0072b2", "#d55e00"
ACROSS_MAP, ACROSS_ROW = 600, 84  # lines of width 1 that fit beside each other


def frequent_ways(real: CellPaths, synthetic: CellPaths) -> dict[str, Any] | None:
    """Two maps of the most frequent ways, and a table of the first of them; None where there is no way."""
    exact, drawn = (top_patterns(paths, SHORTEST, LONGEST, DRAWN) for paths in (real, synthetic))
    if not exact and not drawn:
        return None
    common = {cells for cells, _ in exact} & {cells for cells, _ in drawn}
    window = _window([cells for cells, _ in exact + drawn], real.grid)
    return {
        "drawn": DRAWN,
        "listed": LISTED,
        "sizes": (SHORTEST, LONGEST),
        "both": BOTH,
        "alone": ALONE,
        "real": _map(exact, common, window, real.grid),
        "synthetic": _map(drawn, common, window, real.grid),
        "rows": _rows(real, synthetic, exact, drawn),
    }


def occurrences(paths: CellPaths, pattern: Pattern) -> int:
    """How often the cells of a pattern come one after the other in a trip."""
    trip, size = paths.trip_of_visit, len(pattern)
    if paths.cells.size < size:
        return 0
    last = paths.cells.size - size + 1
    hit = trip[:last] == trip[size - 1 :]
    for step, cell in enumerate(pattern):
        hit &= paths.cells[step : step + last] == cell
    return int(hit.sum())


def _rows(
    real: CellPaths,
    synthetic: CellPaths,
    exact: Sequence[tuple[Pattern, int]],
    drawn: Sequence[tuple[Pattern, int]],
) -> list[dict[str, Any]]:
    """The first real ways and the first synthetic ones, with how often each occurs on either side."""
    columns = real.grid.columns
    ranks = [{cells: place + 1 for place, (cells, _) in enumerate(side)} for side in (exact, drawn)]
    firsts = [cells for cells, _ in [*exact[:LISTED], *drawn[:LISTED]]]
    rows = []
    for cells in dict.fromkeys(firsts):
        counts = [
            f"{occurrences(paths, cells) * PER / max(paths.count, 1):,.1f}" for paths in (real, synthetic)
        ]
        places = [str(rank[cells]) if cells in rank else f"beyond {DRAWN}" for rank in ranks]
        window = _window([cells], real.grid)
        rows.append(
            {
                "drawing": _drawing([(cells, BOTH, 3.0)], window, real.grid, ACROSS_ROW),
                "cells": [f"{cell % columns},{cell // columns}" for cell in cells],
                "figures": [*counts, *places],
            }
        )
    return rows


def _map(
    ways: Sequence[tuple[Pattern, int]],
    common: set[Pattern],
    window: tuple[int, int, int, int],
    grid: CellGrid,
) -> dict[str, Any]:
    """Rare ones first, so that frequent ones lie on top."""
    most = max((times for _, times in ways), default=1)
    lines = [
        (cells, BOTH if cells in common else ALONE, 1.0 + 5.0 * np.sqrt(times / most))
        for cells, times in reversed(ways)
    ]
    return _drawing(lines, window, grid, ACROSS_MAP)


def _window(patterns: Sequence[Pattern], grid: CellGrid, margin: int = 1) -> tuple[int, int, int, int]:
    """West, south, east, north of what is drawn, in cells: the part of the grid with something in it."""
    cells = np.concatenate([np.array(each) for each in patterns])
    x, y = cells % grid.columns, cells // grid.columns
    west, south = max(int(x.min()) - margin, 0), max(int(y.min()) - margin, 0)
    return (
        west,
        south,
        min(int(x.max()) + margin + 1, grid.columns),
        min(int(y.max()) + margin + 1, grid.rows),
    )


def _drawing(
    lines: Sequence[tuple[Pattern, str, float]],
    window: tuple[int, int, int, int],
    grid: CellGrid,
    across: int,
) -> dict[str, Any]:
    """A drawing in hundredths of a cell: the lines of the grid, and each way as points with a width."""
    west, south, east, north = window
    aspect = grid.cell_m[1] / grid.cell_m[0]
    width, height = (east - west) * 100, (north - south) * 100 * aspect
    edges = [
        *(f"M{100 * x} 0V{height:.0f}" for x in range(1, east - west)),
        *(f"M0 {100 * aspect * y:.0f}H{width}" for y in range(1, north - south)),
    ]
    thick = max(width, height) / across
    ways = []
    for cells, colour, wide in lines:
        points = [
            (
                round((cell % grid.columns - west + 0.5) * 100),
                round(height - (cell // grid.columns - south + 0.5) * 100 * aspect),
            )
            for cell in cells
        ]
        ways.append(
            {
                "points": " ".join(f"{x},{y}" for x, y in points),
                "end": points[-1],
                "colour": colour,
                "width": wide * thick,
            }
        )
    return {"width": width, "height": round(height), "grid": "".join(edges), "lines": ways}
