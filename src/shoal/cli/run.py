"""The commands that release, one for each kind: a plan of file and flags, then a dry run or a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click

from shoal.cli.main import (
    ALLOW_EMPTY,
    COLUMNS_FILE,
    DRY_RUN,
    ENGINE_OPTIONS,
    JSON,
    PLAN,
    LazyGroup,
    Option,
    box,
    check_named,
    click_options,
    opened_spark,
    over_columns_file,
    settings_from_flags,
    with_options,
)
from shoal.errors import PlanError
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.kind import KINDS
from shoal.kinds.plan import merge, read_plan
from shoal.kinds.query.plan import QueryPlan
from shoal.privacy.guarantee import TRIP
from shoal.setting import settings_of


def _not_negative(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < 0:
        raise click.BadParameter("0 (one per core) or more.")
    return value


THREADS = click.option(
    "--threads",
    type=int,
    default=0,
    callback=_not_negative,
    help="Threads of the engine.  [default: one per core]",
)


def run_command(
    kind: str,
    *options: Option,
    about: str,
    example: str,
    report: Sequence[str] = (),
    plan_from: Callable[[str, dict[str, Any]], Any] | None = None,
    name: str = "run",
) -> click.Command:
    """`shoal ... run` of a kind: its flags are the settings of its plan.

    Args:
        options: Further flags.
        report: Those of them that are for the owner's report and no settings of the plan.
        plan_from: The plan of a file and flags, where it is not made of the settings of both; then `options`
            are all flags.
    """

    def run(plan: str | None, dry_run: bool, as_json: bool, threads: int = 0, **flags: Any) -> None:
        engine = opened_spark(*(flags.pop(name) for name in ("engine", "spark_conf", "partitions")))
        on_run = {name: flags.pop(name) for name in ("allow_empty", *report)}
        if plan_from is not None:
            wanted = plan_from(plan or "", flags)
        else:
            check_named(flags)
            wanted = _plan_of(kind, run_settings(KINDS[kind].plan, plan, flags), plan)
        release(wanted, kind, engine, threads, **on_run, dry_run=dry_run, as_json=as_json)

    if plan_from is None:
        options = (PLAN, *plan_options(KINDS[kind].plan), *options)
    decorated = with_options((*options, *ENGINE_OPTIONS, ALLOW_EMPTY, DRY_RUN, JSON))(run)
    return click.command(name, help=about, epilog=example)(decorated)


def plan_options(plan: type, only: Collection[str] = ()) -> tuple[Option, ...]:
    """SOURCE and the flags of a plan, or of some of its settings."""
    argument = click.argument("source", nargs=-1)
    return (argument, *click_options(plan, only=("source", *only) if only else ()), COLUMNS_FILE)


def run_settings(plan: type, path: str | None, flags: dict[str, Any]) -> dict[str, Any]:
    """A plan file with the flags over it, nested as plans are; takes the flags of the plan out."""
    columns = flags.pop("columns", None)
    given = settings_from_flags(plan, flags)
    if columns is not None or "source" in given:
        given["source"] = over_columns_file(columns, given.get("source", {}))
    settings = read_plan(path) if path else {}
    if given.get("unit") == TRIP:  # bounds per user in the file make no sense then
        settings = {name: value for name, value in settings.items() if not name.startswith("trips_")}
    return merge(settings, given)


FOREIGN = {"plan-name", "plan-method", "histogram-method", "synthetic-method"}  # of a plan of another kind


def _plan_of(kind: str, settings: dict[str, Any], path: str | None) -> Any:
    """The plan of a kind; says so where the file is a plan of another one."""
    error = _refused(kind, settings)
    if error is None:
        return KINDS[kind].plan.from_settings(settings)
    others = [name for name, each in KINDS.items() if each.is_drawn and name != kind]
    refusals = {name: _refused(name, settings) for name in others}
    fits = [name for name, refusal in refusals.items() if refusal is None]
    fits = fits or [name for name, refusal in refusals.items() if refusal and not _codes(refusal) & FOREIGN]
    if path is None or not fits or not _codes(error) & FOREIGN:
        raise error
    titles = " or ".join(KINDS[name].title.lower() for name in fits)
    ways = " or ".join(f"`{KINDS[name].command} --plan {path}`" for name in fits)
    raise PlanError("plan-kind", f"{path} is a plan of another kind: {titles}.", f"Use {ways}.")


def _refused(kind: str, settings: dict[str, Any]) -> PlanError | None:
    try:
        KINDS[kind].plan.from_settings(settings)
    except PlanError as error:
        return error
    return None


def _codes(error: PlanError) -> set[str]:
    return {error.code, *(fault.code for fault in error.faults)}


def release(
    plan: Any,
    kind: str,
    opened: AbstractContextManager[Any],
    threads: int,
    *,
    allow_empty: bool,
    dry_run: bool,
    as_json: bool,
    **shown: Any,
) -> None:
    """Prepare the plan, then say what a run would do, or run it; `shown` is for the owner's report."""
    from shoal.cli.printing import print_dry_run, print_result
    from shoal.privacy.ledger import open_ledger

    with opened as spark:
        prepared = KINDS[kind].prepare(plan, spark)
        ledger = open_ledger()
        if dry_run:
            click.get_current_context().exit(print_dry_run(prepared, ledger, as_json))
        from shoal.cli.printing import Bars
        from shoal.engine.engine import DuckEngine  # with its compiled kernels: not for a dry run
        from shoal.kinds.run import run_build

        bars, engine = Bars(quiet=as_json), spark or DuckEngine(threads=threads)
        making = KINDS[prepared.kind].build(prepared, bars, allow_empty, engine, **shown)
        for words in () if as_json else making.notes(ledger):
            click.echo(f"note     {words}")
        with bars:
            result = run_build(making, ledger)
    print_result(prepared, result, ledger, as_json)


density = LazyGroup(
    "density",
    help="""People per zone and slot, differentially private for all of a user's events in the window.""",
    steps={
        "compare": (
            "density",
            "compare",
            "Run several methods at several epsilons and show their error against the true counts.",
        ),
        "run": (
            "run",
            "density_run",
            "Count people per zone and slot in SOURCE, add noise, and write a release.",
        ),
        "total": (
            "density",
            "total",
            "People in any zones and slots of a published density, with a 95 % interval: free.",
        ),
        "year": (
            "density",
            "year",
            "Share a budget over many releases about the same people, such as the weeks of a year.",
        ),
    },
)


density_run = run_command(
    "density",
    THREADS,
    about="""Count people per zone and slot in SOURCE, add noise, and write a release.

A count is the number of people observed in a zone during a slot. A person observed at several places in the
same slot is counted at each of them, and only once per place.

The budget is reserved before events are counted. `--time-zone` is the time zone of the window and of times
that do not state one.
""",
    example="""\b
Examples:
  shoal simulate town --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal density run --plan town/density.toml --dry-run
  shoal density run --plan town/density.toml --epsilon 0.5 --out release-0.5
\b
  shoal density run 'events/*.parquet' --zones zones.geojson --sites sites.csv
      --start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris
      --population paris-2026 --epsilon 1 --delta 1e-6 --out release --owner owner
""",
)


trajectories = LazyGroup(
    "trajectories",
    help="""Release k-anonymous trajectories, against an adversary who observed a person for any period tau.

    This is not differential privacy: it protects against the stated adversary and no other.

    \b
    Example:  shoal trajectories run --help
    """,
    steps={
        "run": ("run", "trajectories_run", "Generalise records until k of them fit every observation."),
        "verify": ("trajectories", "verify", "Prove or refute the claim of a release, window by window."),
        "compare": ("trajectories", "compare", "Other ways to hide records, with the same attacks."),
    },
)


trajectories_run = run_command(
    "trajectories",
    about="""Generalise the records in SOURCE until at least k of them fit any observation of a person for
a period tau.

Records stay truthful: each is a sequence of boxes in space and time around real samples, without noise or
synthetic points. Samples that cannot be protected are suppressed. Every window of every person is verified
before anything is written. A killed run resumes where it stopped.
""",
    example="""\b
Examples:
  shoal simulate abi --users 3000 --weeks 1 --out abi
  shoal ledger create abi --epsilon 4 --delta 1e-6
  shoal trajectories run --plan abi/trajectories.toml --dry-run
  shoal trajectories run --plan abi/trajectories.toml --k 3
\b
  shoal trajectories run 'samples/*.parquet' --start 2026-03-02 --end 2026-03-09
      --time-zone Africa/Abidjan --origin -4.4,5.0 --population abi
      --k 2 --tau-minutes 30 --epoch-minutes 30 --out release --owner owner
""",
)


histogram = LazyGroup(
    "histogram",
    help="""Release distinct trips in any rectangle, with differential privacy per user or per trip.

    \b
    Example:  shoal histogram run --help
    """,
    steps={
        "run": ("run", "histogram_run", "Release a histogram of trips: spends."),
        "query": (
            "published",
            "query",
            "Trips in a box, polygon or zone of a published histogram: free.",
        ),
        "report": ("published", "histogram_report", "Draw a published histogram: free."),
    },
)


histogram_run = run_command(
    "histogram",
    click.option(
        "--compare",
        is_flag=True,
        help="Also run the other methods on the same trips, for the owner's report; recorded in the ledger.",
    ),
    about="""Count distinct trips in SOURCE on a public grid, add noise, and write a release.

Points outside the box are dropped and the trip is cut there. Two consecutive points are joined by a straight
line, unless they are farther apart than --jump-m. The budget is reserved before trips are counted.
""",
    example="""\b
Examples:
  shoal simulate town --what trips --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal histogram run --plan town/histogram.toml --dry-run
  shoal histogram run --plan town/histogram.toml
  shoal histogram query town/histogram --box 5.02,47.31,5.05,47.33
\b
  shoal histogram run 'cabs/*.parquet' --trip-flag --column flag=occupied
      --box -122.52,37.70,-122.36,37.83 --cells 256 --unit trip
      --start 2008-05-17 --end 2008-06-11 --time-zone America/Los_Angeles
      --population cabs --epsilon 0.1 --out release --owner owner
""",
    report=("compare",),
)


synthesize = LazyGroup(
    "synthesize",
    help="""Release synthetic trips with times and stays, with differential privacy per user or per trip.

    \b
    Example:  shoal synthesize run --help
    """,
    steps={
        "run": ("run", "synthesize_run", "Release synthetic trips: spends."),
        "report": ("published", "synthesize_report", "Draw published synthetic trips: free."),
    },
)


synthesize_run = run_command(
    "synthetic",
    about="""Estimate a noisy model of the trips in SOURCE and write synthetic trips in the same columns.

Points outside the box are dropped and the trip is cut there. The budget is reserved before trips are counted.
Noise is added once, to the model; trips drawn from it cost no further budget, however many there are.
""",
    example="""\b
Examples:
  shoal simulate town --what trips --out town
  shoal ledger create town --epsilon 4 --delta 1e-6
  shoal synthesize run --plan town/synthetic.toml --dry-run
  shoal synthesize run --plan town/synthetic.toml
  shoal inspect town/synthetic
\b
  shoal synthesize run 'cabs/*.parquet' --trip-flag --column flag=occupied
      --box -122.52,37.70,-122.36,37.83 --cell-m 420 --step-s 60 --unit trip
      --start 2008-05-17 --end 2008-06-11 --time-zone America/Los_Angeles
      --population cabs --epsilon 0.5 --count 100000 --out release --owner owner
\b
  shoal synthesize run 'town/events/*.parquet' --method commute --sites town/sites.csv
      --start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris
      --population town --epsilon 1 --out release --owner owner
""",
)


WHEN = (
    click.option("--bbox", callback=box, help="west,south,east,north: zones whose centre lies in it."),
    click.option(
        "--from", "first", metavar="TIME", help="First slot, local time.  [default: that of the window]"
    ),
    click.option(
        "--to", "last", metavar="TIME", help="Local time after the last slot.  [default: end of the window]"
    ),
    click.option("--slots", metavar="N-M,...", help="Slots by number, from 0, instead of times."),
)
PRICE = ("population", "epsilon", "delta", "rho")
OF_A_QUERY = ("ell", "decimals", "run_id", "supersedes")  # of the settings of a density


def _plan_from(path: str, flags: dict[str, Any]) -> Any:
    asks = _asks(flags.pop("file"), flags)
    names = (*PRICE, *OF_A_QUERY, *settings_of(QueryPlan))
    own = {name: flags.pop(name) for name in names if name in flags}
    check_named(flags)
    return QueryPlan.from_settings(run_settings(DensityPlan, path or None, flags), own, asks)


def _asks(file: str | None, flags: dict[str, Any]):
    """The queries of a file, or the one that flags say; takes its flags out."""
    from shoal.errors import PlanError
    from shoal.kinds.ask import Ask, parse_slots, read_asks

    flagged = {name: flags.pop(name) for name in ("zones_in", "bbox", "first", "last", "slots")}
    if file is None:
        zones = flagged.pop("zones_in")
        named = None if zones is None else tuple(part.strip() for part in zones.split(",") if part.strip())
        slots = None if flagged["slots"] is None else parse_slots(flagged["slots"])
        start, end = flagged["first"], flagged["last"]
        return (Ask(name="query", zones=named, bbox=flagged["bbox"], start=start, end=end, slots=slots),)
    if any(value is not None for value in flagged.values()):
        raise PlanError("query-set", "queries come from the file or from flags; got both.", "Leave one out.")
    return read_asks(file)


query = run_command(
    "query",
    click.option(
        "--plan", type=click.Path(), help="A density's plan: source, map, window, population; flags win."
    ),
    click.option("--zones-in", metavar="ID,...", help="Zones of the query.  [default: all]"),
    *WHEN,
    click.option(
        "--file", type=click.Path(), help="File of queries instead of one query: one JSON object per line."
    ),
    *click_options(DensityPlan, only=PRICE),
    *click_options(QueryPlan),
    *click_options(DensityPlan, only=OF_A_QUERY),
    *plan_options(DensityPlan, ("unit", "space", "window")),
    THREADS,
    about="""Estimate the visits in a set of zones and slots of private events, with noise. It spends.

SOURCE, zones and window come from flags, or from the plan of a density. All visits count; those of one user
are clipped at a number that follows from a noisy histogram. The budget is reserved before anything is
counted; the same query again returns the stored answer and spends nothing.

Queries on a published release cost nothing: read its files. This command reads the events instead; use it
for what no release contains.
""",
    example="""\b
Examples:
  shoal query --plan town/density.toml --zones-in Z0001,Z0002
      --from 2026-03-02T07:00 --to 2026-03-02T10:00 --epsilon 0.1 --dry-run
  shoal query --plan town/density.toml --bbox 4.9,47.2,5.1,47.4 --rho 0.001
  shoal query --plan town/density.toml --file queries.jsonl --mechanism weights --epsilon 1
  shoal query 'events/*.parquet' --zones zones.geojson --sites sites.csv
      --start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris
      --population paris-2026 --zones-in Z0001,Z0002 --slots 0-23 --epsilon 0.1
\b
A line of queries.jsonl: zones by id or box, slots by time or number; by default all zones, all slots:
  {"name": "morning", "zones": ["Z0001"], "from": "2026-03-02T07:00", "to": "2026-03-02T10:00"}
  {"name": "all week", "bbox": [4.9, 47.2, 5.1, 47.4]}
""",
    plan_from=_plan_from,
    name="query",
)
