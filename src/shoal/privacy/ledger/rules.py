"""The rules of the ledger: what a new row may do, and whether the rows that were read have done only that.

`fold` walks the rows once, keeps the sums and says where a row breaks a rule. The checks refuse beforehand,
with a remedy: alike names, mixed units, too small a budget, a wrong token, bad text.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from shoal.errors import LedgerError
from shoal.privacy.accounting import GDP, LARGEST_NANO, PURE, SMALLEST_DELTA, ZCDP
from shoal.privacy.guarantee import hidden_difference, skeleton
from shoal.privacy.ledger.pots import CURRENCIES, ONE_POT, POTS, Pot
from shoal.privacy.ledger.state import (
    LAWS,
    UNKNOWN_UNIT,
    AlreadyReleased,
    Finding,
    Population,
    Row,
    Spend,
    State,
    StoredRow,
    read_chain,
)


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


def _create(state: State, row: Row) -> str | None:
    content = row.content
    name = content["population"]
    if name in state.populations:
        return "it creates a population that exists."
    delta = None if content["delta"] is None else float(content["delta"])
    if delta is not None and not SMALLEST_DELTA <= delta < 1:
        return "its delta is not valid."
    pots = _pots(content, delta)
    if pots is None:
        return "its currency or limit is not valid."
    fields = {key: content[key] for key in ("delta", "note", "at")}
    state.populations[name] = Population(name=name, pots=pots, **fields)
    return None


def _pots(content: Mapping[str, Any], delta: float | None) -> dict[str, Pot] | None:
    """The pots that a row creates; None if they are not valid."""
    if content["currency"] in CURRENCIES:
        law, limit = CURRENCIES[content["currency"]], content["limit_nano"]
        one = Pot(name=ONE_POT, law=law, limit_nano=limit, delta=delta)
        return {ONE_POT: one} if _positive(limit) else None
    limits = content["pots"]
    whole = all(type(each) is int and 0 <= each <= LARGEST_NANO for each in limits.values())
    whole = whole and any(limits.values()) and (delta is not None or not limits["gaussian"])
    if content["currency"] != "pots" or limits.keys() != POTS.keys() or not whole:
        return None
    return {name: Pot(name=name, law=law, limit_nano=limits[name], delta=delta) for name, law in POTS.items()}


def _raise(state: State, row: Row) -> str | None:
    population = state.populations[row.content["population"]]
    pot, limit = population.pots[row.content.get("pot", ONE_POT)], row.content["limit_nano"]
    if not _positive(limit) or limit < pot.spent_nano:
        return "it sets a limit below what was spent, or none that is valid."
    if pot.law == GDP and pot.tau > replace(pot, limit_nano=limit).most_tau:
        return "it sets a limit at which delta does not cover the slack of the noise."
    pot.limit_nano = limit
    population.notes.append(row.content)
    return None


def _lower(state: State, row: Row) -> str | None:
    population = state.populations[row.content["population"]]
    pot = population.pots[row.content.get("pot", ONE_POT)]
    if row.content["limit_nano"] >= pot.limit_nano:
        return "it lowers a limit to no less than it was."
    if population.spends and pot.name != ONE_POT:
        return "it lowers a pot after the first reserve."
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
    if terms["law"] == PURE and not _positive(epsilon_nano):
        return "it is pure and has no epsilon."
    pot = population.pots.get(terms["pot"])
    if pot is None:
        return "its pot is not one of the population."
    if pot.name != ONE_POT and (terms["law"] == ZCDP or (pot.law == PURE and terms["law"] != PURE)):
        return "its law is not one that its pot takes."
    spend = Spend(
        seq=row.seq, pure_epsilon_nano=epsilon_nano, **{key: content[key] for key in fields}, **terms
    )
    population.spends.append(spend)
    pot.spent_nano += spend.cost_nano
    pot.tau += spend.tau
    state.by_reservation[spend.reservation] = spend
    if pot.spent_nano > pot.limit_nano or pot.tau > pot.most_tau:
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
    return type(amount) is int and 0 < amount <= LARGEST_NANO


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


def check_new_name(state: State, name: str) -> None:
    """Refuses a name that could be mistaken for that of another population."""
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
    """The state after all rows; refuses a ledger that does not verify."""
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
