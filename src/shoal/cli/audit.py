"""shoal audit: our mechanisms against their claims."""

from __future__ import annotations

import json
from dataclasses import asdict

import click


@click.command(epilog="Example:  shoal audit --quick")
@click.option("--mechanism", "names", multiple=True, help="Only this one; may be repeated.  [default: all]")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The claim to test.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="For claims that are not pure.")
@click.option(
    "--runs", type=int, help="Runs per side.  [default: enough to come within a tenth of the claim]"
)
@click.option("--quick", is_flag=True, help="Fewer runs: still fails on what is broken, but is not tight.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, one object per mechanism.")
def audit(
    names: tuple[str, ...], epsilon: float, delta: float, runs: int | None, quick: bool, as_json: bool
) -> None:
    """Try to prove our own mechanisms wrong.

    \b
    Each registered mechanism is
      replayed   on pairs of data sets that differ by one user: same answers, same bytes?
      run        many times on its worst-case pair, for a lower bound on epsilon and mu
      broken     on purpose, in many ways, each of which must be caught

    Exits with 6 if a bound is above its claim, a replay fails or a planted bug survives.
    """
    from shoal.audit.run import AuditPlan, audit_mechanism
    from shoal.cli.progress import Bars
    from shoal.errors import GuaranteeError
    from shoal.mechanisms.registry import REGISTRY, entry_of

    for name in names:
        entry_of(name)
    if quick:
        plan = AuditPlan.quick(epsilon, delta, runs)
    else:
        plan = AuditPlan(epsilon=epsilon, delta=delta, runs=runs)
    with Bars() as bars:
        results = [audit_mechanism(name, plan, bars) for name in names or REGISTRY]
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
    else:
        _print_table(results)
    problems = [f"{result.mechanism}: {problem}" for result in results for problem in result.problems]
    if problems:
        raise GuaranteeError("audit-failed", "a promise does not hold.\n" + "\n".join(problems))


def _print_table(results: list) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    table.add_column("mechanism", no_wrap=True)
    for column in ("epsilon", "at least", "mu", "at least", "runs"):
        table.add_column(column, justify="right")
    table.add_column("replay", justify="right")
    table.add_column("bugs", justify="right")
    for result in results:
        table.add_row(
            result.mechanism,
            f"{result.claimed_epsilon:.4g}",
            f"{result.lower_bound:.3f}",
            "-" if result.claimed_mu is None else f"{result.claimed_mu:.4f}",
            "-" if result.mu_lower_bound is None else f"{result.mu_lower_bound:.4f}",
            f"{result.runs:,}",
            f"{result.replay_pairs} held" if result.replay_passed else "FAILED",
            f"{result.mutants_caught}/{result.mutants_planted}",
        )
    console = Console()
    console.print(table)
    deltas = sorted({result.delta for result in results if result.delta})
    console.print(
        "epsilon, mu: claimed for one user"
        + (f", delta = {deltas[0]:g} where the claim is not pure" if deltas else "")
        + ".\nat least: proved by the runs (so many per side; wrong with probability 1e-6).\n"
        "With a delta no affordable number of runs comes near epsilon; mu shows how tight noise is.\n"
        "replay: pairs of neighbours that cannot be told apart but by the noise.\n"
        "bugs: planted ones that the audit found, of all.",
        style="dim",
        soft_wrap=True,
    )
