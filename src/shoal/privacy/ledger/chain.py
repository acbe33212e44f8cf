"""SHA-256 hash chain over the rows of a ledger.

Each row's digest covers the digest before it and the row's own canonical JSON, which carries its place:

>>> first = link(GENESIS, 1, {"kind": "population", "population": "town"})
>>> second = link(first.digest, 2, {"kind": "tuned", "population": "town"})
>>> [row.content["kind"] for row in read_chain([first, second])[0]]
['population', 'tuned']
>>> [finding.code for finding in read_chain([second, first])[1]]
['order', 'digest', 'order', 'digest']
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.errors import LedgerError
from shoal.privacy.ledger.protocol import Finding, StoredRow

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
