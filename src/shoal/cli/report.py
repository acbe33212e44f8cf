"""`shoal histogram report` and `shoal synthesize report`: a page of a release, from published files alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from shoal.cli.main import JSON, out_option, with_options
from shoal.cli.printing import check_page_place, print_page


def report_command(
    draw: Callable[[Path, Path], tuple[dict[str, Any], str, Mapping[str, Any]]],
    *,
    about: str,
    page: str,
    command: str,
) -> click.Command:
    """`draw` reads the release and writes the page; its figures, what it holds, its manifest."""

    def report(release: Path, out: Path, as_json: bool) -> None:
        figures, trips, manifest = draw(release, out)
        print_page(out, figures, trips, manifest, as_json)

    options = (
        click.argument("release", type=click.Path(path_type=Path)),
        out_option(page, "The page to write; not inside the release."),
        JSON,
    )
    example = f"\b\nExample:\n  shoal {command} report release --out trips.html\n"
    return click.command("report", help=about, epilog=example)(with_options(options)(report))


def _titled(title: str, manifest: Mapping[str, Any]) -> str:
    population = manifest.get("population")
    return f"{title}: {population}" if population else title


def _histogram(release: Path, out: Path) -> tuple[dict[str, Any], str, Mapping[str, Any]]:
    from shoal.kinds.histogram.report import HistogramReportInputs, histogram_report_html
    from shoal.release.histogram_files import read_histogram
    from shoal.release.page.page import write_page

    published = read_histogram(release)
    check_page_place(out)
    title = _titled("Histogram of trips", published.manifest)
    write_page(out, histogram_report_html(HistogramReportInputs(title=title, published=published)))
    return {"trips": published.trips}, f"{published.trips:,.0f} on the map, as published", published.manifest


def _synthetic(release: Path, out: Path) -> tuple[dict[str, Any], str, Mapping[str, Any]]:
    from shoal.kinds.synthetic.build import encoded
    from shoal.kinds.synthetic.report import SyntheticReportInputs, synthetic_report_html
    from shoal.release.page.page import write_page
    from shoal.release.trip_files import read_synthetic

    published = read_synthetic(release)
    check_page_place(out)
    trips = published.about.trips
    inputs = SyntheticReportInputs(
        title=_titled("Synthetic trips", published.manifest),
        manifest=published.manifest,
        counts={"Synthetic trips": trips},
        synthetic=encoded(published),
    )
    write_page(out, synthetic_report_html(inputs))
    return {"trips": trips}, f"{trips:,}, all synthetic", published.manifest


histogram_report = report_command(
    _histogram,
    about="""Draw RELEASE: trips through every cell, totals, the guarantee.
Reads the published file alone: free.""",
    page="histogram-report.html",
    command="histogram",
)
synthesize_report = report_command(
    _synthetic,
    about="""Draw RELEASE: a map of visits, lengths and hours of trips, the guarantee, what was spent.

Reads the published files alone: free.
""",
    page="synthetic-report.html",
    command="synthesize",
)
