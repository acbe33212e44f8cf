"""Memory and disk that a run needs, estimated from public numbers, against what this machine has.

Events of densities are streamed. Kinds made of trips hold them in memory; their number is private, so the
estimates leave them out.

What can fail for public reasons, done once before the budget is reserved.

Public files are written to the staging folder, where they stay. The noisy ones are written once from no data
at all, with the noise of a public seed and in their full size, and removed: whatever the settings, the map or
the disk make impossible stops the run here, where it costs nothing.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shoal.errors import REPORT_IT, OutputError, ResourceError, ShoalError
from shoal.release.staging import unwritable

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
    found = [_machine()]
    for limit, used in _CGROUPS:
        most, now = _number(limit), _number(used)
        if most is not None and now is not None:
            found.append(most - now)
    most = resource.getrlimit(resource.RLIMIT_AS)[0] if _limit_of_runs is None else _limit_of_runs
    if most != resource.RLIM_INFINITY:
        found.append(most - _mapped())
    return max(0, min(found))


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
