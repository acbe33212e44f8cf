"""Private temporary folders for events on their way; those of killed processes are removed at the next start.

A folder is 0700 and its process holds a lock on it. A folder of ours that nobody holds was left by a process
that was killed: `sweep` removes it. Folders of other accounts, and with other names, are never touched.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from shoal.errors import OutputError

PREFIX = "shoal-scratch-"
_held: set[Scratch] = set()
_swept: set[str] = set()


class Scratch:
    """A private folder under `parent` (the system's temporary folder); use it in a `with`, or `remove` it."""

    path: Path

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        try:
            folder = os.path.abspath(parent or tempfile.gettempdir())
            if folder not in _swept:
                _swept.add(folder)
                sweep(folder)
            self.path, self._lock = _make(folder)
        except OSError as error:
            raise OutputError(
                "temp-folder",
                f"no private folder can be made for events on their way ({error.strerror or 'no space'}).",
                "Free some space, or point TMPDIR at another disk.",
            ) from error
        self._process = os.getpid()
        _held.add(self)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Once, and only in the process that made it: a fork has a copy of this object."""
        if self in _held and self._process == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
        _held.discard(self)


def sweep(parent: str | os.PathLike[str] | None = None) -> None:
    """Remove the folders of this account that no process holds."""
    try:
        entries = list(os.scandir(parent or tempfile.gettempdir()))
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(PREFIX):
            _sweep(entry.path)


def compiled_cache() -> None:
    """Give compiled code a private folder where neither the package nor the home can be written."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    while not os.path.exists(home) and home != os.path.dirname(home):
        home = os.path.dirname(home)
    if "NUMBA_CACHE_DIR" in os.environ or os.access(home, os.W_OK | os.X_OK):
        return
    try:
        folder = os.path.join(tempfile.gettempdir(), f"shoal-compiled-{os.geteuid()}")
        if not os.path.lexists(folder):
            os.mkdir(folder, 0o700)
        # Cached code is run: a folder that somebody else prepared is not used.
        about = os.lstat(folder)
        private = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077
        os.environ["NUMBA_CACHE_DIR"] = folder if private else str(Scratch().path)
    except (OSError, OutputError):
        return


def _make(parent: str) -> tuple[Path, int]:
    while True:
        path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        lock = -1
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock), os.lstat(path)):
                return Path(path), lock
        except FileNotFoundError:  # swept by another process before we held it
            pass
        if lock >= 0:
            os.close(lock)


def _sweep(path: str) -> None:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # in use
        pass
    finally:
        os.close(lock)


@atexit.register
def remove_all() -> None:
    """Everything this process still holds; at its end."""
    for each in list(_held):
        each.remove()
