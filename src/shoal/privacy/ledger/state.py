"""What the rows of a ledger add up to: populations, their limits, and every spend.

`fold` walks the rows once, keeps the sums and says where a row breaks a rule. Nothing is stored but rows.
"""

from __future__ import annotations

import difflib
import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import LedgerError
from shoal.privacy.ledger.amounts import CURRENCIES
from shoal.privacy.ledger.chain import Row
from shoal.privacy.ledger.protocol import Finding


@dataclass(frozen=True, kw_only=True)
class AlreadyReleased:
    """A release that was committed (or listed) under a key: asking again returns it."""

    reservation: str
    path: str
    manifest_sha256: str


@dataclass(kw_only=True)
class Spend:
    """One reserve. It counts as spent from the moment it exists, committed or not."""

    seq: int
    at: str
    reservation: str
    key: str
    what: str
    cost_nano: int
    token_sha256: str
    released: AlreadyReleased | None = None

    @property
    def status(self) -> str:
        return "committed" if self.released else "unresolved (counts as spent)"

    @property
    def path(self) -> str:
        """The folder it was committed to; empty before."""
        return self.released.path if self.released else ""


@dataclass(kw_only=True)
class Population:
    """Whose budget it is, how large, what is gone."""

    name: str
    currency: str
    limit_nano: int
    delta: str | None
    note: str
    at: str
    spent_nano: int = 0
    tuned: bool = False
    spends: list[Spend] = field(default_factory=list)
    released: dict[str, AlreadyReleased] = field(default_factory=dict)  # by key
    notes: list[Mapping[str, Any]] = field(default_factory=list)  # disclosures, listings, tunings, raises

    @property
    def left_nano(self) -> int:
        return self.limit_nano - self.spent_nano


@dataclass
class State:
    where: str = ""  # the place of the ledger, for messages
    populations: dict[str, Population] = field(default_factory=dict)
    by_reservation: dict[str, Spend] = field(default_factory=dict)
    last_at: str = ""

    def population(self, name: str) -> Population:
        try:
            return self.populations[name]
        except KeyError:
            raise _unknown(name, list(self.populations), self.where) from None


def fold(rows: Iterable[Row], where: str = "") -> tuple[State, list[Finding]]:
    """The state after all rows, and every row that breaks a rule of the ledger."""
    state = State(where=where)
    findings: list[Finding] = []
    for row in rows:
        findings += apply(state, row)
    return state, findings


def apply(state: State, row: Row) -> list[Finding]:
    """Add one row to the state; what it breaks."""
    findings = []
    try:
        at = row.content["at"]
        if at < state.last_at:
            findings.append(Finding(row.seq, "time", "it is dated before the row above it."))
        state.last_at = max(at, state.last_at)
        problem = _APPLY[row.content["kind"]](state, row)
    except (KeyError, TypeError):
        problem = "it is not of a known kind, or lacks a field, or names an unknown population."
    if problem:
        findings.append(Finding(row.seq, "rule", problem))
    return findings


def _unknown(name: str, known: list[str], where: str) -> LedgerError:
    """A name is more often misspelt than new, so what exists is said before how to make one."""
    place = f"the ledger {where}" if where else "the ledger"
    listed = ", ".join(known[:_LISTED]) + (
        f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    )
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in known], n=1)
    meant = next((f' Did you mean "{each}"?' for each in known if [each.lower()] == near), "")
    there = f"It has: {listed}." if known else "It has none yet."
    return LedgerError(
        "unknown-population",
        f'{place} has no population "{name}".{meant} {there}',
        f"If it is new, create it once with `shoal ledger create {shlex.quote(name)} --epsilon 1 "
        "--delta 1e-6`, say.",
    )


_LISTED = 8


def _create(state: State, row: Row) -> str | None:
    content = row.content
    name = content["population"]
    if name in state.populations:
        return "it creates a population that exists."
    if content["currency"] not in CURRENCIES or not _positive(content["limit_nano"]):
        return "its currency or limit is not valid."
    fields = ("currency", "limit_nano", "delta", "note", "at")
    state.populations[name] = Population(name=name, **{key: content[key] for key in fields})
    return None


def _raise(state: State, row: Row) -> str | None:
    population = state.populations[row.content["population"]]
    limit = row.content["limit_nano"]
    if not _positive(limit) or limit < population.spent_nano:
        return "it sets a limit below what was spent."
    population.limit_nano = limit
    population.notes.append(row.content)
    return None


def _reserve(state: State, row: Row) -> str | None:
    content = row.content
    population = state.populations[content["population"]]
    if not _positive(content["cost_nano"]):
        return "its cost is not a whole number above 0."
    if content["reservation"] in state.by_reservation:
        return "it reuses the id of another reserve."
    fields = ("at", "reservation", "key", "what", "cost_nano", "token_sha256")
    spend = Spend(seq=row.seq, **{key: content[key] for key in fields})
    population.spends.append(spend)
    population.spent_nano += spend.cost_nano
    state.by_reservation[spend.reservation] = spend
    if population.spent_nano > population.limit_nano:
        return "it spends more than the population's limit."
    if spend.key in population.released:
        return "it spends again under a key that was released."
    return None


def _commit(state: State, row: Row) -> str | None:
    content = row.content
    population = state.populations[content["population"]]
    spend = state.by_reservation.get(content["reservation"])
    if spend is None or spend not in population.spends:
        return "it commits what this population never reserved."
    if spend.released is not None:
        return "it commits a reserve a second time."
    if spend.key in population.released:
        return "its key was released before."
    if token_sha256(content["token"]) != spend.token_sha256:
        return "it does not carry the token of its reserve."
    spend.released = population.released[spend.key] = _released(content)
    return None


def _list(state: State, row: Row) -> str | None:
    content = row.content
    population = state.populations[content["population"]]
    if content["key"] in population.released:
        return "its key was released before."
    population.released[content["key"]] = _released(content)
    population.notes.append(content)
    return None


def _note(state: State, row: Row) -> str | None:
    population = state.populations[row.content["population"]]
    population.tuned = population.tuned or row.content["kind"] == "tuned"
    population.notes.append(row.content)
    return None


def _released(content: Mapping[str, Any]) -> AlreadyReleased:
    fields = ("reservation", "path", "manifest_sha256")
    return AlreadyReleased(**{key: content[key] for key in fields})


def token_sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _positive(amount: object) -> bool:
    return type(amount) is int and amount > 0


_APPLY: dict[str, Callable[[State, Row], str | None]] = {
    "population": _create,
    "raise": _raise,
    "reserve": _reserve,
    "commit": _commit,
    "listing": _list,
    "disclosure": _note,
    "tuned": _note,
}
