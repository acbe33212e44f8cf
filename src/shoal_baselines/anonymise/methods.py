"""Every neighbour by name, made for a k where it has one.

Raw pseudonyms: the samples as they are, under record ids.

Promise     none. A few known points single a person out; the table shows how few.
Truthful    yes.
Source      common practice.
Deviations  where a user has several cells in one step, one box holds them all: boxes of a record must be
            disjoint in time.
Cost        linear in samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shoal.errors import PlanError
from shoal.kinds.trajectories.methods import Method, Setting, tracked
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples
from shoal_baselines.anonymise.coarse import GridHours, HexagonHours
from shoal_baselines.anonymise.full_length import FullLength
from shoal_baselines.anonymise.hulls import Neighbour, boxes_of_slots, check_k, hulls_of
from shoal_baselines.anonymise.km import ItemSets
from shoal_baselines.anonymise.nwa import NeverWalkAlone
from shoal_baselines.comparators.kte_hide import KteHide


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How a neighbour is made from k, and what it does in a few words."""

    make: Callable[[int], Neighbour]
    words: str


NEIGHBOURS: dict[str, Entry] = {
    "raw": Entry(make=lambda k: RawPseudonyms(), words="pseudonyms, nothing else"),
    "grid": Entry(make=lambda k: GridHours(), words="squares of 3 km and hours"),
    "grid-k": Entry(make=lambda k: GridHours(k=k), words="squares of 3 km and hours, rare ones left out"),
    "h3": Entry(make=lambda k: HexagonHours(), words="H3 hexagons (7) and hours"),
    "h3-k": Entry(make=lambda k: HexagonHours(k=k), words="H3 hexagons (7) and hours, rare ones left out"),
    "km1": Entry(make=lambda k: ItemSets(k=k, m=1), words="k^m-anonymity, m = 1"),
    "km2": Entry(make=lambda k: ItemSets(k=k, m=2), words="k^m-anonymity, m = 2"),
    "nwa": Entry(make=lambda k: NeverWalkAlone(k=k), words="Never Walk Alone"),
    "full-length": Entry(make=lambda k: FullLength(k=k), words="whole records merged in groups"),
}


def neighbours(names: Iterable[str], k: int) -> dict[str, Neighbour]:
    """The named methods, set at k.

    >>> neighbours(["raw", "km1"], 2)["km1"].promise
    'any box shared by 2'
    """
    check_k(k)
    made: dict[str, Neighbour] = {}
    for name in names:
        if name not in NEIGHBOURS:
            raise PlanError(
                "neighbour-name",
                f'there is no method "{name}"; known are {", ".join(NEIGHBOURS)}.',
                "Choose among those.",
            )
        made[name] = NEIGHBOURS[name].make(k)
    return made


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


def _row(name: str) -> Callable[[Setting], Method]:
    def made(at: Setting) -> Method:
        entry = NEIGHBOURS[name]
        method = entry.make(at.k)
        return Method(
            promise=method.promise,
            truthful=method.truthful,
            words=entry.words,
            make=method,
            broken=method.broken,
        )

    return made


def _published(at: Setting) -> Method:
    return tracked(at, KteHide, "kte-hide as published, for comparison only", ", as published")


# What a comparison of trajectories shows beside our own method.
ROWS: dict[str, Callable[[Setting], Method]] = {
    **{name: _row(name) for name in NEIGHBOURS},
    "published": _published,
}
