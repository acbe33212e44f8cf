"""A killed run goes on where it was, gives the same boxes, and leaves nothing half-written."""

import json
import os
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow.parquet as pq
import pytest

import shoal.kinds.trajectories.blocks as flow
from shoal.anonymise.kte import Kte
from shoal.kinds.trajectories.blocks import decide
from shoal.stages.trajectories import LatticeSamples

KILLED = """
import os, signal, sys
import shoal.kinds.trajectories.blocks as flow

decide, at = flow.decide, int(sys.argv.pop(1))

def dying(*given, **named):
    for state in decide(*given, **named):
        if state.done >= at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield state

flow.decide = dying
sys.argv[0] = "shoal"
from shoal.cli.main import main
main()
"""


def killed(walks, at):
    """Run until `at` windows are decided, then kill -9."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(at), *walks.arguments()], env=os.environ, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (walks.folder / "release").exists()


def boxes(walks, out):
    key = pq.read_table(walks.folder / "owner" / "record_key.parquet").to_pylist()
    whose = {row["record"]: row["user"] for row in key}
    rows = pq.read_table(walks.folder / out / "records.parquet").to_pylist()
    return sorted((whose[row.pop("record")], *row.values()) for row in rows)


@pytest.fixture
def starts(monkeypatch):
    """How many windows were decided at the first look of each run in this process."""
    seen = []

    def watched(*given, **named):
        first = True
        for state in decide(*given, **named):
            if first:
                seen.append(state.done)
            first = False
            yield state

    monkeypatch.setattr(flow, "decide", watched)
    return seen


@pytest.mark.parametrize(("at", "resumed"), [(30, 24), (3, 1)])
def test_a_killed_run_goes_on(day_of_walks, command, starts, at, resumed):
    walks = day_of_walks
    killed(walks, at)
    (kept,) = (walks.folder / "owner").glob(".trajectories-*")
    assert kept.stat().st_mode & 0o077 == 0
    files = list(kept.rglob("*.npz"))
    assert len(files) == (1 if at > 24 else 0)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    code, out, err = command(*walks.arguments("--json"))
    told = json.loads(out)
    assert (code, err, told["reused"], told["verified"]) == (0, "", False, True)
    assert starts == [resumed]  # 24 windows were kept; else the first one is the first news
    assert not list((walks.folder / "owner").glob(".trajectories-*"))
    assert sorted(path.name for path in walks.folder.glob("*release*")) == ["release"]
    assert not list(walks.folder.glob(".release*"))
    assert command(*walks.verify_arguments("--windows", 0))[0] == 0
    continued = boxes(walks, "release")
    other = walks.arguments(
        "--run-id", "whole", "--out", walks.folder / "whole", "--compose-with", walks.folder / "release"
    )
    assert command(*other)[0] == 0
    assert starts == [resumed, 1]
    assert boxes(walks, "whole") == continued


def population(users=30, steps=120, seed=3):
    rng = np.random.default_rng(seed)
    count = users * 20
    columns = (rng.integers(users, size=count), rng.integers(steps, size=count))
    cells = rng.integers(0, 30, (2, count))
    rows = np.column_stack([*columns, *cells])
    rows = np.vstack([rows, [(user, 0, 1, 1) for user in range(users)]])
    return LatticeSamples.of(*rows.T, users=users, steps=steps)


def whole(anonymiser, samples):
    return list(decide(anonymiser, samples, None))[-1]


def same(state, other):
    assert state.done == other.done == state.windows
    assert state.reused == other.reused
    np.testing.assert_array_equal(state.carries, other.carries)
    np.testing.assert_array_equal(state.retained, other.retained)
    return True


def until(anonymiser, samples, folder, at, per_file):
    """Decide until `at` windows are done, and drop the run there."""
    for state in decide(anonymiser, samples, folder, per_file):
        if state.done >= at:
            return


@pytest.mark.parametrize(
    ("shape", "per_file"), [((2, 10, 10), 3), ((3, 20, 10), 1), ((2, 30, 10), 2), ((2, 20, 10), 50)]
)
def test_resumed_decisions_are_those_of_one_run(tmp_path, shape, per_file):
    k, tau, epoch = shape
    anonymiser, samples = Kte(k=k, tau_steps=tau, epoch_steps=epoch), population()
    expected = whole(anonymiser, samples)
    assert (expected.carries >= 0).any()
    for stop in (1, 5, expected.windows):
        until(anonymiser, samples, tmp_path, stop, per_file)
        state = list(decide(anonymiser, samples, tmp_path, per_file))[-1]
        assert same(state, expected)
        for path in tmp_path.rglob("*.npz"):
            path.unlink()
    for stop in (2, 7):  # one run killed again and again
        until(anonymiser, samples, tmp_path, stop, per_file)
    assert same(list(decide(anonymiser, samples, tmp_path, per_file))[-1], expected)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    held = bytearray(path.read_bytes())
    held[len(held) // 3] ^= 0x40
    path.write_bytes(held)


def scrambled(path):
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))


def other_shape(path):
    with np.load(path) as held:
        parts = dict(held)
    parts["retained"] = parts["retained"][:, :-1]
    np.savez(path, **parts)


def no_members(path):
    with zipfile.ZipFile(path, "w"):
        pass


def beyond(path):
    path.rename(path.with_name("99999999.npz"))


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        flip,
        scrambled,
        other_shape,
        no_members,
        beyond,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("no"),
        lambda path: path.unlink(),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_file_is_decided_again(tmp_path, damage, which):
    anonymiser, samples = Kte(k=2, tau_steps=20, epoch_steps=10), population()
    until(anonymiser, samples, tmp_path, 9, 3)
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) == 3
    damage(files[which])
    states = decide(anonymiser, samples, tmp_path, 3)
    first = next(states)
    assert first.done == (3 * which or 1)  # what stands before the damage is taken
    assert same([first, *states][-1], whole(anonymiser, samples))


def test_other_samples_or_another_plan_do_not_continue_it(tmp_path):
    anonymiser, samples = Kte(k=2, tau_steps=10, epoch_steps=10), population()
    until(anonymiser, samples, tmp_path, 8, 2)
    assert next(decide(anonymiser, samples, tmp_path, 2)).done == 8
    for other, seen in (
        (anonymiser, population(seed=4)),
        (Kte(k=3, tau_steps=10, epoch_steps=10), samples),
        (Kte(k=2, tau_steps=10, epoch_steps=10, forget_steps=50), samples),
    ):
        assert next(decide(other, seen, tmp_path, 2)).done == 1
