"""What a ledger holds: rows in a hash chain, and the populations, limits and spends that they add up to.

Each row's digest covers the digest before it and the row's own canonical JSON, which carries its place:

>>> first = link(GENESIS, 1, {"kind": "population", "population": "town"})
>>> second = link(first.digest, 2, {"kind": "tuned", "population": "town"})
>>> [row.content["kind"] for row in read_chain([first, second])[0]]
['population', 'tuned']
>>> [finding.code for finding in read_chain([second, first])[1]]
['order', 'digest', 'order', 'digest']

The seam under the ledger: a store keeps rows in order and appends one at a time, alone. All rules (budgets,
keys, tokens) live above it, so a second store only has to be durable and to run `decide` while nobody else
can append. Nothing is stored but rows.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import secrets
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from shoal.errors import LedgerError
from shoal.privacy.accounting import GDP, PURE, ZCDP, Loss
from shoal.privacy.guarantee import population_name
from shoal.privacy.ledger.pots import ONE_POT, Pot

GENESIS = hashlib.sha256(b"shoal ledger 1").hexdigest()


@dataclass(frozen=True)
class Row:
    """A row read back: its content without the place, and its digest."""

    seq: int
    content: Mapping[str, Any]
    digest: str


def link(previous: str, seq: int, content: Mapping[str, Any]) -> StoredRow:
    """The stored form of `content` as row `seq` after the row with digest `previous`."""
    text = canonical({**content, "seq": seq})
    return StoredRow(seq, text, digest(previous, text))


def digest(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def canonical(content: Mapping[str, Any]) -> str:
    """JSON with sorted keys and no spaces. Floats are refused: money is exact integers."""
    _refuse_floats(content)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def read_chain(stored: Iterable[StoredRow]) -> tuple[list[Row], list[Finding]]:
    """Rows that could be read, and every break: order, digests, text that is not a row."""
    rows: list[Row] = []
    findings: list[Finding] = []
    previous = GENESIS
    for place, row in enumerate(stored, start=1):
        if row.seq != place:
            findings.append(Finding(place, "order", f"row {place} of the file is numbered {row.seq}."))
        if not isinstance(row.content, str) or digest(previous, row.content) != row.digest:
            findings.append(Finding(place, "digest", "its content does not match the chain of hashes."))
        content = _parse(row.content)
        if content is None or content.pop("seq", None) != row.seq:
            findings.append(Finding(place, "content", "its content is not a row of a ledger."))
        else:
            rows.append(Row(row.seq, content, row.digest))
        previous = row.digest
    return rows, findings


def _parse(text: object) -> dict[str, Any] | None:
    try:
        content = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise LedgerError("ledger-float", "a ledger row holds only text, whole numbers and yes or no.")
    if isinstance(value, Mapping):
        for inner in value.values():
            _refuse_floats(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_floats(inner)


@dataclass(frozen=True)
class StoredRow:
    """One row as it lies in the store: its place, its canonical JSON, and its link of the chain."""

    seq: int
    content: str
    digest: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a ledger; `seq` is the row, or 0 for the file as a whole."""

    seq: int
    code: str
    message: str


Decide = Callable[[list[StoredRow]], StoredRow | None]


class Store(Protocol):
    def where(self) -> str:
        """The place of the store, for messages."""
        ...

    def file(self) -> Path | None:
        """The file of the store, beside which runs keep their locks; None if it has none."""
        ...

    def rows(self, *, unchecked: bool = False) -> list[StoredRow]:
        """All rows in order; none if the store was never written.

        Refuses where `append` would, unless `unchecked`.
        """
        ...

    def append(self, decide: Decide) -> None:
        """Run `decide` on all rows in one exclusive transaction and add the row it returns.

        When this returns, the row survives a power cut. If `decide` raises, nothing is written. A store
        that lost rows, or what protects them, refuses.
        """
        ...

    def problems(self) -> list[Finding]:
        """What the store itself can say about damage, permissions and missing rows."""
        ...


UNKNOWN_UNIT = "unknown"  # of rows written before units were recorded
LAWS = (PURE, GDP, ZCDP, "none")  # none: a listing, which has no loss


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

    `law` is the accounting that its cost follows: pure (with its epsilon), gaussian or zcdp. `tau` bounds, in
    1e-30, the total variation between the noise drawn and the noise accounted for; `pot` names the part of
    the budget that pays.
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
    """A population with its pots and its spends."""

    name: str
    pots: dict[str, Pot]
    delta: str | None
    note: str
    at: str
    tuned: bool = False
    spends: list[Spend] = field(default_factory=list)
    released: dict[str, AlreadyReleased] = field(default_factory=dict)  # by key
    notes: list[Mapping[str, Any]] = field(default_factory=list)  # disclosures, listings, tunings, limits
    superseded: dict[str, str] = field(default_factory=dict)  # manifest hash of the old to that of the new

    @property
    def has_one_limit(self) -> bool:
        return ONE_POT in self.pots

    @property
    def law(self) -> str:
        """The law by which releases that are not pure are priced: zCDP in populations of one limit."""
        return self.pots[ONE_POT].law if self.has_one_limit else GDP

    @property
    def one(self) -> Pot:
        """The one limit of a population that has no pots."""
        if not self.has_one_limit:
            raise LedgerError("pots", f'the budget of "{self.name}" has two parts: name one of them.')
        return self.pots[ONE_POT]

    @property
    def currency(self) -> str:
        return self.one.currency

    @property
    def limit_nano(self) -> int:
        return self.one.limit_nano

    @property
    def spent_nano(self) -> int:
        return self.one.spent_nano

    @property
    def left_nano(self) -> int:
        return self.one.left_nano

    def pot_for(self, loss: Loss, named: str = "") -> Pot:
        """The pot that pays: the one that is named, else that of the family of the noise."""
        if self.has_one_limit:
            if named:
                raise LedgerError(
                    "pot-unknown", f'the population "{self.name}" has one limit.', "Leave --pot out."
                )
            return self.one
        return self.pot(named or ("pure" if loss.law == PURE else "gaussian"))

    def pot(self, name: str) -> Pot:
        """The pot of this name."""
        if name not in self.pots:
            raise LedgerError(
                "pot-unknown",
                f'the population "{self.name}" has no part "{name}".',
                "Leave it out." if self.has_one_limit else "Name one of its parts: gaussian or pure.",
            )
        return self.pots[name]

    @property
    def lifetime(self) -> tuple[float, float] | None:
        """(epsilon, delta) at the limits, however releases are chosen; None for a rho without a delta."""
        each = [pot.epsilon(pot.limit_nano) for pot in self.pots.values()]
        if any(epsilon is None for epsilon in each):
            return None
        rho = any(pot.limit_nano for pot in self.pots.values() if pot.law != PURE)
        return sum(epsilon or 0.0 for epsilon in each), float(self.delta or 0) if rho else 0.0

    @property
    def limit_moved(self) -> bool:
        """Whether a limit was moved after the first reserve: no theorem covers that if answers led to it."""
        moves = [note for note in self.notes if note["kind"] in ("raise", "lower")]
        return bool(self.spends) and any(move["at"] >= self.spends[0].at for move in moves)

    def described(self) -> list[dict[str, Any]]:
        """Every pot for programs: amounts in 1e-9 of its currency, and as epsilon where that is known."""
        return [
            {
                "pot": pot.name,
                "title": pot.title,
                "law": pot.law,
                "currency": pot.currency,
                "limit_nano": pot.limit_nano,
                "spent_nano": pot.spent_nano,
                "left_nano": pot.left_nano,
                "epsilon_limit": pot.epsilon(pot.limit_nano),
                "epsilon_spent": pot.epsilon(pot.spent_nano),
                "line": pot.line,
            }
            for pot in self.pots.values()
        ]

    @property
    def lifetime_line(self) -> str:
        """The guarantee over all releases, at the limits; empty for a rho without a delta."""
        if self.lifetime is None:
            return ""
        epsilon, delta = self.lifetime
        plus = f", delta = {delta:g}" if delta else ""
        moved = "if no limit was moved because of answers"
        return (
            f"All releases together, {moved if self.limit_moved else 'however they are chosen'}: epsilon = "
            f"{round(epsilon, 6):g}{plus} at the limits. What is spent so far is converted likewise: exact "
            "for releases fixed in advance."
        )

    @property
    def line(self) -> str:
        """What is spent of every pot."""
        return "; ".join(pot.line for pot in self.pots.values())

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


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Proof of a spend that was recorded; its token lets its holder, and nobody else, commit."""

    reservation: str
    population: str
    cost_nano: int
    currency: str
    price: str = ""  # the cost as epsilon; empty in populations that count in rho
    token: str = field(repr=False)


def new_reservation() -> str:
    return secrets.token_hex(8)
