"""Files of the owner: what another account prepared under their names is never written to."""

import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.attacks.runs.findings import write_findings
from shoal.errors import OutputError
from shoal.kinds.density.report import write_exact
from shoal.kinds.run import open_owner_folder, write_figures
from shoal.kinds.trajectories.blocks import _save_block as save_block
from shoal.kinds.trajectories.blocks import _save_windows as save_state
from shoal.kinds.trajectories.build import write_private
from shoal.kinds.trajectories.published import write_key
from shoal.release.page.page import write_page
from shoal.release.staging import private_file
from shoal.stages.trajectories import Boxes
from shoal.studio.workspace import write_json

SOURCE = Path(shoal.__file__).parent


def state():
    carries, retained = np.zeros((2, 1), np.int32), np.zeros((1, 2), bool)
    return SimpleNamespace(done=1, n=0, reused=0, carries=carries, retained=retained)


def boxes():
    return Boxes.of(*(np.zeros(1, np.int32) for _ in range(7)), records=1)


# name of the file, and what writes raw figures there
WRITERS = {
    "exact.parquet": lambda path: write_exact(path, np.ones((2, 2))),
    "utility.json": lambda path: write_figures(path.with_name("report.html"), {"mre": 0.5}),
    "report.html": lambda path: write_page(path, "<p>7 people</p>"),
    "verification.json": lambda path: write_private(path, {"users": 7}),
    "unicity.json": lambda path: write_findings(path.parent, "unicity", {"users": 7}),
    "unicity.parquet": lambda path: write_findings(path.parent, "unicity", {}, {"user": [1]}),
    "record_key.parquet": lambda path: write_key(
        path, pa.array(["ann"]), np.array([3]), records_sha256="0" * 64
    ),
    "00000001.npz": lambda path: save_state(state(), path.parent, 0, 2),
    "block.npz": lambda path: save_block(path, boxes(), 0),
    "told.json": lambda path: write_json(path, {"users": 7}),
}


@pytest.fixture
def owner(tmp_path):
    folder = tmp_path / "owner"
    folder.mkdir(mode=0o700)
    return folder


@pytest.mark.parametrize("name", WRITERS)
def test_a_planted_link_is_replaced_and_its_target_stays_as_it_was(owner, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (owner / name).symlink_to(elsewhere)
    WRITERS[name](owner / name)
    assert elsewhere.read_text() == "mine"
    assert not (owner / name).is_symlink()
    assert (owner / name).stat().st_size > 0


@pytest.mark.parametrize("name", WRITERS)
def test_a_planted_file_keeps_nothing_of_its_mode_or_of_a_reader_who_holds_it_open(owner, name):
    (owner / name).touch()
    (owner / name).chmod(0o666)
    with open(owner / name, "rb") as reader:
        WRITERS[name](owner / name)
        assert reader.read() == b""  # the prepared file is another one
    assert stat.S_IMODE((owner / name).stat().st_mode) == 0o600


def test_a_failed_write_leaves_the_old_file_and_no_draft(owner):
    (owner / "utility.json").write_text("old")
    with pytest.raises(UnicodeEncodeError), private_file(owner / "utility.json", text=True) as file:
        file.write("half \ud800")
    assert [path.name for path in owner.iterdir()] == ["utility.json"]
    assert (owner / "utility.json").read_text() == "old"


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_refused(owner, mode):
    owner.chmod(mode)
    for refusing in (lambda: open_owner_folder(owner), lambda: write_findings(owner, "unicity", {})):
        with pytest.raises(OutputError, match=r"owner-folder-open(.|\n)*chmod go-w"):
            refusing()
    assert list(owner.iterdir()) == []


def test_folders_of_others_are_refused_and_own_ones_private_whatever_the_umask(tmp_path, owner, monkeypatch):
    before = os.umask(0o002)
    try:
        folder = open_owner_folder(tmp_path / "own" / "attack")
        open_owner_folder(tmp_path / "own")  # made on the way, so it must be as private
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: owner.stat().st_uid + 1)
    with pytest.raises(OutputError, match="owner-folder-foreign"):
        open_owner_folder(owner)


def test_only_files_with_a_name_of_their_own_are_opened_for_creation():
    """O_CREAT keeps the mode and owner of a file that exists; O_EXCL, or an empty lock, is safe."""
    found = {
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if "O_CREAT" in line and not re.search(r"O_EXCL|\.lock", line)
    }
    assert found == set()
