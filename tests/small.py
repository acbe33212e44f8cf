"""A small release with an exact price, for tests of the folder, of publishing and of the ledger."""

from __future__ import annotations

from pathlib import Path

from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee, Unit
from shoal.release.folder import ReleaseRequest
from shoal.release.manifest import Manifest

LOSS = Loss.pure(100_000)  # pure, so that no conversion takes time
COST = 5  # of it, in nano-rho


def manifest(**change) -> Manifest:
    """The manifest of a release that costs `loss`, with other fields as given."""
    loss = change.pop("loss", LOSS)
    guarantee = Guarantee.of(loss, delta=change.pop("delta", None), unit=Unit())
    spend = {"name": "counts", "mechanism": "laplace"}
    if loss.pure_epsilon_nano is not None:
        spend["epsilon"] = loss.pure_epsilon_nano / 1e9
    else:
        spend["rho"] = loss.rho
    fields = {
        "unit": Unit().sentence,
        "promise": guarantee.sentence,
        "guarantee": guarantee.to_manifest(),
        "public": {},
        "spends": [spend],
        "population": "town",
        "input": {},
        "columns": {},
    }
    return Manifest(**(fields | change))


def build(folder: Path, **change) -> Manifest:
    """Two files, one of them in a folder of its own."""
    (folder / "maps").mkdir()
    (folder / "maps" / "zones.json").write_text("{}")
    (folder / "density.csv").write_text("zone,people\n")
    return manifest(**change)


def request_for(out: Path, key: str = "k") -> ReleaseRequest:
    return ReleaseRequest(population="town", loss=LOSS, key=key, out=out, what="density")
