"""shoal ledger: budgets by flags, tables, JSON, and what is refused."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shoal.cli.ledger import ledger
from shoal.errors import GuaranteeError, LedgerError, PlanError
from shoal.privacy.accounting import GDP, Loss, rho_for
from shoal.privacy.ledger import Reservation, StoredRow, open_ledger
from shoal.privacy.ledger.state import link
from shoal.release.verify import sha256_file


@pytest.fixture(autouse=True)
def _own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))


def run(*words: str) -> Result:
    return CliRunner().invoke(ledger, list(words))


def shown(*words: str) -> dict:
    answer = run(*words, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.output)


def test_create_by_each_kind_of_budget() -> None:
    def limits(*words: str) -> dict:
        return {pot["pot"]: (pot["law"], pot["limit_nano"]) for pot in shown("create", *words)["pots"]}

    half = ("gaussian", rho_for(0.5, 1e-6, GDP))
    assert limits("town", "--epsilon", "1", "--delta", "1e-6") == {
        "gaussian": half,
        "pure": ("pure", 5 * 10**8),
    }
    told = shown("show", "town")["populations"][0]
    assert told["lifetime"] == {"epsilon": pytest.approx(1, abs=1e-8), "delta": 1e-6}
    assert told["lifetime"]["epsilon"] <= 1
    whole = ("--epsilon", "1", "--delta", "1e-6", "--pure-epsilon")
    assert limits("most", *whole, "0") == {
        "gaussian": ("gaussian", rho_for(1.0, 1e-6, GDP)),
        "pure": ("pure", 0),
    }
    assert limits("least", *whole, "1") == {"gaussian": ("gaussian", 0), "pure": ("pure", 10**9)}
    assert limits("city", "--rho", "0.05") == {"one": ("zcdp", 50_000_000)}
    assert limits("village", "--pure-epsilon", "0.3") == {"one": ("pure", 300_000_000)}


def limit(*words: str) -> int:
    (pot,) = shown(*words)["pots"]
    return pot["limit_nano"]


def test_a_pot_is_raised_alone_and_never_lowered_once_something_was_reserved() -> None:
    run("create", "town", "--epsilon", "1", "--delta", "1e-6")
    said = run("raise", "town", "--epsilon", "2").output
    assert "did not depend on answers" in said
    assert "Gaussian budget: epsilon 0 of 1.5 spent" in said
    assert "pure budget: epsilon 0 of 0.5 spent" in said
    assert run("lower", "town", "--epsilon", "1.5").exit_code == 0
    open_ledger().reserve("town", Loss.gaussian(1000), "a", "density")
    for words in (["lower", "town", "--epsilon", "1.4"], ["raise", "town", "--pure-epsilon", "0.4"]):
        assert isinstance(run(*words).exception, LedgerError), words
    moved = run("raise", "town", "--epsilon", "1.5", "--pure-epsilon", "0.9")
    assert isinstance(moved.exception, LedgerError)
    assert run("raise", "town", "--pure-epsilon", "0.7").exit_code == 0
    assert "pure budget: epsilon 0 of 0.7 spent" in run("show", "town").output


def test_raise_keeps_the_delta_of_the_population() -> None:
    open_ledger().create("town", currency="rho", limit_nano=rho_for(1.0, 1e-6), delta=1e-6)
    assert limit("raise", "town", "--epsilon", "2") == rho_for(2.0, 1e-6)
    refused = run("raise", "town", "--pure-epsilon", "2")
    assert isinstance(refused.exception, PlanError)
    assert refused.exception.code == "budget-currency"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "budget-missing"),
        (["--rho", "1", "--pure-epsilon", "1"], "budget-missing"),
        (["--epsilon", "1"], "delta-missing"),
        (["--epsilon", "-1", "--delta", "1e-6"], "epsilon-range"),
        (["--epsilon", "nan", "--delta", "1e-6"], "epsilon-range"),
        (["--epsilon", "1", "--delta", "1"], "delta-range"),
        (["--rho", "0"], "amount-range"),
        (["--rho", "nan"], "amount-range"),
        (["--rho", "inf"], "amount-range"),
        (["--rho", "-1"], "amount-range"),
        (["--rho", "lots"], "amount-range"),
        (["--pure-epsilon", "1e-12"], "amount-range"),
    ],
)
def test_bad_budgets(tmp_path: Path, words: list[str], code: str) -> None:
    refused = run("create", "town", *words)
    assert isinstance(refused.exception, PlanError)
    assert refused.exception.code == code
    assert not (tmp_path / "ledger.sqlite").exists()


def test_show_lists_spends_and_the_head() -> None:
    assert "no population yet" in run("show").output
    run("create", "town", "--rho", "0.05")
    book = open_ledger()
    book.reserve("town", Loss(20_000_000), "a", "density [week 1]")
    book.disclose("town", "exact counts")
    text = run("show", "town").output
    for part in ("density [week 1]", "0.0200", "0.0300", "unresolved", "seen by the", book.head()):
        assert part in text
    answer = shown("show", "town")
    assert answer["head"] == book.head()
    assert answer["populations"][0]["pots"][0]["left_nano"] == 30_000_000
    assert [spend["status"] for spend in answer["populations"][0]["spends"]] == [
        "unresolved (counts as spent)"
    ]
    assert isinstance(run("show", "nobody").exception, LedgerError)


def test_show_names_the_folder_and_fits_100_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    run("create", "town", "--rho", "1")
    book = open_ledger()
    what = "density, gaussian, 2026-03-02 to 2026-03-09"
    held = book.reserve("town", Loss(123_456_789), "a", what)
    assert isinstance(held, Reservation)
    book.commit(held, "ab" * 32, str(tmp_path / "releases" / "town-2026-w12"))
    book.reserve("town", Loss(1), "b", what)
    book.disclose("town", "exact counts", "/owner\x1b/report.html")
    text = run("show", "town").output
    for part in (what, "releases/town-2026-w12", "0.123456789", "committed", "'/owner\\x1b/report.html'"):
        assert sum(part in line for line in text.splitlines()) >= 1, part
    assert str(tmp_path / "releases") not in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines()[:-2])) <= 100
    spends = shown("show", "town")["populations"][0]["spends"]
    assert [spend["path"] for spend in spends] == [str(tmp_path / "releases" / "town-2026-w12"), ""]


def test_tuned_is_recorded_for_every_later_manifest() -> None:
    run("create", "town", "--rho", "0.05")
    assert not open_ledger().is_tuned("town")
    assert run("tuned", "town", "ell 8, after a look at the counts").exit_code == 0
    assert open_ledger().is_tuned("town")
    text = run("show", "town").output
    assert "ell 8, after a look" in text
    assert shown("tuned", "town", "ell 9")["tuned_on_private_data"] is True
    assert isinstance(run("tuned", "nobody", "ell").exception, LedgerError)


@pytest.mark.parametrize("there", ["absent", "empty", "wide"])
def test_verify_without_a_ledger(tmp_path: Path, there: str) -> None:
    path = tmp_path / "ledger.sqlite"
    if there != "absent":
        path.touch(0o600 if there == "empty" else 0o644)
    for words in ([], ["--head", "0" * 64], ["--json"]):
        answer = run("verify", *words)
        assert isinstance(answer.exception, LedgerError)
        assert answer.exception.exit_code == 4
        assert f"there is no ledger at {path}" in str(answer.exception)
    assert path.exists() == (there != "absent")


def test_a_delta_that_cannot_be_shown_is_not_stored(tmp_path: Path) -> None:
    refused = run("create", "town", "--rho", "0.05", "--delta", "1e-200")
    assert isinstance(refused.exception, PlanError)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_verify_and_the_noted_head(tmp_path: Path) -> None:
    run("create", "town", "--rho", "0.05")
    head = open_ledger().head()
    run("raise", "town", "--rho", "0.06")
    assert run("verify", "--head", head).exit_code == 0
    assert "2 rows" in run("verify").output
    assert isinstance(run("verify", "--head", "0" * 64).exception, GuaranteeError)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("DROP TRIGGER no_update")
    connection.execute("UPDATE rows SET content = replace(content, '60000000', '90000000') WHERE seq = 2")
    connection.commit()
    connection.close()
    broken = run("verify")
    assert isinstance(broken.exception, GuaranteeError)
    assert "row 2" in str(broken.exception)
    machine = run("verify", "--json")
    assert machine.exit_code == 6
    assert {finding["code"] for finding in json.loads(machine.output)["findings"]} == {"schema", "digest"}


def test_help_has_examples() -> None:
    for command in ("create", "raise", "lower", "supersede", "show", "tuned", "verify"):
        assert "Example:" in run(command, "--help").output


def test_lower_is_a_command_of_its_own() -> None:
    run("create", "town", "--rho", "0.05")
    refused = run("raise", "town", "--rho", "0.04")
    assert isinstance(refused.exception, LedgerError)
    assert "shoal ledger lower" in str(refused.exception)
    assert limit("lower", "town", "--rho", "0.04") == 40_000_000
    assert "limit lowered" in " ".join(run("show", "town").output.split())


def test_supersede_by_folder_or_hash(tmp_path: Path) -> None:
    run("create", "town", "--rho", "0.05")
    book = open_ledger()
    folders = [tmp_path / name for name in ("old", "new")]
    for folder in folders:
        folder.mkdir()
        (folder / "manifest.json").write_text(folder.name)
        held = book.reserve("town", Loss(1), folder.name, "density", unit="user")
        assert isinstance(held, Reservation)
        book.commit(held, sha256_file(folder / "manifest.json"), str(folder))
    new = sha256_file(folders[1] / "manifest.json")
    for wrong in ("nowhere", new[:7]):
        refused = run("supersede", "town", str(folders[0]), wrong)
        assert isinstance(refused.exception, LedgerError), refused.output
        assert refused.exception.code == "unknown-release"
    assert run("supersede", "town", str(folders[0]), new[:8], "--note", "a day was missing").exit_code == 0
    text = " ".join(run("show", "town").output.split())
    assert "superseded" in text
    assert "a day" in text
    (told,) = shown("show", "town")["populations"]
    assert [each["superseded_by"] for each in told["releases"]] == [new, None]
    assert [each["unit"] for each in told["spends"]] == ["user", "user"]
    assert told["units"] == ["user"]


def test_mixed_units_are_flagged_where_a_sum_is_shown() -> None:
    run("create", "town", "--rho", "0.05")
    book = open_ledger()
    book.reserve("town", Loss(1), "a", "density", unit="user")

    def decide(rows: list[StoredRow]) -> StoredRow:
        content = json.loads(rows[-1].content) | {"unit": "trip", "reservation": "ff", "key": "b"}
        del content["seq"]
        return link(rows[-1].digest, len(rows) + 1, content)

    book.store.append(decide)
    assert "per trip and per user" in run("show").output
    assert "per trip and per user" in shown("show")["populations"][0]["warning"]
