"""`shoal synthesize report`: a page of published synthetic trips, from the published files alone. Free."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.trip_words import check_page_place

EXAMPLE = """\b
Example:
  shoal synthesize report release --out trips.html
"""


@click.command(epilog=EXAMPLE)
@click.argument("release", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("synthetic-report.html"),
    show_default=True,
    help="The page to write; not inside the release.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def report(release: Path, out: Path, as_json: bool) -> None:
    """Draw RELEASE: a map of visits, lengths and hours of trips, the guarantee, what was spent.

    Reads the published files alone: free.
    """
    import json

    from shoal.kinds.synthetic.build import encoded
    from shoal.kinds.synthetic.report import SyntheticReportInputs, write_synthetic_report
    from shoal.release.trip_files import read_synthetic

    published = read_synthetic(release)
    check_page_place(out)
    population = published.manifest.get("population")
    title = f"Synthetic trips: {population}" if population else "Synthetic trips"
    counts = {"Synthetic trips": published.about.trips}
    inputs = SyntheticReportInputs(
        title=title, manifest=published.manifest, counts=counts, synthetic=encoded(published)
    )
    path = write_synthetic_report(out, inputs)
    if as_json:
        told = {"page": str(path), "trips": published.about.trips}
        click.echo(
            json.dumps({**told, "guarantee": published.manifest.get("guarantee"), "spent": 0}, indent=2)
        )
        return
    click.echo(f"page     {path}")
    click.echo(f"trips    {published.about.trips:,}, all synthetic")
    if published.manifest:
        click.echo(f"{published.manifest['unit']} {published.manifest['promise']}")
