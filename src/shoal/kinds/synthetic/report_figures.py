"""Figures of synthetic trips against real ones, with a sentence each; how near they come to real trips."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from shoal.release.page.tables import metres, percent, table, text, words

if TYPE_CHECKING:
    from shoal.kinds.synthetic.report import NearestTrips

SURE = 2.6  # standard errors: one page in a hundred would warn by chance
LOWER, HIGHER = "0 is best", "1 is best"
# figure -> its name, which end is good, what it says
FIGURES = {
    "distance_jsd": (
        "Span",
        LOWER,
        "How far apart the farthest cells of a trip are, in bins of 1 km: divergence in bits.",
    ),
    "length_jsd": ("Length", LOWER, "Moves from cell to cell, one bin each up to 40: divergence in bits."),
    "stay_jsd": ("Stay", LOWER, "Steps stayed in a whole trip, one bin each up to 19: divergence in bits."),
    "stay_jsd_thesis": (
        "Stay, wide bins",
        LOWER,
        "The same in 20 bins from the least to the most real stay: often too wide to see much.",
    ),
    "duration_jsd": (
        "Duration",
        LOWER,
        "Steps from start to end, one bin each up to 60: divergence in bits.",
    ),
    "hour_jsd": ("Hour of start", LOWER, "Hours of the day at which trips start: divergence in bits."),
    "tide_jsd": (
        "Who goes where when",
        LOWER,
        "Start and end among 3 x 3 zones together with the hour of start: divergence in bits.",
    ),
    "visit_error": ("Visits", LOWER, "Visits per cell, what the maps show: divergence in bits."),
    "od_jsd": (
        "Origin and destination",
        LOWER,
        "Pairs of start and end among 6 x 6 zones: divergence in bits.",
    ),
    "transition_jsd": ("Transitions", LOWER, "Moves by cell and direction: divergence in bits."),
    "range_error": (
        "Range queries",
        LOWER,
        "Trips through 500 random rectangles: mean error, as a share of the real number or of 1 % of trips.",
    ),
    "hotspot_ndcg": (
        "Hotspots (NDCG)",
        HIGHER,
        "Whether the 50 cells with most synthetic visits are those with most real ones, in their order.",
    ),
    "kendall_tau": (
        "Order of cells (Kendall tau)",
        HIGHER,
        "Whether of two cells the one with more real visits has more synthetic ones; 0 is no relation.",
    ),
    "pattern_f1": (
        "Patterns of 2 to 5 cells (F1)",
        HIGHER,
        "Share of the 1,000 most frequent runs of cells that both sides have.",
    ),
    "pattern_f1_35": (
        "Patterns of 3 to 5 cells (F1)",
        HIGHER,
        "The same without single moves: ways, not only steps.",
    ),
    "pattern_f1_frechet": (
        "Patterns, Frechet (F1)",
        HIGHER,
        "Patterns of 2 to 5 cells also match where they stay in the same or touching cells all along.",
    ),
    "pattern_f1_dtw": ("Patterns, time warping (F1)", HIGHER, "They also match where they do so on average."),
}


def figures_table(figures: Mapping[str, float]) -> str:
    """A sentence for each; what has none (of site events) by its name alone."""
    rows = []
    for name, value in figures.items():
        label, best, sense = FIGURES.get(name, (words(name), "", ""))
        rows.append([label, figure(value), best, sense])
    if not set(figures) & set(FIGURES):
        return table(["Figure", "Value"], [row[:2] for row in rows], 1)
    return table(["Figure", "Value", "", "What it says"], rows)


def figure(value: float) -> str:
    return "not defined" if math.isnan(value) else f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}"


def nearest_section(near: NearestTrips) -> str:
    """Synthetic trips to real ones, against real ones to those of others."""
    head = ["Trips", "Copies", "Median distance", "Nearest tenth within", "Nearest / second nearest"]
    sides = (
        (near.synthetic_m, "Synthetic to real"),
        (near.real_m, "Real to real of somebody else"),
    )
    rows = [
        [name, percent(near.copies[at]), *_quantiles(values), figure(near.ratios[at])]
        for at, (values, name) in enumerate(sides)
    ]
    note = (
        f"{near.synthetic_m.size:,} synthetic and {near.real_m.size:,} real trips, evenly picked among those "
        f"of {near.least_cells} cells or more. Distance: cells paired in order at the least sum, mean over "
        "the longer trip; 0 is the same cells in the same order, a copy. People copy each other on common "
        "ways; a generator that replays trips has more copies than they, and is nearer."
    )
    verdict = _verdict(near)
    attack = (
        "Whether single people can be told to be in: <code>shoal attack synthetic</code> makes "
        "releases with and without them. The promise above holds whatever these figures are."
    )
    return (
        "<section><h2>Attack: how near synthetic trips are to real ones</h2>"
        f'<p class="note">{text(note)}</p><div class="chart" id="nearest"></div>'
        + table(head, rows, 1)
        + f"<p>{text(verdict)}</p><p>{attack}</p></section>"
    )


def _verdict(near: NearestTrips) -> str:
    (made, real), sizes = near.copies, (near.synthetic_m.size, near.real_m.size)
    if math.isnan(made) or math.isnan(real):
        return "There are too few trips of this length to compare."
    error = math.sqrt(sum(p * (1 - p) / size for p, size in zip((made, real), sizes, strict=True)))
    if made > real + SURE * error:
        return (
            "More synthetic trips are copies than people make of each other: look at them before publishing."
        )
    return "Synthetic trips copy real ones no more often than real people copy each other."


def _quantiles(values: np.ndarray) -> list[str]:
    known = values[np.isfinite(values)]
    if not known.size:
        return ["not defined", "not defined"]
    return [metres(float(np.quantile(known, share))) for share in (0.5, 0.1)]
