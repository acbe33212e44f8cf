"""A hidden folder beside the release: filled, sealed, then moved into place in one step.

`.NAME.staging-ID` lies on the same file system as NAME, so the move is a rename. Its maker holds a lock
on it while it runs; a folder without a lock was left by a process that died.

Files and folders of the owner hold raw figures, which no other account may read, replace or redirect.

Memory and disk that a run needs are estimated from public numbers and compared with what this machine has.
Events of densities are streamed. Kinds made of trips hold them in memory; their number is private, so the
estimates leave them out.

What can fail for public reasons is done once before the budget is reserved. Public files are written to the
staging folder, where they stay. The noisy ones are written once without data, with the noise of a public seed
and in their full size, and removed: whatever the settings, the map or the disk make impossible stops the run
here, where it costs nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from shoal.errors import REPORT_IT, OutputError, ResourceError, ShoalError
from shoal.privacy.ledger.sqlite import fsync
from shoal.release.manifest import MANIFEST, FileEntry, Manifest, sha256_file, sha256_text


@dataclass(frozen=True)
class Staging:
    """An open staging folder; `handle` keeps the lock."""

    path: Path
    handle: int

    @property
    def reservation(self) -> str:
        """Id in the ledger of the run that fills it."""
        return self.path.name.rpartition("-")[2]

    def seal(self, manifest: Manifest) -> str:
        """Close modes, hash every file, write the manifest last, sync all; returns the manifest's hash."""
        if (self.path / MANIFEST).exists():
            raise OutputError("reserved-name", f"{MANIFEST} is written when the release is sealed.")
        files = {}
        for path in sorted(self.path.rglob("*")):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise OutputError("strange-file", "a release holds only plain files and folders.")
            path.chmod(0o700 if path.is_dir() else 0o600)
            if path.is_file():
                name = path.relative_to(self.path).as_posix()
                files[name] = FileEntry(sha256=sha256_file(path), bytes=path.stat().st_size)
        text = replace(manifest, files=files).to_json()
        handle = os.open(self.path / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        for path in [*self.path.rglob("*"), self.path]:
            fsync(path)
        fsync(self.path.parent)
        return sha256_text(text)

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        os.close(self.handle)


def open_staging(out: Path, name: str) -> Staging:
    """Make and lock the staging folder of `out`; says so if the release could not be written there."""
    refuse_existing(out)
    path = staging_path(out, name)
    try:
        _make_durable(out.parent)
        path.mkdir(mode=0o700)
        path.chmod(0o700)  # whatever the umask
        return Staging(path, _lock(path))
    except OSError as error:
        raise unwritable(out, error) from error


def check_place(out: Path, name: str) -> None:
    """Raise what `open_staging` would raise, by making and removing a folder; leaves nothing behind."""
    refuse_existing(out)
    try:
        above = next(folder for folder in out.parents if os.path.lexists(folder))
        probe = staging_path(above / out.name, name)
        probe.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # another run swept it away
            probe.rmdir()
    except OSError as error:
        raise unwritable(out, error) from error


def refuse_existing(out: Path) -> None:
    refuse_inside_release(out)
    if os.path.lexists(out):
        raise OutputError(
            "folder-exists",
            f"the release folder {out} exists.",
            "Name a new folder, or move the old one away.",
        )


def refuse_inside_release(out: Path) -> None:
    """Nothing may be written into a release: it would no longer be what its manifest says."""
    for folder in Path(os.path.abspath(out)).parents:
        if (folder / MANIFEST).exists():
            raise OutputError(
                "inside-release",
                f"{out} lies inside the release {folder}, which must stay as it is.",
                "Name a folder outside of it.",
            )


def absolute(path: Path) -> Path:
    """One spelling per folder, with links in its parents resolved."""
    path = Path(path)
    if path.name in ("", "..") or "\0" in str(path):
        raise OutputError("folder-name", f"{path} does not name a folder.", "Pass --out release, say.")
    return path.parent.resolve() / path.name


def staging_path(out: Path, name: str) -> Path:
    return out.parent / f".{out.name}.staging-{name}"


def leftovers(out: Path) -> Iterator[Staging]:
    """Staging folders of `out`, each locked; refuses while a live process works on one."""
    # Exactly the names made here: NAME.staging-x may be somebody's own folder, or of a longer NAME.
    staging_name = re.compile(re.escape(staging_path(out, "").name) + r"(publish-)?[0-9a-f]+")
    try:
        folders = [path for path in out.parent.iterdir() if staging_name.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nothing there, or opening the new one will say why
    for path in sorted(folders):
        try:
            yield Staging(path, _lock(path))
        except BlockingIOError:
            raise OutputError(
                "folder-busy", f"another run is writing {out}.", "Wait for it, or name another folder."
            ) from None
        except FileNotFoundError:
            continue  # its owner moved it just now


def move(staging: Path, out: Path) -> None:
    """The staging folder becomes the release, atomically and durably; never over something else."""
    if os.path.lexists(out):
        raise OutputError(
            "folder-exists",
            f"{out} appeared while the release was made; the release waits beside it in {staging.name}.",
            "Move that folder away and run the same command again: it finishes and spends nothing.",
        )
    try:
        os.rename(staging, out)
        fsync(out.parent)
    except OSError as error:
        raise OutputError(
            "not-moved",
            f"the release is committed but could not be moved to {out} ({error.strerror}).",
            "Make the folder writable and run the same command again: it finishes and spends nothing.",
        ) from error


def _make_durable(folder: Path) -> None:
    """Make a folder and its parents, and sync the parent of each new one, or a power cut may lose it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        fsync(each.parent)


def unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(
        "unwritable-folder",
        f"a release cannot be written to {out} ({error.strerror}).",
        "Check the folder, its permissions and the free space.",
    )


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


WRITABLE_BY_OTHERS = 0o022


@contextmanager
def private_file(path: Path, *, text: bool = False) -> Iterator[IO[Any]]:
    """Open a new file (0600) that takes the name `path` once it is complete and on disk.

    Whatever had that name before, a link or a file of another account included, is replaced and never
    written to. An OSError leaves the old file in place.
    """
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".draft")
    try:
        with open(handle, "w" if text else "wb", encoding="utf-8" if text else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        fsync(path.parent)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def private_folder(path: Path) -> Path:
    """Make the folder, missing parents included, for this account alone; refuse one others can write."""
    path = path.resolve()
    try:
        for folder in reversed((path, *path.parents)):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        state = path.stat()
    except OSError as error:
        raise unwritable(path, error) from error
    if state.st_uid != os.geteuid():
        raise OutputError(
            "owner-folder-foreign",
            f"the folder {path} belongs to another account, which could read or replace raw figures in it.",
            "Name a folder of your own, or take this one over with chown.",
        )
    if state.st_mode & WRITABLE_BY_OTHERS:
        raise OutputError(
            "owner-folder-open",
            f"other accounts can write into the folder {path} (mode {state.st_mode & 0o777:o}) and could "
            "replace raw figures in it.",
            f"Run: chmod go-w {path}",
        )
    return path


MEGA, GIGA = 10**6, 10**9
SLACK = 1.1  # a plan is refused where even nine tenths of its estimate do not fit
REMEDY = (
    "Choose fewer zones or cells, longer slots, a shorter window, or for synthetic data a smaller --count; "
    "or use a larger machine."
)
_CGROUPS = (  # limit, in use; version 2 and version 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
_limit_of_runs: int | None = None  # where this process has a smaller limit than the runs it prepares


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Estimated peak memory of a run and size of its release, in bytes; from public numbers alone."""

    memory: int
    disk: int

    def to_plain(self, out: Path) -> dict[str, Any]:
        """The estimates beside what there is, for a dry run."""
        return {**asdict(self), "memory_available": available_memory(), "disk_available": free_disk(out)}


def check_needs(needs: Needs, out: Path) -> None:
    """Refuse a plan that does not fit this machine, before anything is spent."""
    problems = need_problems(needs, out)
    if problems:
        raise ResourceError("machine-too-small", f"{problems[0]} Nothing was spent.", REMEDY)


def need_problems(needs: Needs, out: Path) -> list[str]:
    """One sentence for each resource of which the plan needs more than there is."""
    return [
        f"this plan needs about {show(wanted)} {what}; {show(there)} are available."
        for what, wanted, there in _compared(needs, out)
        if wanted > SLACK * there
    ]


def need_summary(needs: Needs, out: Path) -> str:
    """The estimates beside what is available, in a line for a dry run."""
    return ", ".join(
        f"about {show(wanted)} {what} ({show(there)} available)"
        for what, wanted, there in _compared(needs, out)
    )


def _compared(needs: Needs, out: Path) -> list[tuple[str, int, int]]:
    return [
        ("of memory", needs.memory, available_memory()),
        ("on the disk", needs.disk, free_disk(out)),
    ]


def check_disk(folder: Path, wanted: int) -> None:
    there = free_disk(folder)
    if wanted > there:
        raise ResourceError(
            "disk-full",
            f"the release needs up to {show(wanted)} on the disk; {show(there)} are free. Nothing was spent.",
            "Free some space, or name a folder on another disk with --out.",
        )


def free_disk(out: Path) -> int:
    """Bytes that may be written at `out`, whose folder may not exist yet."""
    above = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    return shutil.disk_usage(above).free


def limit_address_space(most: int) -> None:
    """Limits this process, which reads files for runs in other processes; estimates ignore this limit."""
    global _limit_of_runs
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    _limit_of_runs = soft
    limits = [most, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))


def available_memory() -> int:
    """Bytes a run may still use: of the machine, its control group and the limit of its process."""
    limits = [_machine()]
    for limit, used in _CGROUPS:
        most, now = _number(limit), _number(used)
        if most is not None and now is not None:
            limits.append(most - now)
    most = resource.getrlimit(resource.RLIMIT_AS)[0] if _limit_of_runs is None else _limit_of_runs
    if most != resource.RLIM_INFINITY:
        limits.append(most - _mapped())
    return max(0, min(limits))


def _machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _mapped() -> int:
    """Address space in use, which RLIMIT_AS is a limit of."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _number(path: str) -> int | None:
    """None where the file is missing or says "max"."""
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None


def show(size: float) -> str:
    return f"{size / GIGA:,.1f} GB" if size >= GIGA else f"{max(1, round(size / MEGA)):,} MB"


SPARE = 2  # free space over the size of the rehearsed files: real counts have more digits
OUT_OF_MEMORY = "this machine has not enough memory for it."


@contextmanager
def nothing_spent(out: Path) -> Iterator[None]:
    """Errors before the reserve: all of them are about public things, so they may say what they met."""
    try:
        yield
    except ShoalError:
        raise
    except MemoryError as error:
        raise ResourceError(
            "out-of-memory", f"the release was tried without data: {OUT_OF_MEMORY} Nothing was spent."
        ) from error
    except OSError as error:
        raise unwritable(out, error) from error
    except Exception as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        raise OutputError(
            "release-unwritable",
            "the release was tried without data, and its files cannot be written "
            f"({type(error).__name__}: {str(error)[:200]}). Nothing was spent.",
            f"Check ids and names of zones, sites and queries. {REPORT_IT}",
        ) from error


def rehearse(folder: Path, write: Callable[[Path], object], *, times: float = 1.0) -> None:
    """Write the noisy files beside the public ones and remove them; the real ones are `times` as large."""
    stage = folder / "rehearsal"
    stage.mkdir(mode=0o700)
    try:
        write(stage)
        size = sum(path.stat().st_size for path in stage.rglob("*") if path.is_file())
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    check_disk(folder, int(SPARE * times * size))
