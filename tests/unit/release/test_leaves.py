"""Every value of a manifest, changed alone: what is rejected without a hash; forgeries against a hash."""

import copy
import hashlib
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.loops import for_each
from tests.unit.release.leaves import DETERMINED, LEAVES, README_ALONE, leaf_of, leaf_table, leaves

from shoal.cli.publish import verify as verify_command
from shoal.errors import GuaranteeError, OutputError, PlanError
from shoal.release import verify
from shoal.release.manifest import FileEntry, Manifest
from shoal.release.readme import README, reading_of, recipient_readme
from shoal.release.verify import SIGNATURE, check_release, check_signature, sign
from shoal.space.clock import window_of

ROOT = Path(__file__).parents[3]
RELEASES = sorted(path for path in (ROOT / "tests/golden/v2").iterdir() if path.is_dir())
KINDS = [path.name for path in RELEASES]


@pytest.fixture(params=RELEASES, ids=KINDS)
def release(request, tmp_path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "release"))


@pytest.fixture
def density(tmp_path) -> Path:
    return Path(shutil.copytree(ROOT / "tests/golden/v2/density-gaussian", tmp_path / "release"))


def changes(value) -> list:
    """Other values of the same kind, or of another where there is none."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value or 7, value - 1 if value else 3]
    if isinstance(value, float):
        return [value * 1.01 + 1e-9, 2 * value + 0.5, value / 2 - 0.01]
    if isinstance(value, str):
        other = "b" if value[:1] == "a" else "a"
        return [value + "x", other + value[1:], *([value[:-1]] if value else [])]
    return [1, "x", True] if value is None else [["x"], {"x": 1}]


def changed(manifest: dict, path: tuple[str, ...], value) -> str:
    """The text of a manifest with one leaf replaced."""
    manifest = copy.deepcopy(manifest)
    inner = manifest
    for name in path[:-1]:
        inner = inner[int(name) if isinstance(inner, list) else name]
    inner[int(path[-1]) if isinstance(inner, list) else path[-1]] = value
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def shares(folder: Path, picked: slice) -> Counter:
    """Counts of leaves, and of changes of determined ones and how many of these were rejected."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    found = Counter()
    for number, (name, value) in enumerate(leaves(manifest)):
        leaf = leaf_of(name)
        found["leaves"] += 1
        found[leaf.status] += 1
        found["by more than the README"] += leaf.status == DETERMINED and leaf.by != README_ALONE
        if leaf.status != DETERMINED:
            continue
        for value_ in (changes(value) * 3)[number % 3 :][picked]:
            path.write_text(changed(manifest, name, value_))
            found["changes"] += 1
            found["rejected"] += bool(check_release(folder).problems)
    return found


def check_shares(found: Counter) -> None:
    print(dict(found))
    assert found[DETERMINED] >= 0.5 * found["leaves"]
    assert found["by more than the README"] >= 0.4 * found["leaves"]
    assert found["rejected"] >= 0.95 * found["changes"]


def test_single_changes_of_determined_leaves_are_rejected(release):
    assert check_release(release).problems == ()
    check_shares(shares(release, slice(1)))


@pytest.mark.parametrize("where", ["guarantee", "input", "package", "public", "columns"])
def test_names_that_no_release_has_are_rejected(release, where):
    path = release / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[where]["certified_by"] = "somebody"
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    assert check_release(release).problems


@pytest.mark.parametrize("name", ["population", "unit", "licence", "promise"])
def test_spaces_that_no_release_writes_are_rejected(release, name):
    path = release / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(changed(manifest, (name,), manifest[name] + " "))
    assert check_release(release).problems


@pytest.mark.parametrize("amount", ["rho", "epsilon"])
def test_amounts_finer_than_the_ledger_counts_are_rejected(release, amount):
    path = release / "manifest.json"
    manifest = json.loads(path.read_text())
    for number, spend in enumerate(manifest["spends"]):
        if amount in spend:
            path.write_text(changed(manifest, ("spends", str(number), amount), spend[amount] + 1e-12))
            assert check_release(release).problems


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("minutes", [0, 1, -60, 60.0, "60", None])
def test_epochs_shorter_than_a_step_are_rejected_without_a_warning(tmp_path, minutes):
    folder = Path(shutil.copytree(ROOT / "tests/golden/v2/trajectories", tmp_path / "release"))
    path = folder / "manifest.json"
    path.write_text(changed(json.loads(path.read_text()), ("public", "epoch_minutes"), minutes))
    manifest = Manifest.from_json(path.read_text())
    assert any(
        "epochs" in each or "out of range" in each for each in verify.content_problems(folder, manifest)
    )


@for_each("value", ["977", True, None, [977], {}])
@for_each(
    ("kind", "name"),
    [("synthetic-gaussian", "trips_with_noise"), ("synthetic-commute", "users_with_noise")],
)
def test_noisy_totals_are_numbers(kind, name, value):
    folder = ROOT / "tests/golden/v2" / kind
    manifest = Manifest.from_json((folder / "manifest.json").read_text())
    manifest = replace(manifest, input={**manifest.input, name: value})
    assert f"its {name} is not a number." in verify.content_problems(folder, manifest)


@pytest.mark.parametrize("verified", [False, 1, None])
def test_a_verified_release_says_so(tmp_path, verified):
    folder = Path(shutil.copytree(ROOT / "tests/golden/v2/trajectories", tmp_path / "release"))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for promise in (manifest["promise"], "The records were linked with an earlier release."):
        stated = {**manifest, "promise": promise}
        path.write_text(changed(stated, ("guarantee", "verified"), verified))
        assert any("not called verified" in each for each in check_release(folder).problems)
    refuted = {**manifest, "promise": "Nothing is promised: too few records fit."}
    path.write_text(json.dumps(refuted, indent=2, ensure_ascii=False) + "\n")
    assert any("not called verified" in each for each in check_release(folder).problems)


@pytest.mark.exhaustive
def test_all_changes_of_determined_leaves_are_rejected(release):
    check_shares(shares(release, slice(3)))


def test_every_row_of_the_table_is_used_and_shown_in_the_docs():
    used = {
        leaf_of(path).path
        for folder in RELEASES
        for path, _ in leaves(json.loads((folder / "manifest.json").read_text()))
    }
    later = {"note", "read_from_data/**", "input/peaks/**", "audit_case", "verdict/**", "**"}
    assert {leaf.path for leaf in LEAVES} - used <= later
    assert leaf_table() in (ROOT / "docs/verify.md").read_text()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("density", "people", -1.0),
        ("density", "people", 0.123456),
        ("density", "people_low", 1e9),
        ("density", "slot", 1),
        ("density", "zone", "z9"),
    ],
)
def test_rows_that_are_not_those_of_the_manifest(density, table, column, value):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = density / f"{table}.parquet"
    rows = pq.read_table(path)
    at = rows.column_names.index(column)
    values = rows[column].to_pylist()
    values[0] = value
    pq.write_table(rows.set_column(at, column, pa.array(values)), path)
    resealed(density)
    assert any("density.parquet" in problem for problem in check_release(density).problems)


def test_files_that_are_not_what_they_are_called(release):
    """Never a traceback, whatever lies there."""
    for path in sorted(release.iterdir()):
        if path.name != "manifest.json":
            before = path.read_bytes()
            path.write_bytes(b"PAR1 not this")
            resealed(release)
            assert check_release(release).problems
            path.write_bytes(before)
    resealed(release)
    assert check_release(release).problems == ()


def resealed(folder: Path, **change) -> Manifest:
    """Writes the manifest anew as a forger would: with other values, its README and all hashes in order."""
    path = folder / "manifest.json"
    manifest = replace(Manifest.from_json(path.read_text()), **change)
    if change:
        readme = folder / README
        text = recipient_readme(manifest, manifest.columns, reading_of(readme.read_text()))
        readme.write_text(text)
    files = {
        name: FileEntry(
            sha256=hashlib.sha256((folder / name).read_bytes()).hexdigest(),
            bytes=(folder / name).stat().st_size,
        )
        for name in manifest.files
    }
    path.write_text(replace(manifest, files=files).to_json())
    return manifest


def forge(folder: Path, what: str) -> None:
    """A manifest that lies and agrees with all other files, or as nearly as it can."""
    from shoal.privacy.guarantee import promise

    manifest = Manifest.from_json((folder / "manifest.json").read_text())
    public = copy.deepcopy(dict(manifest.public))
    if what == "epsilon":
        guarantee = {**manifest.guarantee, "epsilon": 0.1, "rho": 0.0001}
        spends = [
            {**spend, "rho": rho} for spend, rho in zip(manifest.spends, (6e-5, 3e-5, 1e-5), strict=True)
        ]
        sentence = promise(0.1, guarantee["delta"], guarantee["unit"])
        resealed(folder, guarantee=guarantee, spends=spends, promise=sentence)
    elif what == "population":
        resealed(folder, population="somewhere-else")
    elif what == "window":
        public["window"] = {"start": "2025-03-02T00:00:00", "end": "2025-03-04T00:00:00"}
        resealed(folder, public=public)
    else:
        public["zones"] = {**public["zones"], "sha256": "0" * 64}
        resealed(folder, public=public)


@pytest.mark.parametrize("what", ["epsilon", "population", "window", "zones"])
def test_a_forged_manifest_is_rejected_by_its_hash_and_by_a_signature(density, tmp_path, what, keys):
    key, signers = keys
    published = check_release(density).manifest_sha256
    (density / SIGNATURE).write_bytes(sign((density / "manifest.json").read_bytes(), key))
    assert check_release(density, sha256=published).problems == ()
    assert check_signature(density, signers) == "owner@example.org"
    forge(density, what)
    if what in ("epsilon", "population"):  # window and zones do not even agree with the rows
        assert check_release(density).problems == ()
    assert "not the release that the owner published" in check_release(density, sha256=published).problems[0]
    with pytest.raises(GuaranteeError, match="signature-refused"):
        check_signature(density, signers)
    answer = CliRunner().invoke(verify_command, [str(density), "--json", "--sha256", published])
    assert answer.exit_code == 6
    assert json.loads(answer.output)["sha256_matches"] is False
    answer = CliRunner().invoke(verify_command, [str(density), "--json", "--allowed-signers", str(signers)])
    assert answer.exit_code == 6
    assert json.loads(answer.output)["signed_by"] is None


@pytest.fixture(scope="session")
def keys(tmp_path_factory) -> tuple[Path, Path]:
    """An owner's key, and the file of allowed signers with it."""
    folder = tmp_path_factory.mktemp("keys")
    key = new_key(folder / "key")
    signers = folder / "signers"
    signers.write_text(f"owner@example.org {key.with_suffix('.pub').read_text()}")
    return key, signers


def new_key(path: Path, passphrase: str = "") -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def test_hashes_and_signatures_are_compared_and_reported(density, tmp_path, keys):
    digest = check_release(density).manifest_sha256
    assert check_release(density, sha256=f" {digest.upper()}\n").problems == ()
    for wrong in ("", "abc", digest[:-1], digest + "0", "g" * 64):
        with pytest.raises(PlanError, match="hash-malformed"):
            check_release(density, sha256=wrong)
    key, signers = keys
    digest = check_release(density).manifest_sha256
    (density / SIGNATURE).write_bytes(sign((density / "manifest.json").read_bytes(), key))
    plain = CliRunner().invoke(verify_command, [str(density)])
    assert f"{SIGNATURE} was not checked" in plain.output
    both = ["--sha256", digest, "--allowed-signers", str(signers), "--signer", "owner@example.org"]
    full = CliRunner().invoke(verify_command, [str(density), *both])
    assert full.exit_code == 0
    assert "The hash is the one given" in full.output
    assert "Signed by owner@example.org." in full.output


def test_what_a_signature_must_be(density, tmp_path, keys):
    key, signers = keys
    path, manifest = density / SIGNATURE, (density / "manifest.json").read_bytes()
    with pytest.raises(GuaranteeError, match="not-signed"):
        check_signature(density, signers)
    path.write_bytes(sign(manifest, key))
    assert check_signature(density, signers, "owner@example.org") == "owner@example.org"
    assert check_release(density).problems == ()  # the signature is no file too many
    with pytest.raises(GuaranteeError, match="signature-refused"):
        check_signature(density, signers, "other@example.org")
    stranger = new_key(tmp_path / "stranger")
    path.write_bytes(sign(manifest, stranger))
    with pytest.raises(GuaranteeError, match=r"signature-refused.*not among the allowed signers"):
        check_signature(density, signers)
    other = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", "file"]
    path.write_bytes(subprocess.run(other, input=manifest, capture_output=True, check=True).stdout)
    with pytest.raises(GuaranteeError, match="signature-refused"):
        check_signature(density, signers)  # made for another namespace
    for nonsense in (b"", b"\0\xff" * 9, b"x" * 70_000):
        path.write_bytes(nonsense)
        with pytest.raises(GuaranteeError, match="signature-refused"):
            check_signature(density, signers)
    path.unlink()
    path.symlink_to(tmp_path / "stranger")
    assert check_release(density).problems == (f"{SIGNATURE} is not in the manifest.",)


def test_signing_needs_the_program_and_a_key_that_opens(tmp_path, monkeypatch, keys, density):
    key, _ = keys
    with pytest.raises(PlanError, match="key-missing"):
        sign(b"{}", tmp_path / "none")
    with pytest.raises(PlanError, match="signers-missing"):
        check_signature(density, tmp_path / "none")
    closed = new_key(tmp_path / "closed", passphrase="secret words")
    # in a session of its own there is no terminal to ask at
    code = f"import pathlib, shoal.release.verify as s; s.sign(b'', pathlib.Path({str(closed)!r}))"
    asked = subprocess.run(
        [sys.executable, "-c", code], start_new_session=True, capture_output=True, text=True
    )
    assert "not-signed" in asked.stderr
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OutputError, match="no-ssh-keygen"):
        sign(b"{}", key)


def test_decimals_are_those_of_the_numbers_and_windows_need_not_be_whole_days():
    import numpy as np

    numbers = np.arange(1, 200) / 10
    for decimals, problems in ((0, 1), (1, 0), (2, 1)):
        digits = verify.Decimals(decimals)
        digits.see(numbers)
        assert len(list(digits.problems("x"))) == problems
    few = verify.Decimals(3)
    few.see(np.array([0.5, 0.0]))
    few.see(np.full(10_000, 0.19))  # a flat map: one number, whose last decimal happens to be 0
    assert list(few.problems("x")) == []
    # A trajectory release of six hours was refused as one whose values are out of range.
    public = {"window": {"start": "2026-03-02", "end": "2026-03-02T06:00"}, "time_zone": "Europe/Paris"}
    begin, end = window_of(public)
    assert (begin, end - begin) == (1772406000 * 10**6, 6 * 3600 * 10**6)
