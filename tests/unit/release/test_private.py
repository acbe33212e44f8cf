"""Files of the owner: what another account prepared under their names is never written to.
Text of the owner's in public files acts on nothing: no formula, no markup, no heading.
Tampered metadata of published files is refused with a clear error, never an internal one.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.loops import for_each

import shoal
from shoal.attacks.runs.findings import write_findings
from shoal.errors import OutputError, SourceError
from shoal.kinds.density.published import read_density, write_density
from shoal.kinds.density.report import write_exact
from shoal.kinds.owner import open_owner_folder, write_figures
from shoal.kinds.trajectories.blocks import _save_block as save_block
from shoal.kinds.trajectories.blocks import _save_windows as save_state
from shoal.kinds.trajectories.build import write_private
from shoal.kinds.trajectories.published import write_key
from shoal.release.histogram_files import read_histogram
from shoal.release.page.page import write_page
from shoal.release.readme import as_plain
from shoal.release.staging import private_file
from shoal.release.trip_files import TripColumns, read_synthetic
from shoal.space.clock import Clock
from shoal.space.places import Zones
from shoal.stages.noisy import DensityEstimate
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


def test_formulas_in_ids_are_text_in_csv_and_themselves_in_parquet(tmp_path):
    ids = ("=1+1", "+a", "-b", "@c", "plain", "a=b")
    zones = Zones(ids=ids, names=ids, geometry=np.array([shapely.box(k, 0, k + 1, 1) for k in range(6)]))
    clock = Clock(start="2026-03-02", end="2026-03-03", time_zone="UTC", slot_minutes=720)
    people = np.full((6, 2), -0.5)
    write_density(tmp_path, DensityEstimate(people=people, low=people, high=people), zones, clock)
    with open(tmp_path / "density.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["zone"] for row in rows[::2]] == ["'=1+1", "'+a", "'-b", "'@c", "plain", "a=b"]
    assert {row["people"] for row in rows} == {"-0.5"}  # numbers stay numbers
    assert pq.read_table(tmp_path / "density.parquet")["zone"].to_pylist()[::2] == list(ids)
    assert read_density(tmp_path, 6, 2).people.shape == (6, 2)


@for_each(
    ("text", "shown"),
    [
        ("paris-2026", "paris-2026"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("[a](http://b)", "\\[a\\](http://b)"),
        ("a\n# b", "a \\# b"),
        ("`a` | *b*", "\\`a\\` \\| \\*b\\*"),
    ],
)
def test_markup_is_escaped(text, shown):
    assert as_plain(text) == shown


def test_columns_named_like_formulas_and_other_tables_are_not_taken(tmp_path):
    assert TripColumns.like({"user": "=cmd"}, planar=False).user == "user"
    assert TripColumns.like({"user": "imsi"}, planar=False).user == "imsi"
    from shoal.errors import SourceError

    (tmp_path / "density.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(SourceError, match="not-a-density"):
        read_density(tmp_path, 6, 2)


RELEASES = Path(__file__).parents[2] / "golden" / "v1" / "releases"
HUGE = 10**30


@pytest.mark.parametrize(
    "change",
    [
        {"columns": HUGE}, {"columns": 1e999}, {"rows": -1}, {"rows": 4096, "columns": 4096}, {"box": None},
        {"box": [0, 0, 1e300, 1e300]}, {"box": [0, 0, 1, HUGE**20]}, {"trips": None}, {"trips": "many"},
        {"trips": float("nan")}, {"columns": [1]}, {"planar": None, "columns": {}},
    ],
)  # fmt: skip
def test_a_histogram_with_another_description(tmp_path, change):
    table = pq.read_table(RELEASES / "histogram-boxes" / "histogram.parquet")
    about = json.loads(table.schema.metadata[b"shoal.histogram"]) | change
    path = tmp_path / "histogram.parquet"
    pq.write_table(table.replace_schema_metadata({b"shoal.histogram": json.dumps(about)}), path)
    with pytest.raises(SourceError, match="not-a-histogram"):
        read_histogram(path)


@pytest.mark.parametrize("content", [b"[1, 2]", b"\xff", b"[" * 100_000, b"7"])
def test_a_histogram_beside_a_manifest_that_is_none(tmp_path, content):
    (tmp_path / "histogram.parquet").write_bytes(
        (RELEASES / "histogram-boxes" / "histogram.parquet").read_bytes()
    )
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(SourceError, match="not-a-release"):
        read_histogram(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"grid": None},
        {"step_s": "x"},
        {"trips": 1e999},
        {"time": 5},
        {"time": "user"},
        {"grid": {"box": HUGE}},
    ],
)
def test_trips_with_another_description(tmp_path, change):
    table = pq.read_table(RELEASES / "synthetic-bridges" / "trips.parquet")
    about = json.loads(table.schema.metadata[b"shoal.synthetic"]) | change
    path = tmp_path / "trips.parquet"
    pq.write_table(table.replace_schema_metadata({b"shoal.synthetic": json.dumps(about)}), path)
    with pytest.raises(SourceError, match="not-synthetic"):
        list(read_synthetic(path).batches())
