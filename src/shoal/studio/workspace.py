"""The one folder that the page may read and write, and where things lie in it.

ROOT/                 the allowed folder: sources, zones and sites are found here, and nowhere else
  cities/             simulated cities
  releases/NAME/      releases, as a recipient would get them
  owner/NAME/         what the owner alone may see of a release: report, raw counts, attacks
  public/NAME/        checked copies, to be handed out
  studio/             sources that were registered, runs and their logs; readable by the owner alone
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import OutputError, PlanError, SourceError

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
        return self.root / "cities" / checked_name(name)

    def release(self, name: str) -> Path:
        return self.root / "releases" / checked_name(name)

    def owner(self, name: str) -> Path:
        return self.owner_folder / checked_name(name)

    def public(self, name: str) -> Path:
        return self.root / "public" / checked_name(name)

    def holds(self, path: Path) -> bool:
        """Whether a path, links resolved, lies in the folder."""
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):
            return False

    def inside(self, name: str) -> Path:
        """A path of the folder that exists; links are followed first, and must not lead out of it."""
        path = self._spelled(name)
        if not self.holds(path):
            raise _outside()
        if not path.exists():
            raise SourceError(
                "no-such-file", "there is no such file or folder.", "Choose one that is listed."
            )
        return path.resolve()

    def pattern(self, name: str) -> str:
        """A file, a folder, or a pattern of files; every file it names lies in the folder."""
        if not GLOB.search(name):
            path = self.inside(name)
            self._check_all(path.rglob("*") if path.is_dir() else [path])
            return str(path)
        parent, _, last = name.rpartition("/")
        if GLOB.search(parent):
            raise PlanError(
                "pattern", "a pattern may stand in the last part of a path only.", "Write events/*.parquet."
            )
        folder = self.inside(parent or ".")
        try:
            found = list(folder.glob(last))
        except (ValueError, NotImplementedError):
            raise PlanError("pattern", "the pattern cannot be read.", "Write events/*.parquet.") from None
        if not found:
            raise SourceError("no-such-file", "no file fits the pattern.", "Choose one that is listed.")
        self._check_all(found)
        return str(folder / last)

    def relative(self, path: str | Path) -> str:
        """As it is shown and asked for: from the folder on."""
        path = Path(path)
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def listed(self, under: str) -> list[dict[str, Any]]:
        """Files and folders of one folder, hidden ones and the page's own state left out."""
        folder = self.inside(under or ".")
        if not folder.is_dir():
            raise SourceError("no-such-file", "this is not a folder.", "Choose one that is listed.")
        found = []
        for path in sorted(folder.iterdir(), key=lambda each: (not each.is_dir(), each.name)):
            if path.name.startswith(".") or path == self.state or not self.holds(path):
                continue
            try:
                size = None if path.is_dir() else path.stat().st_size
            except OSError:
                continue
            found.append(
                {"path": self.relative(path), "name": path.name, "folder": size is None, "bytes": size}
            )
        return found[:MOST_LISTED]

    def _spelled(self, name: str) -> Path:
        if "\0" in name or len(name) > 1000 or Path(name).is_absolute():
            raise _outside()
        return self.root / name

    def _check_all(self, paths: Iterable[Path]) -> None:
        if not all(self.holds(path) for path in paths):
            raise _outside()


def checked_name(name: str) -> str:
    """A name for a folder: letters, digits, dots and dashes, so that it can lead nowhere else."""
    if not NAME.fullmatch(name) or ".." in name:
        raise PlanError(
            "folder-name",
            "a name has 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first.",
            "Use town-week-1, say.",
        )
    return name


def write_json(path: Path, value: Any) -> None:
    """All or nothing, readable by the owner alone."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".draft")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


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
