"""Publish copies a committed release and nothing else; verify lists what is wrong with a folder."""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.loops import for_each
from tests.small import build, manifest, request_for

from shoal.cli.publish import publish as publish_command
from shoal.cli.publish import verify as verify_command
from shoal.errors import GuaranteeError, LedgerError, OutputError
from shoal.privacy.accounting import Loss, rho_for
from shoal.privacy.guarantee import Guarantee, Unit, promise
from shoal.privacy.ledger import Ledger, open_ledger
from shoal.release.folder import ReleaseRequest, release, write_for_owner
from shoal.release.manifest import NOT_DIFFERENTIALLY_PRIVATE, Manifest
from shoal.release.price import price_problems
from shoal.release.publish import publish
from shoal.release.verify import check_release


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "private" / "ledger.sqlite"))
    made = open_ledger()
    made.create("town", currency="rho", limit_nano=100)
    return made


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Path:
    spends = [{"name": "counts", "mechanism": "laplace", "epsilon": 0.0001}]  # which LIES change
    return release(ledger, request_for(tmp_path / "out"), lambda folder: build(folder, spends=spends)).path


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
    sentences = [promise(epsilon, 0, "user") for epsilon in (0.0001, 0.00009)]
    path.write_text(path.read_text().replace('"epsilon": 0.0001', '"epsilon": 9e-05').replace(*sentences))
    assert check_release(made).problems == ()
    with pytest.raises(LedgerError, match=r"not-committed.*or the manifest was changed"):
        publish(ledger, made, tmp_path / "public")
    assert not (tmp_path / "public").exists()


@pytest.mark.parametrize("verdict", [False, None, "yes"])
def test_publish_refuses_what_a_verifier_refuted(ledger: Ledger, tmp_path: Path, verdict) -> None:
    def refuted(folder: Path) -> Manifest:
        guarantee = {"kind": NOT_DIFFERENTIALLY_PRIVATE, "unit": "user", "verified": verdict}
        return replace(build(folder), promise="Nothing is promised.", guarantee=guarantee, spends=[])

    asked = ReleaseRequest(population="town", loss=None, key="k", out=tmp_path / "out", what="records")
    folder = release(ledger, asked, refuted).path
    assert check_release(folder).problems == ()
    with pytest.raises(GuaranteeError, match="unsafe-release"):
        publish(ledger, folder, tmp_path / "public")
    assert not (tmp_path / "public").exists()


LIES = {
    "promise": ("e^0.0001", "e^0.00001", "the promise does not say"),
    "odds": ("at most 50.01 %", "at most 50 %", "the promise does not say"),
    "version": ('"promise_version": 2', '"promise_version": 3', "the version of its promise"),
    "old version": ('"promise_version": 2', '"promise_version": 1', "the version of its promise"),
    "no version": (',\n    "promise_version": 2', "", "the promise does not say"),
    "another unit": ("removing one user", "removing one trip", "the promise does not say"),
    "no promise": ("adding or removing", "never adding or removing", "the promise does not say"),
    "epsilon": (
        '"epsilon": 0.0001,\n    "delta"',
        '"epsilon": 9e-05,\n    "delta"',
        "epsilon = 9e-05 is below",
    ),
    "law": ('"law": "pure"', '"law": "none"', "its law is not one"),
    "a rho beside": ('"epsilon": 0.0001\n', '"epsilon": 0.0001,\n      "rho": 5e-09\n', "must be listed"),
    "spends": ('"epsilon": 0.0001\n', '"epsilon": 0.0002\n', "the spends add up to epsilon = 0.0002"),
    "no spends": ('"epsilon": 0.0001\n', '"cost": 0.0001\n', "spends must be listed"),
    "odd spends": ('"epsilon": 0.0001\n', '"epsilon": "low"\n', "spends must be listed"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_manifest_that_promises_more_than_its_numbers(made: Path, tmp_path: Path, name: str) -> None:
    old, new, problem = LIES[name]
    path = made / "manifest.json"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    assert any(problem in each for each in check_release(made).problems)
    with pytest.raises(GuaranteeError, match="release-changed"):
        publish(open_ledger(), made, tmp_path / "public")
    answer = CliRunner().invoke(verify_command, [str(made), "--json"])
    assert answer.exit_code == 6
    assert not json.loads(answer.output)["ok"]


def rho_manifest(**change) -> Manifest:
    """rho = 0.02 at delta = 1e-6 needs epsilon = 0.9 or so; `change` goes into the guarantee."""
    loss = Loss(20_000_000)
    guarantee = Guarantee.of(loss, delta=1e-6, unit=Unit()).to_manifest() | change
    spends = [{"name": "a", "rho": 0.005}, {"name": "b", "rho": 0.015}]
    return manifest(
        promise=promise(guarantee["epsilon"], guarantee["delta"], "user"), guarantee=guarantee, spends=spends
    )


def test_a_manifest_of_the_first_version_keeps_its_sentence_and_epsilon_follows_rho():
    old = rho_manifest()
    guarantee = {name: value for name, value in old.guarantee.items() if name != "promise_version"}
    sentence = promise(guarantee["epsilon"], 1e-6, "user", 1)
    assert price_problems(replace(old, guarantee=guarantee, promise=sentence)) == []
    assert price_problems(replace(old, guarantee=guarantee)) != []
    assert price_problems(replace(old, promise=sentence)) != []
    # The classic conversion, rho + 2 sqrt(rho log(1/delta)), is never below the one in use.
    assert price_problems(rho_manifest()) == []
    classic = 0.02 + 2 * math.sqrt(0.02 * math.log(1e6))
    assert price_problems(rho_manifest(epsilon=classic)) == []
    assert "is below what was spent: rho = 0.02" in price_problems(rho_manifest(epsilon=0.8))[0]
    assert "is below" in price_problems(rho_manifest(delta=1e-7))[0]
    assert "without a delta every spend needs its epsilon" in price_problems(rho_manifest(delta=0))[0]
    assert "more than the rho" in price_problems(rho_manifest(rho=0.019))[0]
    assert "less than the rho" in price_problems(rho_manifest(rho=0.021))[0]
    assert "is below" in price_problems(rho_manifest(rho=0.021))[1]


@for_each("epsilon", [1 / 3, 0.1, 0.7123456789123, 2 / 7, 3.3333333333])
@for_each("delta", [1e-6, 1e-9])
def test_what_a_budget_buys_is_never_called_a_lie(epsilon: float, delta: float) -> None:
    loss = Loss(rho_for(epsilon, delta))
    made = replace(
        rho_manifest(epsilon=epsilon, delta=delta, rho=loss.rho), spends=[{"name": "a", "rho": loss.rho}]
    )
    assert price_problems(made) == []


def test_seeded_runs_promise_nothing_and_are_not_published(ledger, tmp_path):
    seeded = write_for_owner(tmp_path / "seeded", lambda folder: build(folder, reproducible=True))
    with pytest.raises(LedgerError, match="seeded-release"):
        publish(ledger, seeded, tmp_path / "public")
    text = CliRunner().invoke(verify_command, [str(seeded)]).output
    assert "Nothing is promised: the noise was seeded" in text
    assert "Adding or removing" not in text
    assert "epsilon" not in text
    answer = json.loads(CliRunner().invoke(verify_command, [str(seeded), "--json"]).output)
    assert (answer["seeded"], answer["guarantee"]) == (True, None)
    assert "Adding" not in answer["in_words"]


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
    "not text": (lambda folder: (folder / "manifest.json").write_bytes(b"\xff"), "manifest.json is not text"),
    "not json": (lambda folder: (folder / "manifest.json").write_text("{}"), "the manifest is not valid"),
}


def _swap_for_link(folder: Path) -> None:
    (folder / "density.csv").rename(folder.parent / "density.csv")
    (folder / "density.csv").symlink_to(folder.parent / "density.csv")


def test_a_folder_without_a_manifest_is_not_a_release(made: Path, tmp_path: Path) -> None:
    (made / "manifest.json").unlink()
    answer = CliRunner().invoke(verify_command, [str(made)])
    assert isinstance(answer.exception, OutputError)
    assert "is not a release folder" in str(answer.exception)
    assert "again" not in str(answer.exception)
    with pytest.raises(OutputError, match="not-a-release"):
        publish(open_ledger(), made, tmp_path / "public")


ODD = {
    "long epsilon": ('"epsilon": 0.0001,\n    "delta"', f'"epsilon": {"9" * 4000},\n    "delta"'),
    "huge epsilon": ('"epsilon": 0.0001,\n    "delta"', '"epsilon": 1e+300,\n    "delta"'),
    "tiny delta": ('"delta": 0.0', '"delta": 1e-300'),
    "float bytes": ('"bytes": 2\n', '"bytes": 2.0\n'),
    "true bytes": ('"bytes": 2\n', '"bytes": true\n'),
    "negative bytes": ('"bytes": 2\n', '"bytes": -2\n'),
    "long spend": ('"epsilon": 0.0001\n', f'"epsilon": {"9" * 4000}\n'),
    "escape": ('"licence": "none', '"licence": "\\u001b[2Jnone'),
    "turned text": ('"licence": "none', '"licence": "\u202enone'),
    "unit on two lines": ('"unit": "One user: all', '"unit": "One user: all\\n'),
    "control in a key": ('"density.csv"', '"den\\u0007sity.csv"'),
    "whole number": ('"public": {}', f'"public": {{\n    "ell": {2**63}\n  }}'),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_values_are_told_without_a_traceback(made: Path, name: str) -> None:
    old, new = ODD[name]
    path = made / "manifest.json"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    answer = CliRunner().invoke(verify_command, [str(made)])
    assert isinstance(answer.exception, GuaranteeError)
    assert "the manifest is not valid" in str(answer.exception)
    assert "not written the way" not in str(answer.exception)


def test_all_problems_are_listed_with_names_escaped(made):
    (made / "a\x1b[2J").write_text("x")
    assert check_release(made).problems == ("'a\\x1b[2J' is not in the manifest.",)
    for name in ("changed", "extra", "hidden"):
        SPOILS[name][0](made)
    assert len(check_release(made).problems) == 4


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
    assert "Compare this hash with the one the owner published: pass it with --sha256." in good.output
    (copy / "raw.csv").write_text("x")
    bad = CliRunner().invoke(verify_command, [str(copy)])
    assert isinstance(bad.exception, GuaranteeError)
    assert bad.exception.exit_code == 6
    assert "raw.csv" in str(bad.exception)
    machine = CliRunner().invoke(verify_command, [str(copy), "--json"])
    assert machine.exit_code == 6
    assert json.loads(machine.output)["problems"] == ["raw.csv is not in the manifest."]
    assert not (tmp_path / "none").exists()


def test_publish_command_and_the_example_of_its_help(made, tmp_path):
    example = "SHOAL_LEDGER=demo/ledger.sqlite shoal publish demo/release public\n"
    assert example in CliRunner().invoke(publish_command, ["--help"]).output
    answer = CliRunner().invoke(publish_command, [str(made), str(tmp_path / "public"), "--json"])
    assert json.loads(answer.output) == {
        "published": str(tmp_path / "public"),
        "files": 3,
        "manifest_sha256": check_release(made).manifest_sha256,
        "signed": False,
    }
    again = CliRunner().invoke(publish_command, [str(made), str(tmp_path / "public")])
    assert isinstance(again.exception, OutputError)
