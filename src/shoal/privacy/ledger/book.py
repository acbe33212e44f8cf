"""The ledger: who may spend how much, decided and recorded in one transaction.

    create / raise_limit / lower_limit       a population and its lifetime budget
    reserve -> commit                        a differentially private release; a reserve is spent for good
    list_release                             a release with another guarantee: no epsilon, no cost
    supersede                                one release replaces another
    disclose, look, remember_tuning          what the owner saw, and what may have been chosen by looking

There is no refund: from the reserve on, noise may have been drawn and seen.
"""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from shoal.errors import BudgetExceeded, LedgerError
from shoal.privacy.accounting import Loss, check_delta
from shoal.privacy.ledger.chain import GENESIS, Finding, Row, Store, StoredRow, link, read_chain
from shoal.privacy.ledger.names import (
    CURRENCIES,
    LIMIT_FLAG,
    check_nano,
    cost_nano,
    hidden_difference,
    population_name,
    show_nano,
    skeleton,
)
from shoal.privacy.ledger.runs import RunFile, hold, unfinished
from shoal.privacy.ledger.state import (
    ONE_POT,
    UNKNOWN_UNIT,
    AlreadyReleased,
    Population,
    Spend,
    State,
    apply,
    fold,
    is_sha256,
    token_sha256,
)

COMMIT_SECONDS = 30 * 60.0
Answer = TypeVar("Answer")
Content = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Proof of a spend that was recorded; its token lets its holder, and nobody else, commit."""

    reservation: str
    population: str
    cost_nano: int
    currency: str
    token: str = field(repr=False)


class Ledger:
    """The rules of the ledger over any store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def create(
        self, name: str, *, currency: str, limit_nano: int, delta: float | None = None, note: str = ""
    ) -> None:
        """Open a population with a lifetime budget; `delta` is only how the owner likes to read a rho."""
        name = population_name(_text(name, "population", longest=100))
        check_nano(limit_nano, currency)
        if currency not in CURRENCIES:
            raise LedgerError("bad-currency", f"a population counts in rho or epsilon; got {currency!r}.")
        if delta is not None:
            check_delta(delta)

        def decide(state: State) -> tuple[Content, None]:
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
            return {
                "kind": "population",
                "population": name,
                "currency": currency,
                "limit_nano": limit_nano,
                "delta": None if delta is None else repr(float(delta)),
                "note": _text(note, "note", empty=True),
            }, None

        self._append(decide)

    def raise_limit(self, name: str, limit_nano: int, *, note: str = "") -> None:
        """Set a larger lifetime budget."""
        self._set_limit("raise", name, limit_nano, note)

    def lower_limit(self, name: str, limit_nano: int, *, note: str = "") -> None:
        """Set a smaller lifetime budget, never below what is spent."""
        self._set_limit("lower", name, limit_nano, note)

    def _set_limit(self, kind: str, name: str, limit_nano: int, note: str) -> None:
        check_nano(limit_nano, "limit")

        def decide(state: State) -> tuple[Content, None]:
            population = state.population(name)
            fits = (
                limit_nano >= population.limit_nano if kind == "raise" else limit_nano < population.limit_nano
            )
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
            return {
                "kind": kind,
                "population": population.name,
                "limit_nano": limit_nano,
                "note": _text(note, "note", empty=True),
            }, None

        self._append(decide)

    def reserve(
        self,
        population: str,
        loss: Loss,
        key: str,
        what: str,
        *,
        reproducible: bool = False,
        reservation: str | None = None,
        unit: str = UNKNOWN_UNIT,
        source_digest: str | None = None,
        supersedes: str | None = None,
    ) -> Reservation | AlreadyReleased:
        """Check the budget and record the spend, both or neither; before any private value is drawn.

        A key that was released before returns that release and spends nothing. A key whose earlier
        reserve never resolved spends again: its noise may have been seen. `supersedes` is the manifest hash
        of an earlier release of the population that this one replaces.
        """
        if reproducible:
            raise LedgerError(
                "seeded-release",
                "a seeded run is reproducible, so its noise hides nothing; the ledger takes no such release.",
                "Leave the seed out to publish, or write the run to the owner's folder.",
            )
        _text(key, "key")
        _text(what, "what")
        terms = _terms(unit, "zcdp" if loss.pure_epsilon_nano is None else "pure", source_digest, supersedes)
        token = secrets.token_hex(32)
        reservation = reservation or new_reservation()

        def decide(state: State) -> tuple[Content | None, Reservation | AlreadyReleased]:
            owner = state.population(population)
            cost = self._cost(loss, owner.currency)
            if key in owner.released:
                return None, owner.released[key]
            _refuse_other_unit(owner, unit)
            self._refuse_if_short(owner, loss, cost)
            _check_replaced_once(owner, supersedes)
            content = {
                "kind": "reserve",
                "population": owner.name,
                "reservation": reservation,
                "token_sha256": token_sha256(token),
                "key": key,
                "what": what,
                "cost_nano": cost,
                "pure_epsilon_nano": loss.pure_epsilon_nano,
                **terms,
            }
            return content, Reservation(
                reservation=reservation,
                population=owner.name,
                cost_nano=cost,
                currency=owner.currency,
                token=token,
            )

        return self._append(decide)

    def check_fits(self, population: str, loss: Loss, *, unit: str = UNKNOWN_UNIT) -> None:
        """Raise what `reserve` would raise now: population, unit, budget, a ledger that cannot be used.

        Writes nothing, so another run may still take the budget before the reserve.
        """
        self.state().population(population)  # first, so that asking makes no file

        def decide(state: State) -> tuple[None, None]:
            owner = state.population(population)
            _refuse_other_unit(owner, unit)
            self._refuse_if_short(owner, loss, self._cost(loss, owner.currency))
            return None, None

        self._append(decide)

    def running(self, population: str, key: str) -> AbstractContextManager[RunFile]:
        """Hold the key of a run: another process with the same key waits, then is refused."""
        place = self.store.file()
        return nullcontext(RunFile()) if place is None else hold(place, population, key)

    def unfinished(self) -> set[str]:
        """Ids of reserves whose release is complete and only lacks its commit."""
        place = self.store.file()
        return set() if place is None else {record["reservation"] for record in unfinished(place)}

    def commit(
        self,
        reservation: Reservation,
        manifest_sha256: str,
        path: str,
        *,
        waiting: Callable[[str], None] | None = None,
    ) -> AlreadyReleased:
        """Tie a reserve to the one release it paid for; once, and only with the reserve's token.

        A finished release was paid for, so a ledger in use is waited for much longer than before a reserve;
        `waiting` receives a line each time it was found in use.
        """
        _sha256(manifest_sha256)
        _path(path)

        def decide(state: State) -> tuple[Content, AlreadyReleased]:
            spend = state.by_reservation.get(reservation.reservation)
            owner = state.population(reservation.population)
            if spend is None or spend not in owner.spends:
                raise LedgerError("unknown-reserve", "this commit belongs to no reserve of its population.")
            self._check_commit(owner, spend, reservation.token)
            content = {
                "kind": "commit",
                "population": owner.name,
                "token": reservation.token,
                "reservation": spend.reservation,
                "path": path,
                "manifest_sha256": manifest_sha256,
            }
            return content, AlreadyReleased(
                reservation=spend.reservation,
                path=path,
                manifest_sha256=manifest_sha256,
                unit=spend.unit,
                source_digest=spend.source_digest,
                supersedes=spend.supersedes,
            )

        return self._append_patiently(decide, waiting)

    def list_release(
        self,
        population: str,
        key: str,
        what: str,
        manifest_sha256: str,
        path: str,
        *,
        reservation: str,
        unit: str = UNKNOWN_UNIT,
        source_digest: str | None = None,
        supersedes: str | None = None,
        waiting: Callable[[str], None] | None = None,
        window_us: tuple[int, int] | None = None,
        knows: Collection[str] | None = None,
    ) -> AlreadyReleased:
        """Record a release that is not differentially private: where it is, its window, and no epsilon.

        `knows` are the manifests of all listed releases that it was composed with; one more is refused.
        """
        _text(key, "key")
        _text(what, "what")
        _path(path)
        _sha256(manifest_sha256)
        terms = _terms(unit, "none", source_digest, supersedes)
        released = AlreadyReleased(
            reservation=reservation,
            path=path,
            manifest_sha256=manifest_sha256,
            unit=unit,
            source_digest=source_digest,
            supersedes=supersedes,
        )

        def decide(state: State) -> tuple[Content | None, AlreadyReleased]:
            owner = state.population(population)
            if key in owner.released:
                return None, owner.released[key]
            _check_replaced_once(owner, supersedes)
            _check_composed(owner, knows)
            content = {"kind": "listing", "population": owner.name, "key": key, "what": what}
            content |= {} if window_us is None else {"window": list(window_us)}
            return {**content, **terms, **vars(released)}, released

        return self._append_patiently(decide, waiting)

    def supersede(self, population: str, old_sha256: str, new_sha256: str, *, note: str = "") -> None:
        """Record that one release of a population, named by its manifest hash, replaces another."""
        content = {"kind": "supersede", "old_sha256": _sha256(old_sha256), "new_sha256": _sha256(new_sha256)}

        def decide(state: State) -> tuple[Content, None]:
            owner = state.population(population)
            for each in (old_sha256, new_sha256):
                _check_superseded(owner, each)
            return {**content, "population": owner.name, "note": _text(note, "note", empty=True)}, None

        self._append(decide)

    def disclose(self, population: str, what: str, path: str = "") -> None:
        """Record that the owner saw something exact, seeded or compared; it is no release and no spend."""
        self._remember("disclosure", population, what, path)

    def look(self, population: str, what: str, path: str = "") -> None:
        """Record a look at private data that choices may follow from: seeded run, comparison, attack.

        The one rule for all kinds of release: such a look is a disclosure, and later manifests say that
        there was one.
        """
        self.disclose(population, what, path)
        self.remember_tuning(population, what)

    def remember_tuning(self, population: str, what: str) -> None:
        """Record a choice made by looking at private data; later manifests say so."""
        self._remember("tuned", population, what, "")

    def is_tuned(self, population: str) -> bool:
        return self.state().population(population).tuned

    def find(self, population: str, key: str) -> AlreadyReleased | None:
        """The release stored under a key, if any."""
        return self.state().population(population).released.get(key)

    def releases(self) -> list[tuple[str, AlreadyReleased]]:
        """Every committed or listed release, with its population."""
        populations = self.state().populations.values()
        return [(owner.name, released) for owner in populations for released in owner.released.values()]

    def state(self) -> State:
        """What the rows add up to; refuses a ledger that does not verify."""
        return _state(self.store.rows(), self.store.where())

    def head(self) -> str:
        """Digest of the last row. Noted elsewhere, it later shows that no row was cut off."""
        rows = self.store.rows()
        _state(rows, self.store.where())
        return rows[-1].digest if rows else GENESIS

    def verify(self, expected_head: str | None = None) -> list[Finding]:
        """Everything that is wrong: the store, the chain, the rules at each row, a head that is gone."""
        findings = self.store.problems()
        try:
            stored = self.store.rows(unchecked=True)
        except LedgerError as error:
            return findings or [Finding(0, error.code, error.message)]
        rows, breaks = read_chain(stored)
        findings += breaks + fold(rows)[1]
        known = {GENESIS, *(row.digest for row in stored)}
        if expected_head is not None and expected_head not in known:
            findings.append(
                Finding(0, "head", "the noted head is not in the chain: rows were cut or replaced.")
            )
        return findings

    def _remember(self, kind: str, population: str, what: str, path: str) -> None:
        content = {"kind": kind, "what": _text(what, "what"), "path": path}

        def decide(state: State) -> tuple[Content, None]:
            return {**content, "population": state.population(population).name}, None

        self._append(decide)

    def _cost(self, loss: Loss, currency: str) -> int:
        return cost_nano(loss, currency)

    def _check_fits(self, owner: Population, cost: int) -> None:
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

    def _refuse_if_short(self, owner: Population, loss: Loss, cost: int) -> None:
        try:
            self._check_fits(owner, cost)
        except BudgetExceeded as error:
            if owner.currency == "epsilon" or loss.pure_epsilon_nano is None:
                raise
            raise BudgetExceeded(error.code, error.message, f"{error.remedy} {_PURE_IS_DEAR}") from None

    def _check_commit(self, owner: Population, spend: Spend, token: str) -> None:
        """One commit per key, by the holder of the reserve's token."""
        if token_sha256(token) != spend.token_sha256:
            raise LedgerError("wrong-token", "this commit does not carry the token of its reserve.")
        if spend.key in owner.released:
            raise LedgerError(
                "already-committed",
                "a release was committed under this key before.",
                "Run the same command again to get the committed release.",
            )

    def _append_patiently(
        self,
        decide: Callable[[State], tuple[Content | None, Answer]],
        waiting: Callable[[str], None] | None,
    ) -> Answer:
        deadline = time.monotonic() + COMMIT_SECONDS
        while True:
            try:
                return self._append(decide)
            except LedgerError as error:
                left = deadline - time.monotonic()
                if error.code != "ledger-busy" or left <= 0:
                    raise
                if waiting is not None:
                    waiting(
                        f"wait for the ledger, in use by another process (at most {left / 60:.0f} minutes)"
                    )

    def _append(self, decide: Callable[[State], tuple[Content | None, Answer]]) -> Answer:
        """Run a decision on the state inside the store's transaction; record what it returns."""
        answers: list[Answer] = []

        def step(stored: list[StoredRow]) -> StoredRow | None:
            state = _state(stored, self.store.where())
            content, answer = decide(state)
            answers.append(answer)
            if content is None:
                return None
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            # A clock set back must not make the rows look reordered.
            content = {**content, "at": max(now, state.last_at)}
            row = link(stored[-1].digest if stored else GENESIS, len(stored) + 1, content)
            self._check_row(state, Row(row.seq, content, row.digest))
            return row

        self.store.append(step)
        return answers[-1]

    def _check_row(self, state: State, row: Row) -> None:
        """The reader's rules on the row about to be written: a row they reject would lock the ledger."""
        findings = apply(state, row)
        if findings:
            raise LedgerError(
                "ledger-rule",
                f"the ledger does not write this {row.content['kind']}: {findings[0].message}",
                "Nothing was recorded.",
            )


def _check_composed(owner: Population, knows: Collection[str] | None) -> None:
    """No release without a loss was listed while this one was being made."""
    listed = {note["manifest_sha256"] for note in owner.notes if note["kind"] == "listing"}
    if knows is not None and not listed <= set(knows):
        raise LedgerError(
            "listed-meanwhile",
            f'another release of "{owner.name}" was listed while this one was being made.',
            "Run again: the new one is compared with it first.",
        )


def new_reservation() -> str:
    return secrets.token_hex(8)


def _state(stored: list[StoredRow], where: str) -> State:
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


def _text(value: object, name: str, *, longest: int = 1000, empty: bool = False) -> str:
    if not isinstance(value, str) or len(value) > longest or not (empty or value.strip()):
        raise LedgerError(
            "bad-text", f"{name} must be a text of 1 to {longest} characters; got {value!r:.40}."
        )
    if not value.isprintable():
        raise LedgerError("bad-text", f"{name} must be printable on one line; got {value!r:.40}.")
    return value


def _terms(unit: str, law: str, source_digest: str | None, supersedes: str | None) -> dict[str, Any]:
    """What reserves and listings record beside the cost; a release that replaces none has no such field."""
    _text(unit, "unit", longest=100)
    for digest in (source_digest, supersedes):
        if digest is not None:
            _sha256(digest)
    terms = {"unit": unit, "law": law, "tau": 0, "pot": ONE_POT, "source_digest": source_digest}
    return terms if supersedes is None else {**terms, "supersedes": supersedes}


def _refuse_other_unit(owner: Population, unit: str) -> None:
    """One unit per population. Spends from before units were recorded are taken to be of the same one."""
    other = [each for each in owner.units if each != unit]
    if other and unit != UNKNOWN_UNIT:
        raise LedgerError(
            "unit-mixed",
            f'the population "{owner.name}" is counted per {other[0]}, this release per {unit}: a sum of '
            "both would hold for neither.",
            f"Create a population of its own for releases per {unit} with `shoal ledger create`.",
        )


def _check_replaced_once(owner: Population, manifest_sha256: str | None) -> None:
    """A release is replaced by one release at most, so that recipients know which one holds."""
    _check_superseded(owner, manifest_sha256)
    if manifest_sha256 in owner.superseded:
        raise LedgerError(
            "already-superseded",
            f"another release replaces {manifest_sha256[:16]}... already.",
            "Name that other release with --supersedes, or leave the option out.",
        )


def _check_superseded(owner: Population, manifest_sha256: str | None) -> None:
    if manifest_sha256 is not None and manifest_sha256 not in {
        each.manifest_sha256 for each in owner.released.values()
    }:
        raise LedgerError(
            "unknown-release",
            f'the population "{owner.name}" has no release with the manifest hash {manifest_sha256[:16]}...',
            f"`shoal ledger show {shlex.quote(owner.name)} --json` lists its releases.",
        )


def _path(value: object) -> str:
    """A folder may have any name its file system takes; rows hold it escaped."""
    if not isinstance(value, str) or not 0 < len(value) <= 5000:
        raise LedgerError("bad-text", "a path must be a text of 1 to 5000 characters.")
    return value


def _sha256(value: object) -> str:
    if not is_sha256(value):
        raise LedgerError("bad-hash", f"a SHA-256 hash is 64 hexadecimal digits; got {value!r:.70}.")
    return str(value)


_PURE_IS_DEAR = (
    "A pure epsilon costs epsilon^2 / 2 in rho; gaussian noise or a population made with --pure-epsilon is "
    "cheaper."
)
