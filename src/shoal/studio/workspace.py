"""The one folder that the page may read and write, and where things lie in it.

ROOT/                 the allowed folder: sources, zones and sites are found here, and nowhere else
  cities/             simulated cities
  releases/NAME/      releases, as a recipient would get them
  owner/NAME/         what the owner alone may see of a release: report, raw counts, attacks
  public/NAME/        checked copies, to be handed out
  studio/             sources that were registered, runs and their logs; readable by the owner alone
"""

from __future__ import annotations

import fcntl
import fnmatch
import glob
import html
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import OutputError, PlanError, SourceError
from shoal.events.files import expand, is_part
from shoal.release.staging import private_file

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_LISTED = 500
GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Workspace:
    """`root` is resolved: nothing outside of it is ever named by a request."""

    root: Path

    @classmethod
    def at(cls, folder: Path) -> Workspace:
        """Make the folder and its private part; says so where that cannot be done."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            work = cls(folder.resolve())
            for private in (work.state, work.runs, work.sources, work.owner_folder):
                private.mkdir(mode=0o700, exist_ok=True)
                private.chmod(0o700)
        except OSError as error:
            raise OutputError(
                "studio-folder",
                f"the folder {folder} cannot be used ({error.strerror}).",
                "Name another with --folder.",
            ) from error
        return work

    def lock(self) -> int:
        """One server per folder: another would take this one's runs for dead. Held until the process ends."""
        handle = os.open(self.state / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise OutputError(
                "folder-busy",
                f"another page is open on {self.root}.",
                "Use that one, end it with Ctrl-C, or name another --folder.",
            ) from None
        return handle

    @property
    def state(self) -> Path:
        return self.root / "studio"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def sources(self) -> Path:
        return self.state / "sources"

    @property
    def owner_folder(self) -> Path:
        return self.root / "owner"

    def city(self, name: str) -> Path:
        return self._place("cities", name)

    def release(self, name: str) -> Path:
        return self._place("releases", name)

    def owner(self, name: str) -> Path:
        return self._place("owner", name)

    def public(self, name: str) -> Path:
        return self._place("public", name)

    def _place(self, folder: str, name: str) -> Path:
        """Where something of that name is written; a link there must not lead out either."""
        path = self.root / folder / checked_name(name)
        if not self.holds(path):
            raise _outside()
        return path

    def holds(self, path: Path) -> bool:
        """Whether a path, links resolved, lies in the folder."""
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):
            return False

    def inside(self, name: str) -> Path:
        """A path of the folder that exists; links are followed first, and must not lead out of it."""
        path = self._spelled(name)
        beside = path.parent.glob(f"{glob.escape(path.stem)}.*") if path.suffix.lower() == ".shp" else ()
        if not all(self.holds(each) and not self._own(each) for each in (path, *beside)):
            raise _outside()
        if not _is_there(path):
            raise SourceError(
                "no-such-file", "there is no such file or folder.", "Choose one that is listed."
            )
        return path.resolve()

    def _own(self, path: Path) -> bool:
        """The page's own state, which no request may name."""
        return path.resolve().is_relative_to(self.state)

    def files(self, name: str) -> list[str]:
        """The files that a file, a folder or a pattern stands for, each inside the folder, links resolved.

        Names come back, never a pattern: what was judged here is what is read.
        """
        path = self._spelled(name)
        if _is_there(path) or not GLOB.search(name):
            paths = [Path(each) for each in expand(str(self.inside(name)))]
        else:
            paths = self._fitting(name)
        if not all(self.holds(each) and not self._own(each) for each in paths):
            raise _outside()
        return [str(each.resolve()) for each in paths]

    def _fitting(self, name: str) -> list[Path]:
        parent, _, last = name.rpartition("/")
        if GLOB.search(parent) or "**" in last:
            raise PlanError(
                "pattern", "a pattern may stand in the last part of a path only.", "Write events/*.parquet."
            )
        folder = self.inside(parent or ".")
        paths = sorted(each for each in folder.iterdir() if fnmatch.fnmatchcase(each.name, last))
        paths = [each for each in paths if is_part(each, folder)]
        if not paths:
            raise SourceError("no-such-file", "no file fits the pattern.", "Choose one that is listed.")
        return paths

    def write_door(self, address: str) -> Path:
        """A page that leads to the address, readable by the owner alone; old ones lead nowhere any more."""
        page = self.state / "open.html"
        with private_file(page, text=True) as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">\n'
            )
        return page

    def relative(self, path: str | Path) -> str:
        """As it is shown and asked for: from the folder on."""
        path = Path(path)
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def listed(self, under: str) -> list[dict[str, Any]]:
        """Files and folders of one folder, hidden ones and the page's own state left out."""
        folder = self.inside(under or ".")
        if not folder.is_dir():
            raise SourceError("no-such-file", "this is not a folder.", "Choose one that is listed.")
        entries = []
        for path in sorted(folder.iterdir(), key=lambda each: (not each.is_dir(), each.name)):
            if path.name.startswith(".") or path == self.state or not self.holds(path):
                continue
            try:
                size = None if path.is_dir() else path.stat().st_size
            except OSError:
                continue
            entries.append(
                {"path": self.relative(path), "name": path.name, "folder": size is None, "bytes": size}
            )
        return entries[:MOST_LISTED]

    def _spelled(self, name: str) -> Path:
        if "\0" in name or len(name) > 1000 or Path(name).is_absolute():
            raise _outside()
        return self.root / name


def checked_name(name: str) -> str:
    """A name for a folder: letters, digits, dots and dashes, so that it can lead nowhere else."""
    if not NAME.fullmatch(name) or ".." in name:
        raise PlanError(
            "folder-name",
            "a name has 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first.",
            "Use town-week-1, say.",
        )
    return name


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


def write_json(path: Path, value: Any) -> None:
    """All or nothing, readable by the owner alone."""
    with private_file(path, text=True) as file:
        json.dump(value, file, indent=1)


def read_json(path: Path) -> Any:
    """None where it is not there, or was damaged."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _outside() -> PlanError:
    return PlanError(
        "outside-folder",
        "the page reads and writes inside its own folder only, and this leads out of it.",
        "Move the files there, or start `shoal studio --folder` where they are.",
    )
