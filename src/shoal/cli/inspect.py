"""`shoal inspect`: what is in a source, or in a release."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.main import JSON, click_options, source_options, trip_options, with_options
from shoal.cli.printing import draw_table
from shoal.events.schema import SourcePlan
from shoal.space.plan import SitesPlan

if TYPE_CHECKING:
    from shoal.events.readers import RowReport
    from shoal.events.schema import EventSource, TripRule
    from shoal.events.source import SourceSummary


EXAMPLE = """\b
Examples:
  shoal inspect events.csv.gz --time-zone Europe/Paris
  shoal inspect 'events/*.parquet' --sites sites.csv
  shoal inspect points.parquet --gap-minutes 5
  shoal inspect demo/release
"""

_NOT_RECORDED = (
    "These are exact numbers of private data, for the owner's eyes only. No ledger records this look; pass "
    "--population NAME to record it."
)


@click.command(epilog=EXAMPLE)
@source_options
@trip_options
@click.option(
    "--sites", "sites_file", type=click.Path(), help="Public list of sites: events must name one of them."
)
@with_options(click_options(SitesPlan, only=("site_id", "site_lon", "site_lat")))
@click.option("--sites-crs", help="Coordinate system of the sites where the file does not say.")
@click.option("--population", help="Population in whose ledger the look at its exact numbers is recorded.")
@JSON
@click.pass_context
def inspect(
    context: click.Context,
    source_options: SourcePlan,
    trip_rule,
    sites_file: str | None,
    population: str | None,
    as_json: bool,
    **sites_as: str | None,
) -> None:
    """Show schema and validity of SOURCE (events), or guarantee and contents of a release folder.

    For a source this is the owner's own look at raw data: nothing is spent and nothing may be published. With
    --population the ledger records it, and later manifests of the population say that there was a look.
    """
    paths = source_options.paths
    if len(paths) == 1 and (Path(paths[0]) / "manifest.json").is_file():
        from shoal.cli.publish import verify

        context.invoke(verify, release=Path(paths[0]), as_json=as_json)
        return
    sites = None
    if sites_file is not None:
        from shoal.space.places import named_sites

        sites = named_sites(sites_file, **sites_as).ids
    if population is not None:
        from shoal.privacy.ledger import open_ledger

        open_ledger().look(population, "inspection: exact numbers of rows and users")  # before it is seen
    elif not _are_published(paths):
        click.echo(_NOT_RECORDED, err=as_json)
    from shoal.events.source import open_planned

    print_source(open_planned(source_options), sites, json=as_json, trip_rule=trip_rule)


def _are_published(paths: Sequence[str]) -> bool:
    """Whether all are files of releases, as their manifests list them; not of seeded or refuted ones."""
    from shoal.errors import GuaranteeError
    from shoal.release.manifest import MANIFEST, Manifest
    from shoal.release.verify import sha256_file

    for path in map(Path, paths):
        try:
            manifest = Manifest.from_json((path.parent / MANIFEST).read_text("utf-8"))
            listed = manifest.files.get(path.name)
            same = listed is not None and listed.sha256 == sha256_file(path)
        except (OSError, ValueError, GuaranteeError):
            return False
        if not same or manifest.reproducible or manifest.guarantee.get("verified") is False:
            return False
    return True


def print_source(
    source: EventSource,
    sites: Sequence[str] | None = None,
    json: bool = False,
    trip_rule: TripRule | None = None,
) -> None:
    """Print what a source holds; bad rows end in an error unless the source drops them."""
    from shoal.events.readers import check_rows
    from shoal.events.source import summarise

    with progress_bar(shown=not json) as advance:
        with_flag = trip_rule is not None and trip_rule.flag and "flag" in source.columns
        report = check_rows(source, sites=sites, progress=advance, with_flag=with_flag)
    summary = summarise(source, sites=sites)
    trips = None
    usable = report.bad == 0 or source.on_bad_row == "drop"
    if usable and not source.shape.has_sites and (trip_rule is not None or source.shape.has_trips):
        from shoal.events.trips import count_trips

        trips = count_trips(source, trip_rule)
    if json:
        click.echo(dumps(described(source, report, summary, trips), indent=2))
    else:
        print_tables(source, report, summary, trips)
    if source.on_bad_row == "stop":
        report.raise_if_bad()


def described(
    source: EventSource, report: RowReport, summary: SourceSummary, trips: int | None
) -> dict[str, Any]:
    """The same facts as the tables, for machines."""
    from shoal.kinds.describe import named_columns

    return {
        "files": list(source.paths),
        "format": source.format,
        "shape": str(source.shape),
        "columns": named_columns(source),
        "guessed": list(source.guessed),
        "time_zone": source.time_zone,
        "time_unit": source.time_unit,
        "time_format": source.time_format,
        "rows": report.rows,
        "good_rows": report.good,
        "bad_rows": report.bad,
        "bad_rows_by_reason": dict(report.by_reason),
        "examples": {
            reason: [{"file": file, report.unit: number} for file, number in places]
            for reason, places in report.examples.items()
        },
        "unread_time": report.unread_time,
        "users": summary.exact_users,
        "first_time": summary.first.isoformat() if summary.first else None,
        "last_time": summary.last.isoformat() if summary.last else None,
        **{f"{name}_range": list(ends) for name, ends in (summary.place_range or {}).items()},
        "trips": trips,
    }


def print_tables(source: EventSource, report: RowReport, summary: SourceSummary, trips: int | None) -> None:
    """Columns, extent and, where there are any, bad rows by reason with the places of the first ones."""
    files = source.paths[0] if len(source.paths) == 1 else f"{len(source.paths)} files"
    click.echo(f"{files}: {source.format}, shape {source.shape}\n")
    parquet = source.format == "parquet"
    types = source.types if parquet else dict.fromkeys(source.columns, "text")
    columns = [(role, name, types[role]) for role, name in source.columns.items()]
    draw_table(("role", "column", "type"), columns)
    if source.guessed:
        click.echo("Guessed: " + "; ".join(source.guessed) + ".\n")
    facts = [
        ("rows", f"{report.rows:,}"),
        ("bad rows", f"{report.bad:,}"),
        ("users", f"{summary.exact_users:,}"),
    ]
    if summary.first and summary.last:
        facts.append(("first time (UTC)", summary.first.strftime("%Y-%m-%d %H:%M:%S")))
        facts.append(("last time (UTC)", summary.last.strftime("%Y-%m-%d %H:%M:%S")))
    for name, (least, largest) in (summary.place_range or {}).items():
        facts.append((f"{name} from, to", f"{least:.10g}, {largest:.10g}"))
    if trips is not None:
        facts.append(("trips", f"{trips:,}"))
    draw_table((), facts)
    if report.bad:
        print_bad_rows(report)


def print_bad_rows(report: RowReport) -> None:
    """Bad rows by reason, with where the first ones are."""
    rows = [
        (
            reason,
            f"{count:,}",
            report.meaning(reason),
            "\n".join(f"{Path(file).name}:{number}" for file, number in report.examples.get(reason, ())),
        )
        for reason, count in report.by_reason.items()
    ]
    header = ("reason", "rows", "what it means", f"first {report.unit}s")
    draw_table(header, rows, right=(1,), wraps=(2, 3))


def progress_bar(shown: bool):
    """A context that gives a function taking the share done; None when nothing is to be shown."""
    from contextlib import contextmanager, nullcontext

    if not shown:
        return nullcontext()
    from rich.console import Console
    from rich.progress import Progress

    @contextmanager
    def bar():
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("checking rows", total=1.0)
            yield lambda share: progress.update(task, completed=share)

    return bar()
