"""The effects of a program on a folder, from its system calls: names, writes, renames, removals and syncs.

`python -m tests.fuzz.trace` records the fixture anew; needs strace.
"""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).parent / "release.trace.json.gz"
FIXED_ROOT = Path(
    "/dev/shm/shoal-powercut"
)  # of the fixture: rows of the ledger hold the folders of releases
CALLS = (
    "open,openat,creat,close,write,pwrite64,lseek,ftruncate,fsync,fdatasync,rename,renameat,renameat2,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir"
)
Effect = list[Any]


def record(root: Path) -> list[Effect]:
    """Run the small release in an empty folder under strace; its effects, in order."""
    marks, log = root.with_name(root.name + ".marks"), root.with_name(root.name + ".strace")
    for old in (marks, log):
        old.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o700)
    strace = ["strace", "-f", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(log)]
    program = [sys.executable, "-m", "tests.fuzz.small_release", str(root), str(marks)]
    try:
        here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        subprocess.run([*strace, *program], check=True, capture_output=True, env=here)
        return _Model(root, marks).read(log.read_text("ascii"))
    finally:
        for path in (marks, log):
            path.unlink(missing_ok=True)
        shutil.rmtree(root)


def fixture() -> list[Effect]:
    return json.loads(gzip.decompress(FIXTURE.read_bytes()))


class _Model:
    """Follows file descriptors and folders. Effects name files and folders by number; 0 is the root.

    link FOLDER NAME FILE KIND, unlink FOLDER NAME, rename FOLDER NAME FOLDER NAME, write FILE OFFSET BYTES,
    size FILE BYTES, sync FILE-OR-FOLDER, mark TEXT
    """

    def __init__(self, root: Path, marks: Path) -> None:
        self.root, self.marks = str(root), str(marks)
        self.folders: dict[int, dict[str, int]] = {0: {}}
        self.sizes: dict[int, int] = {}
        self.open: dict[
            int, tuple[int | str, int, str]
        ] = {}  # by descriptor: file (or "marks"), offset, path
        self.last = 0
        self.effects: list[Effect] = []

    def read(self, log: str) -> list[Effect]:
        for line in log.splitlines():
            found = re.match(r"\d+\s+(\w+)\((.*)\)\s+= (-?\d+)", line)
            if found and int(found[3]) >= 0:
                self._call(found[1], found[2].split(", "), int(found[3]))
        return self.effects

    def _call(self, name: str, given: list[str], result: int) -> None:
        if name in ("open", "openat", "creat"):
            self._open(name, given, result)
        elif name == "close":
            self.open.pop(int(given[0]), None)
        elif name in ("rename", "renameat", "renameat2"):
            old, new = (given[0:1], given[1:2]) if name == "rename" else (given[0:2], given[2:4])
            self._rename(self._at(self._path(old)), self._at(self._path(new)))
        elif name in ("unlink", "unlinkat", "rmdir"):
            self._unlink(self._at(self._path(given[:2] if name == "unlinkat" else given[:1])))
        elif name in ("mkdir", "mkdirat"):
            self._link(self._at(self._path(given[:2] if name == "mkdirat" else given[:1])), "folder")
        elif int(given[0]) in self.open:
            self._through(name, int(given[0]), given[1:], result)

    def _through(self, name: str, handle: int, given: list[str], result: int) -> None:
        file, offset, path = self.open[handle]
        if name == "lseek":
            self.open[handle] = (file, result, path)
        elif file == "marks":
            self.effects.append(["mark", _text(given[0]).strip()])
        elif name in ("fsync", "fdatasync"):
            self.effects.append(["sync", file])
        elif name == "ftruncate":
            self.effects.append(["size", file, int(given[0])])
            self.sizes[int(file)] = int(given[0])
        else:
            at = int(given[2]) if name == "pwrite64" else offset
            content = _bytes(given[0])[:result]
            if content:
                self.effects.append(["write", file, at, base64.b64encode(content).decode()])
            self.sizes[int(file)] = max(self.sizes.get(int(file), 0), at + len(content))
            if name == "write":
                self.open[handle] = (file, at + len(content), path)

    def _open(self, name: str, given: list[str], handle: int) -> None:
        path = self._path(given[:2] if name == "openat" else given[:1])
        flags = "O_CREAT|O_TRUNC" if name == "creat" else given[2 if name == "openat" else 1]
        if path == self.marks:
            self.open[handle] = ("marks", 0, path)
            return
        place = self._at(path)
        if place is None:
            if path == self.root:
                self.open[handle] = (0, 0, path)
            return
        file = self.folders[place[0]].get(place[1])
        if file is None:
            if "O_CREAT" not in flags:
                return
            file = self._link(place, "file")
        elif "O_TRUNC" in flags and self.sizes.get(file):
            self.effects.append(["size", file, 0])
            self.sizes[file] = 0
        self.open[handle] = (file, self.sizes.get(file, 0) if "O_APPEND" in flags else 0, path)

    def _path(self, given: list[str]) -> str:
        """An absolute path, from a path or from a folder's descriptor and a path."""
        path = _text(given[-1])
        if path.startswith("/") or len(given) == 1 or not given[0].isdigit():
            return path
        return os.path.join(self.open.get(int(given[0]), (0, 0, ""))[2], path)

    def _at(self, path: str) -> tuple[int, str] | None:
        """The folder's number and the name in it; None outside of the root."""
        if not path.startswith(self.root + "/"):
            return None
        *folders, name = path[len(self.root) + 1 :].split("/")
        number = 0
        for each in folders:
            if each not in self.folders.get(number, {}):
                return None
            number = self.folders[number][each]
        return number, name

    def _link(self, place: tuple[int, str] | None, kind: str) -> int:
        self.last += 1
        if place is not None:
            self.folders[place[0]][place[1]] = self.last
            if kind == "folder":
                self.folders[self.last] = {}
            self.effects.append(["link", *place, self.last, kind])
        return self.last

    def _unlink(self, place: tuple[int, str] | None) -> None:
        if place is not None:
            del self.folders[place[0]][place[1]]
            self.effects.append(["unlink", *place])

    def _rename(self, old: tuple[int, str] | None, new: tuple[int, str] | None) -> None:
        if old is not None and new is not None:
            self.folders[new[0]][new[1]] = self.folders[old[0]].pop(old[1])
            self.effects.append(["rename", *old, *new])


def _bytes(quoted: str) -> bytes:
    assert quoted.startswith('"'), quoted
    return bytes.fromhex(quoted.strip('"').replace("\\x", ""))


def _text(quoted: str) -> str:
    return _bytes(quoted).decode()


if __name__ == "__main__":
    made = record(FIXED_ROOT)
    FIXTURE.write_bytes(gzip.compress(json.dumps(made, separators=(",", ":")).encode(), mtime=0))
    print(f"{len(made)} effects, {FIXTURE.stat().st_size:,} bytes")
