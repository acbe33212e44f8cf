"""The words and tables of a page of synthetic trips, as escaped HTML.

Frequent ways, real and synthetic, drawn as lines on the grid and set side by side in a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.kinds.synthetic.report_figures import FIGURES, figure, figures_table, nearest_section
from shoal.metrics.patterns import Pattern, top_patterns
from shoal.release.manifest import is_tuned
from shoal.release.page.tables import (
    budget_table,
    guarantee_sentence,
    number,
    percent,
    plan_table,
    spends_table,
    text,
)
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

if TYPE_CHECKING:
    from shoal.kinds.synthetic.report import SyntheticReportInputs


OWNERS = "Owner's eyes only: contains figures of real trips. Do not publish."
NOBODY = "Nobody made the synthetic trips: they were drawn from a model that noise was added to."
SPREADS = {
    "distance": "Span",
    "moves": "Length",
    "stay": "Stay",
    "duration": "Duration",
    "hours": "Start",
}


def zone_of(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("public") or {}).get("time_zone") or "UTC")


def banner(owners: bool) -> str:
    return f'<p class="banner" role="alert"><strong>{text(OWNERS)}</strong></p>' if owners else ""


def subtitle(inputs: SyntheticReportInputs) -> str:
    public, parts = inputs.manifest.get("public") or {}, []
    if inputs.synthetic is not None:
        grid = inputs.synthetic.grid
        width, height = grid.cell_m
        parts += [
            f"{grid.columns} x {grid.rows} cells of {width:,.0f} x {height:,.0f} m",
            f"steps of {inputs.synthetic.step_s:g} s",
        ]
    parts += [f"method {public['method']}"] if "method" in public else []
    window = public.get("window") or {}
    parts += [f"{window['start']} to {window['end']}"] if {"start", "end"} <= set(window) else []
    return " &middot; ".join(text(part) for part in parts)


def sentence(manifest: Mapping[str, Any]) -> str:
    if not manifest:
        return "The file came without its manifest, so nothing is known of its guarantee."
    return f"{text(manifest.get('unit', ''))} {guarantee_sentence(dict(manifest))}"


def notices(inputs: SyntheticReportInputs) -> str:
    lines = [NOBODY]
    if inputs.manifest.get("reproducible"):
        lines.append(
            "The noise of this run was seeded: it can be computed again, and the run must not be published."
        )
    if is_tuned(inputs.manifest.get("tuned_on_private_data")):
        lines.append(
            "A method or parameter was chosen by looking at private data; the guarantee leaves that out."
        )
    if inputs.outside_share:
        some = inputs.outside_share >= 0.0001
        share = percent(inputs.outside_share) if some else "Less than 0.01 %"
        lines.append(f"{share} of the points of trips lie beyond the box; trips are cut there.")
    if inputs.slow_share is not None and inputs.slow_share > 0.5:
        lines.append(
            f"{percent(inputs.slow_share)} of the steps between two points are longer than the step of time: "
            "cells between them were filled in, and short stays cannot be seen. A longer step fits better."
        )
    if inputs.real is not None and not inputs.real.count:
        lines.append("No real trip lies in the window and the box: the release is noise alone.")
    return "".join(f'<p class="notice">{text(line)}</p>' for line in lines)


def tiles(inputs: SyntheticReportInputs) -> str:
    """The row of figures on top."""
    guarantee = inputs.manifest.get("guarantee") or {}
    epsilon, delta = guarantee.get("epsilon"), guarantee.get("delta")
    shown = [
        (
            "Guarantee",
            "unknown" if epsilon is None else f"\N{GREEK SMALL LETTER EPSILON} = {number(float(epsilon))}",
            "no manifest"
            if epsilon is None
            else f"per {guarantee.get('unit')}, delta {number(float(delta or 0))}",
        ),
        *((name, number(value), "raw" if "Real" in name else "") for name, value in inputs.counts.items()),
    ]
    figures = inputs.figures or {}
    for name in ("pattern_f1", "distance_jsd", "visit_error", "range_error"):
        if name in figures:
            shown.append((FIGURES[name][0], figure(figures[name]), FIGURES[name][1]))
    if inputs.nearest is not None:
        made, real = inputs.nearest.copies
        shown.append(("Copies of real trips", percent(made), f"{percent(real)} among real people"))
    return "".join(
        f'<div class="tile"><dt>{text(name)}</dt><dd>{text(value)}</dd><p>{text(note)}</p></div>'
        for name, value, note in shown
    )


def sections(inputs: SyntheticReportInputs) -> str:
    """Everything below the tiles."""
    manifest, parts = dict(inputs.manifest), []
    if inputs.synthetic is not None:
        parts += [_maps(inputs.owners), _spreads(inputs)]
        if inputs.real is not None:
            parts.append(patterns_section(inputs.real, inputs.synthetic))
    if inputs.figures is not None:
        parts.append(_section("Synthetic against real: all figures", figures_table(inputs.figures)))
    if inputs.nearest is not None:
        parts.append(nearest_section(inputs.nearest))
    if inputs.owners:
        parts.append(_section("Budget", budget_table(dict(inputs.budget))))
    if manifest:
        parts.append(_section("What was spent", spends_table(manifest)))
        parts.append(_section("Public", plan_table(manifest)))
    return "\n".join(parts)


def reading(inputs: SyntheticReportInputs) -> str:
    if inputs.synthetic is None:
        return ""
    lines = [
        "<b>Shares and distributions</b> over many trips are what the model keeps. Rare places and rare ways "
        "are mostly noise: a single trip proves nothing.",
        "<b>A step</b> is the step of time; a stay is time spent in one cell, a move goes to one of the "
        "eight cells around.",
    ]
    if inputs.owners:
        lines.append(
            "<b>Divergence</b> (Jensen-Shannon, in bits) is 0 where two distributions are alike and 1 where "
            "they have nothing in common. <b>F1</b> is the harmonic mean of the share of synthetic patterns "
            "that are real and the share of real patterns that are met."
        )
    points = "".join(f"<li>{line}</li>" for line in lines)
    return f'<section class="reading"><h2>How to read this</h2><ul>{points}</ul></section>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{text(title)}</h2>{body}</section>"


def _maps(owners: bool) -> str:
    if not owners:
        return _section(
            "Visits of each cell",
            '<p class="note">Synthetic visits per 1,000 trips. Colours follow the root of the number.</p>'
            '<div class="chart map wide" id="map-synthetic"></div>',
        )
    return _section(
        "Visits of each cell",
        '<p class="note">Visits per 1,000 trips. Colours follow the root of the number; the first two maps '
        'share them.</p><div class="thirds">'
        '<div><h3>Real (raw)</h3><div class="chart map" id="map-real"></div></div>'
        '<div><h3>Synthetic</h3><div class="chart map" id="map-synthetic"></div></div>'
        '<div><h3>Synthetic minus real</h3><div class="chart map" id="map-difference"></div></div></div>',
    )


def _spreads(inputs: SyntheticReportInputs) -> str:
    panels = "".join(
        f'<div><h3>{text(title)}</h3><div class="chart" id="spread-{name}"></div></div>'
        for name, title in SPREADS.items()
    )
    both = "Bars are synthetic trips, the line is real ones. " if inputs.owners else ""
    note = (
        f"{both}The last bin holds all beyond it where it says so. Hours are of {zone_of(inputs.manifest)}."
    )
    return _section("Trips", f'<p class="note">{text(note)}</p><div class="panels">{panels}</div>')


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
