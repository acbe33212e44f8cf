"""The words and tables of a page of synthetic trips, as escaped HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.release.manifest import is_tuned
from shoal.release.report.synthetic_figures import FIGURES, figure, figures_table, nearest_section
from shoal.release.report.synthetic_patterns import patterns_section
from shoal.release.report.tables import (
    budget_table,
    guarantee_sentence,
    number,
    percent,
    plan_table,
    spends_table,
    text,
)

if TYPE_CHECKING:
    from shoal.release.report.synthetic import SyntheticReportInputs

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
