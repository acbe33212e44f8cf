"""Two attacks on a log of counting queries: differences that count only a few, and reconstructed cells.

Differences. A query counts visits in a set of cells (zone, slot), by all people except those it leaves out,
such as people seen at L1 or L2. Both queries may be large; their difference matters:

  two queries     A minus B, where B lies in A: few cells are left, or few people who were left out.
  three queries   A minus B minus C, B and C apart and inside A, or B plus C minus A, A inside B and C.

The first example of the survey, section 1.1.2, is a pair: all who visited a hospital, and all who visited it
except those seen at L1 or L2. If only John goes to L1 and L2, the difference says whether he was there.
`find_differences` finds the differences listed above and no others: `determined_cells` finds every single
cell that any linear combination isolates, but not small groups.

Reconstruction. Solve Qx = c in a box, then round. Source: survey, section 3.1.1, eq. 2 and rounding at 1/2
(Dinur and Nissim 2003; Dwork and Yekhanin 2008). There are two fits, and the result names the one used:

program   least sum of |Qx - c| over 0 <= x <= most, by HiGHS: exact, robust to a few wrong answers, and slow
          on dense queries (a program with a column for each cell and each answer).
squares   least sum of (Qx - c)^2 in the same box, by ADMM on the normal equations: one factorisation of a
          cells x cells matrix, so 8,000 dense queries on 2,000 cells take seconds.

`which="auto"` takes the program up to LARGEST_PROGRAM entries of Q that are not 0, else squares. Without
noise and with enough queries both give the data itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, eye, hstack, issparse

from shoal.errors import PlanError

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
    seen_at: Mapping[str, Set[Hashable]] | None = None,
) -> list[Difference]:
    """Differences about fewer than `fewer_than` cells or people, but more than none; smallest first.

    `seen_at` says which people each left-out name stands for (the owner can look it up); without it each name
    counts as one. Where the size is equal, pairs come before combinations of three.
    """
    differences = [*_pairs(log, fewer_than, seen_at)]
    if len(log) <= MOST_FOR_THREE:
        differences += _threes(log, fewer_than)
    return sorted(
        differences, key=lambda each: (each.size, len(each.plus) + len(each.minus), each.plus, each.minus)
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


LARGEST_PROGRAM = 100_000
ROUNDS = 300
CLOSE = 1e-4  # of ADMM: a tenth of a thousandth of a visit is far below what rounding sees
PRIME = 2**31 - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction:
    """Estimates of the cells by the adversary, before and after rounding."""

    rounded: np.ndarray = field(repr=False)  # int64 [cells]
    fitted: np.ndarray = field(repr=False)  # float64 [cells], in 0 .. most
    used: str  # "program" | "squares"
    residual: float  # mean |Qx - c| of the fit

    def share_recovered(self, truth: np.ndarray) -> float:
        """Share of cells that are exactly right."""
        return float((self.rounded == np.asarray(truth)).mean())


def reconstruct(queries, answers: np.ndarray, *, most: float = 1, which: str = "auto") -> Reconstruction:
    """Cells from answers; `queries` is a dense or sparse 0/1 matrix [queries, cells], cells lie in 0 .. most.

    >>> reconstruct(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), np.array([1, 2, 1])).rounded.tolist()
    [0, 1, 1]
    """
    matrix: Any = csr_matrix(queries, dtype=float) if issparse(queries) else np.asarray(queries, float)
    answers = np.asarray(answers, float)
    if matrix.ndim != 2 or answers.shape != (matrix.shape[0],) or 0 in matrix.shape:
        raise PlanError("reconstruct-shape", "there must be one answer for each query, and some of both.")
    if not np.isfinite(answers).all() or not most > 0:
        raise PlanError("reconstruct-values", "answers must be finite numbers, and `most` above 0.")
    if which not in ("auto", *FITS):
        raise PlanError("reconstruct-fit", f"there is no fit {which!r}.", "Use auto, program or squares.")
    if which == "auto":
        entries = matrix.nnz if issparse(matrix) else np.count_nonzero(matrix)
        which = "program" if entries <= LARGEST_PROGRAM else "squares"
    fitted = np.clip(FITS[which](matrix, answers, float(most)), 0, most)
    return Reconstruction(
        rounded=np.ceil(fitted - 0.5).astype(
            np.int64
        ),  # a cell at exactly 1/2 is taken for 0, as in the survey
        fitted=fitted,
        used=which,
        residual=float(np.abs(matrix @ fitted - answers).mean()),
    )


def _program(matrix, answers: np.ndarray, most: float) -> np.ndarray:
    """min sum of over + under, with Qx - over + under = c."""
    count, cells = matrix.shape
    slack = eye(count, format="csr")
    solved = linprog(
        np.concatenate([np.zeros(cells), np.ones(2 * count)]),
        A_eq=hstack([csr_matrix(matrix), -slack, slack], format="csr"),
        b_eq=answers,
        bounds=[(0, most)] * cells + [(0, None)] * (2 * count),
        method="highs",
    )
    if solved.status != 0:
        raise PlanError("reconstruct-failed", "the linear program was not solved.", "Use the fit squares.")
    return solved.x[:cells]


def _squares(matrix, answers: np.ndarray, most: float) -> np.ndarray:
    """Alternate between least squares and the box; the pull between them is the typical weight of a cell."""
    gram = matrix.T @ matrix
    gram = np.asarray(gram.todense()) if issparse(gram) else gram
    cells = len(gram)
    pull = max(float(np.median(np.diag(gram))) / 2, 1e-9)
    gram[np.diag_indices(cells)] += pull
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    wanted = np.asarray(matrix.T @ answers).ravel()
    boxed, gap = np.full(cells, most / 2), np.zeros(cells)
    for _ in range(ROUNDS):
        free = cho_solve(factor, wanted + pull * (boxed - gap), check_finite=False)
        before, boxed = boxed, np.clip(free + gap, 0, most)
        gap += free - boxed
        if max(np.abs(free - boxed).max(), np.abs(boxed - before).max()) < CLOSE * most:
            break
    return boxed


FITS = {"program": _program, "squares": _squares}


def determined_cells(queries) -> np.ndarray:
    """bool [cells]: cells that the linear system fixes whatever the answers: from the queries alone.

    A unit vector lies in the row space iff its row of the reduced echelon form has nothing else. Elimination
    is exact, modulo a prime of 31 bits; that a minor may be a multiple of it is neglected. Floats would
    not do: 2,000 random queries fix 2,000 cells, but the smallest direction is lost in rounding.
    """
    rows = np.asarray(queries.todense() if issparse(queries) else queries).astype(np.int64) % PRIME
    basis, rank = _echelon(np.unique(rows, axis=0))
    single = np.flatnonzero((basis[:rank] != 0).sum(axis=1) == 1)
    fixed = np.zeros(rows.shape[1], bool)
    fixed[basis[single].argmax(axis=1)] = True
    return fixed


@njit(cache=True)
def _echelon(rows):
    """Reduced echelon form modulo PRIME, row by row; ends early where every column has a pivot."""
    count, cells = rows.shape
    basis = np.zeros((min(count, cells), cells), np.int64)
    pivots = np.zeros(min(count, cells), np.int64)
    rank = 0
    for number in range(count):
        new = rows[number].copy()
        for row in range(rank):
            _take(new, basis[row], new[pivots[row]])
        column = 0
        while column < cells and new[column] == 0:
            column += 1
        if column == cells:
            continue
        new = new * _inverse(new[column]) % PRIME
        for row in range(rank):
            _take(basis[row], new, basis[row, column])
        basis[rank] = new
        pivots[rank] = column
        rank += 1
        if rank == cells:
            break
    return basis, rank


@njit(cache=True)
def _take(target, row, factor):
    """target - factor * row; 2^31 = 1 modulo the prime, so that high bits are added to low ones."""
    if factor == 0:
        return
    minus = PRIME - factor
    for i in range(len(target)):
        value = target[i] + minus * row[i]
        value = (value & PRIME) + (value >> 31)
        value = (value & PRIME) + (value >> 31)
        target[i] = 0 if value == PRIME else value


@njit(cache=True)
def _inverse(value):
    """value^(PRIME - 2), by squaring."""
    result, power, left = 1, value, PRIME - 2
    while left:
        if left & 1:
            result = result * power % PRIME
        power = power * power % PRIME
        left >>= 1
    return result


def random_subsets(cells: int, queries: int, seed: int) -> np.ndarray:
    """bool [queries, cells]: each query holds each cell with probability 1/2."""
    return np.random.default_rng(seed).integers(0, 2, (queries, cells), np.int8).astype(bool)


def random_bits(cells: int, seed: int) -> np.ndarray:
    """int64 [cells], fair and independent."""
    return np.random.default_rng(seed).integers(0, 2, cells)
