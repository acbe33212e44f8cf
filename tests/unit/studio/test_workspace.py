"""The page reads and writes inside one folder, however a path is spelled.
What a stopped run left behind, by the ledger and the folders.
"""

import os

import pytest

from shoal.errors import OutputError, PlanError, ShoalError, SourceError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import open_ledger
from shoal.studio.worker import aftermath
from shoal.studio.workspace import Workspace, checked_name, read_json, write_json


@pytest.fixture
def work(tmp_path):
    (tmp_path / "secret.csv").write_text("user\n1\n")
    inside = Workspace.at(tmp_path / "work")
    (inside.root / "events").mkdir()
    (inside.root / "events" / "a.csv").write_text("user\n1\n")
    return inside


@pytest.mark.parametrize(
    "name",
    [
        "../secret.csv",
        "events/../../secret.csv",
        "/etc/passwd",
        "events/../../../../../../etc/passwd",
        "..",
        "a\0b",
        "x" * 2000,
    ],
)
def test_paths_that_lead_out_are_refused(work, name):
    with pytest.raises(PlanError, match="outside-folder"):
        work.inside(name)
    with pytest.raises(PlanError, match="outside-folder"):
        work.files(name)


def test_links_and_files_called_like_patterns_are_judged(work, tmp_path):
    (work.root / "link.csv").symlink_to(tmp_path / "secret.csv")
    (work.root / "folder").symlink_to(tmp_path)
    (work.root / "good.csv").symlink_to(work.root / "events" / "a.csv")
    for name in ("link.csv", "folder", "folder/secret.csv"):
        with pytest.raises(PlanError, match="outside-folder"):
            work.inside(name)
    assert work.inside("good.csv") == work.root / "events" / "a.csv"
    (work.root / "a1.csv").write_text("user\n1\n")
    (work.root / "a[1].csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(PlanError, match="outside-folder"):
        work.files("a[1].csv")
    (work.root / "zones.shp").write_text("")
    assert work.inside("zones.shp")
    (work.root / "zones.dbf").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(PlanError, match="outside-folder"):
        work.inside("zones.shp")
    for name in ("studio", "studio/runs"):
        with pytest.raises(PlanError, match="outside-folder"):
            work.listed(name)


def test_every_file_of_a_pattern_or_folder_is_judged_and_named(work, tmp_path):
    inside = str(work.root / "events" / "a.csv")
    for name in ("events/*.csv", "events", "events/a.csv", "events/[a].csv"):
        assert work.files(name) == [inside]
    (work.root / "events" / "b.csv").symlink_to(tmp_path / "secret.csv")
    for name in ("events/*.csv", "events/[b].csv", "events"):
        with pytest.raises(PlanError, match="outside-folder"):
            work.files(name)
    for name in ("*/a.csv", "events/**", "**/a.csv"):
        with pytest.raises(PlanError, match="last part"):
            work.files(name)
    with pytest.raises(SourceError, match="no file fits"):
        work.files("events/*.parquet")


def test_one_page_per_folder_and_a_folder_that_cannot_be_made_is_said(work, tmp_path):
    handle = work.lock()
    with pytest.raises(OutputError, match="folder-busy"):
        work.lock()
    os.close(handle)
    os.close(work.lock())
    (tmp_path / "file").write_text("")
    with pytest.raises(ShoalError, match="studio-folder"):
        Workspace.at(tmp_path / "file")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", ".hidden", "a..b", "x" * 65, "a\n", "é"])
def test_names_of_folders_lead_nowhere_else(work, name):
    with pytest.raises(PlanError, match="folder-name"):
        work.release(name)
    with pytest.raises(PlanError, match="folder-name"):
        checked_name(name)


def test_places_to_write_and_listings_do_not_lead_out(work, tmp_path):
    (work.root / ".hidden").write_text("")
    (work.root / "out").symlink_to(tmp_path)
    names = {each["name"] for each in work.listed("")}
    assert names == {"events", "owner"}
    assert work.listed("events")[0]["path"] == "events/a.csv"
    (work.root / "public").symlink_to(tmp_path)
    with pytest.raises(PlanError, match="outside-folder"):
        work.public("week-1")
    for folder in (work.state, work.runs, work.sources, work.owner_folder):
        assert folder.stat().st_mode & 0o777 == 0o700
    write_json(work.state / "a.json", {"a": 1})
    assert (work.state / "a.json").stat().st_mode & 0o777 == 0o600
    assert read_json(work.state / "a.json") == {"a": 1}


@pytest.fixture
def ledger(tmp_path):
    book = open_ledger(tmp_path / "ledger.sqlite")
    book.create("town", currency="rho", limit_nano=10**9)
    return book


def test_before_the_reserve_and_for_a_listing_nothing_is_spent(ledger, tmp_path):
    for population in ("town", "nobody"):
        told = aftermath(ledger, population, "0" * 16, tmp_path / "release")
        assert (told.spent, told.released) == ("", False)
        assert "nothing was spent" in told.words
    out = tmp_path / "records"
    ledger.list_release("town", "key", "trajectories", "0" * 64, str(out), reservation="a" * 16)
    told = aftermath(ledger, "town", "a" * 16, out)
    assert told.spent == ""
    assert "recorded" in told.words


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
