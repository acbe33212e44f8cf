"""Publish copies a committed release and nothing else; verify lists what is wrong with a folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.publish import publish as publish_command
from shoal.cli.verify import verify as verify_command
from shoal.errors import GuaranteeError, LedgerError, OutputError
from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee
from shoal.privacy.ledger import Ledger, open_ledger
from shoal.privacy.unit import Unit
from shoal.release.folder import ReleaseRequest, release, write_for_owner
from shoal.release.manifest import Manifest
from shoal.release.publish import publish
from shoal.release.verify import check_release

LOSS = Loss.pure(100_000)


def build(folder: Path, *, reproducible: bool = False) -> Manifest:
    (folder / "maps").mkdir()
    (folder / "maps" / "zones.json").write_text("{}")
    (folder / "density.csv").write_text("zone,people\n")
    guarantee = Guarantee.of(LOSS, delta=None, unit=Unit())
    return Manifest(
        unit=Unit().sentence,
        promise=guarantee.sentence,
        guarantee=guarantee.to_manifest(),
        public={},
        spends=[],
        population="town",
        input={},
        columns={},
        reproducible=reproducible,
    )


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "private" / "ledger.sqlite"))
    made = open_ledger()
    made.create("town", currency="rho", limit_nano=100)
    return made


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Path:
    asked = ReleaseRequest(population="town", loss=LOSS, key="k", out=tmp_path / "out", what="density")
    return release(ledger, asked, build).path


def test_publish_copies_exactly_the_release(ledger: Ledger, made: Path, tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        publish(ledger, made, tmp_path / "public")
    finally:
        os.umask(old)
    there = tmp_path / "public"
    names = sorted(path.relative_to(there).as_posix() for path in there.rglob("*"))
    assert names == ["density.csv", "manifest.json", "maps", "maps/zones.json"]
    assert {path.stat().st_mode & 0o777 for path in there.rglob("*") if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in [there, there / "maps"]} == {0o755}
    assert check_release(there) == check_release(made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "private", "public"]


def test_publish_refuses_what_is_not_committed(ledger: Ledger, made: Path, tmp_path: Path) -> None:
    other = open_ledger(tmp_path / "other.sqlite")
    with pytest.raises(LedgerError, match="not-committed"):
        publish(other, made, tmp_path / "public")
    # A manifest rewritten to promise more, with everything else in order, has another hash.
    path = made / "manifest.json"
    path.write_text(path.read_text().replace('"epsilon": 0.0001', '"epsilon": 9e-05'))
    assert check_release(made).problems == ()
    with pytest.raises(LedgerError, match="not-committed"):
        publish(ledger, made, tmp_path / "public")
    assert not (tmp_path / "public").exists()


def test_publish_refuses_a_seeded_run(ledger: Ledger, tmp_path: Path) -> None:
    seeded = write_for_owner(tmp_path / "seeded", lambda folder: build(folder, reproducible=True))
    with pytest.raises(LedgerError, match="seeded-release"):
        publish(ledger, seeded, tmp_path / "public")


def test_publish_refuses_bad_places(ledger: Ledger, made: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    for dest, code in [
        (tmp_path / "taken", "folder-exists"),
        (tmp_path / "no" / "parent", "unwritable-folder"),
        (made / "inside", "folder-inside"),
    ]:
        with pytest.raises(OutputError, match=code):
            publish(ledger, made, dest)
    with pytest.raises(OutputError, match="no-release"):
        publish(ledger, tmp_path / "nothing", tmp_path / "public")
    assert check_release(made).problems == ()


SPOILS = {
    "changed": (
        lambda folder: (folder / "density.csv").write_text("zone,peoplE\n"),
        "density.csv was changed",
    ),
    "longer": (
        lambda folder: (folder / "density.csv").write_text("zone,people\n1"),
        "density.csv has 13 bytes",
    ),
    "missing": (lambda folder: (folder / "density.csv").unlink(), "density.csv is missing"),
    "extra": (lambda folder: (folder / "raw.csv").write_text("x"), "raw.csv is not in the manifest"),
    "hidden": (lambda folder: (folder / "maps" / ".raw").write_text("x"), "maps/.raw is not in the manifest"),
    "empty folder": (lambda folder: (folder / "more").mkdir(), "more is not in the manifest"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
    "not text": (lambda folder: (folder / "manifest.json").write_bytes(b"\xff"), "manifest.json is not text"),
    "not json": (lambda folder: (folder / "manifest.json").write_text("{}"), "the manifest is not valid"),
}


def _swap_for_link(folder: Path) -> None:
    (folder / "density.csv").rename(folder.parent / "density.csv")
    (folder / "density.csv").symlink_to(folder.parent / "density.csv")


SPOILS["link"] = (_swap_for_link, "density.csv is missing")


@pytest.mark.parametrize("name", SPOILS)
def test_spoiled_release_is_told_and_not_published(
    ledger: Ledger, made: Path, tmp_path: Path, name: str
) -> None:
    spoil, problem = SPOILS[name]
    spoil(made)
    assert any(problem in each for each in check_release(made).problems)
    with pytest.raises(GuaranteeError, match="release-changed"):
        publish(ledger, made, tmp_path / "public")
    assert not (tmp_path / "public").exists()


def test_verify_lists_all_problems_at_once(made: Path) -> None:
    for name in ("changed", "extra", "hidden"):
        SPOILS[name][0](made)
    assert len(check_release(made).problems) == 3


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/hostname", "maps/../density.csv", "", "manifest.json", "a\\b"]
)
def test_names_that_lead_out_of_the_folder(made: Path, name: str) -> None:
    path = made / "manifest.json"
    path.write_text(path.read_text().replace('"density.csv"', json.dumps(name)))
    assert f"{name!r} is not a name of a file in the folder." in check_release(made).problems


def test_verify_command_needs_no_ledger(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "none" / "ledger.sqlite"))
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    good = CliRunner().invoke(verify_command, [str(copy)])
    assert good.exit_code == 0
    assert "One user: all events" in good.output
    assert "epsilon = 0.0001" in good.output
    (copy / "raw.csv").write_text("x")
    bad = CliRunner().invoke(verify_command, [str(copy)])
    assert isinstance(bad.exception, GuaranteeError)
    assert bad.exception.exit_code == 6
    assert "raw.csv" in str(bad.exception)
    machine = CliRunner().invoke(verify_command, [str(copy), "--json"])
    assert machine.exit_code == 6
    assert json.loads(machine.output)["problems"] == ["raw.csv is not in the manifest."]
    assert not (tmp_path / "none").exists()


def test_publish_command(made: Path, tmp_path: Path) -> None:
    answer = CliRunner().invoke(publish_command, [str(made), str(tmp_path / "public"), "--json"])
    assert json.loads(answer.output) == {"published": str(tmp_path / "public"), "files": 3}
    again = CliRunner().invoke(publish_command, [str(made), str(tmp_path / "public")])
    assert isinstance(again.exception, OutputError)
