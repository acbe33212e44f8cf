"""`shoal ledger`: populations, their budgets, and what was spent on them; tables of `shoal ledger show`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from textwrap import fill
from typing import Any

import click

from shoal.cli.main import JSON, with_options
from shoal.cli.printing import draw_table
from shoal.errors import GuaranteeError, LedgerError, PlanError
from shoal.privacy.accounting import GDP, ZCDP, check_delta, check_epsilon, nano, rho_for
from shoal.privacy.ledger import Population, Pot, Spend, open_ledger, pots_within
from shoal.privacy.ledger.pots import ONE_POT, raised_within


@click.group()
def ledger() -> None:
    """Populations, their lifetime budgets, and what was spent on them.

    The ledger is one file: SHOAL_LEDGER, or ledger.sqlite in your data folder.
    """


_AMOUNTS = with_options(
    (
        click.option("--epsilon", type=float, help="Lifetime epsilon, half of it for pure releases."),
        click.option("--delta", type=float, help="Delta for --epsilon, 1e-6 say."),
        click.option(
            "--pure-epsilon", type=float, help="Part of --epsilon for pure releases; alone: all of it."
        ),
        click.option("--rho", help="One lifetime limit in rho (zCDP), instead of the others."),
        click.option("--note", default="", help="A line to remember it by."),
    )
)


@ledger.command(epilog="Example:  shoal ledger create paris-2026 --epsilon 4 --delta 1e-6")
@click.argument("name")
@_AMOUNTS
@JSON
def create(name: str, note: str, as_json: bool, **budget: Any) -> None:
    """Open population NAME: the people in the data, with one budget for all releases about them.

    Give --epsilon with --delta. The budget has two parts, which are fixed: one for releases with Gaussian
    noise, one for pure releases. A method's family of noise decides which part pays.
    """
    book = open_ledger()
    if budget["rho"] is None and budget["epsilon"] is not None:
        epsilon, delta, pure = (budget[each] for each in ("epsilon", "delta", "pure_epsilon"))
        if delta is None and pure is None:
            raise PlanError("delta-missing", "--epsilon needs a --delta.", "Pass --delta 1e-6, say.")
        limits = pots_within(check_epsilon(epsilon), None if delta is None else check_delta(delta), pure)
        book.create(name, pots=limits, delta=delta, note=note)
    else:
        currency, limit_nano = _limit(**budget)
        book.create(name, currency=currency, limit_nano=limit_nano, delta=budget["delta"], note=note)
    _print_one(book.state().population(name), as_json)


@ledger.command("raise", epilog="Example:  shoal ledger raise paris-2026 --epsilon 6")
@click.argument("name")
@_AMOUNTS
@JSON
def raise_(name: str, note: str, as_json: bool, **budget: Any) -> None:
    """Set a larger lifetime budget for population NAME.

    --epsilon is that of both parts together, of which the pure part stays as it is unless --pure-epsilon is
    given. The guarantee at the new limit holds only if the decision did not depend on answers.
    """
    _set_limit("raise_limit", name, note, as_json, budget)


@ledger.command(epilog="Example:  shoal ledger lower paris-2026 --epsilon 3")
@click.argument("name")
@_AMOUNTS
@JSON
def lower(name: str, note: str, as_json: bool, **budget: Any) -> None:
    """Set a smaller lifetime budget for population NAME, never below what is spent.

    Parts of a budget are fixed once a release was reserved.
    """
    _set_limit("lower_limit", name, note, as_json, budget)


def _set_limit(method: str, name: str, note: str, as_json: bool, budget: dict[str, Any]) -> None:
    book = open_ledger()
    for pot, limit_nano in _new_limits(book.state().population(name), budget).items():
        getattr(book, method)(name, limit_nano, pot=pot, note=note)
    _print_one(book.state().population(name), as_json)
    if method == "raise_limit" and not as_json:
        click.echo(RAISED)


RAISED = (
    "Recorded with its date. A guarantee over a lifetime is for limits fixed in advance: it holds at the new "
    "limit only if the decision to raise it did not depend on answers that were released."
)


def _new_limits(population: Population, budget: dict[str, Any]) -> dict[str, int]:
    """The limits that the flags ask for, by pot."""
    given = budget["delta"]
    if given is not None and population.delta and given != float(population.delta):
        raise PlanError(
            "budget-delta",
            f"the budget of this population is read at delta {population.delta}; got {given:g}.",
            "Leave --delta out.",
        )
    if not population.has_one_limit:
        if budget["rho"] is not None or (budget["epsilon"], budget["pure_epsilon"]) == (None, None):
            raise PlanError(
                "budget-missing",
                "this population needs --epsilon or --pure-epsilon.",
                "Pass --epsilon 6, say.",
            )
        return raised_within(population, budget["epsilon"], budget["pure_epsilon"])
    if budget["epsilon"] is not None and given is None and population.delta:
        budget = {**budget, "delta": float(population.delta)}
    currency, limit_nano = _limit(**budget)
    if currency != population.currency:
        raise PlanError(
            "budget-currency",
            f'the population "{population.name}" is counted in {population.currency}; the new limit is in '
            f"{currency}.",
            "Pass --pure-epsilon." if population.currency == "epsilon" else "Pass --rho or --epsilon.",
        )
    return {ONE_POT: limit_nano}


@ledger.command(epilog="Example:  shoal ledger supersede paris-2026 release-old release-new")
@click.argument("name")
@click.argument("old")
@click.argument("new")
@click.option("--note", default="", help="A line to remember it by.")
@JSON
def supersede(name: str, old: str, new: str, note: str, as_json: bool) -> None:
    """Record that release NEW of population NAME replaces release OLD.

    A release is named by its folder or by the first 8 or more digits of its manifest's SHA-256. Nothing is
    withdrawn and nothing is given back: what OLD has shown and spent stays.
    """
    book = open_ledger()
    population = book.state().population(name)
    hashes = [_manifest_hash(population, each) for each in (old, new)]
    book.supersede(name, *hashes, note=note)
    if as_json:
        _print_one(book.state().population(name), as_json)
    else:
        click.echo(f"Recorded: {hashes[1][:16]}... replaces {hashes[0][:16]}...")


def _manifest_hash(population: Population, release: str) -> str:
    """The manifest hash of a release, given as its folder or as the beginning of that hash."""
    from pathlib import Path

    from shoal.release.manifest import MANIFEST
    from shoal.release.verify import sha256_file

    manifest = Path(release) / MANIFEST
    given = sha256_file(manifest) if manifest.is_file() else release
    known = {each.manifest_sha256 for each in population.released.values()}
    matches = [each for each in known if len(given) >= 8 and each.startswith(given)]
    if len(matches) != 1:
        raise LedgerError(
            "unknown-release",
            f'{release} is not one release of the population "{population.name}".',
            "Name its folder, or the manifest hash that `shoal ledger show NAME --json` lists.",
        )
    return matches[0]


@ledger.command(epilog='Example:  shoal ledger tuned paris-2026 "ell 8, after a look at the counts"')
@click.argument("name")
@click.argument("what")
@JSON
def tuned(name: str, what: str, as_json: bool) -> None:
    """Record that WHAT was chosen for population NAME by looking at private data.

    Such a choice is not paid for, so every later manifest of the population says that there was one. It
    cannot be taken back.
    """
    book = open_ledger()
    book.remember_tuning(name, what)
    if as_json:
        _print_one(book.state().population(name), as_json)
    else:
        click.echo(f'Recorded. Every later manifest of "{name}" says that a choice was made by looking.')


@ledger.command(epilog="Example:  shoal ledger show paris-2026")
@click.argument("name", required=False)
@JSON
def show(name: str | None, as_json: bool) -> None:
    """Show every population, or the history of NAME.

    Note the head somewhere else: `shoal ledger verify --head HASH` later shows that no row is gone.
    """
    book = open_ledger()
    state = book.state()
    populations = [state.population(name)] if name else list(state.populations.values())
    if as_json:
        described = [_described(population, rows=name is not None) for population in populations]
        answer = {"ledger": book.store.where(), "head": book.head(), "populations": described}
        click.echo(json.dumps(answer, indent=2))
        return
    print_populations(populations)
    if name:
        print_rows(populations[0])
    click.echo(f"ledger {book.store.where()}\nhead   {book.head()}")


@ledger.command(epilog="Example:  shoal ledger verify --head 7acb3ec3...")
@click.option("--head", help="A head hash noted before; it must still be in the chain.")
@JSON
@click.pass_context
def verify(context: click.Context, head: str | None, as_json: bool) -> None:
    """Walk the chain of hashes and check every rule at every row. Exits with 6 if one is broken.

    Exits with 4 if there is no ledger.
    """
    book = open_ledger()
    findings = book.verify(expected_head=head)
    if {finding.code for finding in findings} <= {"head", "permissions"} and not book.store.rows():
        raise LedgerError(
            "no-ledger",
            f"there is no ledger at {book.store.where()}.",
            "Check SHOAL_LEDGER; the first `shoal ledger create` makes the file.",
        )
    count = 0 if findings else len(book.store.rows())
    if as_json:
        answer = {"ok": not findings, "rows": count, "findings": [vars(finding) for finding in findings]}
        click.echo(json.dumps({"ledger": book.store.where(), **answer}, indent=2))
        context.exit(6 if findings else 0)
    if findings:
        lines = [f"  - {f'row {each.seq}' if each.seq else 'file'}: {each.message}" for each in findings]
        raise GuaranteeError(
            "ledger-damaged",
            f"the ledger {book.store.where()} does not verify:\n" + "\n".join(lines),
            "Restore it from a backup, and find out who changed it.",
        )
    click.echo(f"{count} rows, chain and totals hold.\nhead {book.head()}")


def _limit(
    *, epsilon: float | None, delta: float | None, rho: str | None, pure_epsilon: float | None
) -> tuple[str, int]:
    """The currency and the limit in nano of a population with one limit; exactly one budget."""
    if sum(value is not None for value in (epsilon, rho, pure_epsilon)) != 1:
        raise PlanError(
            "budget-missing",
            "a population needs one budget: --epsilon with --delta, or --pure-epsilon, or --rho.",
            "Pass --epsilon 1 --delta 1e-6, say.",
        )
    if pure_epsilon is not None:
        return "epsilon", nano(pure_epsilon)
    if rho is not None:
        return "rho", nano(rho)
    if epsilon is None or delta is None:
        raise PlanError("delta-missing", "--epsilon needs a --delta.", "Pass --delta 1e-6, say.")
    return "rho", rho_for(epsilon, delta, ZCDP)


def _print_one(population: Population, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_described(population, rows=False), indent=2))
        return

    print_populations([population])


def _described(population: Population, *, rows: bool) -> dict[str, Any]:
    lifetime = population.lifetime
    answer: dict[str, Any] = {
        "name": population.name,
        "pots": population.described(),
        "delta": float(population.delta) if population.delta else None,
        "lifetime": None if lifetime is None else {"epsilon": lifetime[0], "delta": lifetime[1]},
        "units": population.units,
        "warning": population.mixture or None,
        "tuned_on_private_data": population.tuned,
        "note": population.note,
        "created": population.at,
    }
    if rows:
        names = ("seq", "at", "what", "key", "unit", "law", "pot", "tau", "cost_nano", "status", "path")
        names = (*names, "source_digest")
        answer["spends"] = [{name: getattr(spend, name) for name in names} for spend in population.spends]
        answer["releases"] = [
            {"path": each.path, "manifest_sha256": (digest := each.manifest_sha256)}
            | {"superseded_by": population.superseded.get(digest)}
            for each in population.released.values()
        ]
        answer["notes"] = [dict(note) for note in population.notes]
    return answer


_BAR = 10


def print_populations(populations: Iterable[Population]) -> None:
    """One line per part of a budget: limit, spent, left; then the guarantee over all releases."""
    populations = list(populations)
    if not populations:
        print("The ledger has no population yet. Make one with `shoal ledger create`.")
        return
    rows = [
        (
            each.name if number == 0 else "",
            _bar(pot),
            pot.line,
            pot.shown(pot.left_nano, up=False) if pot.law != GDP else _fits(pot),
        )
        for each in populations
        for number, pot in enumerate(each.pots.values())
    ]
    draw_table(("population", "budget", "spent", "left"), rows, wraps=(0, 2, 3))
    for each in populations:
        for line in (each.mixture, each.lifetime_line, _if_new(each)):
            if line:
                print(f"{each.name}: {line}")


def _fits(pot: Pot) -> str:
    """The largest epsilon of one more Gaussian release: epsilons of these do not add up."""
    return f"{pot.shown(pot.left_nano, up=False)} in one release"


def _if_new(population: Population) -> str:
    """What the same epsilon pays for in a population made now, if this one has a limit in rho."""
    if population.law != ZCDP or population.lifetime is None:
        return ""
    epsilon, delta = population.lifetime
    more = rho_for(epsilon, delta, GDP) / population.one.limit_nano
    return (
        "made with one limit in rho, which it keeps. At the same epsilon a population made now has "
        f"{100 * (more - 1):.0f} % more for Gaussian noise ({100 * (1 - more**-0.5):.1f} % less noise), and "
        "counts pure releases in a part of their own."
    )


def print_rows(population: Population) -> None:
    """Every spend with its folder, and everything else that was noted, in the order it happened."""
    lines = [
        (
            each.at,
            each.what,
            each.path,
            population.pots[each.pot].shown(each.cost_nano),
            _status(population, each),
        )
        for each in population.spends
    ]
    for note in population.notes:
        what = note.get("what") or note.get("note", "")
        if note["kind"] == "supersede":
            what = f"{note['new_sha256'][:16]} replaces {note['old_sha256'][:16]}. {what}".strip()
        lines.append((note["at"], what, note.get("path", ""), *_NOTED[note["kind"]]))
    rows = [
        (at[:16].replace("T", " "), f"{what}\n{_near(path)}" if path else what, cost, fill(status, 14))
        for at, what, path, cost, status in sorted(lines)
    ]
    header = ("when (UTC)", "what, and where", "price", "status")
    draw_table(header, rows, wraps=(1,))


def _status(population: Population, spend: Spend) -> str:
    replaced = spend.released is not None and spend.released.manifest_sha256 in population.superseded
    return f"{spend.status}, superseded" if replaced else spend.status


def _near(path: str) -> str:
    """A folder as seen from here where that is shorter, on one line whatever its name."""
    shown = min(path, os.path.relpath(path), key=len)
    return shown if shown.isprintable() else ascii(shown)


def _bar(pot: Pot) -> str:
    """Filled by what is spent; never empty once something is spent, never full while something is left."""
    full = pot.spent_nano * _BAR // max(pot.limit_nano, 1)
    full = max(full, 1) if pot.spent_nano else 0
    return "█" * full + "░" * (_BAR - full)


_NOTED = {
    "raise": ("", "limit changed"),
    "lower": ("", "limit lowered"),
    "supersede": ("", "release superseded"),
    "listing": ("", "released, not differentially private"),
    "disclosure": ("", "seen by the owner only"),
    "tuned": ("", "chosen by looking at private data"),
}
