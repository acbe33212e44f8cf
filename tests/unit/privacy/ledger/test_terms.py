"""What a row says beside its price: unit, law, digest of the source, what it replaces; and older rows."""

import pytest
from tests.unit.privacy.ledger.rows import DIGEST, HASH, OLD_RESERVE, reserved, spent, write_row

from shoal.errors import BudgetExceeded, LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import AlreadyReleased, Ledger


def test_a_raise_that_lowers_is_read_from_before_there_was_a_row_for_it(old: Ledger) -> None:
    write_row(old, kind="raise", population="old", limit_nano=50, note="")
    assert old.verify() == []
    assert old.state().population("old").limit_nano == 50


def test_rows_from_before_units_were_recorded_still_fold(old: Ledger) -> None:
    assert old.verify() == []
    (spend,) = old.state().population("old").spends
    assert (spend.unit, spend.law, spend.tau, spend.pot) == ("unknown", "zcdp", 0, "one")
    found = old.find("old", "week 1")
    assert found == AlreadyReleased(reservation="00aa", path="/old", manifest_sha256=HASH)
    assert found is not None
    assert (found.unit, found.source_digest, found.supersedes) == ("unknown", None, None)
    listed = old.find("old", "week 2")
    assert listed is not None
    assert listed.unit == "unknown"


def test_spends_of_years_ago_still_count(old):
    assert spent(old, "old") == 40
    with pytest.raises(BudgetExceeded):
        old.reserve("old", Loss(61), "week 3", "density")
    old.reserve("old", Loss(60), "week 3", "density", unit="user")
    assert spent(old, "old") == 100
    assert old.verify() == []


def test_unit_law_and_source_digest_are_recorded(ledger: Ledger) -> None:
    held = reserved(ledger.reserve("town", Loss(10), "a", "density", unit="user", source_digest=DIGEST))
    made = ledger.commit(held, HASH, "/a")
    assert (made.unit, made.source_digest) == ("user", DIGEST)
    assert ledger.find("town", "a") == made
    assert ledger.reserve("town", Loss(10), "a", "density", unit="user", source_digest=HASH) == made
    ledger.reserve("town", Loss.pure(100_000), "b", "histogram", unit="user")
    first, second = ledger.state().population("town").spends
    assert (first.law, first.pure_epsilon_nano, second.law, second.pure_epsilon_nano) == (
        "zcdp",
        None,
        "pure",
        100_000,
    )
    listed = ledger.list_release(
        "town", "c", "trips", DIGEST, "/c", reservation="1", unit="trip", source_digest=HASH, supersedes=HASH
    )
    assert ledger.find("town", "c") == listed
    assert (listed.unit, listed.source_digest, listed.supersedes) == ("trip", HASH, HASH)
    assert ledger.verify() == []
    with pytest.raises(LedgerError, match="unknown-release"):
        ledger.reserve("town", Loss(1), "d", "density", supersedes="ee" * 32)


@pytest.mark.parametrize(
    "change",
    [
        {"unit": ""},
        {"unit": 3},
        {"law": "gdp"},
        {"law": "pure"},
        {"tau": -1},
        {"tau": True},
        {"pot": None},
        {"source_digest": "x"},
        {"supersedes": 1},
    ],
)
def test_terms_of_a_row_are_checked(old: Ledger, change: dict) -> None:
    row = {**OLD_RESERVE, "reservation": "00cc", "key": "k", "cost_nano": 1}
    write_row(old, **row, **change)
    assert [finding.code for finding in old.verify()] == ["rule"]


def test_units_are_not_mixed(old: Ledger) -> None:
    """Spends of a unit that was not recorded are taken to be of the same one."""
    old.reserve("old", Loss(1), "a", "density", unit="trip")
    for call in (
        lambda: old.reserve("old", Loss(1), "b", "histogram", unit="user"),
        lambda: old.check_fits("old", Loss(1), unit="user"),
    ):
        with pytest.raises(LedgerError, match=r"unit-mixed(?s:.*)per trip, this release per user"):
            call()
    old.reserve("old", Loss(1), "b", "histogram", unit="trip")
    population = old.state().population("old")
    assert (population.units, population.mixture) == (["trip"], "")
    row = {**OLD_RESERVE, "reservation": "00dd", "key": "k", "cost_nano": 1, "unit": "user"}
    write_row(old, **row, at="9999")
    assert old.verify() == []  # it is there, and every sum says what it is
    assert "per trip and per user" in old.state().population("old").mixture


def test_one_release_replaces_another(ledger: Ledger) -> None:
    hashes = ["aa" * 32, "bb" * 32, "cc" * 32]
    for each in hashes:
        held = reserved(ledger.reserve("town", Loss(1), each, "density"))
        ledger.commit(held, each, f"/{each[:2]}")
    first, second, third = hashes
    ledger.supersede("town", first, second, note="a day was missing")
    ledger.supersede("town", second, third)
    assert ledger.state().population("town").superseded == {first: second, second: third}
    for old_one, new_one in ((first, third), (third, first), (third, third)):
        with pytest.raises(LedgerError, match="ledger-rule"):
            ledger.supersede("town", old_one, new_one)
    with pytest.raises(LedgerError, match="unknown-release"):
        ledger.supersede("town", third, "dd" * 32)
    held = reserved(ledger.reserve("town", Loss(1), "new", "density", supersedes=third))
    assert third not in ledger.state().population("town").superseded
    ledger.commit(held, "ee" * 32, "/ee")
    assert ledger.state().population("town").superseded[third] == "ee" * 32
    assert ledger.verify() == []


@pytest.mark.parametrize("known", [(), (HASH,)])
def test_a_listing_that_its_release_was_not_compared_with_is_refused(ledger, known):
    """`knows` are the listings before it; another was made meanwhile, after none or after one."""
    for number, sha256 in enumerate((*known, DIGEST)):
        ledger.list_release("town", f"t{number}", "trips", sha256, f"/{number}", reservation=f"{number}")
    place = ("c" * 64, "/mine")
    with pytest.raises(LedgerError, match="listed while this one was being made") as refused:
        ledger.list_release("town", "mine", "trips", *place, reservation="9", knows=frozenset(known))
    assert refused.value.code == "listed-meanwhile"
    both = frozenset({*known, DIGEST})
    assert ledger.list_release("town", "mine", "trips", *place, reservation="9", knows=both).path == "/mine"
