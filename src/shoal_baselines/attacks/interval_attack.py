"""Which bits the answers to interval counts give away: an attack, or an owner's audit afterwards.

It looks at answers. Never decide with it whether to answer: the refusal itself would then tell something of
the data. The auditor that may decide is in `interval_audit.py`.

The data sets consistent with the answers are the integer points of 0 <= x <= 1, Qx = c. Q has consecutive
ones in its rows, so it is totally unimodular and every vertex is one of them (survey, eq. 2): one linear
program finds a data set, and the bounds of x_i over the polytope are the bounds over data sets.

No 2n programs are needed for the bounds. With prefix sums s, let u -> v say "if s_u rises by one, s_v must":
i -> i + 1 where x_i = 0, i + 1 -> i where x_i = 1, and both ways between the ends of an answered interval.
Bit i can be flipped iff some set of nodes that is closed under -> holds just one of i and i + 1. So it is
fixed iff i and i + 1 lie in one strongly connected component, which takes linear time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix, vstack
from scipy.sparse.csgraph import connected_components

from shoal.errors import PlanError

Interval = tuple[int, int]


def bit_bounds(bits: int, intervals: Sequence[Interval], answers: Sequence[int]) -> np.ndarray:
    """int8 [2, bits]: least and largest value of each bit over all data sets with these answers; exact.

    >>> bit_bounds(4, [(0, 3), (2, 4)], [3, 1]).tolist()
    [[1, 1, 1, 0], [1, 1, 1, 0]]
    """
    data = consistent_data(bits, intervals, answers)
    fixed = fixed_given_data(data, intervals)
    return np.where(fixed, data, np.array([[0], [1]])).astype(np.int8)


def fixed_given_data(data: np.ndarray, intervals: Sequence[Interval]) -> np.ndarray:
    """bool [bits]: bits that every data set with the same answers as `data` has in common."""
    bits = len(data)
    node, ones = np.arange(bits), np.asarray(data, bool)
    ends = np.asarray(intervals, np.int64).reshape(-1, 2)
    rises = np.concatenate([node + ones, ends[:, 0], ends[:, 1]])
    follows = np.concatenate([node + ~ones, ends[:, 1], ends[:, 0]])
    forced = coo_matrix((np.ones(len(rises), np.int8), (rises, follows)), shape=(bits + 1, bits + 1))
    _, group = connected_components(forced.tocsr(), directed=True, connection="strong")
    return group[:-1] == group[1:]


def consistent_data(bits: int, intervals: Sequence[Interval], answers: Sequence[int]) -> np.ndarray:
    """int8 [bits]: one data set with these answers, a vertex of the linear program."""
    if len(intervals) != len(answers):
        raise PlanError("audit-answers", "there must be one answer for each interval.")
    ends = np.asarray(intervals, np.int64).reshape(-1, 2)
    if len(ends) and (ends.min() < 0 or ends.max() > bits or (ends[:, 0] >= ends[:, 1]).any()):
        raise PlanError("audit-interval", f"an interval must lie in 0 to {bits} and not be empty.")
    # In prefix sums: two entries a row however long the interval, bounds on neighbouring differences.
    row = np.repeat(np.arange(len(ends)), 2)
    signs = np.tile([-1.0, 1.0], len(ends))
    answered = csr_matrix((signs, (row, ends.ravel())), shape=(len(ends), bits + 1))
    step_row = np.repeat(np.arange(bits), 2)
    step_node = np.column_stack([np.arange(bits), np.arange(1, bits + 1)]).ravel()
    steps = csr_matrix((np.tile([-1.0, 1.0], bits), (step_row, step_node)), shape=(bits, bits + 1))
    solved = linprog(
        np.zeros(bits + 1),
        A_ub=vstack([steps, -steps], format="csr"),
        b_ub=np.concatenate([np.ones(bits), np.zeros(bits)]),
        A_eq=answered if len(ends) else None,
        b_eq=np.asarray(answers, float) if len(ends) else None,
        bounds=[(0, 0)] + [(0, bits)] * bits,
        method="highs-ds",  # the simplex method ends in a vertex
    )
    if solved.status != 0:
        raise PlanError(
            "audit-inconsistent",
            "no data set of zeros and ones has these answers.",
            "Answers with noise cannot be taken as exact; use the reconstruction instead.",
        )
    return np.rint(np.diff(solved.x)).astype(np.int8)
