"""The words and tables of a histogram's page, as escaped HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.metrics.histogram import HistogramUtility
from shoal.release.histogram_files import DECIMALS, POOL
from shoal.release.histogram_published import PublishedHistogram
from shoal.release.manifest import is_tuned
from shoal.release.page.tables import (
    budget_table,
    guarantee_sentence,
    number,
    people,
    percent,
    plan_table,
    spends_table,
    table,
    text,
)

if TYPE_CHECKING:
    from shoal.kinds.histogram.report import HistogramReportInputs

OWNERS = "Owner's eyes only: contains raw counts of trips. Do not publish."
NOT_PRIVATE = (
    "The comparison was computed on private data. Choosing a method by it is not covered by any promise: "
    "later manifests of this population say tuned_on_private_data: recorded."
)
SHARES = (
    "This method has no edges: a trip is shared over its cells and a face is a sum of shares, so the KLD, "
    "which compares with trips per cell, is large."
)

READING = (
    "<li><b>Without noise</b>: errors of the exact histogram of the trips at hand, which loops and coming "
    "back cause.</li><li><b>KLD</b>: sum over visited cells of H log(H / H') / trips, H the exact number of "
    "trips through the cell and H' the published one.</li>"
)


def banner(owners: bool) -> str:
    return f'<p class="banner" role="alert"><strong>{text(OWNERS)}</strong></p>' if owners else ""


def subtitle(published: PublishedHistogram) -> str:
    grid, public = published.grid, published.manifest.get("public") or {}
    width, height = grid.cell_m
    parts = [
        f"{grid.columns} x {grid.rows} cells of {width:,.0f} x {height:,.0f} m",
        *([f"method {public['method']}"] if "method" in public else []),
        *([f"{public['window']['start']} to {public['window']['end']}"] if "window" in public else []),
    ]
    return " &middot; ".join(text(part) for part in parts)


def sentence(published: PublishedHistogram) -> str:
    manifest = dict(published.manifest)
    if not manifest:
        return "The file came without its manifest, so nothing is known of its guarantee."
    return f"{text(manifest.get('unit', ''))} {guarantee_sentence(manifest)}"


def notices(inputs: HistogramReportInputs) -> str:
    manifest, lines = inputs.published.manifest, []
    if manifest.get("reproducible"):
        lines.append(
            "The noise of this run was seeded: it can be computed again, and the run must not be published."
        )
    if is_tuned(manifest.get("tuned_on_private_data")):
        lines.append(
            "A method or parameter was chosen by looking at private data; the guarantee leaves that out."
        )
    if inputs.compared:
        lines.append(NOT_PRIVATE)
    if inputs.outside_share:
        some = inputs.outside_share >= 0.0001
        share = percent(inputs.outside_share) if some else "Less than 0.01 %"
        lines.append(f"{share} of the points of trips lie beyond the box; trips are cut there.")
    if inputs.utility is not None and not inputs.utility.trips:
        lines.append("No trip lies in the window and the box: the release is noise alone.")
    return "".join(f'<p class="notice">{text(line)}</p>' for line in lines)


def larger(published: PublishedHistogram) -> str:
    """Whether a larger area may have fewer trips than a smaller one inside it."""
    if POOL in (published.manifest.get("columns") or {}):
        return (
            "The numbers are those of made-up trips that never turn back, so a larger rectangle never has "
            f"fewer trips than a smaller one inside it, but for rounding to {10**-DECIMALS:g}; areas of "
            "other shapes may."
        )
    return "They do not promise that a larger area never has fewer trips than a smaller one inside it."


def tiles(inputs: HistogramReportInputs) -> str:
    """The row of figures on top."""
    published, utility = inputs.published, inputs.utility
    guarantee = published.manifest.get("guarantee") or {}
    epsilon, delta = guarantee.get("epsilon"), guarantee.get("delta")
    shown = [
        (
            "Guarantee",
            "unknown" if epsilon is None else f"\N{GREEK SMALL LETTER EPSILON} = {number(float(epsilon))}",
            "no manifest"
            if epsilon is None
            else f"per {guarantee.get('unit')}, delta {number(float(delta or 0))}",
        ),
        ("Trips on the map", people(published.trips), "as published"),
    ]
    if utility is not None:
        share = utility.unseen / utility.mean_exact if utility.mean_exact else float("nan")
        before = utility.violated_before
        shown += [
            ("Trips in the source", people(float(utility.trips)), f"{utility.kept:,} kept; raw"),
            (
                "Mean absolute error",
                people(utility.unseen),
                f"unseen rectangles; {percent(share)} of their mean",
            ),
            ("On given rectangles", people(utility.given), f"mean over {utility.rectangles[0]:,}"),
            ("KLD of faces", people(utility.kld), "lower is better"),
            (
                "Violated constraints",
                percent(utility.violated_after),
                "no repair was needed" if before is None else f"{percent(before)} before repair",
            ),
        ]
    return "".join(
        f'<div class="tile"><dt>{text(name)}</dt><dd>{text(value)}</dd><p>{text(note)}</p></div>'
        for name, value, note in shown
    )


def sections(inputs: HistogramReportInputs) -> str:
    """Everything below the tiles."""
    manifest = dict(inputs.published.manifest)
    parts = [_maps(inputs.owners)]
    if inputs.utility is not None:
        edges = inputs.published.euler.east is not None
        parts += [
            _errors(inputs.utility, edges),
            _compared(inputs),
            _section("Budget", budget_table(dict(inputs.budget))),
        ]
    if manifest:
        parts += [
            _section("What was spent", spends_table(manifest)),
            _section("Public", plan_table(manifest)),
        ]
    return "\n".join(parts)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{text(title)}</h2>{body}</section>"


def _maps(owners: bool) -> str:
    if not owners:
        return _section(
            "Trips through each cell",
            '<p class="note">Faces as published, with noise. Colours follow the root of the number.</p>'
            '<div class="chart map wide" id="map-released"></div>',
        )
    return _section(
        "Trips through each cell",
        '<p class="note">Colours follow the root of the number; both maps share them.</p><div class="thirds">'
        '<div><h3>Exact (raw)</h3><div class="chart map" id="map-exact"></div></div>'
        '<div><h3>Published</h3><div class="chart map" id="map-released"></div></div>'
        '<div><h3>Published minus exact</h3><div class="chart map" id="map-difference"></div></div></div>',
    )


def _errors(utility: HistogramUtility, edges: bool) -> str:
    mean = utility.mean_exact

    def row(name: str, error: float) -> list[str]:
        return [name, people(error), percent(error / mean if mean else float("nan"))]

    before = utility.violated_before
    rows = [
        row(f"Published, {utility.rectangles[1]:,} unseen rectangles", utility.unseen),
        row(f"Published, {utility.rectangles[0]:,} given rectangles", utility.given),
        row("Without noise: kept trips counted exactly and scaled up (what bounding costs)", utility.bounded),
        row("Without noise: Euler answer of all trips (what loops and coming back cost)", utility.euler),
        row("The same with 2 x 2 blocks counted back in", utility.euler_blocks),
    ]
    words = [
        f"Mean exact answer of an unseen rectangle: {people(mean)} trips.",
        f"KLD of the faces: {people(utility.kld)}; published faces of 0 count as 0.0005 in it.",
        f"Violated constraints: {percent(utility.violated_after)}"
        + ("." if before is None else f", before repair {percent(before)}."),
        *([] if edges else [SHARES]),
    ]
    return (
        '<section><h2>Error against the exact number of distinct trips</h2><div class="halves"><div>'
        '<h3>By size of the rectangle</h3><div class="chart tall" id="by-size"></div></div><div>'
        + table(["Answers", "Mean absolute error", "of the mean"], rows, numeric_from=1)
        + f"<p>{text(' '.join(words))}</p></div></div></section>"
    )


def _compared(inputs: HistogramReportInputs) -> str:
    if not inputs.compared:
        return _section(
            "Other methods",
            '<p class="note">Not compared. <code>--compare</code> runs them on the same trips, for this page '
            "alone.</p>",
        )
    head = ["Method", "What it does, or truly promises", "MAE given", "MAE unseen", "KLD"]
    head += ["Violated before repair", "Violated", "Seconds"]
    rows = []
    for each in inputs.compared:
        utility = each.utility
        before = "none" if utility.violated_before is None else percent(utility.violated_before)
        name = f"{each.method} (as released)" if each.released else each.method
        name = name if each.sound else f"{each.method} (for comparison only)"
        figures = [people(utility.given), people(utility.unseen), people(utility.kld)]
        violated = [before, percent(utility.violated_after)]
        rows.append([name, each.words, *figures, *violated, f"{each.seconds:.1f}"])
    return _section(
        "Other methods on the same trips",
        '<p class="note">One run each, seeded noise, the same epsilon. The release is another draw of its '
        "method's noise, so its row differs from the figures above.</p>"
        '<div class="chart" id="compared"></div><div class="compared">'
        + table(head, rows, numeric_from=2)
        + "</div>",
    )
