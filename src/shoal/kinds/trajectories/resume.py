"""A run of hours continues where it was killed: what is decided is kept in the owner's folder, by windows.

`.trajectories-KEY/` holds one file per block of windows: whom each user carries in them, and the retained
flags of their newest epochs. It names nobody but tells about people, so only its owner may read it, and it is
removed once the release is made. Decisions are a function of samples and plan: going on gives what one run
would have given.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import shoal
from shoal.anonymise.kte import Kte, KteState
from shoal.release.staging import private_file, private_folder, unwritable
from shoal.stages.trajectories import LatticeSamples

WINDOWS_PER_FILE = 24
FORMAT = 1  # of the files, and of the decisions: another one does not go on from these


def decide(
    anonymiser: Kte, samples: LatticeSamples, folder: Path | None, per_file: int = WINDOWS_PER_FILE
) -> Iterator[KteState]:
    """Yields the state after every window, from the first that is not yet kept in `folder`."""
    state = anonymiser.begin(samples)
    if folder is not None:
        folder = folder / _name(anonymiser, samples)
        open_kept(folder)
        _load(state, folder, anonymiser.k)
        if state.done:
            yield state
    kept = state.done
    for window in anonymiser.windows(state):
        if folder is not None and ((window + 1) % per_file == 0 or state.done == state.windows):
            _save(state, folder, kept, anonymiser.k)
            kept = state.done
        yield state


def kept_folder(owner: Path, key: str) -> Path:
    """Where the run of that key keeps what it has decided."""
    return owner / f".trajectories-{key[:12]}"


def kept_block(folder: Path, anonymiser: Kte, samples: LatticeSamples) -> Path:
    """Where the boxes of a block are kept, once it is done."""
    return folder / _name(anonymiser, samples) / "block.npz"


def forget(folder: Path) -> None:
    """The release is in place: what was kept is not needed any more."""
    shutil.rmtree(folder, ignore_errors=True)


def _name(anonymiser: Kte, samples: LatticeSamples) -> str:
    """Of this very input and plan: nothing else may continue it."""
    of = (FORMAT, shoal.__version__, anonymiser, samples.users, samples.steps)
    digest = hashlib.sha256(repr(of).encode())
    for column in (samples.user, samples.t, samples.x, samples.y):
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()[:16]


def open_kept(folder: Path) -> None:
    for each in (folder.parent, folder):
        private_folder(each)


def _save(state: KteState, folder: Path, kept: int, k: int) -> None:
    """Windows kept .. done - 1, whole or not at all."""
    epochs = slice(0 if kept == 0 else kept + state.n, state.done + state.n)
    try:
        with private_file(folder / f"{state.done:08d}.npz") as file:
            np.savez(
                file,
                first=kept,
                reused=state.reused,
                carries=state.carries[:, kept * (k - 1) : state.done * (k - 1)],
                retained=state.retained[epochs],
            )
    except OSError as error:
        raise unwritable(folder, error) from error


def _load(state: KteState, folder: Path, k: int) -> None:
    """Files in order while each begins where the last ended; from a damaged one on, all is done again."""
    for path in sorted(folder.glob("[0-9]*.npz")):
        try:
            with np.load(path) as held:  # every member has a checksum
                first, done = int(held["first"]), int(path.stem)
                carries, retained, reused = held["carries"], held["retained"], int(held["reused"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            break
        users, epochs = state.samples.users, slice(0 if first == 0 else first + state.n, done + state.n)
        fits = first == state.done and first < done <= state.windows
        fits = fits and carries.shape == (users, (done - first) * (k - 1))
        if not fits or retained.shape != (epochs.stop - epochs.start, users):
            break
        state.carries[:, first * (k - 1) : done * (k - 1)] = carries
        state.retained[epochs] = retained
        state.done, state.reused = done, reused
