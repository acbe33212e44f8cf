"""The ledger against a model of a few lines, over sequences that hypothesis invents; and planted bugs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shoal.audit.ledger_mutants import MUTANTS, MemoryStore, agrees, ledger_mutants
from shoal.errors import BudgetExceeded, LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import AlreadyReleased, Ledger, Reservation
from shoal.privacy.ledger.sqlite import SqliteStore

HASH = "cd" * 32
KEYS = st.sampled_from(["a", "b", "c"])
LOSSES = st.one_of(
    st.integers(1, 30).map(Loss),
    st.integers(40_000, 250_000).map(Loss.pure),  # 0.8 to 31 nano: rounding matters
)


def price(loss: Loss) -> int:
    """ceil(epsilon^2 / 2) by counting up, so that no division is shared with the code under test."""
    if loss.pure_epsilon_nano is None:
        return loss.rho_nano
    cost = 0
    while 2 * cost * 10**9 < loss.pure_epsilon_nano**2:
        cost += 1
    return cost


class Rival:
    """A SQLite store into which another process may slip one operation before the lock is taken."""

    rival = None

    def __init__(self, path: Path) -> None:
        self.inner = SqliteStore(path)
        self.where, self.rows, self.problems = self.inner.where, self.inner.rows, self.inner.problems

    def append(self, decide) -> None:
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()
        self.inner.append(decide)


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = self.make()
        self.ledger.create("town", currency="rho", limit_nano=60)
        self.limit = 60
        self.costs: list[int] = []
        self.released: set[str] = set()
        self.held: list[tuple[str, Reservation]] = []
        self.heads = [self.ledger.head()]

    def make(self) -> Ledger:
        return Ledger(Rival(Path(self.folder.name) / "ledger.sqlite"))

    def teardown(self) -> None:
        self.folder.cleanup()

    def _ask(self, loss: Loss, key: str) -> None:
        """Compares one reserve with the model. Runs at the moment the ledger decides."""
        fits = sum(self.costs) + price(loss) <= self.limit
        try:
            answer = self.ledger.reserve("town", loss, key, "density")
        except BudgetExceeded:
            assert not fits
            assert key not in self.released
            return
        if key in self.released:
            assert isinstance(answer, AlreadyReleased)
            return
        assert isinstance(answer, Reservation)
        assert fits, "admitted beyond the limit"
        assert answer.cost_nano == price(loss)
        self.costs.append(answer.cost_nano)
        self.held.append((key, answer))

    @rule(loss=LOSSES, key=KEYS)
    def reserve(self, loss: Loss, key: str) -> None:
        self._ask(loss, key)

    @rule(loss=st.integers(10, 30).map(Loss), key=KEYS, other=KEYS)
    def reserve_while_another_gets_in_first(self, loss: Loss, key: str, other: str) -> None:
        before = sum(self.costs)
        admitted: list[int] = []

        def rival() -> None:
            self._ask(loss, other)
            admitted.append(sum(self.costs))

        self.ledger.store.rival = rival  # type: ignore[attr-defined]
        try:
            answer = self.ledger.reserve("town", loss, key, "density")
        except BudgetExceeded:
            assert admitted[0] + price(loss) > self.limit
            return
        if isinstance(answer, Reservation):
            assert before <= admitted[0]
            assert admitted[0] + price(loss) <= self.limit, "two at once went beyond the limit"
            self.costs.append(answer.cost_nano)
            self.held.append((key, answer))

    @precondition(lambda self: self.held)
    @rule(choice=st.integers(0, 99), token=st.sampled_from(["own", "own", "wrong"]))
    def commit(self, choice: int, token: str) -> None:
        key, held = self.held[choice % len(self.held)]
        if token == "wrong":
            held = Reservation(**{**vars(held), "token": "guess"})
        may = key not in self.released and token == "own"
        try:
            self.ledger.commit(held, HASH, "/release")
        except LedgerError:
            assert not may
            return
        assert may, "a commit that must not be"
        self.released.add(key)

    @rule(limit=st.integers(1, 120))
    def change_limit(self, limit: int) -> None:
        try:
            self.ledger.raise_limit("town", limit)
        except LedgerError:
            assert limit < sum(self.costs)
            return
        assert limit >= sum(self.costs)
        self.limit = limit

    @rule()
    def reopen(self) -> None:
        if isinstance(self.ledger.store, Rival):
            self.ledger = self.make()

    @invariant()
    def sums_hold(self) -> None:
        population = self.ledger.state().population("town")
        assert population.spent_nano == sum(self.costs) <= population.limit_nano == self.limit
        assert set(population.released) == self.released
        assert self.ledger.verify(expected_head=self.heads[-1]) == []
        self.heads.append(self.ledger.head())


SETTINGS = settings(
    max_examples=30, stateful_step_count=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def test_sqlite_ledger_follows_the_model() -> None:
    run_state_machine_as_test(LedgerMachine, settings=SETTINGS)


def machine_for(make) -> type[LedgerMachine]:
    return type("Machine", (LedgerMachine,), {"make": lambda self: make()})


QUICK = settings(SETTINGS, max_examples=200, phases=[Phase.generate], print_blob=False)


def test_memory_ledger_follows_the_model() -> None:
    run_state_machine_as_test(machine_for(lambda: Ledger(MemoryStore())), settings=QUICK)


@pytest.mark.parametrize("name", MUTANTS)
def test_model_catches_planted_bug(name: str) -> None:
    with pytest.raises((AssertionError, LedgerError)):
        run_state_machine_as_test(machine_for(MUTANTS[name]), settings=QUICK)


def test_audit_counts_every_planted_bug_as_caught() -> None:
    assert agrees(lambda: Ledger(MemoryStore()))
    assert ledger_mutants() == [(name, True) for name in MUTANTS]
