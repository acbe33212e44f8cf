"""`shoal inspect`: what is in a source, or in a release."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.main import JSON, click_options, source_options, trip_options, with_options
from shoal.cli.printing import draw_table
from shoal.events.schema import LEAST_ROWS, SourcePlan
from shoal.space.plan import SpacePlan

if TYPE_CHECKING:
    from shoal.events.readers import RowReport
    from shoal.events.schema import EventSource, TripRule
    from shoal.events.source import SourceSummary
    from shoal.space.geography import Geography


EXAMPLE = """\b
Examples:
  shoal inspect events.csv.gz --time-zone Europe/Paris
  shoal inspect 'events/*.parquet' --sites sites.csv
  shoal inspect points.parquet --gap-minutes 5
  shoal inspect points.parquet --zones zones.geojson --start 2026-03-02 --end 2026-03-09
      --time-zone Europe/Paris --population paris-2026
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
@with_options(click_options(SpacePlan, without=("sites",)))
@click.option("--start", metavar="DAY", help="First day (or local time) of a window.")
@click.option("--end", metavar="DAY", help="Day (or local time) after the window.")
@click.option("--population", help="Population in whose ledger the look at its exact numbers is recorded.")
@JSON
@click.pass_context
def inspect(
    context: click.Context,
    source_options: SourcePlan,
    trip_rule,
    sites_file: str | None,
    population: str | None,
    start: str | None,
    end: str | None,
    as_json: bool,
    **space: Any,
) -> None:
    """Show schema and validity of SOURCE (events), or guarantee and contents of a release folder.

    With --zones (or --box and --cell-m or --h3), with --start and --end, or both, it says how many rows and
    users lie inside, and why the others do not; --time-zone is then also that of the window.

    For a source this is the owner's own look at raw data: nothing is spent and nothing may be published. With
    --population the ledger records it, and later manifests of the population say that there was a look.
    """
    paths = source_options.paths
    if len(paths) == 1 and (Path(paths[0]) / "manifest.json").is_file():
        from shoal.cli.publish import verify

        context.invoke(verify, release=Path(paths[0]), as_json=as_json)
        return
    if population is not None:
        from shoal.privacy.ledger import open_ledger

        open_ledger().look(population, "inspection: exact numbers of rows and users")  # before it is seen
    elif not _are_published(paths):
        click.echo(_NOT_RECORDED, err=as_json)
    from shoal.events.source import open_planned

    source = open_planned(source_options)
    inside = _opened({**space, "sites": sites_file}, (start, end), source)
    print_source(source, json=as_json, trip_rule=trip_rule, **inside)


def _opened(space: dict[str, Any], window: tuple[Any, Any], source: EventSource) -> dict[str, Any]:
    """The public list of sites, the zones and the window that were named."""
    from shoal.errors import PlanError

    opened: dict[str, Any] = {}
    space = {name: value for name, value in space.items() if value is not None}
    if space.keys() & {"zones", "cell_m", "h3", "box"}:
        from shoal.space.geography import open_geography

        plan = SpacePlan.from_settings(space)
        opened["geography"] = open_geography(plan, has_sites=source.shape.has_sites, planar=source.planar)
        opened["sites"] = opened["geography"].site_ids
    elif "sites" in space:
        from shoal.space.places import named_sites

        names = ("site_id", "site_lon", "site_lat", "sites_crs")
        opened["sites"] = named_sites(space["sites"], **{name: space.get(name) for name in names}).ids
    if any(window):
        from shoal.space.clock import Clock

        if not all(window):
            raise PlanError("window-range", "a window has a start and an end.", "Pass --start and --end.")
        edges = Clock(start=window[0], end=window[1], time_zone=source.time_zone or "UTC").edges_us
        opened["window_us"] = int(edges[0]), int(edges[-1])
    return opened


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
    geography: Geography | None = None,
    window_us: tuple[int, int] | None = None,
) -> None:
    """Print what a source holds; bad rows end in an error unless the source drops them."""
    from shoal.events.coverage import coverage
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
    inside = None
    if usable and (geography is not None or window_us is not None):
        inside = coverage(source, geography=geography, window_us=window_us, sites=sites)
    if json:
        facts = described(source, report, summary, trips)
        click.echo(dumps({**facts, "inside": inside and inside.as_json()}, indent=2))
    else:
        print_tables(source, report, summary, trips)
        if inside is not None:
            draw_table((), inside.facts())
            draw_table(("rows that are not inside", "rows", "what to do"), inside.table(), right=(1,))
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
        "warnings": suspicious(source, report, summary),
    }


def suspicious(source: EventSource, report: RowReport, summary: SourceSummary) -> list[str]:
    """What looks wrong with a source although every row can be read."""
    notes = []
    column = source.columns["user"]
    if report.good >= LEAST_ROWS and summary.exact_users == report.good and not source.shape.has_trips:
        notes.append(
            f'no value of the column "{column}" comes twice: as a row number it protects rows, not people. '
            "--column user=NAME names the column of persons or vehicles."
        )
    if summary.at_zero:
        notes.append(f"{summary.at_zero:,} rows are at 0,0, as a missing position is often written.")
    return notes


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
    for words in suspicious(source, report, summary):
        click.secho(f"Warning: {words}\n", fg="yellow")
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
