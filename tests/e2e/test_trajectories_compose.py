"""A further trajectory release of the same people: refused, named, linked, measured, and in its README."""

import json
import shutil

import pytest

from shoal.kinds.trajectories.build import TrajectoriesBuild
from shoal.privacy.ledger import open_ledger
from shoal.release.verify import sha256_file


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


@pytest.fixture
def two(walks, command):
    """The first half of the window is released; and how to run with other flags."""
    walks.flags["--end"] = "2026-03-02T03:00"
    assert command(*walks.arguments())[0] == 0

    def run(name, *more, start="2026-03-02", end="2026-03-02T03:00"):
        walks.flags.update({"--start": start, "--end": end})
        return command(*walks.arguments("--out", walks.folder / name, *more))

    return run


def test_an_overlapping_release_is_refused_unless_it_names_the_earlier_one(walks, command, two):
    """The exploit of the review: k = 2 and k = 3 about the same people, linked without other knowledge."""
    folder = walks.folder
    code, _, err = two("three", "--k", 3)
    assert code == 2
    assert "trajectories-overlap" in err
    assert f"--compose-with {folder / 'release'}" in " ".join(err.split())
    assert not (folder / "three").exists()
    code, out, _ = two("three", "--k", 3, "--dry-run")
    assert "The run would stop:" in out
    assert "--compose-with" in out
    assert two("later", start="2026-03-02T02:30", end="2026-03-02T05:00")[0] == 2  # half an hour in common

    code, out, err = two("three", "--k", 3, "--compose-with", folder / "release")
    assert (code, err) == (0, "")
    assert "The promise of k is replaced by these figures." in out
    manifest = manifest_of(folder / "three")
    found = manifest["read_from_data"]
    (earlier,) = found["earlier_releases"]
    assert earlier["manifest_sha256"] == sha256_file(folder / "release" / "manifest.json")
    assert (earlier["k"], earlier["tau_minutes"], earlier["overlaps"]) == (2, 30, True)
    assert earlier["window"] == {"start": "2026-03-01T23:00:00+00:00", "end": "2026-03-02T02:00:00+00:00"}
    assert 0 <= earlier["records_linked_share"] <= 1  # three samples each, in four places: few are linked
    both = found["with_overlapping_releases"]
    assert both["windows"] > 100
    assert both["fewer_than_k_share"] > 0
    assert str(folder) not in json.dumps(manifest)
    assert "finds at least" not in manifest["promise"]
    for share in (earlier["records_linked_share"], both["fewer_than_k_share"]):
        assert f"{share:.1%}" in manifest["promise"]
    readme = (folder / "three" / "README.md").read_text().split("\n\n")
    assert readme[1] == f"**{manifest['promise']}**"
    assert command("verify", folder / "three")[0] == 0
    assert command("publish", folder / "three", folder / "public")[0] == 0
    both = ("--compose-with", folder / "release", "--compose-with", folder / "three")
    assert two("same", "--k", 3, "--run-id", "b", *both)[0] == 0
    shares = manifest_of(folder / "same")["read_from_data"]["earlier_releases"]
    assert shares[0]["records_linked_share"] == pytest.approx(earlier["records_linked_share"], abs=0.2)
    assert shares[1]["records_linked_share"] > 0.9  # the same boxes under other ids
    again = json.loads(two("elsewhere", "--k", 3, "--json")[1])  # the very release is returned, unnamed
    assert again["reused"]


def test_links_are_scored_by_the_key_of_the_earlier_release(walks, command, two):
    """Both keys are in one owner's folder, where the newer takes the name of the older."""
    assert two("same", "--run-id", "b", "--compose-with", walks.folder / "release")[0] == 0
    (earlier,) = manifest_of(walks.folder / "same")["read_from_data"]["earlier_releases"]
    assert earlier["records_linked_share"] > 0.9  # the same boxes under other ids
    assert len(list((walks.folder / "owner").glob("record_key*.parquet"))) == 2


def test_another_window_is_listed_with_its_measured_rate(walks, command, two):
    code, _, err = two("later", start="2026-03-02T03:00", end="2026-03-02T06:00")
    assert (code, err) == (0, "")
    manifest = manifest_of(walks.folder / "later")
    (earlier,) = manifest["read_from_data"]["earlier_releases"]
    assert earlier["overlaps"] is False
    assert 0 <= earlier["records_linked_share"] <= 1
    assert "finds at least 2 records" in manifest["promise"]
    readme = (walks.folder / "later" / "README.md").read_text()
    assert f"without any other knowledge: {earlier['records_linked_share']:.1%}" in " ".join(readme.split())


def test_a_lost_key_or_folder_is_never_passed_over(walks, command, two, tmp_path):
    folder = walks.folder
    sha256 = sha256_file(folder / "release" / "manifest.json")
    (folder / "owner" / "record_key.parquet").rename(tmp_path / "away")
    code, _, err = two("three", "--k", 3, "--compose-with", folder / "release")
    assert (code, "compose-key" in err) == (2, True)
    shutil.rmtree(folder / "release")
    assert two("three", "--k", 3)[0] == 2
    code, _, err = two("three", "--k", 3, "--compose-with", folder / "release")
    assert (code, "compose-unknown" in err) == (2, True)
    assert two("three", "--k", 3, "--compose-with", sha256)[0] == 0
    manifest = manifest_of(folder / "three")
    assert manifest["read_from_data"]["earlier_releases"][0]["records_linked_share"] is None
    assert "was not measured" in manifest["promise"]


def test_rows_without_a_window_are_read_from_the_manifest_or_overlap(walks, two):
    """As earlier versions wrote them: the window stands in the manifest at their path, if it is there."""
    ledger = open_ledger()
    (listed,) = [note for note in ledger.state().population("town").notes if note["kind"] == "listing"]
    assert listed["window"] == [walks.start, walks.start + 180 * walks.minute]
    ledger.create("old", currency="rho", limit_nano=10**8, delta=1e-6)
    walks.flags["--population"] = "old"
    rows = [(listed["manifest_sha256"], str(walks.folder / "release")), ("0" * 64, "nowhere")]
    ledger.list_release("old", "k", "trajectories", *rows[0], reservation="r")
    later = {"start": "2026-03-02T03:00", "end": "2026-03-02T06:00"}
    assert two("later", **later)[0] == 0  # read from the manifest: no overlap
    ledger.list_release("old", "k2", "trajectories", *rows[1], reservation="r2")
    code, _, err = two("last", "--run-id", "b", start="2026-03-02T04:00", end="2026-03-02T06:00")
    assert (code, "--compose-with " + "0" * 64 in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("earlier", [False, True])
def test_a_release_that_is_made_while_another_is_listed_is_refused(earlier, walks, command, monkeypatch):
    """Each was compared with the releases that were listed before it began, so neither with the other."""
    hours = {"--start": "2026-03-02", "--end": "2026-03-02T03:00"}
    if earlier:  # of another window, so that the list they were compared with is not empty
        walks.flags |= {"--start": "2026-03-02T03:00", "--end": "2026-03-02T06:00"}
        assert command(*walks.arguments("--out", walks.folder / "earlier"))[0] == 0
    walks.flags |= hours
    true_call, codes = TrajectoriesBuild.__call__, []

    def call(self, folder, noise):
        monkeypatch.setattr(TrajectoriesBuild, "__call__", true_call)
        inside = ("--out", walks.folder / "inside", "--k", 3, "--owner", walks.folder / "other owner")
        codes.append(command(*walks.arguments(*inside))[0])
        return true_call(self, folder, noise)

    monkeypatch.setattr(TrajectoriesBuild, "__call__", call)
    code, _, err = command(*walks.arguments())
    assert codes == [0]
    assert code != 0
    assert "listed-meanwhile" in err
    assert (walks.folder / "inside" / "manifest.json").is_file()
    assert not (walks.folder / "release").exists()
    listed = [note["kind"] for note in open_ledger().state().population("town").notes].count("listing")
    assert listed == 1 + earlier


@pytest.mark.exhaustive
@pytest.mark.parametrize("owners", [("owner", "owner"), ("two-owner", "three-owner")])
def test_the_exploit_on_a_simulated_city(command, tmp_path, monkeypatch, owners):
    """k = 2 and k = 3 about the same week: all records are linked, and windows single out one record."""
    monkeypatch.chdir(tmp_path)
    assert command("simulate", "abi", "--users", 600, "--weeks", 1, "--out", "abi")[0] == 0
    open_ledger().create("abi", currency="rho", limit_nano=10**8, delta=1e-6)
    run = ("trajectories", "run", "--plan", "abi/trajectories.toml")
    assert command(*run, "--out", "two", "--owner", owners[0])[0] == 0
    three = ("--k", 3, "--out", "three", "--owner", owners[1], "--compose-with", "two")
    assert command(*run, *three)[0] == 0  # the key is found in the owner's folder that the ledger knows
    found = manifest_of(tmp_path / "three")["read_from_data"]
    assert found["earlier_releases"][0]["records_linked_share"] > 0.95
    assert found["with_overlapping_releases"]["fewer_than_k_share"] > 0.3
    assert found["with_overlapping_releases"]["own_record_alone_share"] > 0.1
