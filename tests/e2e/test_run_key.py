"""What enters the key of a run: settings as the plan writes them, and nothing of the files of events."""

import builtins
import glob
import io
import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.record import world as golden_world

from shoal.auditing.end_to_end.driver import prepared_of
from shoal.auditing.end_to_end.rules import METHODS, WORLDS
from shoal.events.schema import SourcePlan
from shoal.kinds.keys import run_name, source_parts
from shoal.privacy.ledger import open_ledger


@pytest.fixture
def world(tmp_path, monkeypatch):
    """The simulated city of the golden releases, with a new ledger."""
    golden_world(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path


def add_user(path):
    table = pq.read_table(path)
    more = table.slice(0, 3).set_column(0, "user", pa.array([10_000] * 3, pa.int64()))
    pq.write_table(pa.concat_tables([table, more]), path)


def test_a_new_run_id_makes_a_new_release_that_names_the_one_it_replaces(world, command):
    _run(command, "density", "run", "--plan", "plans/density-gaussian.toml")
    add_user(world / "events.parquet")
    said = _run(command, "density", "run", "--plan", "plans/density-gaussian.toml")
    assert "The files changed since this release was made" in said
    old = open_ledger().releases()[0][1].manifest_sha256
    assert f"--supersedes {old}" in said
    flags = ("--run-id", "2", "--supersedes", old, "--out", "again", "--owner", "owner-2")
    _run(command, "density", "run", "--plan", "plans/density-gaussian.toml", *flags)
    assert json.loads((world / "again" / "manifest.json").read_text())["supersedes"] == old
    assert open_ledger().releases()[1][1].supersedes == old
    new = open_ledger().releases()[1][1].manifest_sha256
    published = _run(command, "publish", "releases/density-gaussian", "public")
    assert f"release {new} replaces this one" in published
    code, _, error = command("density", "run", "--plan", "plans/density-gaussian.toml", "--supersedes", "x")
    assert (code != 0, "plan-supersedes" in error) == (True, True)


def test_paths_of_a_plan_enter_as_it_writes_them(world, command, monkeypatch):
    """The plan read from another folder is the same run; another path by a flag is another."""
    _run(command, "density", "run", "--plan", "plans/density-gaussian.toml")
    monkeypatch.chdir(world / "plans")
    made = json.loads(_run(command, "density", "run", "--plan", "density-gaussian.toml", "--json"))
    assert made["reused"]
    shutil.copy(world / "events.parquet", world / "other.parquet")
    more = ("--out", "o", "--owner", "p", "--json")
    made = json.loads(
        _run(command, "density", "run", "../other.parquet", "--plan", "density-gaussian.toml", *more)
    )
    assert not made["reused"]


def _run(command, *arguments):
    code, out, error = command(*arguments)
    assert code == 0, error
    return out


def test_a_scale_that_is_stated_is_another_run_than_one_that_is_guessed():
    """Without a scale, columns such as lon_e6 have one guessed for them."""
    guessed, stated = (source_parts(SourcePlan(paths=("a.csv",), coordinate_scale=s)) for s in (None, 1.0))
    assert guessed != stated


TOUCHES = {
    os: ("stat", "lstat", "scandir", "listdir", "open", "access"),
    glob: ("glob", "iglob"),
    builtins: ("open",),
    io: ("open",),
}


@pytest.fixture
def untouched(monkeypatch):
    """untouched(folder, compute): what `compute` returns; fails where it touches a file below the folder."""

    def watch(true, folder):
        def watching(*arguments, **more):
            path = (
                os.fspath(arguments[0])
                if arguments and hasattr(arguments[0], "__fspath__")
                else arguments[:1]
            )
            assert str(folder) not in str(path), f"{true.__name__} of {path}"
            return true(*arguments, **more)

        return watching

    def compute_untouched(folder, compute):
        with monkeypatch.context() as patched:
            for module, names in TOUCHES.items():
                for name in names:
                    patched.setattr(module, name, watch(getattr(module, name), folder))
            return compute()

    return compute_untouched


@pytest.mark.parametrize("pattern", ["*.csv", "?.csv", "", "a.csv"])
def test_the_key_of_a_source_touches_no_file(pattern, tmp_path, untouched):
    source = SourcePlan(paths=(str(tmp_path / pattern),))
    keys = set()
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.csv").write_text(f"user,time\n{name},2026-01-01T00:00:00Z\n")
        keys.add(untouched(tmp_path, lambda: run_name("density", source, 1)))
    assert len(keys) == 1
    with pytest.raises(AssertionError, match=r"scandir|glob"):
        untouched(tmp_path, lambda: len(glob.glob(str(tmp_path / "*"))))


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("number", [3, 5], ids=["glob", "folder"])
def test_a_file_per_user_does_not_change_the_key(kind, number, tmp_path, untouched):
    """Whether a run returns a stored release must not depend on who is among the files."""
    world = WORLDS[kind](kind, METHODS[kind][0], number, 1)
    keys = set()
    for rows in (world.table, world.larger(), world.far):
        settings = world.write(rows, tmp_path)
        assert len(list((tmp_path / "events").iterdir())) == len({row[0] for row in rows})
        prepared = prepared_of(kind, {**settings, "population": "town"})
        keys.add(untouched(tmp_path / "events", prepared.key))
    assert len(keys) == 1
