"""Every baseline by name, built for a k where it has one.

Raw pseudonyms: the samples as they are, under record ids.

Promise     none. A few known points single a person out; the table shows how few.
Truthful    yes.
Source      common practice.
Deviations  where a user has several cells in one step, one box holds them all: boxes of a record must be
            disjoint in time.
Cost        linear in samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.kinds.trajectories.compare import Method, Setting, tracked
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.coarse import GridHours, HexagonHours
from shoal_baselines.anonymise.full_length import FullLength
from shoal_baselines.anonymise.hulls import Neighbour, boxes_of_slots, hulls_of
from shoal_baselines.anonymise.km import ItemSets
from shoal_baselines.anonymise.nwa import NeverWalkAlone
from shoal_baselines.comparators.kte_hide import KteHide


@dataclass(frozen=True, kw_only=True)
class RawPseudonyms:
    """Each sample a box of one cell and one step.

    >>> from datetime import UTC, datetime
    >>> lattice = Lattice(start=datetime(2026, 1, 1, tzinfo=UTC), steps=9, origin=(0.0, 0.0))
    >>> samples = LatticeSamples.of([0, 0], [3, 7], [1, 2], [1, 1], users=1, steps=9)
    >>> RawPseudonyms()(samples, lattice).t0.tolist()
    [3, 7]
    """

    truthful = True

    promise = "none"

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes:
        hulls = hulls_of(samples, 1)
        return boxes_of_slots(hulls, samples, hulls.x0, hulls.x1, hulls.y0, hulls.y1)

    def broken(self, boxes: Boxes, lattice: Lattice) -> None:
        return None


# Constructor of each for a k, and its description.
BASELINES: dict[str, tuple[Callable[[int], Neighbour], str]] = {
    "raw": (lambda k: RawPseudonyms(), "pseudonyms, nothing else"),
    "grid": (lambda k: GridHours(), "squares of 3 km and hours"),
    "grid-k": (lambda k: GridHours(k=k), "squares of 3 km and hours, rare ones left out"),
    "h3": (lambda k: HexagonHours(), "H3 hexagons (7) and hours"),
    "h3-k": (lambda k: HexagonHours(k=k), "H3 hexagons (7) and hours, rare ones left out"),
    "km1": (lambda k: ItemSets(k=k, m=1), "k^m-anonymity, m = 1"),
    "km2": (lambda k: ItemSets(k=k, m=2), "k^m-anonymity, m = 2"),
    "nwa": (lambda k: NeverWalkAlone(k=k), "Never Walk Alone"),
    "full-length": (lambda k: FullLength(k=k), "whole records merged in groups"),
}


def _row(name: str) -> Callable[[Setting], Method]:
    make, words = BASELINES[name]

    def method(at: Setting) -> Method:
        baseline = make(at.k)
        return Method(
            promise=baseline.promise,
            truthful=baseline.truthful,
            words=words,
            make=baseline,
            broken=baseline.broken,
        )

    return method


def _published(at: Setting) -> Method:
    return tracked(at, KteHide, "kte-hide as published, for comparison only", ", as published")


# What a comparison of trajectories shows beside our own method.
ROWS: dict[str, Callable[[Setting], Method]] = {
    **{name: _row(name) for name in BASELINES},
    "published": _published,
}
