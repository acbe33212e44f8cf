"""The ledger: each spend is checked against the budget and recorded in one transaction.

    create / raise_limit / lower_limit       a population and its lifetime budget
    reserve -> commit                        a differentially private release; a reserve is spent for good
    list_release                             a release with another guarantee: no epsilon, no cost
    supersede                                one release replaces another
    disclose, look, remember_tuning          what the owner saw, and what may have been chosen by looking

There is no refund: from the reserve on, noise may have been drawn and seen.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from shoal.errors import LedgerError
from shoal.privacy.accounting import PURE, ZCDP, Loss, check_delta, check_nano
from shoal.privacy.guarantee import population_name
from shoal.privacy.ledger.pots import CURRENCIES, ONE_POT, Pot, check_budget, check_limit
from shoal.privacy.ledger.rules import (
    apply,
    check_commit,
    check_composed,
    check_new_name,
    check_path,
    check_replaced_once,
    check_sha256,
    check_superseded,
    check_text,
    fold,
    refuse_other_unit,
    released_under,
    state_of,
    terms_of,
    token_sha256,
)
from shoal.privacy.ledger.sqlite import RunFile, SqliteStore, hold, ledger_path, unfinished
from shoal.privacy.ledger.state import (
    GENESIS,
    UNKNOWN_UNIT,
    AlreadyReleased,
    Finding,
    Population,
    Reservation,
    Row,
    Spend,
    State,
    Store,
    StoredRow,
    link,
    new_reservation,
    read_chain,
)

COMMIT_SECONDS = 30 * 60.0
Answer = TypeVar("Answer")
Content = Mapping[str, Any]


class Ledger:
    """The rules of the ledger over any store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def create(
        self,
        name: str,
        *,
        currency: str = "pots",
        limit_nano: int | None = None,
        pots: Mapping[str, int] | None = None,
        delta: float | None = None,
        note: str = "",
    ) -> None:
        """Open a population with `pots`, the limits of both (see `pots_within`); or with one limit.

        A limit in rho is one of zCDP, as populations had it before; `delta` is then only how it is read.
        """
        name = population_name(check_text(name, "population", longest=100))
        if currency not in (*CURRENCIES, "pots"):
            raise LedgerError(
                "bad-currency", f"a population counts in pots, rho or epsilon; got {currency!r}."
            )
        for amount in pots.values() if pots and any(pots.values()) else [limit_nano]:
            check_nano(amount or (None if pots is None else 1), currency)
        if delta is not None:
            check_delta(delta)
        limit = {"limit_nano": limit_nano} if pots is None else {"pots": dict(pots)}

        def decide(state: State) -> tuple[Content, None]:
            check_new_name(state, name)
            return {
                "kind": "population",
                "population": name,
                "currency": currency,
                **limit,
                "delta": None if delta is None else repr(float(delta)),
                "note": check_text(note, "note", empty=True),
            }, None

        self._append(decide)

    def raise_limit(self, name: str, limit_nano: int, *, pot: str = ONE_POT, note: str = "") -> None:
        """Set a larger lifetime budget, of a pot where there are two."""
        self._set_limit("raise", name, limit_nano, pot, note)

    def lower_limit(self, name: str, limit_nano: int, *, pot: str = ONE_POT, note: str = "") -> None:
        """Set a smaller lifetime budget, never below what is spent; of a pot before the first reserve."""
        self._set_limit("lower", name, limit_nano, pot, note)

    def _set_limit(self, kind: str, name: str, limit_nano: int, pot: str, note: str) -> None:
        check_nano(limit_nano, "limit")

        def decide(state: State) -> tuple[Content, None]:
            population = state.population(name)
            check_limit(kind, population, population.pot(pot), limit_nano)
            content = {
                "kind": kind,
                "population": population.name,
                "limit_nano": limit_nano,
                "note": check_text(note, "note", empty=True),
            }
            return content if pot == ONE_POT else {**content, "pot": pot}, None

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
        pot: str = "",
    ) -> Reservation | AlreadyReleased:
        """Check the budget and record the spend, both or neither; before any private value is drawn.

        A key that was released before returns that release and spends nothing. A key whose earlier
        reserve never resolved spends again: its noise may have been seen. `supersedes` is the manifest hash
        of an earlier release of the population that this one replaces; `pot` names the pot that pays, by
        default that of the family of the noise.
        """
        if reproducible:
            raise LedgerError(
                "seeded-release",
                "a seeded run is reproducible, so its noise hides nothing; the ledger takes no such release.",
                "Leave the seed out to publish, or write the run to the owner's folder.",
            )
        terms = terms_of(key, what, unit, PURE, source_digest, supersedes)
        token = secrets.token_hex(32)
        reservation = reservation or new_reservation()

        def decide(state: State) -> tuple[Content | None, Reservation | AlreadyReleased]:
            owner = state.population(population)
            pays = owner.pot_for(loss, pot)
            cost = self._cost(loss, pays)
            if key in owner.released:
                return None, owner.released[key]
            refuse_other_unit(owner, unit)
            self._check_fits(owner, pays, cost, loss)
            check_replaced_once(owner, supersedes)
            content = {
                "kind": "reserve",
                "population": owner.name,
                "reservation": reservation,
                "token_sha256": token_sha256(token),
                "cost_nano": cost,
                "pure_epsilon_nano": loss.pure_epsilon_nano,
                **terms,
                "law": PURE if loss.law == PURE else owner.law,
                "tau": pays.tau_of(loss),
                "pot": pays.name,
            }
            return content, Reservation(
                reservation=reservation,
                population=owner.name,
                cost_nano=cost,
                currency=pays.currency,
                price=pays.shown(cost) if pays.law != ZCDP else "",
                token=token,
            )

        return self._append(decide)

    def check_fits(self, population: str, loss: Loss, *, unit: str = UNKNOWN_UNIT, pot: str = "") -> None:
        """Raise what `reserve` would raise now: population, unit, budget, a ledger that cannot be used.

        Writes nothing, so another run may still take the budget before the reserve.
        """
        self.state().population(population)  # first, so that asking makes no file

        def decide(state: State) -> tuple[None, None]:
            owner = state.population(population)
            refuse_other_unit(owner, unit)
            pays = owner.pot_for(loss, pot)
            self._check_fits(owner, pays, self._cost(loss, pays), loss)
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
        check_sha256(manifest_sha256)
        check_path(path)

        def decide(state: State) -> tuple[Content, AlreadyReleased]:
            spend = state.by_reservation.get(reservation.reservation)
            owner = state.population(reservation.population)
            if spend is None or spend not in owner.spends:
                raise LedgerError("unknown-reserve", "this commit belongs to no reserve of its population.")
            self._check_commit(owner, spend, reservation.token)
            place = {"reservation": spend.reservation, "path": path, "manifest_sha256": manifest_sha256}
            content = {"kind": "commit", "population": owner.name, "token": reservation.token, **place}
            return content, released_under(place, vars(spend))

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
        check_path(path)
        check_sha256(manifest_sha256)
        terms = terms_of(key, what, unit, "none", source_digest, supersedes)
        place = {"reservation": reservation, "path": path, "manifest_sha256": manifest_sha256}
        released = released_under(place, {"supersedes": None, **terms})

        def decide(state: State) -> tuple[Content | None, AlreadyReleased]:
            owner = state.population(population)
            if key in owner.released:
                return None, owner.released[key]
            check_replaced_once(owner, supersedes)
            check_composed(owner, knows)
            content = {"kind": "listing", "population": owner.name}
            content |= {} if window_us is None else {"window": list(window_us)}
            return {**content, **terms, **vars(released)}, released

        return self._append_patiently(decide, waiting)

    def supersede(self, population: str, old_sha256: str, new_sha256: str, *, note: str = "") -> None:
        """Record that one release of a population, named by its manifest hash, replaces another."""
        hashes = {"old_sha256": check_sha256(old_sha256), "new_sha256": check_sha256(new_sha256)}

        def decide(state: State) -> tuple[Content, None]:
            owner = state.population(population)
            for each in hashes.values():
                check_superseded(owner, each)
            content = {"kind": "supersede", "population": owner.name, **hashes}
            return {**content, "note": check_text(note, "note", empty=True)}, None

        self._append(decide)

    def disclose(
        self, population: str, what: str, path: str = "", window_us: tuple[int, int] | None = None
    ) -> None:
        """Record that the owner saw something exact, seeded or compared; it is no release and no spend.

        `window_us`: of an owner's report, the window whose raw figures it shows.
        """
        self._remember("disclosure", population, what, path, window_us)

    def look(self, population: str, what: str, path: str = "") -> None:
        """Record a look at private data that choices may follow from: seeded run, comparison, attack.

        For all kinds of release, such a look is a disclosure, and later manifests say that there was one.
        """
        self.disclose(population, what, path)
        self.remember_tuning(population, what)

    def remember_tuning(self, population: str, what: str) -> None:
        """Record a choice made by looking at private data; later manifests say so."""
        self._remember("tuned", population, what, "")

    def has_report(self, population: str, window_us: tuple[int, int]) -> bool:
        """Whether an owner's report shows raw figures of a window that overlaps this one."""
        shown = (note.get("window_us") for note in self.state().population(population).notes)
        return any(window[0] < window_us[1] and window_us[0] < window[1] for window in shown if window)

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
        """The state after all rows; refuses a ledger that does not verify."""
        return state_of(self.store.rows(), self.store.where())

    def head(self) -> str:
        """Digest of the last row. Noted elsewhere, it later shows that no row was cut off."""
        rows = self.store.rows()
        state_of(rows, self.store.where())
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
            gone = "the noted head is not in the chain: rows were cut or replaced."
            findings.append(Finding(0, "head", gone))
        return findings

    def _remember(
        self,
        kind: str,
        population: str,
        what: str,
        path: str,
        window_us: tuple[int, int] | None = None,
    ) -> None:
        content: Content = {"kind": kind, "what": check_text(what, "what"), "path": path}
        if window_us is not None:
            content["window_us"] = list(window_us)

        def decide(state: State) -> tuple[Content, None]:
            return {**content, "population": state.population(population).name}, None

        self._append(decide)

    # What the audit replaces by faulty versions (auditing/planted/ledger.py).

    def _cost(self, loss: Loss, pot: Pot) -> int:
        return pot.cost(loss)

    def _check_fits(self, owner: Population, pot: Pot, cost: int, loss: Loss) -> None:
        check_budget(owner, pot, cost, loss)

    def _check_commit(self, owner: Population, spend: Spend, token: str) -> None:
        check_commit(owner, spend, token)

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
                    most = f"at most {left / 60:.0f} minutes"
                    waiting(f"wait for the ledger, in use by another process ({most})")

    def _append(self, decide: Callable[[State], tuple[Content | None, Answer]]) -> Answer:
        """Run a decision on the state inside the store's transaction; record what it returns."""
        answers: list[Answer] = []

        def step(stored: list[StoredRow]) -> StoredRow | None:
            state = state_of(stored, self.store.where())
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


def open_ledger(path: str | os.PathLike[str] | None = None) -> Ledger:
    """The ledger at `path`, by default at `ledger_path()`; its file is made by the first row."""
    return Ledger(SqliteStore(Path(path) if path is not None else ledger_path()))
