"""Raw pseudonyms: the samples as they are, under record ids.

Promise     none. A few known points single a person out; the table shows how few.
Truthful    yes.
Source      common practice.
Deviations  where a user has several cells in one step, one box holds them all: boxes of a record must be
            disjoint in time.
Cost        linear in samples.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.anonymise.neighbours.hulls import boxes_of_slots, hulls_of
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples


@dataclass(frozen=True, kw_only=True)
class RawPseudonyms:
    """Each sample a box of one cell and one step.

    >>> from datetime import UTC, datetime
    >>> lattice = Lattice(start=datetime(2026, 1, 1, tzinfo=UTC), steps=9, origin=(0.0, 0.0))
    >>> samples = LatticeSamples.of([0, 0], [3, 7], [1, 2], [1, 1], users=1, steps=9)
    >>> RawPseudonyms()(samples, lattice).t0.tolist()
    [3, 7]
    """

    @property
    def truthful(self) -> bool:
        return True

    @property
    def promise(self) -> str:
        return "none"

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes:
        hulls = hulls_of(samples, 1)
        return boxes_of_slots(hulls, samples, hulls.x0, hulls.x1, hulls.y0, hulls.y1)

    def broken(self, boxes: Boxes, lattice: Lattice) -> None:
        return None
