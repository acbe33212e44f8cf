"""Every neighbour by name, made for a k where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shoal.anonymise.neighbours.coarse import GridHours, HexagonHours
from shoal.anonymise.neighbours.full_length import FullLength
from shoal.anonymise.neighbours.hulls import Neighbour, check_k
from shoal.anonymise.neighbours.km import ItemSets
from shoal.anonymise.neighbours.nwa import NeverWalkAlone
from shoal.anonymise.neighbours.raw import RawPseudonyms
from shoal.errors import PlanError


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
