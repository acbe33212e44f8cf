"""Names of populations: one spelling each, and none that reads like another."""

from pathlib import Path

import pytest
from tests.unit.privacy.ledger.rows import spent, write_row

from shoal.errors import LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import Ledger, open_ledger


def test_unknown_population_names_the_known_ones(ledger: Ledger, tmp_path: Path) -> None:
    ledger.create("Paris-2026", currency="rho", limit_nano=1)
    with pytest.raises(LedgerError) as refused:
        ledger.reserve("paris 2026", Loss(1), "a", "density")
    said = str(refused.value)
    assert 'Did you mean "Paris-2026"? It has: town, Paris-2026.' in said
    assert ledger.store.where() in said
    assert said.index("Paris-2026") < said.index("shoal ledger create 'paris 2026'")
    with pytest.raises(LedgerError) as refused:
        ledger.find("zzz", "a")
    assert "Did you mean" not in str(refused.value)
    for number in range(8):
        ledger.create(f"p{number}", currency="rho", limit_nano=1)
    with pytest.raises(LedgerError, match=r"It has: town, Paris-2026, p0, p1, p2, p3, p4, p5 and 2 more\."):
        ledger.find("zzz", "a")
    with pytest.raises(LedgerError, match="It has none yet"):
        open_ledger(tmp_path / "none.sqlite").find("town", "a")


def test_a_population_has_one_spelling(ledger: Ledger) -> None:
    ledger.create("  Cafe\u0301 ", currency="rho", limit_nano=100)
    assert list(ledger.state().populations) == ["town", "Caf\u00e9"]
    for name in ("Cafe\u0301", " Caf\u00e9"):
        ledger.reserve(name, Loss(1), f"k{name}", "density")
        ledger.disclose(name, "exact")
    assert spent(ledger, "Caf\u00e9") == 2
    assert ledger.verify() == []


@pytest.mark.parametrize(
    "name",
    [
        "Town",
        "to wn",
        "town.",
        "t0wn",
        "t\u043ewn",
        "\u03a4OWN",
        "t\u00f6wn",
        "\uff54own",
        "-town-",
        "t\u1d0fwn",
        "tovvn",
    ],
)
def test_names_that_read_like_another_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match=r"population-alike(?s:.*)town"):
        ledger.create(name, currency="rho", limit_nano=100)


@pytest.mark.parametrize(
    "name", ["city\u2800", "ci\u3164ty", "\uffa0city", "city\u115f", "c\u03afty", "cit\u10e7", "\u0581ity"]
)
def test_names_with_blank_letters_or_of_two_alphabets_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match="population-alike"):
        ledger.create(name, currency="rho", limit_nano=100)
    assert list(ledger.state().populations) == ["town"]


@pytest.mark.parametrize("name", ["town-2", "towns", "\u0433\u043e\u0440\u043e\u0434", "down", "\u753a"])
def test_other_names_are_taken(ledger: Ledger, name: str) -> None:
    ledger.create(name, currency="rho", limit_nano=100)
    assert ledger.state().population(name).name == name


def test_names_alike_in_a_ledger_from_before_are_both_found(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    fields = {"currency": "rho", "limit_nano": 100, "delta": None, "note": ""}
    for name in ("Town", "town", " spaced"):
        write_row(ledger, kind="population", population=name, **fields)
    ledger.reserve("Town", Loss(1), "a", "density")
    ledger.reserve("spaced", Loss(1), "a", "density")
    assert [spent(ledger, name) for name in ("Town", "town", "spaced", " spaced")] == [1, 0, 1, 1]
    with pytest.raises(LedgerError, match="unknown-population"):
        ledger.find("TOWN", "a")
