"""What the ledger refuses: alike names, mixed units, too small a budget, a wrong token, bad text."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from shoal.errors import BudgetExceeded, LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger.chain import StoredRow, read_chain
from shoal.privacy.ledger.names import LIMIT_FLAG, hidden_difference, show_nano, skeleton
from shoal.privacy.ledger.state import (
    ONE_POT,
    UNKNOWN_UNIT,
    Population,
    Spend,
    State,
    fold,
    is_sha256,
    token_sha256,
)


def check_new_name(state: State, name: str) -> None:
    """A population has a name that nobody could take for another one."""
    if name in state.populations:
        raise LedgerError(
            "population-exists",
            f'the ledger already has a population "{name}".',
            "Use another name, or `shoal ledger raise` for a larger budget.",
        )
    alike = [each for each in state.populations if skeleton(each) == skeleton(name)]
    if alike:
        raise LedgerError(
            "population-alike",
            f'the name "{name}" reads like the population "{alike[0]}": they differ only in case, '
            "spaces, punctuation or letters that look alike.",
            "For the same people use the existing population; otherwise choose a clearer name.",
        )
    if why := hidden_difference(name):
        raise LedgerError(
            "population-alike",
            f"the name {name!a:.60} could be taken for another one: {why}.",
            "Type the name anew, in one alphabet.",
        )


def check_limit(kind: str, population: Population, limit_nano: int) -> None:
    """`raise` raises, `lower` lowers, and no limit lies below what is spent."""
    fits = limit_nano >= population.limit_nano if kind == "raise" else limit_nano < population.limit_nano
    if not fits:
        now = f"{population.currency} = {show_nano(population.limit_nano)}"
        other, against = ("lower", "below") if kind == "raise" else ("raise", "not below")
        raise LedgerError(
            f"limit-not-{'higher' if kind == 'raise' else 'lower'}",
            f'the limit of "{population.name}" is {now}; {show_nano(limit_nano)} is {against} that.',
            f"Use `shoal ledger {other}`.",
        )
    if limit_nano < population.spent_nano:
        raise LedgerError(
            "limit-below-spent",
            f'the population "{population.name}" has spent {population.currency} = '
            f"{show_nano(population.spent_nano)}; a limit of {show_nano(limit_nano)} is below that.",
            "What is spent stays spent; choose a limit above it.",
        )


def refuse_other_unit(owner: Population, unit: str) -> None:
    """One unit per population. Spends from before units were recorded are taken to be of the same one."""
    other = [each for each in owner.units if each != unit]
    if other and unit != UNKNOWN_UNIT:
        raise LedgerError(
            "unit-mixed",
            f'the population "{owner.name}" is counted per {other[0]}, this release per {unit}: a sum of '
            "both would hold for neither.",
            f"Create a population of its own for releases per {unit} with `shoal ledger create`.",
        )


def check_budget(owner: Population, cost: int) -> None:
    """Refuse what does not fit; `left` is without every reserve, resolved or not."""
    if cost > owner.left_nano:
        raise BudgetExceeded(
            "budget-exceeded",
            f"this release needs {owner.currency} = {show_nano(cost)}; "
            f'the population "{owner.name}" has {show_nano(owner.left_nano)} left.',
            "Lower --epsilon (or --rho where you gave it), or raise the budget with "
            f"`shoal ledger raise {shlex.quote(owner.name)} "
            f"{LIMIT_FLAG[owner.currency]} {show_nano(owner.limit_nano + cost - owner.left_nano)}`.",
        )


@contextmanager
def naming_the_price_of(loss: Loss, currency: str) -> Iterator[None]:
    """Where a pure release does not fit into a budget in rho, the refusal says why it is dear."""
    try:
        yield
    except BudgetExceeded as error:
        if currency == "epsilon" or loss.pure_epsilon_nano is None:
            raise
        raise BudgetExceeded(error.code, error.message, f"{error.remedy} {_PURE_IS_DEAR}") from None


def check_commit(owner: Population, spend: Spend, token: str) -> None:
    """One commit per key, by the holder of the reserve's token."""
    if token_sha256(token) != spend.token_sha256:
        raise LedgerError("wrong-token", "this commit does not carry the token of its reserve.")
    if spend.key in owner.released:
        raise LedgerError(
            "already-committed",
            "a release was committed under this key before.",
            "Run the same command again to get the committed release.",
        )


_PURE_IS_DEAR = (
    "A pure epsilon costs epsilon^2 / 2 in rho; gaussian noise or a population made with --pure-epsilon is "
    "cheaper."
)


def check_replaced_once(owner: Population, manifest_sha256: str | None) -> None:
    """A release is replaced by one release at most, so that recipients know which one holds."""
    check_superseded(owner, manifest_sha256)
    if manifest_sha256 in owner.superseded:
        raise LedgerError(
            "already-superseded",
            f"another release replaces {manifest_sha256[:16]}... already.",
            "Name that other release with --supersedes, or leave the option out.",
        )


def check_superseded(owner: Population, manifest_sha256: str | None) -> None:
    if manifest_sha256 is not None and manifest_sha256 not in {
        each.manifest_sha256 for each in owner.released.values()
    }:
        raise LedgerError(
            "unknown-release",
            f'the population "{owner.name}" has no release with the manifest hash {manifest_sha256[:16]}...',
            f"`shoal ledger show {shlex.quote(owner.name)} --json` lists its releases.",
        )


def check_composed(owner: Population, knows: Collection[str] | None) -> None:
    """No release without a loss was listed while this one was being made."""
    listed = {note["manifest_sha256"] for note in owner.notes if note["kind"] == "listing"}
    if knows is not None and not listed <= set(knows):
        raise LedgerError(
            "listed-meanwhile",
            f'another release of "{owner.name}" was listed while this one was being made.',
            "Run again: the new one is compared with it first.",
        )


def terms_of(
    key: str, what: str, unit: str, law: str, source_digest: str | None, supersedes: str | None
) -> dict[str, Any]:
    """What reserves and listings record beside the cost; a release that replaces none has no such field."""
    check_text(key, "key")
    check_text(what, "what")
    check_text(unit, "unit", longest=100)
    for digest in (source_digest, supersedes):
        if digest is not None:
            check_sha256(digest)
    terms = {"key": key, "what": what, "unit": unit, "law": law, "tau": 0, "pot": ONE_POT}
    replaced = {} if supersedes is None else {"supersedes": supersedes}
    return {**terms, "source_digest": source_digest, **replaced}


def check_text(value: object, name: str, *, longest: int = 1000, empty: bool = False) -> str:
    if not isinstance(value, str) or len(value) > longest or not (empty or value.strip()):
        raise LedgerError(
            "bad-text", f"{name} must be a text of 1 to {longest} characters; got {value!r:.40}."
        )
    if not value.isprintable():
        raise LedgerError("bad-text", f"{name} must be printable on one line; got {value!r:.40}.")
    return value


def check_path(value: object) -> str:
    """A folder may have any name its file system takes; rows hold it escaped."""
    if not isinstance(value, str) or not 0 < len(value) <= 5000:
        raise LedgerError("bad-text", "a path must be a text of 1 to 5000 characters.")
    return value


def check_sha256(value: object) -> str:
    if not is_sha256(value):
        raise LedgerError("bad-hash", f"a SHA-256 hash is 64 hexadecimal digits; got {value!r:.70}.")
    return str(value)


def state_of(stored: list[StoredRow], where: str) -> State:
    """What the rows add up to; refuses a ledger that does not verify."""
    rows, findings = read_chain(stored)
    state, more = fold(rows, where)
    findings += more
    if findings:
        raise LedgerError(
            "ledger-damaged",
            f"row {findings[0].seq} of the ledger {where} does not verify: {findings[0].message}",
            "See `shoal ledger verify` and restore a backup. Nothing is released until then.",
        )
    return state
