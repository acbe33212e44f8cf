"""What the rows of a ledger add up to: populations, their limits, and every spend.

`fold` walks the rows once, keeps the sums and says where a row breaks a rule. Nothing is stored but rows.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import LedgerError
from shoal.privacy.ledger.chain import Finding, Row
from shoal.privacy.ledger.names import CURRENCIES, population_name

UNKNOWN_UNIT = "unknown"  # of rows written before units were recorded
ONE_POT = "one"
LAWS = ("pure", "zcdp", "none")  # none: a listing, which has no loss


@dataclass(frozen=True, kw_only=True)
class AlreadyReleased:
    """A release that was committed (or listed) under a key: asking again returns it."""

    reservation: str
    path: str
    manifest_sha256: str
    unit: str = UNKNOWN_UNIT
    source_digest: str | None = None  # private: of the contents of the source, for the owner only
    supersedes: str | None = None  # manifest hash of the release that this one replaces


@dataclass(kw_only=True)
class Spend:
    """One reserve. It counts as spent from the moment it exists, committed or not.

    `law` is the accounting that its cost follows: pure (with its epsilon) or zcdp. `tau` bounds, in 1e-18,
    the total variation between the noise drawn and the noise accounted for; `pot` names the part of the
    budget that pays. Both are prepared for Gaussian accounting and hold one value today.
    """

    seq: int
    at: str
    reservation: str
    key: str
    what: str
    cost_nano: int
    token_sha256: str
    pure_epsilon_nano: int | None = None
    unit: str = UNKNOWN_UNIT
    law: str = "zcdp"
    tau: int = 0
    pot: str = ONE_POT
    source_digest: str | None = None
    supersedes: str | None = None
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
    notes: list[Mapping[str, Any]] = field(default_factory=list)  # disclosures, listings, tunings, limits
    superseded: dict[str, str] = field(default_factory=dict)  # manifest hash of the old to that of the new

    @property
    def units(self) -> list[str]:
        """The units that its spends are counted by, as far as they were recorded."""
        return sorted({spend.unit for spend in self.spends} - {UNKNOWN_UNIT})

    @property
    def mixture(self) -> str:
        """A warning where spends of several units were added up; empty otherwise."""
        if len(self.units) < 2:
            return ""
        units = " and per ".join(self.units)
        return f"Its spends are counted per {units}: their sum holds for none of these units."

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
        population = self.find(name)
        if population is None:
            raise _unknown(name, list(self.populations), self.where)
        return population

    def find(self, name: str) -> Population | None:
        """The population of this name, however it is composed and spaced."""
        if name in self.populations:
            return self.populations[name]
        plain = population_name(name)
        alike = [each for each in self.populations.values() if population_name(each.name) == plain]
        return alike[0] if len(alike) == 1 else None


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
    except (KeyError, TypeError, AttributeError, ValueError):
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


def _lower(state: State, row: Row) -> str | None:
    population = state.populations[row.content["population"]]
    if row.content["limit_nano"] >= population.limit_nano:
        return "it lowers a limit to no less than it was."
    return _raise(state, row)


def _supersede(state: State, row: Row) -> str | None:
    """One release replaces another of the same population; each is replaced once, and never by itself."""
    population = state.populations[row.content["population"]]
    old, new = row.content["old_sha256"], row.content["new_sha256"]
    released = {each.manifest_sha256 for each in population.released.values()}
    if old not in released or new not in released:
        return "it names a release that this population does not have."
    if old in population.superseded:
        return "it replaces a release that was replaced before."
    later: str | None = new
    while later is not None:
        if later == old:
            return "it replaces a release by itself or by one that it replaces."
        later = population.superseded.get(later)
    population.superseded[old] = new
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
    terms = _terms(content)
    if terms is None:
        return "its unit, law, tau, pot or digest of the source is not valid."
    epsilon_nano = content.get("pure_epsilon_nano")
    if terms["law"] == "pure" and not _positive(epsilon_nano):
        return "it is pure and has no epsilon."
    spend = Spend(
        seq=row.seq, pure_epsilon_nano=epsilon_nano, **{key: content[key] for key in fields}, **terms
    )
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
    spend.released = population.released[spend.key] = released_under(content, vars(spend))
    _replaces(population, spend.released)
    return None


def _list(state: State, row: Row) -> str | None:
    content = row.content
    population = state.populations[content["population"]]
    if content["key"] in population.released:
        return "its key was released before."
    terms = _terms(content)
    if terms is None:
        return "its unit, law, tau, pot or digest of the source is not valid."
    population.released[content["key"]] = released_under(content, terms)
    _replaces(population, population.released[content["key"]])
    population.notes.append(content)
    return None


def _replaces(population: Population, released: AlreadyReleased) -> None:
    if released.supersedes is not None:
        population.superseded.setdefault(released.supersedes, released.manifest_sha256)


def _note(state: State, row: Row) -> str | None:
    population = state.populations[row.content["population"]]
    population.tuned = population.tuned or row.content["kind"] == "tuned"
    population.notes.append(row.content)
    return None


def released_under(content: Mapping[str, Any], terms: Mapping[str, Any]) -> AlreadyReleased:
    """The release at a place, with the unit, source and replaced release of its reserve or listing."""
    fields = {key: content[key] for key in ("reservation", "path", "manifest_sha256")}
    return AlreadyReleased(**fields, **{key: terms[key] for key in ("unit", "source_digest", "supersedes")})


def _positive(amount: object) -> bool:
    return type(amount) is int and amount > 0


def _terms(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a reserve or listing was made under, or None if not valid; rows from before hold none of it."""
    terms = {name: content.get(name, default) for name, default in _TERMS.items()}
    texts = (terms["unit"], terms["pot"])
    digests = (terms["source_digest"], terms["supersedes"])
    valid = (
        all(isinstance(text, str) and text for text in texts)
        and terms["law"] in LAWS
        and type(terms["tau"]) is int
        and terms["tau"] >= 0
        and all(each is None or is_sha256(each) for each in digests)
    )
    return terms if valid else None


_TERMS: dict[str, Any] = {
    "unit": UNKNOWN_UNIT,
    "law": "zcdp",
    "tau": 0,
    "pot": ONE_POT,
    "source_digest": None,
    "supersedes": None,
}


def is_sha256(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


def token_sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


_APPLY: dict[str, Callable[[State, Row], str | None]] = {
    "population": _create,
    "raise": _raise,
    "lower": _lower,
    "supersede": _supersede,
    "reserve": _reserve,
    "commit": _commit,
    "listing": _list,
    "disclosure": _note,
    "tuned": _note,
}
