"""What `shoal density year` says and refuses; it spends nothing and writes only where it is told to."""

import json

import pytest

from shoal.privacy.accounting import rho_for
from shoal.privacy.ledger import open_ledger


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return open_ledger()


def test_a_year_without_a_population(ledger, command, tmp_path):
    code, out, err = command("density", "year", "--epsilon", 4, "--delta", "1e-6")
    assert (code, err) == (0, "")
    told = " ".join(out.split())
    assert "52 releases of a week within rho = 0.35100362, epsilon = 4 at delta = 1e-06" in told
    assert "--rho 0.006750069" in told
    assert not (tmp_path / "ledger.sqlite").exists()


def test_what_is_left_in_the_ledger_is_shared(ledger, command):
    ledger.create("p", currency="rho", limit_nano=1000, delta=1e-5)
    code, out, _ = command("density", "year", "--population", "p", "--releases", 7, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["each"]["rho_nano"] == 1000 // 7
    assert told["delta"] == 1e-5
    assert told["ledger"]["releases_left"] == 7
    code, out, _ = command("density", "year", "--population", "p", "--epsilon", 1, "--json")
    told = json.loads(out)
    assert told["rho"] == rho_for(1.0, 1e-5) / 1e9
    assert told["ledger"]["fits"] is False
    code, out, _ = command("density", "year", "--population", "p", "--epsilon", 1)
    assert "not all of them" in " ".join(out.split())


def test_windows_of_several_weeks(ledger, command):
    flags = ["--epsilon", 1, "--releases", 2, "--weeks-each", 4, "--start", "2026-03-02"]
    code, out, _ = command("density", "year", *flags)
    assert code == 0
    assert "--start 2026-03-30 --end 2026-04-27 --out release-2026-03-30" in " ".join(out.split())


def test_what_cannot_be_shared_is_refused(ledger, command):
    ledger.create("pure", currency="epsilon", limit_nano=10**9)
    for flags, said in (
        ([], "year-budget"),
        (["--epsilon", "-1"], "epsilon-range"),
        (["--epsilon", 1, "--rho", 1], "year-budget"),
        (["--epsilon", 1, "--releases", 0], "year-releases"),
        (["--epsilon", 1, "--write", "weeks"], "year-write"),
        (["--population", "pure"], "year-currency"),
        (["--population", "nobody"], "year-budget"),
    ):
        code, _, err = command("density", "year", *flags)
        assert code == 2, flags
        assert err.startswith(said), (flags, err)
