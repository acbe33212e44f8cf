"""Planted bugs in the ledger, and a model that must catch each of them.

The model walks every short sequence of operations and compares each answer of the ledger with four plain
integers. The true ledger must agree everywhere; a mutant counts as caught at its first wrong answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product

from shoal.errors import LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import Ledger, Reservation, StoredRow
from shoal.privacy.ledger.chain import GENESIS, link
from shoal.privacy.ledger.protocol import Decide, Finding

RHO, PURE = Loss(6), Loss.pure(100_001)  # epsilon^2 / 2 = 5.0001, so the pure one costs 6 as well
LIMIT = 11
STEPS = ("reserve a", "reserve pure b", "reserve twice at once", "commit", "raise by 6")


class MemoryStore:
    """Rows in a list. `rival` acts once, as another process would, at the next append."""

    rival: Callable[[], object] | None = None

    def __init__(self) -> None:
        self.kept: list[StoredRow] = []

    def where(self) -> str:
        return "in memory"

    def rows(self) -> list[StoredRow]:
        return list(self.kept)

    def problems(self) -> list[Finding]:
        return []

    def append(self, decide: Decide) -> None:
        self._let_rival_in()
        row = decide(self.rows())
        self.kept += [row] if row else []

    def _let_rival_in(self) -> None:
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()


class CheckOutsideTransaction(MemoryStore):
    """Decides on the rows it saw, then appends to the rows there are."""

    def append(self, decide: Decide) -> None:
        row = decide(self.rows())
        self._let_rival_in()
        if row is not None:
            content = json.loads(row.content)
            self.kept.append(
                link(self.kept[-1].digest if self.kept else GENESIS, len(self.kept) + 1, content)
            )


class Unchecked(Ledger):
    """Writes rows that its own reader would reject, so that the bug planted before that shows."""

    def _check_row(self, state, row):
        return None


class RefundAfterExposure(Unchecked):
    def _check_fits(self, owner, cost):
        if cost > owner.limit_nano - sum(spend.cost_nano for spend in owner.spends if spend.released):
            super()._check_fits(owner, cost)


class DoubleSpend(Unchecked):
    def _check_commit(self, owner, spend, token):
        return None


class FloatCost(Ledger):
    def _cost(self, loss, currency):
        pure = loss.pure_epsilon_nano
        return loss.rho_nano if pure is None else int((pure / 1e9) ** 2 / 2 * 1e9)


MUTANTS: dict[str, Callable[[], Ledger]] = {
    "refund after exposure": lambda: RefundAfterExposure(MemoryStore()),
    "double spend": lambda: DoubleSpend(MemoryStore()),
    "check outside the transaction": lambda: Ledger(CheckOutsideTransaction()),
    "float cost rounded down": lambda: FloatCost(MemoryStore()),
}


def ledger_mutants() -> list[tuple[str, bool]]:
    """Each planted bug and whether the model caught it."""
    if not agrees(lambda: Ledger(MemoryStore())):
        raise LedgerError("ledger-model", "the ledger itself does not agree with its model.")
    return [(name, not agrees(make)) for name, make in MUTANTS.items()]


def agrees(make: Callable[[], Ledger], length: int = 4) -> bool:
    """Whether the ledger answers like the model over every sequence of `length` steps."""
    try:
        return all(_walk(make(), steps) for steps in product(STEPS, repeat=length))
    except LedgerError:  # it refuses where the model goes on
        return False


def _walk(ledger: Ledger, steps: tuple[str, ...]) -> bool:
    ledger.create("town", currency="rho", limit_nano=LIMIT)
    spent, limit, held, released = 0, LIMIT, [], set()
    for step in steps:
        if step == "raise by 6":
            limit += 6
            ledger.raise_limit("town", limit)
        elif step == "commit":
            expected = bool(held) and held[-1][0] not in released
            if bool(held) and _commits(ledger, held[-1][1]) != expected:
                return False
            released |= {held[-1][0]} if held else set()
        else:
            loss, key = (PURE, "b") if step == "reserve pure b" else (RHO, "a")
            wanted = 2 if step == "reserve twice at once" else 1
            fitting = 0 if key in released else min(wanted, (limit - spent) // 6)
            admitted = _reserve(ledger, loss, key, twice=wanted == 2)
            if len(admitted) != fitting:
                return False
            spent += 6 * fitting
            held += [(key, each) for each in admitted]
        if ledger.state().population("town").spent_nano != spent:
            return False
    return not ledger.verify()


def _reserve(ledger: Ledger, loss: Loss, key: str, *, twice: bool) -> list[Reservation]:
    admitted: list[Reservation] = []

    def once() -> None:
        try:
            answer = ledger.reserve("town", loss, key, "a release")
        except LedgerError:
            return
        admitted.extend([answer] if isinstance(answer, Reservation) else [])

    if twice and isinstance(ledger.store, MemoryStore):
        ledger.store.rival = once
    once()
    return admitted


def _commits(ledger: Ledger, reservation: Reservation) -> bool:
    try:
        ledger.commit(reservation, "0" * 64, "/release")
    except LedgerError:
        return False
    return True
