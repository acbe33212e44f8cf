"""shoal audit: our mechanisms against their claims."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

PAIRS, QUICK_PAIRS = 36, 6  # neighbouring tables per method of --end-to-end
MOST_SHOWN = 20


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
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The claim to test.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="For claims that are not pure.")
@click.option(
    "--runs", type=int, help="Runs per side.  [default: by mechanism; plain counts to a tenth of the claim]"
)
@click.option("--quick", is_flag=True, help="Fewer runs: still fails on what is broken, but is not tight.")
@click.option(
    "--planted",
    metavar="[NAME|FILE]",
    is_flag=False,
    flag_value="all",
    help="Plant bugs in a copy of the package and print what catches each: all, by name, or from a file.",
)
@click.option("--at-once", is_flag=True, help="Plant the bugs of --planted together.")
@click.option(
    "--end-to-end",
    is_flag=True,
    help="Replay whole runs instead, from files to release folders, per kind and method.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the worlds of --end-to-end.")
@click.option("--jobs", type=int, help="Mechanisms audited at a time.  [default: one per core]")
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
    """Try to prove our own mechanisms wrong.

    \b
    Each registered mechanism is
      replayed   on pairs of data sets that differ by one user: same answers, same bytes?
      looked at  where nobody is: noise that comes again, goes together or skips steps?
      run        many times on its worst user, for lower bounds on epsilon and mu: every spend, and all
      broken     on purpose, in many ways, each of which must be caught

    With --end-to-end, neighbouring tables go as files through the run of each kind of release: with the same
    noisy answers every byte of the folder must be the same, and the exact loss within what the ledger was
    charged. --mechanism then takes a kind or a method of one: density, density-gaussian.

    Exits with 6 if a claim is above what was asked for, a bound is above its claim, a replay fails,
    the noise is at fault or a planted bug survives.
    """
    if listed:
        _print_cases(as_json)
        return
    if planted is not None:
        from shoal.cli.audit_planted import show_planted

        show_planted(planted, at_once, as_json)
        return
    from shoal.auditing.run import AuditPlan, audit_many, audit_shared
    from shoal.cli.progress import Bars
    from shoal.errors import GuaranteeError
    from shoal.mechanisms.registry import REGISTRY, entry_of
    from shoal.release.manifest import entry_name

    if end_to_end:
        _end_to_end(names, QUICK_PAIRS if quick else PAIRS, seed, jobs, as_json)
        return
    names = tuple(entry_name(name) for name in names)
    for name in names:
        entry_of(name)
    if quick:
        plan = AuditPlan.quick(epsilon, delta, runs)
    else:
        plan = AuditPlan(epsilon=epsilon, delta=delta, runs=runs)
    with Bars() as bars:
        results = audit_many(list(dict.fromkeys(names)) or list(REGISTRY), plan, bars, jobs)
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
    else:
        _print_table(results)
    problems = [f"{result.mechanism}: {problem}" for result in results for problem in result.problems]
    problems += [] if names else audit_shared()
    if problems:
        raise GuaranteeError("audit-failed", "a promise does not hold.\n" + "\n".join(problems))


def _end_to_end(names: tuple[str, ...], pairs: int, seed: int, jobs: int | None, as_json: bool) -> None:
    """Replays whole runs and prints, per method, the largest share of its claim that a pair reached."""
    from shoal.auditing.end_to_end import examine_many
    from shoal.cli.progress import Bars
    from shoal.errors import GuaranteeError

    with Bars() as bars:
        results = examine_many(names, pairs=pairs, seed=seed, progress=bars, jobs=jobs)
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
    else:
        click.echo(f"{'kind':<12}{'method':<12}{'pairs':>6}{'share of claim':>16}{'problems':>10}")
        for each in results:
            share = f"{each.share:.3f}" if each.pairs else "-"
            click.echo(f"{each.kind:<12}{each.method:<12}{each.pairs:>6}{share:>16}{len(each.findings):>10}")
    problems = [str(found) for result in results for found in result.findings]
    if problems:
        more = [f"and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else []
        shown = "\n".join([*problems[:MOST_SHOWN], *more])
        raise GuaranteeError("audit-failed", f"a promise does not hold end to end.\n{shown}")
    if not as_json:
        click.echo("All runs held: only the noise keeps neighbours apart.")


def _print_cases(as_json: bool) -> None:
    """One line or object per audit case; the manifest of a release names its case."""
    from shoal.release.manifest import CASES

    if as_json:
        click.echo(json.dumps([case._asdict() for case in CASES.values()], indent=2))
        return
    click.echo(f"{'case':<34}{'kind':<12}{'method':<16}{'family':<10}mechanism")
    for each in CASES.values():
        click.echo(f"{each.case:<34}{each.kind:<12}{each.method:<16}{each.family:<10}{each.mechanism}")


def _print_table(results: list) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 0))
    columns = _columns(results)
    for label in columns:
        table.add_column(label, justify="left" if label == "mechanism" else "right", no_wrap=True)
    for result in results:
        table.add_row(*(cell(result) for cell in columns.values()))
    console = Console()
    console.print(table)
    console.print(_verdict(results), style="bold", soft_wrap=True)
    console.print(_legend(results), style="dim", soft_wrap=True)


def _columns(results: list) -> dict:
    """Label of each column, and its cell from a result; mu only where somebody has one."""

    def number(value: float | None, digits: str) -> str:
        return "-" if value is None else format(value, digits)

    mu = {
        "mu\nclaim": lambda r: number(r.claimed_mu, ".3f"),
        "mu\nproved": lambda r: number(r.mu_lower_bound, ".3f"),
    }
    return {
        "mechanism": lambda r: r.mechanism,
        "epsilon\nclaim": lambda r: number(r.claimed_epsilon, ".4g"),
        "epsilon\nproved": lambda r: number(r.lower_bound, ".3f"),
        **(mu if any(result.claimed_mu is not None for result in results) else {}),
        "runs": lambda r: _short(r.runs),
        "pairs\nheld": lambda r: f"{r.replay_held}/{r.replay_pairs}",
        "noise": lambda r: "held" if r.noise_passed else "FAILED",
        "bugs\nfound": lambda r: f"{r.mutants_caught}/{r.mutants_planted}",
    }


def _short(runs: int) -> str:
    """1600000 as 1600k: the table must fit a terminal."""
    return str(runs) if runs < 10_000 else f"{runs // 1000}k"


def _verdict(results: list) -> str:
    failed = [f"{result.mechanism} ({len(result.problems)})" for result in results if result.problems]
    return f"\nNOT HELD (number of problems): {', '.join(failed)}." if failed else "\nAll promises held."


def _legend(results: list) -> str:
    """What the columns mean, as far as they are shown."""
    lines = [
        "claim: by the mechanism, for one user, all of its spends together.",
        "proved: at least so much, by the runs (per side); wrong with probability 1e-6.",
    ]
    deltas = sorted({result.delta for result in results if result.delta})
    if deltas:
        lines += [
            "mu: how far one user can move the answers, in standard deviations of the Gaussian noise.",
            f"  With a delta (here {deltas[0]:g}) the last part of epsilon hides in events too rare for any",
            "  affordable number of runs, so epsilon proved stays low; mu proved shows how tight it is.",
        ]
    return "\n".join(
        [
            *lines,
            "pairs held: data sets one user apart that only the noise keeps apart.",
            "noise: no value comes again, no two cells go together, no lattice step is skipped.",
            "bugs found: planted on purpose, to see that the audit finds them.",
        ]
    )
