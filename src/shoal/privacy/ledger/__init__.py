"""Record of all spends per population: append-only rows in a hash chain, one file per data owner.

`open_ledger()` gives a `Ledger`; `Store` is the seam where another database can plug in.
"""

from __future__ import annotations

from shoal.privacy.ledger.book import Ledger, open_ledger
from shoal.privacy.ledger.pots import Pot, pots_within
from shoal.privacy.ledger.sqlite import ledger_path
from shoal.privacy.ledger.state import (
    AlreadyReleased,
    Finding,
    Population,
    Reservation,
    Spend,
    State,
    Store,
    StoredRow,
)

__all__ = [
    "AlreadyReleased",
    "Finding",
    "Ledger",
    "Population",
    "Pot",
    "Reservation",
    "Spend",
    "State",
    "Store",
    "StoredRow",
    "ledger_path",
    "open_ledger",
    "pots_within",
]
