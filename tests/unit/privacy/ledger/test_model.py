"""The ledger against a model of a few lines, over sequences that hypothesis invents; and planted bugs.

After any operation, what is spent is the sum of the costs in the rows as they are stored, and it never falls.
"""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, timedelta
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
from tests.loops import for_each

from shoal.auditing.planted.ledger import MemoryStore, agrees, raw_spent, years_apart
from shoal.errors import BudgetExceeded, LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import AlreadyReleased, Ledger, Reservation, book
from shoal.privacy.ledger.sqlite import SqliteStore
from shoal.privacy.ledger.state import GENESIS, Decide, link

YEAR = timedelta(days=365)
KEYS = st.sampled_from(["a", "b", "c"])
LOSSES = st.one_of(
    st.integers(1, 30).map(Loss),
    st.integers(40_000, 250_000).map(Loss.pure),  # 0.8 to 31 nano: rounding matters
)


def price(loss: Loss, currency: str = "rho") -> int:
    """ceil(epsilon^2 / 2) by counting up, so that no division is shared with the code under test."""
    if loss.pure_epsilon_nano is None:
        return loss.rho_nano
    if currency == "epsilon":
        return loss.pure_epsilon_nano
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
    currency, unit = "rho", 1  # nano of the currency in one step of a limit

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = self.make()
        self.limit = 60 * self.unit
        self.ledger.create("town", currency=self.currency, limit_nano=self.limit)
        self.costs: list[int] = []
        self.released: set[str] = set()
        self.held: list[tuple[str, Reservation]] = []
        self.manifests: list[str] = []
        self.heads = [self.ledger.head()]

    def make(self) -> Ledger:
        return Ledger(Rival(Path(self.folder.name) / "ledger.sqlite"))

    def teardown(self) -> None:
        self.folder.cleanup()

    def price(self, loss: Loss) -> int:
        return price(loss, self.currency)

    def manifest(self) -> str:
        """The hash of a new manifest."""
        self.manifests.append(f"{len(self.manifests) + 1:064x}")
        return self.manifests[-1]

    def _ask(self, loss: Loss, key: str) -> None:
        """Compares one reserve with the model. Runs at the moment the ledger decides."""
        if self.currency == "epsilon" and loss.pure_epsilon_nano is None:
            with pytest.raises(LedgerError, match="not-pure"):
                self.ledger.reserve("town", loss, key, "density")
            return
        fits = sum(self.costs) + self.price(loss) <= self.limit
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
        assert answer.cost_nano == self.price(loss)
        self.costs.append(answer.cost_nano)
        self.held.append((key, answer))

    @rule(loss=LOSSES, key=KEYS)
    def reserve(self, loss: Loss, key: str) -> None:
        self._ask(loss, key)

    @rule(loss=LOSSES, key=KEYS, choice=st.integers(0, 99))
    def reserve_what_replaces(self, loss: Loss, key: str, choice: int) -> None:
        """Refused or recorded; in both cases the release that it replaces stays paid for."""
        if not self.manifests or (self.currency == "epsilon" and loss.pure_epsilon_nano is None):
            return
        old, before = self.manifests[choice % len(self.manifests)], raw_spent(self.ledger, "town")
        try:
            answer = self.ledger.reserve("town", loss, key, "density", supersedes=old)
        except LedgerError:
            assert raw_spent(self.ledger, "town") == before
            return
        if isinstance(answer, Reservation):
            assert raw_spent(self.ledger, "town") == before + self.price(loss) <= self.limit
            self.costs.append(answer.cost_nano)
            self.held.append((key, answer))

    @precondition(lambda self: self.manifests)
    @rule(first=st.integers(0, 99), second=st.integers(0, 99))
    def supersede(self, first: int, second: int) -> None:
        old, new = (self.manifests[each % len(self.manifests)] for each in (first, second))
        with suppress(LedgerError):  # replaced before, or by itself
            self.ledger.supersede("town", old, new)

    @rule(what=st.sampled_from(["list", "list what replaces", "disclose", "look", "remember_tuning"]))
    def record_what_costs_nothing(self, what: str) -> None:
        if not what.startswith("list"):
            getattr(self.ledger, what)("town", "an exact table")
            return
        key, old = f"listed {len(self.manifests)}", self.manifests[0] if self.manifests else None
        replaces = old if "replaces" in what else None
        more = {"reservation": "ff", "supersedes": replaces}
        with suppress(LedgerError):
            self.ledger.list_release("town", key, "trajectories", self.manifest(), "/paths", **more)
            self.released.add(key)

    @rule(loss=st.integers(100_000, 200_000).map(Loss.pure), key=KEYS, other=KEYS)
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
            assert admitted[0] + self.price(loss) > self.limit
            return
        if isinstance(answer, Reservation):
            assert before <= admitted[0]
            assert admitted[0] + self.price(loss) <= self.limit, "two at once went beyond the limit"
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
            self.ledger.commit(held, f"{len(self.manifests) + 1:064x}", "/release")
        except LedgerError:
            assert not may
            return
        assert may, "a commit that must not be"
        self.manifest()
        self.released.add(key)

    @rule(limit=st.integers(1, 120))
    def change_limit(self, limit: int) -> None:
        limit *= self.unit
        if limit == self.limit:
            return
        change = self.ledger.raise_limit if limit > self.limit else self.ledger.lower_limit
        try:
            change("town", limit)
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
        assert population.spent_nano == raw_spent(self.ledger, "town")
        assert set(population.released) == self.released
        assert self.ledger.verify(expected_head=self.heads[-1]) == []
        self.heads.append(self.ledger.head())


SETTINGS = settings(
    max_examples=30, stateful_step_count=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def test_sqlite_ledger_follows_the_model() -> None:
    with years_apart():  # no rule of the ledger depends on how old a row is
        run_state_machine_as_test(LedgerMachine, settings=SETTINGS)


def machine_for(make, **more) -> type[LedgerMachine]:
    return type("Machine", (LedgerMachine,), {"make": lambda self: make(), **more})


QUICK = settings(SETTINGS, max_examples=200, phases=[Phase.generate], print_blob=False)


@pytest.mark.parametrize(("currency", "unit"), [("rho", 1), ("epsilon", 10_000)])
def test_memory_ledger_follows_the_model(currency: str, unit: int) -> None:
    machine = machine_for(lambda: Ledger(MemoryStore()), currency=currency, unit=unit)
    run_state_machine_as_test(machine, settings=QUICK)


class CheckOutsideTransaction(MemoryStore):
    """Decides on the rows it saw, then appends to the rows there are."""

    def append(self, decide: Decide) -> None:
        row = decide(self.rows())
        self._let_rival_in()
        if row is not None:
            content = json.loads(row.content)
            self.stored.append(
                link(self.stored[-1].digest if self.stored else GENESIS, len(self.stored) + 1, content)
            )


class Unchecked(Ledger):
    """Writes rows that its own reader would reject, so that the bug planted before that shows."""

    def _check_row(self, state, row):
        return None


class RefundAfterExposure(Unchecked):
    def _check_fits(self, owner, pot, cost, loss):
        if cost > owner.limit_nano - sum(spend.cost_nano for spend in owner.spends if spend.released):
            super()._check_fits(owner, pot, cost, loss)


class DoubleSpend(Unchecked):
    def _check_commit(self, owner, spend, token):
        return None


class ForgetsAfterAYear(Unchecked):
    def _check_fits(self, owner, pot, cost, loss):
        since = (book.datetime.now(UTC) - YEAR).isoformat()
        if cost > owner.limit_nano - sum(spend.cost_nano for spend in owner.spends if spend.at >= since):
            super()._check_fits(owner, pot, cost, loss)


class FloatCost(Ledger):
    def _cost(self, loss, pot):
        pure = loss.pure_epsilon_nano
        return loss.rho_nano if pure is None else int((pure / 1e9) ** 2 / 2 * 1e9)


MUTANTS: dict[str, Callable[[], Ledger]] = {
    "refund after exposure": lambda: RefundAfterExposure(MemoryStore()),
    "spends older than a year not counted": lambda: ForgetsAfterAYear(MemoryStore()),
    "double spend": lambda: DoubleSpend(MemoryStore()),
    "check outside the transaction": lambda: Ledger(CheckOutsideTransaction()),
    "float cost rounded down": lambda: FloatCost(MemoryStore()),
}


@for_each("name", MUTANTS)
def test_model_catches_planted_bug(name: str) -> None:
    with years_apart(), pytest.raises((AssertionError, LedgerError)):
        run_state_machine_as_test(machine_for(MUTANTS[name]), settings=QUICK)


def test_the_walks_of_the_audit_catch_every_planted_bug() -> None:
    assert agrees(lambda: Ledger(MemoryStore()))
    assert [name for name, make in MUTANTS.items() if agrees(make)] == []
