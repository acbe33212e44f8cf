"""Private temporary folders: removed at the end, swept after a kill, and never those of somebody else."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shoal.errors import OutputError
from shoal.scratch import PREFIX, Scratch, sweep

NOBODY = 65534
SPILL = """
import os, signal, sys
import numpy as np, pyarrow as pa
from shoal.engine.buckets import UserBuckets

batch = pa.record_batch({"user": pa.array(range(500)), "time_us": pa.array(range(500)),
                         "site": pa.array(np.zeros(500, np.int32))})
buckets = UserBuckets(b"k" * 16, spill_bytes=0)
buckets.add(batch)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_private_removed_and_refused_where_there_is_no_place(tmp_path):
    with Scratch(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "rows").write_text("1,2")
    assert os.listdir(tmp_path) == []
    with pytest.raises(OutputError, match="temp-folder: "):
        Scratch(tmp_path / "nowhere")


def test_events_of_a_killed_process_are_swept_by_the_next_one(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    died = subprocess.run([sys.executable, "-c", SPILL], env=environment)
    assert died.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.stat().st_mode & 0o077 == 0
    assert any(left.iterdir()), "the killed process had spilled events"
    subprocess.run([sys.executable, "-m", "shoal", "--version"], env=environment, check=True)
    assert os.listdir(tmp_path) == []


def test_folders_in_use_links_and_other_names_stay(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("")
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / f"{PREFIX}file").write_text("")
    (tmp_path / "shoal-demo").mkdir()
    (tmp_path / f"{PREFIX}left").mkdir()
    before = set(os.listdir(tmp_path))
    with Scratch(tmp_path) as folder:
        sweep(tmp_path)
        assert set(os.listdir(tmp_path)) == (before - {f"{PREFIX}left"}) | {folder.name}
    assert (tmp_path / "elsewhere" / "mine").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_folders_of_other_accounts_stay(tmp_path):
    theirs = tmp_path / f"{PREFIX}theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    sweep(tmp_path)
    assert theirs.exists()


def test_a_fork_does_not_remove_the_folder_of_its_parent(tmp_path):
    with Scratch(tmp_path) as folder:
        child = os.fork()
        if child == 0:
            from shoal.scratch import remove_all

            remove_all()
            os._exit(0)
        os.waitpid(child, 0)
        assert folder.exists()


STOPPED = """
import os, signal, sys, threading, time
from shoal.cli.main import main
from shoal.scratch import Scratch
import shoal.cli.ledger as ledger
import click

@click.command()
def wait():
    with Scratch() as folder:
        print(folder, flush=True)
        time.sleep(60)

ledger.ledger = wait
sys.argv = ["shoal", "ledger"]
main()
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_that_stop_the_command_clean_up_and_say_what_is_spent(tmp_path, sign):
    run = subprocess.Popen(
        [sys.executable, "-c", STOPPED], env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(sign, signal.SIG_DFL),  # nohup and background jobs ignore some
    )  # fmt: skip
    assert Path(run.stdout.readline().strip()).is_dir()
    run.send_signal(sign)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 128 + sign
    assert "stopped. What was reserved" in err
    assert "Traceback" not in err
    assert os.listdir(tmp_path) == []


def heed_modes():
    """Root may write everything unless it gives that capability up (PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def test_compiled_code_is_cached_privately_where_neither_package_nor_home_can_be_written(tmp_path):
    """A read-only installation: the package is a copy that nobody can write, neither can the home."""
    package = tmp_path / "site" / "shoal"
    (package / "engine").mkdir(parents=True)
    source = Path(__file__).parents[2] / "src" / "shoal"
    for name in ("__init__.py", "errors.py", "scratch.py", "engine/__init__.py", "engine/buckets.py"):
        (package / name).write_bytes((source / name).read_bytes())
    home, temp = tmp_path / "home", tmp_path / "temp"
    home.mkdir()
    temp.mkdir()
    for folder in (package / "engine", package, home):
        folder.chmod(0o555)
    code = textwrap.dedent("""
        import os, shoal
        from shoal.engine import buckets
        print(os.environ["NUMBA_CACHE_DIR"], os.stat(os.environ["NUMBA_CACHE_DIR"]).st_mode & 0o777)
    """)
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(package.parent), "TMPDIR": str(temp),
        "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd="/",
        preexec_fn=heed_modes,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    folder, mode = said.stdout.split()
    assert (Path(folder).parent, int(mode)) == (temp, 0o700)
