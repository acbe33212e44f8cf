"""What a stopped run left behind, by the ledger and the folders."""

import pytest

from shoal.flows.aftermath import aftermath
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import open_ledger

START = "2000-01-01T00:00:00"


@pytest.fixture
def ledger(tmp_path):
    book = open_ledger(tmp_path / "ledger.sqlite")
    book.create("town", currency="rho", limit_nano=10**9)
    return book


def found(ledger, out, since=START):
    return aftermath(ledger, "town", "key", out, since)


def test_before_the_reserve_nothing_is_spent(ledger, tmp_path):
    told = found(ledger, tmp_path / "release")
    assert (told.spent, told.released) == ("", False)
    assert "nothing was spent" in told.words
    assert aftermath(ledger, "nobody", "key", tmp_path, START).spent == ""


def test_a_reserve_that_never_resolved_is_spent(ledger, tmp_path):
    ledger.reserve("town", Loss.pure(10**8), "key", "density")
    told = found(ledger, tmp_path / "release")
    assert told.spent == "rho = 0.0050"
    assert not told.released
    assert "counts as spent" in told.words
    later = found(ledger, tmp_path / "release", since="9999-01-01")
    assert later.spent == ""  # that reserve was of an earlier run


def test_a_commit_is_a_release_once_its_folder_is_there(ledger, tmp_path):
    out = tmp_path / "release"
    reserved = ledger.reserve("town", Loss.pure(10**8), "key", "density")
    ledger.commit(reserved, "0" * 64, str(out))
    assert "again: free" in found(ledger, out).words
    out.mkdir()
    (out / "manifest.json").write_text("{}")
    told = found(ledger, out)
    assert told.released
    assert told.spent == ""
