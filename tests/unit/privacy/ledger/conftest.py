"""Ledgers that tests of the ledger share."""

from pathlib import Path

import pytest
from tests.unit.privacy.ledger.rows import DIGEST, HASH, OLD_RESERVE, write_row

from shoal.privacy.ledger import Ledger, open_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = open_ledger(tmp_path / "ledger.sqlite")
    made.create("town", currency="rho", limit_nano=100, delta=1e-6)
    return made


@pytest.fixture
def old(tmp_path: Path) -> Ledger:
    """A ledger with the rows of the version before units were recorded, years ago."""
    ledger = open_ledger(tmp_path / "old.sqlite")
    write_row(
        ledger, kind="population", population="old", currency="rho", limit_nano=100, delta="1e-06", note=""
    )
    write_row(ledger, **OLD_RESERVE)
    folder = {"path": "/old", "manifest_sha256": HASH}
    write_row(ledger, kind="commit", population="old", reservation="00aa", token="secret", **folder)
    listing = {"key": "week 2", "what": "trajectories", "reservation": "00bb"}
    write_row(ledger, kind="listing", population="old", **listing, path="/list", manifest_sha256=DIGEST)
    return ledger
