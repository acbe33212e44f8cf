"""`shoal histogram report`: a page of a published histogram, from the published file alone. Free."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.trip_words import check_page_place

EXAMPLE = """\b
Example:
  shoal histogram report release --out trips.html
"""


@click.command(epilog=EXAMPLE)
@click.argument("release", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("histogram-report.html"),
    show_default=True,
    help="The page to write; not inside the release.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def report(release: Path, out: Path, as_json: bool) -> None:
    """Draw RELEASE: trips through every cell, totals, the guarantee. Reads the published file alone: free."""
    import json

    from shoal.kinds.histogram.report import HistogramReportInputs, write_histogram_report
    from shoal.release.histogram_published import read_histogram

    published = read_histogram(release)
    check_page_place(out)
    population = published.manifest.get("population")
    title = f"Histogram of trips: {population}" if population else "Histogram of trips"
    path = write_histogram_report(out, HistogramReportInputs(title=title, published=published))
    told = {"page": str(path), "trips": published.trips, "guarantee": published.manifest.get("guarantee")}
    if as_json:
        click.echo(json.dumps({**told, "spent": 0}, indent=2))
        return
    click.echo(f"page     {path}")
    click.echo(f"trips    {published.trips:,.0f} on the map, as published")
    if published.manifest:
        click.echo(f"{published.manifest['unit']} {published.manifest['promise']}")
