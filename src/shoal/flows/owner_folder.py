"""The owner's folder: where raw figures go, never inside a release."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.errors import REPORT_IT, OutputError, ShoalError
from shoal.release.manifest import MANIFEST
from shoal.release.private import private_folder
from shoal.release.staging import unwritable

DRAW_AGAIN = "Mend that and run the same command again: it draws the report and spends nothing."


def open_owner_folder(path: Path) -> Path:
    """The owner's folder, made and tried before anything is spent.

    Never inside a release, and never one that another account owns or can write.
    """
    path = Path(path).resolve()
    if any((folder / MANIFEST).is_file() for folder in (path, *path.parents)):
        raise OutputError(
            "owner-in-release",
            f"the owner's folder {path} lies in a release; raw figures must stay out of it.",
            "Name another folder.",
        )
    private_folder(path)
    try:
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(path, error) from error
    return path


@contextmanager
def drawing_report(made: Path, remedy: str = DRAW_AGAIN) -> Iterator[None]:
    """An error while the owner's report is drawn says that the release is in place."""
    try:
        yield
    except (ShoalError, OSError) as error:
        why = error.message if isinstance(error, ShoalError) else f"{error.strerror}."
        raise _not_drawn(made, why, remedy) from error
    except MemoryError as error:
        raise _not_drawn(made, "this machine has not enough memory for it.", remedy) from error
    except Exception as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        raise _not_drawn(made, f"shoal met a {type(error).__name__} it did not expect.", REPORT_IT) from error


def _not_drawn(made: Path, why: str, remedy: str) -> OutputError:
    place = f"the release is in place at {made}, but the owner's report could not be drawn"
    return OutputError("report-failed", f"{place}: {why}", remedy)
