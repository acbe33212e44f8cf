"""Which interval counts may be answered without giving a bit away, decided from the queries alone.

Simulatable: nothing here takes an answer or a data set, so the person who asks could decide the same, and a
refusal discloses nothing. The attack that does look at answers is in `interval_attack.py`, apart on purpose.

Bits x_0 .. x_(n-1); a query is an interval [first, end) and asks for the sum of its bits. With prefix sums s,
its answer is s_end - s_first: an edge between the nodes `first` and `end`. Three notions of a disclosed bit:

linear       x_i follows for every data set: nodes i and i + 1 are connected. `IntervalAuditor`.
probability  x_i follows for a share of data sets drawn from a public prior. `probability_of_disclosure`.
worst case   x_i follows for some data set: an interval covers it, and may count 0. `disclosed_at_worst`.

The worst case refuses every query, so the auditor is linear. What that does not prevent: an answer of 0 or of
the full length discloses the whole interval, and likewise sums of several answers at an extreme.
Source: survey of spatio-temporal density, section 3.1.1 (full disclosure, 1-dimensional queries).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from shoal.errors import PlanError
from shoal_baselines.attacks.interval_attack import fixed_given_data

Interval = tuple[int, int]


class IntervalAuditor:
    """Answers or refuses interval queries over `bits` bits; keeps the queries it answered, never an answer.

    A query costs the size of the smaller of the two groups of nodes it joins: n log n over all answered ones.

    >>> auditor = IntervalAuditor(10)
    >>> auditor.ask(0, 5), auditor.ask(0, 4), auditor.ask(5, 9)  # the first two differ in bit 4
    (True, False, True)
    """

    def __init__(self, bits: int, answered: Iterable[Interval] = ()) -> None:
        self.bits = check_bits(bits)
        self.answered: list[Interval] = []
        self._nodes = DisjointSet(range(bits + 1))
        for interval in answered:
            self._record(check_interval(interval, self.bits))

    def would_disclose(self, first: int, end: int) -> tuple[int, ...]:
        """Bits that this query, with those answered before, would fix for every data set; sorted."""
        first, end = check_interval((first, end), self.bits)
        if self._nodes.connected(first, end):
            return ()
        smaller, larger = sorted((first, end), key=self._nodes.subset_size)
        group = self._nodes[larger]
        bits = set()
        for node in self._nodes.subset(smaller):
            if node > 0 and self._nodes[node - 1] == group:
                bits.add(node - 1)
            if node < self.bits and self._nodes[node + 1] == group:
                bits.add(node)
        return tuple(sorted(bits))

    def may_answer(self, first: int, end: int) -> bool:
        """Whether the query would disclose no further bit."""
        return not self.would_disclose(first, end)

    def ask(self, first: int, end: int) -> bool:
        """Decide, and remember the query where it is answered."""
        allowed = self.may_answer(first, end)
        if allowed:
            self._record((first, end))
        return allowed

    def disclosed(self) -> tuple[int, ...]:
        """Bits fixed by the queries on record: none, unless the record came from elsewhere."""
        return tuple(i for i in range(self.bits) if self._nodes.connected(i, i + 1))

    def _record(self, interval: Interval) -> None:
        first, end = interval
        self.answered.append(interval)
        self._nodes.merge(first, end)


def disclosed_linearly(bits: int, intervals: Iterable[Interval]) -> np.ndarray:
    """bool [bits]: fixed by the linear system of the queries, whatever the answers are.

    >>> disclosed_linearly(4, [(0, 4), (0, 3)]).tolist()
    [False, False, False, True]
    """
    fixed = np.zeros(check_bits(bits), bool)
    fixed[list(IntervalAuditor(bits, intervals).disclosed())] = True
    return fixed


def disclosed_at_worst(bits: int, intervals: Iterable[Interval]) -> np.ndarray:
    """bool [bits]: fixed by the answers of at least one data set. These are all the bits any query covers.

    A covered bit is fixed by the data set of zeros; one that no interval covers can always be flipped.
    """
    step = np.zeros(check_bits(bits) + 1, np.int64)
    for interval in intervals:
        first, end = check_interval(interval, bits)
        step[first] += 1
        step[end] -= 1
    return np.cumsum(step)[:-1] > 0


def probability_of_disclosure(
    bits: int, intervals: Sequence[Interval], *, share_of_ones: float = 0.5, draws: int = 1000, seed: int = 0
) -> np.ndarray:
    """float [bits]: share of data sets, bits drawn independently, whose answers would fix the bit.

    The prior is public, and the answers are those of drawn data sets, so this is simulatable as well.
    """
    if not 0 <= share_of_ones <= 1 or draws < 1:
        raise PlanError(
            "audit-prior", "the share of ones must be from 0 to 1, with 1 draw or more.", "Use 0.5 and 1000."
        )
    edges = [check_interval(interval, bits) for interval in intervals]
    generator = np.random.default_rng(seed)
    fixed = np.zeros(check_bits(bits))
    for _ in range(draws):
        fixed += fixed_given_data(generator.random(bits) < share_of_ones, edges)
    return fixed / draws


def check_bits(bits: int) -> int:
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or bits < 1:
        raise PlanError("audit-bits", f"the number of bits must be a whole number from 1; got {bits}.")
    return int(bits)


def check_interval(interval: Interval, bits: int) -> Interval:
    """(first, end) with 0 <= first < end <= bits."""
    first, end = (int(each) for each in interval)
    if not 0 <= first < end <= bits:
        raise PlanError(
            "audit-interval",
            f"an interval [first, end) must lie in 0 to {bits} and not be empty; got [{first}, {end}).",
            "Count bits from 0; end is the bit after the last.",
        )
    return first, end
