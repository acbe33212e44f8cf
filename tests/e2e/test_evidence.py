"""`shoal evidence`: one page for the file, from the folder, the ledger and an audit."""

import json
import re
from pathlib import Path

import pytest

from shoal.privacy.ledger import open_ledger


@pytest.fixture
def released(town, command, tmp_path):
    town.flags["--licence"] = "<b>ours</b> & open"
    code, _, err = command(*town.arguments())
    assert code == 0, err
    return tmp_path / "release"


def test_the_pack_has_manifest_plan_accounting_and_no_raw_figure(released, command, tmp_path):
    code, _, err = command("evidence", released, "--out", tmp_path / "pack.html")
    assert code == 0, err
    page = (tmp_path / "pack.html").read_text("utf-8")
    manifest = json.loads((released / "manifest.json").read_text())
    assert manifest["promise"] in page
    assert all(entry["sha256"] in page for entry in manifest["files"].values())
    assert open_ledger().head() in page
    assert "(this release)" in page
    assert "No audit was attached" in page
    assert "&lt;b&gt;ours&lt;/b&gt; &amp; open" in page
    assert "Owner's eyes only" not in page
    assert "raw data only in released form" in page
    assert not re.search(r"<script|https?://|onerror", page)
    utility = json.loads((tmp_path / "owner" / "utility.json").read_text())
    assert not any(
        f"{value:.4f}" in page for value in utility.values() if isinstance(value, float) and 0 < value < 1
    )
    assert (tmp_path / "pack.html").stat().st_mode & 0o077 == 0


def test_audit_and_attacks_are_put_in_and_the_annex_is_marked(released, command, tmp_path):
    audit = {
        "mechanism": "density-best",
        "claimed_epsilon": 1.0,
        "lower_bound": 0.5,
        "replay_held": 3,
        "replay_pairs": 3,
        "noise_passed": True,
        "mutants_caught": 7,
        "mutants_planted": 7,
        "problems": [],
    }
    (tmp_path / "audit.json").write_text(json.dumps([audit, {**audit, "mechanism": "other"}]))
    (tmp_path / "attack.json").write_text(
        json.dumps({"goal": "Where?", "sentence": "By 0.1.", "summary": ["<i>a</i>"]})
    )
    arguments = ("--audit", tmp_path / "audit.json", "--attack", tmp_path / "attack.json")
    code, out, _ = command("evidence", released, "--out", tmp_path / "pack.html", *arguments)
    page = (tmp_path / "pack.html").read_text("utf-8")
    assert code == 0
    assert "owner's eyes only" in out
    assert "Owner's eyes only" in page
    assert "7 of 7" in page
    assert ">other<" not in page
    assert "By 0.1." in page
    assert "&lt;i&gt;a&lt;/i&gt;" in page


def test_what_cannot_be_shown_is_said(released, command, tmp_path):
    for arguments, word in (
        ((tmp_path / "nothing",), "no-release"),
        ((released, "--audit", tmp_path / "missing.json"), "evidence-file"),
        ((released, "--audit", released / "README.md"), "evidence-file"),
        ((released, "--out", released / "pack.html"), "inside-release"),
    ):
        code, _, err = command("evidence", *arguments)
        assert code != 0
        assert word in err
        assert "Traceback" not in err
    (released / "density.csv").write_text("changed")
    code, _, err = command("evidence", released, "--out", tmp_path / "pack.html")
    assert code == 6
    assert "release-changed" in err
    assert not Path(tmp_path / "pack.html").exists()


def test_another_ledger_does_not_vouch_for_it(released, command, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "other.sqlite"))
    for create in (False, True):  # neither where it knows nobody, nor where it knows the population
        if create:
            open_ledger().create("town", currency="rho", limit_nano=10**9)
        code, _, err = command("evidence", released, "--out", tmp_path / "pack.html")
        assert code == 4
        assert "not-committed" in err
