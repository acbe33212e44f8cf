"""A published histogram of trips as one HTML page: for anyone, or for its owner with the exact one beside it.

The public page is drawn from the published file alone. The owner's holds raw counts: it forbids every
request and is written for its owner alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.kinds.trips import cell_maps, grid_subtitle
from shoal.metrics.histogram import HistogramUtility, SizeFigures
from shoal.release.histogram_files import DECIMALS, POOL, PublishedHistogram
from shoal.release.page.page import render

if TYPE_CHECKING:
    from shoal.kinds.histogram.compare import ComparedHistogram

SCRIPTS = ("format.js", "plot.js", "trip_maps.js", "histogram.js")


@dataclass(frozen=True, kw_only=True, eq=False)
class HistogramReportInputs:
    """All that the page shows. With `utility` and `exact_faces` it is raw: for the owner's eyes only."""

    title: str
    published: PublishedHistogram = field(repr=False)
    exact_faces: np.ndarray | None = field(default=None, repr=False)
    utility: HistogramUtility | None = field(default=None, repr=False)
    compared: Sequence[ComparedHistogram] = ()
    method: str = ""  # of this release, among the compared ones
    budget: Mapping[str, Any] = field(default_factory=dict)
    outside_share: float | None = None  # of the owner's points, beyond the box

    @property
    def owners(self) -> bool:
        return self.utility is not None


def histogram_report_html(inputs: HistogramReportInputs) -> str:
    """The whole page as text."""
    published, utility = inputs.published, inputs.utility
    return render(
        "histogram.html",
        *SCRIPTS,
        payload=_payload(inputs),
        title=inputs.title,
        subtitle=grid_subtitle(published.grid, published.manifest),
        banner="Owner's eyes only: contains raw counts of trips. Do not publish." if inputs.owners else "",
        manifest=dict(published.manifest),
        published=published,
        utility=utility,
        mean=(utility.mean_exact if utility else 0) or float("nan"),  # a share of nothing is not defined
        compared=inputs.compared,
        method=inputs.method,
        outside_share=inputs.outside_share,
        budget=dict(inputs.budget),
        has_pool=POOL in (published.manifest.get("columns") or {}),
        rounding=f"{10**-DECIMALS:g}",
    )


def _payload(inputs: HistogramReportInputs) -> dict[str, Any]:
    published, utility = inputs.published, inputs.utility
    faces = {"released": published.euler.faces}
    if inputs.exact_faces is not None:
        faces["exact"] = inputs.exact_faces.astype(np.float64)
    return {
        "map": cell_maps(published.grid, faces),
        "bySize": None if utility is None else {name: _sizes(each) for name, each in utility.by_size.items()},
        "compared": [
            {
                "method": row.method,
                "given": row.utility.given,
                "unseen": row.utility.unseen,
            }
            for row in inputs.compared
        ],
    }


def _sizes(figures: Sequence[SizeFigures]) -> dict[str, Any]:
    known = [each for each in figures if each.rectangles]
    return {
        "share": [float(np.sqrt(max(each.low, 0.1 * each.high) * each.high)) for each in known],
        "error": [each.mean_absolute_error for each in known],
        "exact": [each.mean_exact for each in known],
        "rectangles": [each.rectangles for each in known],
    }
