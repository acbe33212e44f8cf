"""The seam under the ledger: a store keeps rows in order and appends one at a time, alone.

All rules (budgets, keys, tokens) live above it in `book.py`, so a second store only has to be durable
and to run `decide` while nobody else can append.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class StoredRow:
    """One row as it lies in the store: its place, its canonical JSON, and its link of the chain."""

    seq: int
    content: str
    digest: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a ledger; `seq` is the row, or 0 for the file as a whole."""

    seq: int
    code: str
    message: str


Decide = Callable[[list[StoredRow]], StoredRow | None]


class Store(Protocol):
    def where(self) -> str:
        """The place of the store, for messages."""
        ...

    def file(self) -> Path | None:
        """The file of the store, beside which runs keep their locks; None if it has none."""
        ...

    def rows(self, *, unchecked: bool = False) -> list[StoredRow]:
        """All rows in order; none if the store was never written.

        Refuses where `append` would, unless `unchecked`.
        """
        ...

    def append(self, decide: Decide) -> None:
        """Run `decide` on all rows in one exclusive transaction and add the row it returns.

        When this returns, the row survives a power cut. If `decide` raises, nothing is written. A store
        that lost rows, or what protects them, refuses.
        """
        ...

    def problems(self) -> list[Finding]:
        """What the store itself can say about damage, permissions and missing rows."""
        ...
