"""Published trips, read again; free. `shoal histogram query`: distinct trips in boxes, polygons and zones.

`shoal histogram report` and `shoal synthesize report`: a page of a release, from published files alone.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.main import JSON, box, click_options, out_option, with_options
from shoal.cli.printing import check_page_place, print_page
from shoal.space.plan import ZonesPlan

if TYPE_CHECKING:
    from shoal.release.histogram_files import AreaAnswer, PublishedHistogram


EXAMPLE = """\b
Examples:
  shoal histogram query release --box 5.02,47.31,5.05,47.33 --box 5.02,47.33,5.05,47.35
  shoal histogram query release --polygon park.geojson
  shoal histogram query release --zone "Old town" --zone Station
  shoal histogram query release --zones quarters.geojson --json
  shoal histogram query release --csv boxes.csv > trips.csv
"""

OF_ZONES = ("zone_id", "zone_name", "zones_crs", "zones_layer", "repair_zones")
SIDES = ("west", "south", "east", "north")


def _boxes(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]):
    return [box(context, parameter, value) for value in values]


@click.command(epilog=EXAMPLE)
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--box", "boxes", multiple=True, callback=_boxes, help="west,south,east,north; repeatable.")
@click.option(
    "--polygon", type=click.Path(), help="File of polygons that form one area, for example GeoJSON."
)
@click.option("--zones", type=click.Path(), help="File of zones to use instead of the release's own.")
@with_options(click_options(ZonesPlan, only=OF_ZONES))
@click.option("--zone", multiple=True, help="Name or id of a zone; repeatable.  [default: all of --zones]")
@click.option("--csv", "csv_file", type=click.Path(), help="Boxes: CSV with west, south, east, north, name.")
@JSON
def query(release: Path, csv_file: str | None, as_json: bool, **options: Any) -> None:
    """Distinct trips in an area, computed from the published file alone: costs no budget.

    An area consists of the cells whose centre lies in it. RELEASE is a release folder or its
    histogram.parquet.
    """
    from shoal.release.histogram_files import read_histogram

    histogram = read_histogram(release)
    answers = _answers(histogram, csv_file, options)
    if as_json:
        click.echo(json.dumps(_plain(histogram, answers), indent=2, allow_nan=False))
    elif csv_file is not None:
        _print_csv(answers)
    else:
        _print(histogram, answers)


def _answers(
    histogram: PublishedHistogram, csv_file: str | None, options: dict[str, Any]
) -> list[AreaAnswer]:
    from shoal.space.cells import read_boxes, read_shape

    _check_options(csv_file, options)
    if boxes := options["boxes"]:
        names = ["box"] if len(boxes) == 1 else [f"box {i}" for i in range(1, len(boxes) + 1)]
        return histogram.boxes(boxes, names)
    if options["polygon"] is not None:
        return [histogram.polygon(read_shape(options["polygon"], histogram.grid))]
    if csv_file is not None:
        names, boxes = read_boxes(csv_file, histogram.grid.planar)
        return histogram.boxes(boxes.tolist(), names)
    return histogram.zones(_zones(histogram, options), options["zone"] or None)


def _check_options(csv_file: str | None, options: dict[str, Any]) -> None:
    """One kind of area, and no option that would be left unread."""
    from shoal.errors import PlanError

    by_zone = options["zones"] is not None or options["zone"]
    ways = [bool(options["boxes"]), options["polygon"] is not None, bool(by_zone), csv_file is not None]
    if sum(ways) != 1:
        raise PlanError(
            "query-area",
            f"a query asks about one kind of area; got {sum(ways)}.",
            "Pass one of --box, --polygon, --zone or --zones, --csv.",
        )
    unread = [f"--{name.replace('_', '-')}" for name in OF_ZONES if options[name] is not None]
    if unread and options["zones"] is None:
        raise PlanError(
            "query-options",
            f"{', '.join(unread)} would not be used: such options are for a file of --zones.",
            "Leave them out, or pass the file with --zones.",
        )


def _zones(histogram: PublishedHistogram, options: dict[str, Any]):
    from shoal.space.places import read_zones

    if options["zones"] is None:
        return None
    return read_zones(
        options["zones"],
        id_column=options["zone_id"],
        name_column=options["zone_name"],
        crs=options["zones_crs"] or ("planar" if histogram.grid.planar else None),
        layer=options["zones_layer"],
        repair=bool(options["repair_zones"]),
        on_overlap="allow",
        holes="allow",
    )


def _plain(histogram: PublishedHistogram, answers: list[AreaAnswer]) -> dict[str, Any]:
    manifest = histogram.manifest
    rows = [
        {
            **asdict(answer),
            "trips": None if math.isnan(answer.trips) else round(answer.trips, 3),
            "notes": answer.notes,
        }
        for answer in answers
    ]
    about = {"unit": manifest.get("unit"), "guarantee": manifest.get("guarantee")}
    return {"answers": rows, "grid": histogram.grid.describe(), **about, "spent": 0}


def _print_csv(answers: list[AreaAnswer]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    counted = [f"counted_{side}" for side in SIDES]
    writer.writerow(["name", "trips", "cells", *SIDES, "missed", "added", *counted, "notes"])
    for answer in answers:
        trips = "" if math.isnan(answer.trips) else f"{answer.trips:.3f}"
        shares = [f"{answer.missed:.6f}", f"{answer.added:.6f}"]
        box, corners = answer.box or (), answer.snapped or [""] * 4
        writer.writerow([answer.name, trips, answer.cells, *box, *shares, *corners, " ".join(answer.notes)])


def _print(histogram: PublishedHistogram, answers: list[AreaAnswer]) -> None:
    wide = max(4, *(len(answer.name) for answer in answers))
    click.echo(f"{'area':<{wide}}  {'trips':>14}  {'cells':>9}  {'missed':>7}  {'added':>7}")
    for answer in answers:
        trips = "none" if math.isnan(answer.trips) else f"{answer.trips:,.1f}"
        difference = f"{answer.missed:>7.1%}  {answer.added:>7.1%}"
        click.echo(f"{answer.name:<{wide}}  {trips:>14}  {answer.cells:>9,}  {difference}")
    for answer in answers:
        if answer.snapped is not None:
            name = "" if len(answers) == 1 else f"{answer.name}: "
            sides = ", ".join(f"{side:.6g}" for side in answer.snapped)
            click.echo(f"counted  {name}{sides} (west, south, east, north)")
        for note in answer.notes:
            click.echo(f"note     {answer.name}: {note}")
    click.echo(
        "Counted are the cells whose centre lies in the area: they leave out `missed` of it and take in "
        "`added` around it."
    )
    promise = histogram.manifest.get("promise")
    if promise:
        click.echo(f"{histogram.manifest['unit']} {promise}")


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
