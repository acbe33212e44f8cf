"""What can fail for public reasons, done once before the budget is reserved.

Public files are written to the staging folder, where they stay. The noisy ones are written once from no data
at all, with the noise of a public seed and in their full size, and removed: whatever the settings, the map or
the disk make impossible stops the run here, where it costs nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.errors import REPORT_IT, OutputError, ResourceError, ShoalError
from shoal.release.resources import check_disk
from shoal.release.staging import unwritable

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
