"""A population and two small releases, with a mark after each acknowledged step: what strace records.

python -m tests.fuzz.small_release ROOT MARKS
"""

import os
import sys
from pathlib import Path

from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee, Unit
from shoal.privacy.ledger import Ledger, open_ledger
from shoal.release.folder import ReleaseRequest, release
from shoal.release.manifest import Manifest
from shoal.release.readme import recipient_readme

KEYS = ("week 1", "week 2")
LOSS = Loss.pure(100_000)  # pure, so that no conversion takes time; costs rho = 5e-9
LIMIT = 1000
PROMISE = Guarantee.of(LOSS, delta=None, unit=Unit())


def build(folder: Path) -> Manifest:
    (folder / "maps").mkdir()
    (folder / "maps" / "zones.json").write_text("{}" * 400)
    (folder / "density.csv").write_text("zone,people\n" + "1,2\n" * 300)
    manifest = Manifest(
        unit=Unit().sentence,
        promise=PROMISE.sentence,
        guarantee=PROMISE.to_manifest(),
        public={},
        spends=[{"name": "counts", "mechanism": "laplace", "epsilon": PROMISE.epsilon}],
        population="town",
        input={},
        columns={},
    )
    (folder / "README.md").write_text(recipient_readme(manifest, {}))
    return manifest


def ledger_of(root: Path) -> Path:
    return root / "private" / "ledger.sqlite"


def request(root: Path, key: str) -> ReleaseRequest:
    """Into folders that do not exist yet."""
    out = root / "place" / "of" / key.replace(" ", "-") / "out"
    return ReleaseRequest(population="town", loss=LOSS, key=key, out=out, what="density", unit="user")


class Marking(Ledger):
    """Writes down what was acknowledged."""

    marks = -1

    def reserve(self, *given, **named):
        answer = super().reserve(*given, **named)
        os.write(self.marks, f"reserved {given[2]}\n".encode())
        return answer

    def commit(self, *given, **named):
        answer = super().commit(*given, **named)
        os.write(self.marks, f"committed {KEYS[len(self.releases()) - 1]}\n".encode())
        return answer


def main(root: Path, marks: Path) -> None:
    handle = os.open(marks, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    ledger = Marking(open_ledger(ledger_of(root)).store)
    ledger.marks = handle
    ledger.create("town", currency="rho", limit_nano=LIMIT)
    os.write(handle, b"created\n")
    for key in KEYS:
        release(ledger, request(root, key), build)
        os.write(handle, f"released {key}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
