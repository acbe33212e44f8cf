"""The dry run's list of methods: what error to expect of each for the declared population."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.kinds.density.expected import ExpectedMethod
    from shoal.space.setting import Setting


def print_expected(users: int | None, setting: Setting, chosen: str, methods: list[ExpectedMethod]) -> None:
    """A line per method that can be released, the chosen one marked; what was assumed below."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    title = "Methods at this epsilon"
    title += "" if users is None else f", for {users:,} users, as declared"
    console.print(f"\n[bold]{title}[/bold]")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("method", no_wrap=True)
    table.add_column("noise", justify="right", no_wrap=True)
    if users is not None:
        table.add_column("error", justify="right", no_wrap=True)
        table.add_column("of mean", justify="right", no_wrap=True)
    table.add_column("")
    for each in _ordered(methods, users):
        figures = [_people(each.noise_people)]
        if users is not None:
            share = "-" if each.error_share is None else f"{each.error_share:,.0%}"
            figures += [_people(each.error_people), share]
        mark = ">" if each.method == chosen else ""
        style = "bold" if mark else None
        table.add_row(mark, each.method, *figures, each.words, style=style)
    console.print(table)
    console.print(f"\n{_assumed(users, setting, methods)}", style="dim", soft_wrap=True)


def _ordered(methods: list[ExpectedMethod], users: int | None) -> list[ExpectedMethod]:
    """Best first where errors are known; as listed otherwise."""
    if users is None:
        return methods
    return sorted(methods, key=lambda each: (each.error_share is None, each.error_share or 0.0))


def _people(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _assumed(users: int | None, setting: Setting, methods: list[ExpectedMethod]) -> str:
    from shoal.kinds.density.expected import VISITS_PER_WEEK, mean_count

    noise = (
        "noise: exact, people per zone and slot, before post-processing; a method without a figure has no "
        "formula for it. "
    )
    if users is None:
        return noise + "--users N (an order of magnitude) adds the error to expect against the true counts."
    off = [each.off_by for each in methods if each.off_by] or [1.0]
    return noise + (
        "error: mean over zones and slots, after post-processing, against the true counts; approximate, "
        "fitted on simulated cities at ell 30 (nine of ten "
        f"there lie within a factor of {min(off):.2g} to {max(off):.2g}, by method). Assumed: "
        f"{VISITS_PER_WEEK:g} visits per user and week (the mean that was counted in those cities; `compare` "
        f"shows the number its city is set to), so {mean_count(users, setting):,.3g} people per zone and "
        "slot on average. `shoal density compare` measures it on a simulated city on your zones. Pure "
        "methods cost a larger rho at the same epsilon."
    )
