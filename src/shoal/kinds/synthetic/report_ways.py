"""Frequent ways, real and synthetic: lines on the grid, and the first of them side by side in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.metrics.patterns import Pattern, top_patterns
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

SHORTEST, LONGEST = 3, 5
DRAWN, LISTED = 100, 8
BOTH, ALONE = "#0072b2", "#d55e00"
PER = 1_000.0
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
