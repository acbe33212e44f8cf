"""How the command starts and ends: exit codes reach the shell, the working directory is no module path."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_command_that_exits_with_a_code_says_so_to_the_shell(town, command):
    assert command(*town.arguments())[0] == 0
    release = town.folder / "release"
    assert command("verify", release, "--json")[0] == 0
    (release / "more.txt").write_text("not in the manifest")
    code, out, _ = command("verify", release, "--json")
    assert (code, json.loads(out)["ok"]) == (6, False)
    said = subprocess.run(
        [sys.executable, "-m", "shoal.cli.main", "verify", release, "--json"], capture_output=True
    )
    assert said.returncode == 6


@pytest.fixture
def planted(tmp_path):
    """A working directory with modules that leave a mark when they run."""

    def plant(*names):
        for name in names:
            (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise ImportError\n")

    yield plant
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("start", ["script", "shoal", "shoal.cli.main"])
def test_nothing_is_imported_from_the_working_directory(planted, tmp_path, start):
    planted("click", "numpy", "pyarrow", "duckdb", "shapely", "pyproj")
    (tmp_path / "events.csv").write_text("user,time,lon,lat\n1,2026-03-02T00:00Z,2,48\n")
    script = [Path(sys.executable).with_name("shoal")]
    command = script if start == "script" else [sys.executable, "-m", start]
    said = subprocess.run([*command, "inspect", "events.csv"], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_nor_do_processes_that_the_command_starts(planted, tmp_path):
    """As `audit --jobs` starts them: a spawned interpreter looks for its own modules first."""
    planted("pickle", "numpy", "socket")
    code = """if True:
        import multiprocessing, sys, time
        from shoal.cli.main import main
        sys.argv = ["shoal", "--version"]
        main()
        child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0,))
        child.start()
        child.join()
        sys.exit(child.exitcode)
    """
    said = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
