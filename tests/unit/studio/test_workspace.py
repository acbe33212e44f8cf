"""The page reads and writes inside one folder, however a path is spelled."""

import pytest

from shoal.errors import PlanError, ShoalError, SourceError
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
        work.pattern(name)


def test_links_are_followed_before_they_are_judged(work, tmp_path):
    (work.root / "link.csv").symlink_to(tmp_path / "secret.csv")
    (work.root / "folder").symlink_to(tmp_path)
    (work.root / "good.csv").symlink_to(work.root / "events" / "a.csv")
    for name in ("link.csv", "folder", "folder/secret.csv"):
        with pytest.raises(PlanError, match="outside-folder"):
            work.inside(name)
    assert work.inside("good.csv") == work.root / "events" / "a.csv"


def test_every_file_of_a_pattern_or_folder_is_judged(work, tmp_path):
    assert work.pattern("events/*.csv") == str(work.root / "events" / "*.csv")
    (work.root / "events" / "b.csv").symlink_to(tmp_path / "secret.csv")
    for name in ("events/*.csv", "events/[b].csv", "events"):
        with pytest.raises(PlanError, match="outside-folder"):
            work.pattern(name)
    with pytest.raises(PlanError, match="last part"):
        work.pattern("*/a.csv")
    with pytest.raises(SourceError, match="no file fits"):
        work.pattern("events/*.parquet")


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
