"""The owner's folder: reports that are kept there, with figures on raw data, and never published."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.errors import REPORT_IT, OutputError, ShoalError
from shoal.kinds.describe import pot_of, release_name
from shoal.privacy.ledger import Ledger
from shoal.release.folder import Committed
from shoal.release.manifest import MANIFEST
from shoal.release.page.page import plain, write_page
from shoal.release.staging import private_file, private_folder, unwritable
from shoal.space.clock import window_of

DRAW_AGAIN = "Mend that and run the same command again: it draws the report and spends nothing."


def open_owner_folder(path: Path) -> Path:
    """Create the owner's folder and test that it can be written, before anything is spent.

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
def drawing_report(committed: Path, remedy: str = DRAW_AGAIN) -> Iterator[None]:
    """Context in which errors of the owner's report state that the release is in place."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ShoalError):
            why = error.message
        elif isinstance(error, OSError):
            why = f"{error.strerror}."
        elif isinstance(error, MemoryError):
            why = "this machine has not enough memory for it."
        elif os.environ.get("SHOAL_DEBUG"):
            raise
        else:
            why, remedy = f"shoal met a {type(error).__name__} it did not expect.", REPORT_IT
        place = f"the release is in place at {committed}, but the owner's report could not be drawn"
        raise OutputError("report-failed", f"{place}: {why}", remedy) from error


def keep_report(
    path: Path,
    prepared: Any,
    committed: Committed,
    ledger: Ledger,
    *,
    page: str,
    figures: Mapping[str, Any],
    shows: str = "exact counts",
    beside: Callable[[Path], Any] = lambda report: None,
) -> Path:
    """The owner's page, to `path`, and utility.json beside it, readable by the owner alone.

    The ledger lists the report before anybody sees it. A report of another release is renamed first.
    `beside` writes further files.
    """
    what = f"owner's report with {shows}, on {release_name(committed)}: {prepared.what()}"
    ledger.disclose(prepared.plan.population, what, str(path), window_of(prepared.public()))
    _keep_earlier(path, committed)
    beside(path)
    write_page(path, page)
    write_figures(path, {"manifest_sha256": committed.manifest_sha256, **figures})
    return path


def write_figures(report: Path, figures: dict) -> None:
    """utility.json beside a report; figures that do not exist are null."""
    with private_file(report.parent / "utility.json", text=True) as file:
        json.dump(plain(figures), file, indent=2, allow_nan=False)


def report_of(committed: Committed, path: Path) -> Path | None:
    """The report that was drawn for this very release: at `path`, or where a later one moved it to."""
    earlier = _earlier(path, committed.manifest_sha256)
    if earlier.is_file():
        return earlier
    return path if path.is_file() and _release_of(path) == committed.manifest_sha256 else None


def utility_file(report: Path) -> Path:
    """The figures beside a report: utility.json, or utility-HASH.json for one that was moved."""
    return report.with_name(report.name.replace("report", "utility", 1)).with_suffix(".json")


def exact_file(report: Path) -> Path:
    """The raw counts beside a report: exact.parquet, or exact-HASH.parquet."""
    return report.with_name(report.name.replace("report", "exact", 1)).with_suffix(".parquet")


def _keep_earlier(path: Path, committed: Committed) -> None:
    """Rename a report of another release, under the hash of that release."""
    release = _release_of(path)
    if path.is_file() and release and release != committed.manifest_sha256:
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
    """The pot that paid, before and after a release, for the owner's page."""
    population, loss = ledger.state().population(prepared.plan.population), prepared.mechanism.loss()
    pot = population.pot_for(loss, pot_of(prepared.plan))
    paid = 0 if prepared.plan.seed is not None else pot.cost(loss)
    amounts = {
        "limit": pot.limit_nano,
        "spent_before": pot.spent_nano - paid,
        "this_release": paid,
        "left": pot.left_nano,
    }
    shown = {name: pot.shown(amount, up=name != "left") for name, amount in amounts.items()}
    shares = [amounts[name] / pot.limit_nano for name in ("spent_before", "this_release")]
    return {"population": population.name, "part": pot.title, **shown, "shares": shares}
