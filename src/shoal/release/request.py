"""What is asked of a release, and what is checked around it: the manifest's price, the head of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import GuaranteeError, LedgerError, ShoalError
from shoal.privacy.accounting import NANO, Loss
from shoal.privacy.ledger import Ledger
from shoal.privacy.ledger.state import UNKNOWN_UNIT
from shoal.release.manifest import Manifest, covers, price_problems, spent_loss
from shoal.release.resources import Needs
from shoal.release.staging import private_file

OWNER_HEAD = "ledger-head.txt"


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """What to release, for whom, at what cost; `key` names the run, so that asking again is free."""

    population: str
    loss: Loss | None  # None: not differentially private; listed in the ledger without a cost
    key: str
    out: Path
    what: str
    reproducible: bool = False
    unit: str = UNKNOWN_UNIT
    source_digest: str | None = None  # private; recorded for the owner, never written into a release
    supersedes: str | None = None  # manifest hash of the release that this one replaces
    earlier_key: Callable[[], str] | None = None  # the run's key in ledgers that hold no digests
    prepare: Callable[[Path], None] | None = None  # writes the public files, tries the noisy ones
    owner: Path | None = None  # the owner's folder, which keeps the head of the ledger after each run
    needs: Needs | None = None  # memory and disk, estimated from public numbers
    # Of a release without a loss: its window, and the manifests of the listed releases it was composed with.
    window_us: tuple[int, int] | None = None
    knows: frozenset[str] | None = None

    @property
    def terms(self) -> dict[str, Any]:
        """What the ledger records beside the cost."""
        return {"unit": self.unit, "source_digest": self.source_digest, "supersedes": self.supersedes}


@dataclass(frozen=True, kw_only=True)
class Committed:
    """A release in its place. `reused`: it was stored under its key before, nothing was spent now.

    `source_changed`, for the owner alone: the files are not those that the stored release was made from.
    """

    path: Path
    manifest_sha256: str
    reused: bool
    source_changed: bool = False


def check_manifest(manifest: Manifest, request: ReleaseRequest) -> None:
    if manifest.reproducible:
        raise LedgerError("seeded-release", "a seeded run cannot be released.", "Leave the seed out.")
    if manifest.population != request.population:
        raise GuaranteeError("manifest-population", "the manifest names another population than the ledger.")
    if manifest.is_private != (request.loss is not None):
        raise GuaranteeError("manifest-kind", "the manifest's kind of guarantee is not the one asked for.")
    if request.loss is not None:
        _check_price(manifest, request.loss)


def _check_price(manifest: Manifest, loss: Loss) -> None:
    """A manifest may promise less than was paid for, never more, and lists all that was spent."""
    guarantee, spent = manifest.guarantee, spent_loss(manifest)
    rho_holds = "rho" not in guarantee or round(guarantee["rho"] * NANO) >= loss.rho_nano
    if not (rho_holds and covers(guarantee, loss)):
        raise GuaranteeError("manifest-price", "the manifest promises more than the ledger was charged for.")
    if spent is None or spent.rho_nano != loss.rho_nano:
        raise GuaranteeError("manifest-price", "the manifest lists other spends than the ledger is charged.")
    problems = price_problems(manifest)
    if problems:
        raise GuaranteeError("manifest-price", f"the manifest does not agree with itself: {problems[0]}")


def check_head(ledger: Ledger, owner: Path | None) -> None:
    """Refuse a ledger that lost rows since a run noted its head in this owner's folder."""
    if owner is None:
        return
    try:
        first, count, head = (owner / OWNER_HEAD).read_text("utf-8").split()
        place = int(count) - 1
    except (OSError, ValueError):
        return
    digests = [row.digest for row in ledger.store.rows()]
    if digests[:1] == [first] and digests[place : place + 1] != [head]:
        raise LedgerError(
            "ledger-older",
            f"the ledger {ledger.store.where()} lost rows: it had {count} when {owner} was written.",
            "Put the newest copy of the ledger back. If spends are lost for good, lower the budgets by them "
            f"and remove {OWNER_HEAD} from that folder.",
        )


def note_head(ledger: Ledger, owner: Path | None) -> None:
    """Which ledger it is (its first row), its number of rows and its last one; a failure costs a witness."""
    if owner is not None:
        with suppress(OSError, ShoalError), private_file(owner / OWNER_HEAD, text=True) as file:
            digests = [row.digest for row in ledger.store.rows()]
            file.write(f"{digests[0]} {len(digests)} {digests[-1]}\n")
