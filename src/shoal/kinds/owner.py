"""The owner's folder: where raw figures go, never inside a release."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.errors import REPORT_IT, OutputError, ShoalError
from shoal.privacy.ledger import Ledger
from shoal.privacy.ledger.names import cost_nano, show_nano
from shoal.release.folder import Committed
from shoal.release.manifest import MANIFEST
from shoal.release.page.page import plain
from shoal.release.staging import private_file, private_folder, unwritable

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


def near(path: Path) -> str:
    """Relative to the working directory where that is shorter to read."""
    shown = os.path.relpath(path)
    return shown if not shown.startswith("..") else str(path)


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


def write_figures(report: Path, figures: dict) -> None:
    """utility.json beside a report, readable by its owner alone; figures that do not exist are null."""
    with private_file(report.parent / "utility.json", text=True) as file:
        json.dump(plain(figures), file, indent=2, allow_nan=False)


def report_of(made: Committed, path: Path) -> Path | None:
    """The report that was drawn for this very release: at `path`, or where a later one moved it to."""
    earlier = _earlier(path, made.manifest_sha256)
    if earlier.is_file():
        return earlier
    return path if path.is_file() and _release_of(path) == made.manifest_sha256 else None


def utility_file(report: Path) -> Path:
    """The figures beside a report: utility.json, or utility-HASH.json for one that was moved."""
    return report.with_name(report.name.replace("report", "utility", 1)).with_suffix(".json")


def exact_file(report: Path) -> Path:
    """The raw counts beside a report: exact.parquet, or exact-HASH.parquet."""
    return report.with_name(report.name.replace("report", "exact", 1)).with_suffix(".parquet")


def keep_earlier(path: Path, made: Committed) -> None:
    """A report of another release makes room, under a name that tells whose it is."""
    release = _release_of(path)
    if path.is_file() and release and release != made.manifest_sha256:
        for file in (path, utility_file(path), exact_file(path)):
            if file.exists():
                file.rename(_earlier(file, release))


def _release_of(path: Path) -> str | None:
    try:
        return str(json.loads(utility_file(path).read_text("utf-8"))["manifest_sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _earlier(path: Path, manifest_sha256: str) -> Path:
    return path.with_stem(f"{path.stem}-{manifest_sha256[:12]}")


def budget_of(ledger: Ledger, prepared: Any) -> dict:
    """The population's budget before and after a release, for the owner's page."""
    population = ledger.state().population(prepared.plan.population)
    seeded = prepared.plan.seed is not None
    paid = 0 if seeded else cost_nano(prepared.mechanism.loss(), population.currency)
    return {
        "population": population.name,
        "currency": population.currency,
        "limit": show_nano(population.limit_nano),
        "spent_before": show_nano(population.spent_nano - paid),
        "this_release": show_nano(paid),
        "left": show_nano(population.left_nano),
    }
