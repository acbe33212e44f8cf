"""What a stopped run left behind, by the ledger and the folders."""

import pytest

from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import open_ledger
from shoal.studio.worker import aftermath


@pytest.fixture
def ledger(tmp_path):
    book = open_ledger(tmp_path / "ledger.sqlite")
    book.create("town", currency="rho", limit_nano=10**9)
    return book


def test_before_the_reserve_nothing_is_spent(ledger, tmp_path):
    for population in ("town", "nobody"):
        told = aftermath(ledger, population, "0" * 16, tmp_path / "release")
        assert (told.spent, told.released) == ("", False)
        assert "nothing was spent" in told.words


def test_a_reserve_that_never_resolved_is_spent_whatever_a_later_run_did(ledger, tmp_path):
    out = tmp_path / "release"
    first = ledger.reserve("town", Loss.pure(10**8), "key", "density")
    second = ledger.reserve("town", Loss.pure(10**8), "key", "density")
    ledger.commit(second, "0" * 64, str(out))
    told = aftermath(ledger, "town", first.reservation, out)
    assert told.spent == "rho 0.0050"
    assert not told.released
    assert "counts as spent" in told.words


def test_a_commit_is_a_release_once_its_folder_is_there(ledger, tmp_path):
    out = tmp_path / "release"
    reserved = ledger.reserve("town", Loss.pure(10**8), "key", "density")
    ledger.commit(reserved, "0" * 64, str(out))
    told = aftermath(ledger, "town", reserved.reservation, out)
    assert "Run it again: that is free" in told.words
    assert told.spent == "rho 0.0050"
    out.mkdir()
    (out / "manifest.json").write_text("{}")
    assert aftermath(ledger, "town", reserved.reservation, out).released


def test_a_listing_spends_nothing(ledger, tmp_path):
    out = tmp_path / "records"
    ledger.list_release("town", "key", "trajectories", "0" * 64, str(out), reservation="a" * 16)
    told = aftermath(ledger, "town", "a" * 16, out)
    assert told.spent == ""
    assert "recorded" in told.words
