"""shoal audit: our mechanisms against their claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from shoal.kinds.describe import Table

PAIRS, QUICK_PAIRS = 36, 6  # neighbouring tables per method of --end-to-end
MOST_SHOWN = 20
ALL = "all"


@click.command(epilog="Example:  shoal audit --quick --mechanism synthetic-bridges-gaussian")
@click.option(
    "--mechanism",
    "names",
    multiple=True,
    help="Only this audit case (see --list) or registered mechanism; may be repeated.  [default: all]",
)
@click.option(
    "--list", "listed", is_flag=True, help="Print the audit case of every method that can be released."
)
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Claimed epsilon to test.")
@click.option(
    "--delta", type=float, default=1e-6, show_default=True, help="Delta of claims that are not pure."
)
@click.option(
    "--runs", type=int, help="Runs per side.  [default: by mechanism; plain counts to a tenth of the claim]"
)
@click.option(
    "--quick", is_flag=True, help="Fewer runs: still detects errors, but lower bounds are not tight."
)
@click.option(
    "--planted",
    metavar="[NAME|FILE]",
    is_flag=False,
    flag_value=ALL,
    help="Plant bugs in a copy of the package and print the checks that catch them: all, by name, or a file.",
)
@click.option("--at-once", is_flag=True, help="Plant the bugs of --planted together.")
@click.option(
    "--end-to-end",
    is_flag=True,
    help="Replay whole runs instead, from files to release folders, per kind and method.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the data sets of --end-to-end.")
@click.option("--jobs", type=int, help="Mechanisms audited in parallel.  [default: one per core]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, one object per mechanism.")
def audit(
    names: tuple[str, ...],
    epsilon: float,
    delta: float,
    runs: int | None,
    quick: bool,
    end_to_end: bool,
    seed: int,
    jobs: int | None,
    as_json: bool,
    listed: bool,
    planted: str | None,
    at_once: bool,
) -> None:
    """Test every mechanism against the guarantee that it claims.

    \b
    Four tests per registered mechanism:
      replay        on pairs of neighbouring data sets: same noisy answers must give the same output
      noise         on empty data: repeated, correlated or too coarse noise
      lower bounds  on epsilon and mu of each spend and of all, from many runs on the worst user
      planted bugs  deliberate errors, each of which must be detected

    With --end-to-end, whole runs of each kind of release are replayed on files of neighbouring data: given
    the same noisy answers, every byte of the release folder must be equal, and the exact loss must not exceed
    the charge in the ledger. --mechanism then takes a kind or a method: density, density-gaussian.

    Exits with 6 if a claim exceeds the requested epsilon, a lower bound exceeds its claim, a replay fails,
    the noise is faulty or a planted bug is not detected.
    """
    if listed:
        _print_cases(as_json)
    elif planted is not None:
        _planted(planted, at_once, as_json)
    elif end_to_end:
        _end_to_end(names, QUICK_PAIRS if quick else PAIRS, seed, jobs, as_json)
    else:
        _mechanisms(names, {"epsilon": epsilon, "delta": delta, "runs": runs}, quick, jobs, as_json)


def _mechanisms(
    names: tuple[str, ...], claim: dict[str, Any], quick: bool, jobs: int | None, as_json: bool
) -> None:
    """Audits mechanisms, and what they share unless some are named."""
    from shoal.auditing.run import AuditPlan, audit_many, audit_shared
    from shoal.cli.printing import Bars
    from shoal.mechanisms.registry import REGISTRY, entry_of
    from shoal.release.manifest import entry_name

    mechanisms = [entry_of(entry_name(name)).name for name in names] or list(REGISTRY)
    plan = AuditPlan.quick(**claim) if quick else AuditPlan(**claim)
    with Bars() as bars:
        results = audit_many(list(dict.fromkeys(mechanisms)), plan, bars, jobs)
    _print(results, as_json, _table, _verdict)
    problems = [f"{result.mechanism}: {problem}" for result in results for problem in result.problems]
    _fail("audit-failed", "a claim does not hold", problems + ([] if names else audit_shared()))


def _end_to_end(names: tuple[str, ...], pairs: int, seed: int, jobs: int | None, as_json: bool) -> None:
    """Replays whole runs and prints, per method, the largest share of its claim that a pair reached."""
    from shoal.auditing.end_to_end import examine_many
    from shoal.cli.printing import Bars

    with Bars() as bars:
        results = examine_many(names, pairs=pairs, seed=seed, progress=bars, jobs=jobs)
    _print(results, as_json, _shares)
    problems = [str(finding) for result in results for finding in result.findings]
    more = [f"and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else []
    _fail("audit-failed", "a claim does not hold end to end", [*problems[:MOST_SHOWN], *more])
    if not as_json:
        click.echo("All runs passed: given the noisy answers, outputs on neighbouring data are identical.")


def _planted(given: str, at_once: bool, as_json: bool) -> None:
    """Plants bugs, by name or from a file, in copies of the package; fails if one is not caught."""
    from shoal.auditing.planted import PLANTED, plant, read_bugs
    from shoal.cli.printing import Bars
    from shoal.errors import PlanError

    bugs = read_bugs(Path(given) if Path(given).is_file() else PLANTED)
    if given != ALL and not Path(given).is_file():
        names = [part.strip() for part in given.split(",")]
        if unknown := [name for name in names if name not in {bug.name for bug in bugs}]:
            known = ", ".join(f'"{bug.name}"' for bug in bugs)
            raise PlanError(
                "planted-bug", f'no planted bug or file is called "{unknown[0]}".', f"Known: {known}."
            )
        bugs = [bug for bug in bugs if bug.name in names]
    groups, results = [bugs] if at_once else [[bug] for bug in bugs], []
    with Bars() as bars:
        bars.stage("planted bugs", len(groups))
        for group in groups:
            results.append(plant(group))
            bars.advance(1)
    if as_json:
        click.echo(json.dumps([{**asdict(result), "held": result.detected} for result in results], indent=2))
    else:
        click.echo(planted_table(results))
    missed = [f"{', '.join(result.bugs)}: {result.why}" for result in results if not result.detected]
    _fail("planted-bug-missed", "a planted bug was not caught", missed)


def planted_table(results: list) -> str:
    """Bug, checks that catch it, CPU seconds, as a table in Markdown."""
    lines = ["| bug | caught by | seconds |", "| --- | --- | ---: |"]
    for result in results:
        # A test by its name alone.
        checks = "; ".join(f"`{check.partition('::')[2] or check}`" for check in result.by)
        lines.append(f"| {'; '.join(result.bugs)} | {checks or '**nothing**'} | {result.seconds:.1f} |")
    return "\n".join(lines)


def _print_cases(as_json: bool) -> None:
    """One line or object per audit case; the manifest of a release names its case."""
    from shoal.release.manifest import CASES

    cases = [case._asdict() for case in CASES.values()]
    if as_json:
        click.echo(json.dumps(cases, indent=2))
        return
    for each in [dict(zip(cases[0], cases[0], strict=True)), *cases]:  # lines are longer than some terminals
        click.echo("{case:<34}{kind:<12}{method:<16}{family:<10}{mechanism}".format(**each))


def _print(results: Sequence[Any], as_json: bool, *tables: Any) -> None:
    """Results as JSON, or as a table; then a verdict where there is one."""
    from shoal.cli.printing import print_table

    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
        return
    table, *verdict = tables
    print_table(table(results))
    for line in verdict:
        click.echo(line(results))


def _fail(code: str, rule: str, problems: Sequence[str]) -> None:
    from shoal.errors import GuaranteeError

    if problems:
        error = GuaranteeError(code, f"{rule}.\n" + "\n".join(problems))
        error.after_results = True
        raise error


def _shares(results: list) -> Table:
    """One row per method: pairs, largest share of the claim that a pair reached, number of problems."""
    from shoal.kinds.describe import Table

    rows = [
        (each.kind, each.method, str(each.pairs), _number(each.share or None, ".3f"), str(len(each.findings)))
        for each in results
    ]
    return Table(header=("kind", "method", "pairs", "share of claim", "problems"), rows=rows, right=(2, 3, 4))


def _table(results: list) -> Table:
    """One row per mechanism; mu only where somebody has one."""
    from shoal.kinds.describe import Table

    mu = {
        "mu\nclaim": lambda r: _number(r.claimed_mu, ".3f"),
        "mu\nproved": lambda r: _number(r.mu_lower_bound, ".3f"),
    }
    columns = {
        "mechanism": lambda r: r.mechanism,
        "epsilon\nclaim": lambda r: _number(r.claimed_epsilon, ".4g"),
        "epsilon\nproved": lambda r: _number(r.lower_bound, ".3f"),
        **(mu if any(result.claimed_mu is not None for result in results) else {}),
        # 1600000 as 1600k: the table must fit a terminal.
        "runs": lambda r: str(r.runs) if r.runs < 10_000 else f"{r.runs // 1000}k",
        "pairs\nheld": lambda r: f"{r.replay_held}/{r.replay_pairs}",
        "noise": lambda r: "held" if r.noise_passed else "FAILED",
        "bugs\nfound": lambda r: f"{r.mutants_caught}/{r.mutants_planted}",
    }
    rows = [tuple(cell(result) for cell in columns.values()) for result in results]
    numbers = tuple(range(1, len(columns)))
    return Table(header=tuple(columns), rows=rows, right=numbers, below=_legend(results))


def _number(value: float | None, digits: str) -> str:
    return "-" if value is None else format(value, digits)


def _verdict(results: list) -> str:
    failed = [f"{result.mechanism} ({len(result.problems)})" for result in results if result.problems]
    return f"\nNOT HELD (number of problems): {', '.join(failed)}." if failed else "\nAll promises held."


def _legend(results: list) -> str:
    """Explains the columns that are shown."""
    lines = [
        "claim: epsilon claimed by the mechanism for one user, all spends together.",
        "proved: lower bound from the runs (number per side), wrong with probability at most 1e-6.",
    ]
    deltas = sorted({result.delta for result in results if result.delta})
    if deltas:
        lines += [
            "mu: largest change of the answers by one user, in standard deviations of the Gaussian noise.",
            f"  With a delta (here {deltas[0]:g}) epsilon is reached only by events too rare to observe in",
            "  any affordable number of runs, so its lower bound is not tight; that on mu is.",
        ]
    return "\n".join(
        [
            *lines,
            "pairs held: data sets one user apart that only the noise keeps apart.",
            "noise: no value comes again, no two cells go together, no lattice step is skipped.",
            "bugs found: planted on purpose, to see that the audit finds them.",
        ]
    )
