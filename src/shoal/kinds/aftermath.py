"""What a run that was stopped left behind: read off the ledger and the folders, nothing is changed.

A reserve is spent from the moment it is written. A run that died before it spent nothing; one that died after
it and before its commit spent and published nothing; one that died after its commit is complete, or is
completed by asking for it again, which is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.privacy.ledger import Ledger
from shoal.privacy.ledger.names import show_nano
from shoal.release.manifest import MANIFEST


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """`spent` in words, or empty; `released` where the folder of the release is in place."""

    words: str
    spent: str
    released: bool


def aftermath(ledger: Ledger, population: str, reservation: str, out: Path) -> Aftermath:
    """Of the run that reserved, or listed, under this id; it noted the id before it did."""
    owner = ledger.state().find(population)
    spend = next((each for each in owner.spends if each.reservation == reservation), None) if owner else None
    stored = (
        next((e for e in owner.released.values() if e.reservation == reservation), None) if owner else None
    )
    if owner is None or (spend is None and stored is None):
        return Aftermath(words="Nothing was reserved and nothing was spent.", spent="", released=False)
    cost = "" if spend is None else f"{owner.currency} = {show_nano(spend.cost_nano)}"
    if stored is None and reservation in ledger.unfinished():
        words = (
            f"{cost} was spent. The release is complete, but its commit failed. Run it again: that commits "
            "it and is free."
        )
        return Aftermath(words=words, spent=cost, released=False)
    if stored is None:
        words = (
            f"The budget was reserved before it stopped: {cost} counts as spent, because noise may have been "
            f"drawn. It published nothing in {out.name}. Running it again spends again."
        )
        return Aftermath(words=words, spent=cost, released=False)
    paid = f"{cost} was spent. " if cost else ""
    if (Path(stored.path) / MANIFEST).is_file():
        return Aftermath(
            words=f"{paid}The release was recorded and is in its place.", spent=cost, released=True
        )
    words = f"{paid}The release was recorded, but not yet moved to its place. Run it again: that is free."
    return Aftermath(words=words, spent=cost, released=False)
