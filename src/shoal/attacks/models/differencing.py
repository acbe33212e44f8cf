"""Queries of a log that, taken from each other, count only a few: found from the queries alone.

A query counts visits in a set of cells (zone, slot), by everybody but those it leaves out, such as people
seen at L1 or L2. Both queries may be large; what matters is their difference:

  two queries     A minus B, where B lies in A: few cells are left, or few who were left out.
  three queries   A minus B minus C, B and C apart and inside A, or B plus C minus A, A inside B and C.

The first example of the survey, section 1.1.2, is a pair: all who visited a hospital, and all who visited it
but those seen at L1 or L2. If only John goes to L1 and L2, the difference says whether he was there.

This finds the differences listed above, and no others: `determined_cells` in `reconstruct.py` finds every
single cell that any linear combination isolates, but not small groups.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

Cell = tuple[Hashable, int]
MOST_FOR_THREE = 400  # queries; combinations of three are looked for up to here


@dataclass(frozen=True, kw_only=True)
class Query:
    """Visits in `cells` by everybody but those in `leaves_out` (names of people, or of what they share)."""

    cells: frozenset[Cell]
    leaves_out: frozenset[str] = frozenset()

    @classmethod
    def over(cls, zones: Iterable[Hashable], slots: Iterable[int], leaves_out: Iterable[str] = ()) -> Query:
        """All of these zones in all of these slots."""
        slots = tuple(slots)
        cells = frozenset((zone, slot) for zone in zones for slot in slots)
        return cls(cells=cells, leaves_out=frozenset(leaves_out))


@dataclass(frozen=True, kw_only=True)
class Difference:
    """plus minus minus counts only visits in `cells`; where `people` are named, only theirs."""

    plus: tuple[int, ...]  # numbers of queries, from 0
    minus: tuple[int, ...]
    cells: frozenset[Cell] = field(repr=False)
    people: frozenset[str] = frozenset()  # left out by the smaller query; empty: everybody
    size: int  # how many cells, or people, the difference is about

    def words(self) -> str:
        """One line, queries numbered from 1.

        >>> log = [Query.over(["hospital"], range(24)), Query.over(["hospital"], range(24), ["L1", "L2"])]
        >>> find_differences(log, fewer_than=5)[0].words()
        'query 1 - query 2 counts only those of L1, L2, in 24 cells'
        """
        taken = [f"query {n + 1}" for n in self.minus]
        formula = " - ".join([" + ".join(f"query {n + 1}" for n in self.plus), *taken])
        many = f"{len(self.cells)} cell{'s' if len(self.cells) > 1 else ''}"
        if not self.people:
            return f"{formula} counts only {many}"
        return f"{formula} counts only those of {', '.join(sorted(self.people))}, in {many}"


def find_differences(
    log: Sequence[Query],
    *,
    fewer_than: int = 5,
    three: bool = True,
    seen_at: Mapping[str, Set[Hashable]] | None = None,
) -> list[Difference]:
    """Differences about fewer than `fewer_than` cells or people, but more than none; smallest first.

    `seen_at` says which people each left-out name stands for (the owner can look it up); without it each name
    counts as one. Where the size is equal, pairs come before combinations of three.
    """
    found = [*_pairs(log, fewer_than, seen_at)]
    if three and len(log) <= MOST_FOR_THREE:
        found += _threes(log, fewer_than)
    return sorted(
        found, key=lambda each: (each.size, len(each.plus) + len(each.minus), each.plus, each.minus)
    )


def _pairs(log, fewer_than, seen_at) -> Iterator[Difference]:
    """B inside A. Same cells: the people between them; same people: the cells between them."""
    by_cells: dict[frozenset[Cell], list[int]] = {}
    by_people: dict[frozenset[str], list[int]] = {}
    for number, query in enumerate(log):
        by_cells.setdefault(query.cells, []).append(number)
        by_people.setdefault(query.leaves_out, []).append(number)
    for cells, numbers in by_cells.items():
        for larger in numbers:
            for smaller in numbers:
                if log[larger].leaves_out < log[smaller].leaves_out:
                    people = log[smaller].leaves_out - log[larger].leaves_out
                    size = _how_many(people, seen_at)
                    if 0 < size < fewer_than:
                        yield Difference(
                            plus=(larger,), minus=(smaller,), cells=cells, people=people, size=size
                        )
    for numbers in by_people.values():
        yield from _pairs_of_cells(log, numbers, fewer_than)


def _pairs_of_cells(log, numbers: list[int], fewer_than: int) -> Iterator[Difference]:
    """A query and those a little smaller; each set of cells once."""
    once = list({log[number].cells: number for number in reversed(numbers)}.values())
    once.sort(key=lambda number: (len(log[number].cells), number))
    sizes = [len(log[number].cells) for number in once]
    for place, larger in enumerate(once):
        for smaller in once[bisect_left(sizes, sizes[place] - fewer_than + 1) : place]:
            if log[smaller].cells < log[larger].cells:
                left = log[larger].cells - log[smaller].cells
                yield Difference(plus=(larger,), minus=(smaller,), cells=left, size=len(left))


def _threes(log, fewer_than: int) -> Iterator[Difference]:
    """A against B and C that are apart, for queries that leave out the same."""
    index = {cell: bit for bit, cell in enumerate(sorted({c for q in log for c in q.cells}, key=repr))}
    cells = list(index)
    groups: dict[frozenset[str], dict[int, int]] = {}
    for number, query in enumerate(log):
        mask = 0
        for cell in query.cells:
            mask |= 1 << index[cell]
        groups.setdefault(query.leaves_out, {}).setdefault(mask, number)
    for group in groups.values():
        masks = sorted(group, key=lambda mask: (mask.bit_count(), group[mask]))
        sizes = [mask.bit_count() for mask in masks]
        for place, one in enumerate(masks):
            for other in masks[:place]:
                if one & other or not other:
                    continue
                union = one | other
                both = union.bit_count()
                first = bisect_left(sizes, both - fewer_than + 1)
                last = bisect_left(sizes, both + fewer_than)
                for whole in masks[first:last]:
                    left = union ^ whole
                    if whole in (one, other) or not left or (left & union and left & whole):
                        continue
                    inside = frozenset(cells[bit] for bit in _bits(left))
                    parts = tuple(sorted((group[one], group[other])))
                    plus, minus = ((group[whole],), parts) if left & whole else (parts, (group[whole],))
                    yield Difference(plus=plus, minus=minus, cells=inside, size=len(inside))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _how_many(people: frozenset[str], seen_at: Mapping[str, Set[Hashable]] | None) -> int:
    if seen_at is None:
        return len(people)
    return len(frozenset().union(*(seen_at.get(name, frozenset()) for name in people)))
