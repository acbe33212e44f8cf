"""What a run that was stopped left behind: read off the ledger and the folders, nothing is changed.

A reserve is spent from the moment it is written. A run that died before it spent nothing; one that died after
it and before its commit spent and published nothing; one that died after its commit is complete, or is
completed by asking for it again, which is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.privacy.ledger import Ledger
from shoal.privacy.ledger.amounts import show_nano
from shoal.release.manifest import MANIFEST


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """`spent` in words, or empty; `released` where the folder of the release is in place."""

    words: str
    spent: str
    released: bool


def aftermath(ledger: Ledger, population: str, key: str, out: Path, since: str) -> Aftermath:
    """Of the run under `key` that began at `since` (ISO, UTC)."""
    owner = ledger.state().populations.get(population)
    if owner is None:
        return Aftermath(words="Nothing was reserved and nothing was spent.", spent="", released=False)
    stored = owner.released.get(key)
    if stored is not None:
        if (Path(stored.path) / MANIFEST).is_file():
            words = "The release was committed and is in its place."
            return Aftermath(words=words, spent="", released=True)
        words = "The release was committed and paid for, but not yet moved to its place. Run it again: free."
        return Aftermath(words=words, spent="", released=False)
    spends = [each for each in owner.spends if each.key == key and each.at >= since]
    if not spends:
        return Aftermath(words="Nothing was reserved and nothing was spent.", spent="", released=False)
    cost = f"{owner.currency} = {show_nano(sum(each.cost_nano for each in spends))}"
    words = (
        f"The budget was reserved before it stopped: {cost} counts as spent, because noise may have been "
        f"drawn. Nothing was published in {out.name}. Running it again spends again."
    )
    return Aftermath(words=words, spent=cost, released=False)
