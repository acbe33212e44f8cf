"""Open the owner's ledger: SHOAL_LEDGER, or a file in the user's data folder."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.privacy.ledger.book import Ledger
from shoal.privacy.ledger.sqlite import SqliteStore


def open_ledger(path: str | os.PathLike[str] | None = None) -> Ledger:
    """The ledger at `path`, by default at `ledger_path()`; its file is made by the first row."""
    return Ledger(SqliteStore(Path(path) if path is not None else ledger_path()))


def ledger_path() -> Path:
    given = os.environ.get("SHOAL_LEDGER")
    if given:
        return Path(given).expanduser()
    from platformdirs import user_data_dir

    return Path(user_data_dir("shoal")) / "ledger.sqlite"
