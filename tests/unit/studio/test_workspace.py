"""The page reads and writes inside one folder, however a path is spelled."""

import os

import pytest

from shoal.errors import OutputError, PlanError, ShoalError, SourceError
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


def test_links_are_followed_before_they_are_judged(work, tmp_path):
    (work.root / "link.csv").symlink_to(tmp_path / "secret.csv")
    (work.root / "folder").symlink_to(tmp_path)
    (work.root / "good.csv").symlink_to(work.root / "events" / "a.csv")
    for name in ("link.csv", "folder", "folder/secret.csv"):
        with pytest.raises(PlanError, match="outside-folder"):
            work.inside(name)
    assert work.inside("good.csv") == work.root / "events" / "a.csv"


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


def test_a_file_called_like_a_pattern_is_itself(work, tmp_path):
    (work.root / "a1.csv").write_text("user\n1\n")
    (work.root / "a[1].csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(PlanError, match="outside-folder"):
        work.files("a[1].csv")


def test_places_to_write_do_not_follow_links_out(work, tmp_path):
    (work.root / "public").symlink_to(tmp_path)
    with pytest.raises(PlanError, match="outside-folder"):
        work.public("week-1")


def test_the_pages_own_state_is_not_named_by_anybody(work):
    for name in ("studio", "studio/runs"):
        with pytest.raises(PlanError, match="outside-folder"):
            work.listed(name)


def test_one_page_per_folder(work):
    handle = work.lock()
    with pytest.raises(OutputError, match="folder-busy"):
        work.lock()
    os.close(handle)
    os.close(work.lock())


def test_a_shapefile_is_judged_with_what_lies_beside_it(work, tmp_path):
    (work.root / "zones.shp").write_text("")
    assert work.inside("zones.shp")
    (work.root / "zones.dbf").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(PlanError, match="outside-folder"):
        work.inside("zones.shp")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", ".hidden", "a..b", "x" * 65, "a\n", "é"])
def test_names_of_folders_lead_nowhere_else(work, name):
    with pytest.raises(PlanError, match="folder-name"):
        work.release(name)
    with pytest.raises(PlanError, match="folder-name"):
        checked_name(name)


def test_what_is_private_is_readable_by_the_owner_alone(work):
    for folder in (work.state, work.runs, work.sources, work.owner_folder):
        assert folder.stat().st_mode & 0o777 == 0o700
    write_json(work.state / "a.json", {"a": 1})
    assert (work.state / "a.json").stat().st_mode & 0o777 == 0o600
    assert read_json(work.state / "a.json") == {"a": 1}


def test_listing_leaves_out_state_hidden_files_and_what_leads_out(work, tmp_path):
    (work.root / ".hidden").write_text("")
    (work.root / "out").symlink_to(tmp_path)
    names = {each["name"] for each in work.listed("")}
    assert names == {"events", "owner"}
    assert work.listed("events")[0]["path"] == "events/a.csv"


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ShoalError, match="studio-folder"):
        Workspace.at(tmp_path / "file")
