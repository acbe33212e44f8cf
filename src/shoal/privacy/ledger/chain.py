"""SHA-256 hash chain over the rows of a ledger.

Each row's digest covers the digest before it and the row's own canonical JSON, which carries its place:

>>> first = link(GENESIS, 1, {"kind": "population", "population": "town"})
>>> second = link(first.digest, 2, {"kind": "tuned", "population": "town"})
>>> [row.content["kind"] for row in read_chain([first, second])[0]]
['population', 'tuned']
>>> [finding.code for finding in read_chain([second, first])[1]]
['order', 'digest', 'order', 'digest']

The seam under the ledger: a store keeps rows in order and appends one at a time, alone.

All rules (budgets, keys, tokens) live above it in `book.py`, so a second store only has to be durable
and to run `decide` while nobody else can append.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shoal.errors import LedgerError

GENESIS = hashlib.sha256(b"shoal ledger 1").hexdigest()


@dataclass(frozen=True)
class Row:
    """A row read back: its content without the place, and its digest."""

    seq: int
    content: Mapping[str, Any]
    digest: str


def link(previous: str, seq: int, content: Mapping[str, Any]) -> StoredRow:
    """The stored form of `content` as row `seq` after the row with digest `previous`."""
    text = canonical({**content, "seq": seq})
    return StoredRow(seq, text, digest(previous, text))


def digest(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def canonical(content: Mapping[str, Any]) -> str:
    """JSON with sorted keys and no spaces. Floats are refused: money is exact integers."""
    _refuse_floats(content)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def read_chain(stored: Iterable[StoredRow]) -> tuple[list[Row], list[Finding]]:
    """Rows that could be read, and every break: order, digests, text that is not a row."""
    rows: list[Row] = []
    findings: list[Finding] = []
    previous = GENESIS
    for place, row in enumerate(stored, start=1):
        if row.seq != place:
            findings.append(Finding(place, "order", f"row {place} of the file is numbered {row.seq}."))
        if not isinstance(row.content, str) or digest(previous, row.content) != row.digest:
            findings.append(Finding(place, "digest", "its content does not match the chain of hashes."))
        content = _parse(row.content)
        if content is None or content.pop("seq", None) != row.seq:
            findings.append(Finding(place, "content", "its content is not a row of a ledger."))
        else:
            rows.append(Row(row.seq, content, row.digest))
        previous = row.digest
    return rows, findings


def _parse(text: object) -> dict[str, Any] | None:
    try:
        content = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise LedgerError("ledger-float", "a ledger row holds only text, whole numbers and yes or no.")
    if isinstance(value, Mapping):
        for inner in value.values():
            _refuse_floats(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_floats(inner)


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
