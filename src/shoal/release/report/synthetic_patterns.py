"""Frequent ways, real and synthetic, drawn as lines on the grid and set side by side in a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.metrics.patterns import Pattern, top_patterns
from shoal.release.report.tables import text
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

SHORTEST, LONGEST = 3, 5
DRAWN, LISTED = 100, 8
BOTH, ALONE = "#0072b2", "#d55e00"
PER = 1_000.0
ACROSS = {"ways": 600, "way": 84}  # lines of width 1 that fit beside each other


def patterns_section(real: CellPaths, synthetic: CellPaths) -> str:
    """Two maps of the most frequent ways, and a table of the first of them."""
    exact, made = (top_patterns(paths, SHORTEST, LONGEST, DRAWN) for paths in (real, synthetic))
    if not exact and not made:
        return ""
    common = {cells for cells, _ in exact} & {cells for cells, _ in made}
    window = _window([cells for cells, _ in exact + made], real.grid)
    maps = "".join(
        f"<div><h3>{title}</h3>{_map(found, common, window, real.grid)}</div>"
        for title, found in (("Real (raw)", exact), ("Synthetic", made))
    )
    note = (
        f"The {DRAWN} most frequent runs of {SHORTEST} to {LONGEST} cells; a dot marks where they end, "
        f'wider lines are more frequent. <i class="key" style="border-color:{BOTH}"></i>among the first of '
        f'both <i class="key" style="border-color:{ALONE}"></i>of this side alone'
    )
    return (
        f'<section><h2>Frequent ways</h2><p class="note">{note}</p><div class="halves">{maps}</div>'
        f"{_table(real, synthetic, exact, made)}</section>"
    )


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


def _table(
    real: CellPaths,
    synthetic: CellPaths,
    exact: Sequence[tuple[Pattern, int]],
    made: Sequence[tuple[Pattern, int]],
) -> str:
    """The first real ways and the first synthetic ones, with how often each occurs on either side."""
    ranks = [{cells: place + 1 for place, (cells, _) in enumerate(found)} for found in (exact, made)]
    firsts = [cells for cells, _ in [*exact[:LISTED], *made[:LISTED]]]
    rows = []
    for cells in dict.fromkeys(firsts):
        counts = [
            f"{occurrences(paths, cells) * PER / max(paths.count, 1):,.1f}" for paths in (real, synthetic)
        ]
        places = [str(rank[cells]) if cells in rank else f"beyond {DRAWN}" for rank in ranks]
        window = _window([cells], real.grid, margin=1)
        picture = _svg([(cells, BOTH, 3.0)], window, real.grid, "way", "the way")
        named = " &rarr; ".join(f"{cell % real.grid.columns},{cell // real.grid.columns}" for cell in cells)
        numbers = "".join(f'<td class="num">{text(value)}</td>' for value in (*counts, *places))
        rows.append(f"<tr><td>{picture}</td><td>{named}</td>{numbers}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("Way", "Cells (column,row from the south-west)"))
    head += "".join(
        f'<th class="num">{name}</th>'
        for name in (
            "Real per 1,000 trips",
            "Synthetic per 1,000 trips",
            "Rank among real",
            "Rank among synthetic",
        )
    )
    return (
        f'<h3>The first {LISTED} of each side</h3><div class="scroll ways-table"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _map(
    found: Sequence[tuple[Pattern, int]],
    common: set[Pattern],
    window: tuple[int, int, int, int],
    grid: CellGrid,
) -> str:
    """Rare ones first, so that frequent ones lie on top."""
    most = max((times for _, times in found), default=1)
    lines = [
        (cells, BOTH if cells in common else ALONE, 1.0 + 5.0 * np.sqrt(times / most))
        for cells, times in reversed(found)
    ]
    return _svg(lines, window, grid, "ways", "map of frequent ways")


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


def _svg(
    lines: Sequence[tuple[Pattern, str, float]],
    window: tuple[int, int, int, int],
    grid: CellGrid,
    kind: str,
    label: str,
) -> str:
    """Cells as a light grid, ways as lines with a dot at their end; widths are in hundredths of a cell."""
    west, south, east, north = window
    aspect = grid.cell_m[1] / grid.cell_m[0]
    width, height = (east - west) * 100, (north - south) * 100 * aspect
    drawn = [
        *(f"M{100 * x} 0V{height:.0f}" for x in range(1, east - west)),
        *(f"M0 {100 * aspect * y:.0f}H{width}" for y in range(1, north - south)),
    ]
    parts = [f'<path d="{"".join(drawn)}" stroke="#e8ecef" stroke-width="3" fill="none"/>']
    thick = max(width, height) / ACROSS[kind]
    for cells, colour, wide in lines:
        points = [
            (
                (cell % grid.columns - west + 0.5) * 100,
                height - (cell // grid.columns - south + 0.5) * 100 * aspect,
            )
            for cell in cells
        ]
        way = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        size = wide * thick
        x, y = points[-1]
        parts.append(
            f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="{size:.1f}" '
            'stroke-opacity="0.6" stroke-linejoin="round" stroke-linecap="round"/>'
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{1.3 * size:.1f}" fill="{colour}"/>'
        )
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )
