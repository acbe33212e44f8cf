"""Rules of the ledger: budgets, keys, tokens, currencies; and many processes at once."""

import math
import os
from fractions import Fraction
from pathlib import Path

import pytest
from tests.unit.privacy.ledger.rows import HASH, reserved, spent, write_row

from shoal.errors import BudgetExceeded, LedgerError, PlanError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import AlreadyReleased, Ledger, Reservation, open_ledger


def test_budget_is_spent_to_the_last_nano_and_not_beyond(ledger: Ledger) -> None:
    ledger.reserve("town", Loss(60), "a", "density")
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("town", Loss(41), "b", "density")
    assert str(refused.value) == (
        "budget-exceeded: this release needs rho = 0.000000041 of the budget; the population "
        '"town" has rho = 0.00000004 left.\n'
        "The largest epsilon that fits is 0.000758636 at delta = 1e-06: pass --epsilon 0.000758636. "
        "A larger lifetime budget (`shoal ledger raise`) is another promise, and is recorded as one."
    )
    ledger.reserve("town", Loss(40), "b", "density")
    assert spent(ledger) == 100
    with pytest.raises(BudgetExceeded):
        ledger.reserve("town", Loss(1), "c", "density")


def test_same_key_returns_the_release_once_committed_and_pays_again_before(ledger: Ledger) -> None:
    ledger.reserve("town", Loss(10), "a", "density")
    second = reserved(ledger.reserve("town", Loss(10), "a", "density"))
    assert spent(ledger) == 20
    ledger.commit(second, HASH, "/release")
    again = ledger.reserve("town", Loss(10), "a", "density")
    assert again == AlreadyReleased(reservation=second.reservation, path="/release", manifest_sha256=HASH)
    assert spent(ledger) == 20
    assert [spend.status for spend in ledger.state().population("town").spends] == [
        "unresolved (counts as spent)",
        "committed",
    ]


def test_commit_only_once_and_only_with_its_token(ledger, tmp_path):
    held = reserved(ledger.reserve("town", Loss(10), "a", "density"))
    other = reserved(ledger.reserve("town", Loss(10), "b", "density"))
    thief = Reservation(
        reservation=held.reservation, population="town", cost_nano=10, currency="rho", token=other.token
    )
    with pytest.raises(LedgerError, match="wrong-token"):
        ledger.commit(thief, HASH, "/release")
    ledger.commit(held, HASH, "/release")
    with pytest.raises(LedgerError, match="already-committed"):
        ledger.commit(held, HASH, "/release")
    assert held.token not in repr(held)
    elsewhere = open_ledger(tmp_path / "other.sqlite")
    elsewhere.create("town", currency="rho", limit_nano=100)
    foreign = reserved(elsewhere.reserve("town", Loss(10), "a", "density"))
    with pytest.raises(LedgerError, match="unknown-reserve"):
        ledger.commit(foreign, HASH, "/release")


def test_of_two_runs_with_one_key_only_the_first_commits(ledger: Ledger) -> None:
    first = reserved(ledger.reserve("town", Loss(10), "a", "density"))
    second = reserved(ledger.reserve("town", Loss(10), "a", "density"))
    ledger.commit(second, HASH, "/release")
    with pytest.raises(LedgerError, match="already-committed"):
        ledger.commit(first, HASH, "/other")
    assert spent(ledger) == 20


@pytest.mark.parametrize("epsilon_nano", [1, 44_721, 44_722, 100_001, 123_456_789, 10**9, 3 * 10**9 + 1])
def test_pure_release_costs_half_epsilon_squared_rounded_up(tmp_path: Path, epsilon_nano: int) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.create("town", currency="rho", limit_nano=10**18)
    ledger.reserve("town", Loss.pure(epsilon_nano), "a", "density")
    exact = Fraction(epsilon_nano, 10**9) ** 2 / 2 * 10**9
    assert spent(ledger) == math.ceil(exact) >= 1


def test_epsilon_population_takes_pure_releases_only(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.create("town", currency="epsilon", limit_nano=30)
    ledger.reserve("town", Loss.pure(10), "a", "density")
    assert spent(ledger) == 10
    with pytest.raises(LedgerError, match="not-pure"):
        ledger.reserve("town", Loss(1), "b", "density")
    with pytest.raises(BudgetExceeded, match=r"needs epsilon 0\.000000021"):
        ledger.reserve("town", Loss.pure(21), "b", "density")


BAD = [0, -1, True, 1.0, 0.5, math.nan, math.inf, -math.inf, "1", None, Fraction(1), 10**18 + 1]


@pytest.mark.parametrize("amount", BAD, ids=repr)
def test_amounts_are_whole_numbers_above_0(ledger: Ledger, amount: object) -> None:
    before = ledger.head()
    losses = [Loss(amount)]  # type: ignore[arg-type]
    if amount is not None:
        losses.append(Loss(1, amount))  # type: ignore[arg-type]
    for loss in losses:
        with pytest.raises(LedgerError, match="bad-amount"):
            ledger.reserve("town", loss, "a", "density")
    with pytest.raises(LedgerError, match="bad-amount"):
        ledger.create("other", currency="rho", limit_nano=amount)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="bad-amount"):
        ledger.raise_limit("town", amount)  # type: ignore[arg-type]
    assert ledger.head() == before


def test_seeded_releases_and_ids_used_twice_are_refused(ledger):
    with pytest.raises(LedgerError, match="seeded-release"):
        ledger.reserve("town", Loss(1), "a", "density", reproducible=True)
    assert spent(ledger) == 0
    # The id of a reserve is the caller's: used twice, it would lock the ledger for good.
    ledger.reserve("town", Loss(1), "a", "density", reservation="same")
    with pytest.raises(LedgerError, match=r"ledger-rule.*reuses the id"):
        ledger.reserve("town", Loss(1), "b", "density", reservation="same")
    assert spent(ledger) == 1
    assert ledger.verify() == []


def test_limit_can_change_but_never_below_what_is_spent(ledger: Ledger) -> None:
    ledger.reserve("town", Loss(60), "a", "density")
    with pytest.raises(LedgerError, match=r"limit-not-higher(?s:.*)shoal ledger lower"):
        ledger.raise_limit("town", 60)
    ledger.lower_limit("town", 60)
    with pytest.raises(LedgerError, match=r"limit-not-lower(?s:.*)shoal ledger raise"):
        ledger.lower_limit("town", 60)
    with pytest.raises(LedgerError, match="limit-below-spent"):
        ledger.lower_limit("town", 59)
    ledger.raise_limit("town", 200)
    kinds = [note["kind"] for note in ledger.state().population("town").notes]
    assert kinds == ["lower", "raise"]
    write_row(ledger, kind="lower", population="town", limit_nano=300, note="", at="9999")
    assert [finding.code for finding in ledger.verify()] == ["rule"]


def test_a_budget_raised_pays_for_more_and_check_fits_makes_no_ledger(ledger, tmp_path):
    ledger.reserve("town", Loss(60), "a", "density")
    ledger.raise_limit("town", 200)
    ledger.reserve("town", Loss(140), "b", "density")
    assert ledger.state().population("town").left_nano == 0
    with pytest.raises(LedgerError, match="unknown-population"):
        open_ledger(tmp_path / "none" / "ledger.sqlite").check_fits("town", Loss(1))
    assert not (tmp_path / "none").exists()


def test_disclosures_listings_and_tuning_cost_nothing(ledger: Ledger) -> None:
    assert not ledger.is_tuned("town")
    ledger.disclose("town", "exact counts", "/owner")
    assert not ledger.is_tuned("town")
    ledger.list_release("town", "t", "trajectories", HASH, "/trips", reservation="1")
    ledger.remember_tuning("town", "ell chosen by the error on raw counts")
    assert ledger.is_tuned("town")
    assert spent(ledger) == 0
    notes = ledger.state().population("town").notes
    assert [note["kind"] for note in notes] == ["disclosure", "listing", "tuned"]
    assert not any({"epsilon", "rho", "cost_nano"} & set(note) for note in notes)
    found = ledger.find("town", "t")
    assert found is not None
    assert found.path == "/trips"
    assert ledger.verify() == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda book: book.create("town", currency="rho", limit_nano=1), "population-exists"),
        (lambda book: book.create("x", currency="euro", limit_nano=1), "bad-currency"),
        (lambda book: book.create("x", currency="rho", limit_nano=1, delta=1.0), "delta-range"),
        (lambda book: book.create("x", currency="rho", limit_nano=1, delta=math.nan), "delta-range"),
        (lambda book: book.create("x", currency="rho", limit_nano=1, delta=1e-200), "delta-range"),
        (lambda book: book.create("x", currency="rho", limit_nano=1, delta="1e-6"), "delta-range"),
        (lambda book: book.create(" ", currency="rho", limit_nano=1), "bad-text"),
        (lambda book: book.create("a\nb", currency="rho", limit_nano=1), "bad-text"),
        (lambda book: book.reserve("nobody", Loss(1), "a", "density"), "unknown-population"),
        (lambda book: book.reserve("town", Loss(1), "", "density"), "bad-text"),
        (lambda book: book.disclose("nobody", "exact"), "unknown-population"),
        (lambda book: book.find("nobody", "a"), "unknown-population"),
        (lambda book: book.list_release("town", "a", "b", "nohash", "/x", reservation="1"), "bad-hash"),
    ],
)
def test_bad_calls_name_their_rule(ledger: Ledger, call, code: str) -> None:
    before = ledger.head()
    with pytest.raises((LedgerError, PlanError), match=code):
        call(ledger)
    assert ledger.head() == before


@pytest.mark.parametrize("path", ["/a\u00a0b", "/a\u3000b", "/a\tb", "/a\nb", "/a\udc80b", "/ü"], ids=ascii)
def test_a_folder_of_any_name_can_be_committed(ledger: Ledger, path: str) -> None:
    held = reserved(ledger.reserve("town", Loss(10), "a", "density"))
    ledger.commit(held, HASH, path)
    ledger.list_release("town", "t", "trips", HASH, path, reservation="1")
    assert [stored.path for _, stored in ledger.releases()] == [path, path]
    assert ledger.verify() == []


def test_a_pure_release_too_dear_for_a_rho_population_says_what_is_cheaper(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match=r"epsilon\^2 / 2 in rho; Gaussian noise is cheaper"):
        ledger.reserve("town", Loss.pure(10**9), "a", "density")
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("town", Loss(101), "a", "density")
    assert "pure" not in str(refused.value)
    ledger.create("pure", currency="epsilon", limit_nano=1)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("pure", Loss.pure(2), "a", "density")
    assert "pure epsilon costs" not in str(refused.value)


@pytest.mark.parametrize(
    ("population", "loss"),
    [
        ("nobody", Loss(1)),
        ("pure", Loss(1)),
        ("town", Loss(101)),
        ("town", Loss.pure(10**9)),
        ("town", Loss(0)),
    ],
)
def test_check_fits_raises_what_reserve_would_and_writes_nothing(
    ledger: Ledger, population: str, loss: Loss
) -> None:
    ledger.create("pure", currency="epsilon", limit_nano=1)
    before = Path(ledger.store.where()).read_bytes()
    with pytest.raises(LedgerError) as checked:
        ledger.check_fits(population, loss)
    with pytest.raises(LedgerError) as refused:
        ledger.reserve(population, loss, "a", "density")
    assert (type(checked.value), str(checked.value)) == (type(refused.value), str(refused.value))
    ledger.check_fits("town", Loss(100))
    assert Path(ledger.store.where()).read_bytes() == before


def test_clock_set_back_keeps_the_rows_in_order(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    from shoal.privacy.ledger import book

    class Past(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(1999, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(book, "datetime", Past)
    ledger.reserve("town", Loss(1), "a", "density")
    assert ledger.verify() == []


def test_sixteen_processes_admit_exactly_what_fits(tmp_path: Path) -> None:
    """Each asks for 3 of 100, four times: 33 fit, 31 do not, whatever the order."""
    path = tmp_path / "ledger.sqlite"
    open_ledger(path).create("town", currency="rho", limit_nano=100)
    start_read, start_write = os.pipe()
    children = []
    for child in range(16):
        pid = os.fork()
        if pid == 0:
            admitted = 0
            try:
                os.close(start_write)
                os.read(start_read, 1)  # all begin together, when the parent closes its end
                ledger = open_ledger(path)
                for turn in range(4):
                    try:
                        ledger.reserve("town", Loss(3), f"{child}-{turn}", "density")
                        admitted += 1
                    except BudgetExceeded:
                        pass
            except BaseException:
                admitted = 99
            finally:
                os._exit(admitted)
        children.append(pid)
    os.close(start_read)
    os.close(start_write)
    admitted = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert max(admitted) <= 4
    assert sum(admitted) == 33
    assert spent(open_ledger(path)) == 99
    assert open_ledger(path).verify() == []
