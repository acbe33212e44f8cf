"""The consistent Euler histogram nearest to a given one in L1.

A face counts the trips in a cell, an edge those crossing between two cells. So no edge exceeds either of
its two faces, and nothing is negative. After noise or an update this may fail. Sought is, among all
histograms where it holds, one with the least sum of absolute changes ("consistent inference" in the
thesis, definition 4.1, there a linear program). Here it is found exactly by counting, with no arithmetic
on the values:

1.  Negatives become 0. After that edges need only go down and faces only up, so only edges above one of
    their faces matter. New values can be taken from the old ones.
2.  Fix a threshold, and ask only which values lie above it. In conflict are the edges above with their
    faces below. One of every such pair gives way: the edge comes down or the face goes up, at the same
    cost. This is a least vertex cover.
3.  Its solution: draw the faces as points and the edges as lines between them (an edge in conflict with
    one face only is a line with a loose end). A connected part of m lines and k points is covered by
    min(m, k): m = k - 1 in a tree, and with any further line every point can be matched to its own one.
4.  An answer at one threshold splits the values into those above and those below. Each side is then
    solved by itself at its own middle threshold (least covers are nested). 18 rounds at 256 x 256.

Where several answers are equally near, the least one is given: it raises no face unless it must.
Lowering an edge at the border of a rectangle keeps the rectangle's answer, raising a face inside changes
it. The least answer is unique, so it does not depend on the order of cells.

>>> faces, east, north = consistent(np.array([[3, 1, 4]]), np.array([[2, 2]]), np.empty((0, 3)))
>>> faces.tolist(), east.tolist()
([[3.0, 2.0, 4.0]], [[2.0, 2.0]])
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from shoal.errors import PlanError

TOLERANCE = 1e-9  # of the largest magnitude in the histogram: what rounding may leave


def consistent(
    faces: np.ndarray, east: np.ndarray, north: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nearest histogram in L1 with 0 <= edge <= both its faces, exactly so; the least of several.

    `faces` is [R, C], `east` [R, C - 1] between (r, c) and (r, c + 1), `north` [R - 1, C] between (r, c)
    and (r + 1, c). Every new value is one of the old ones or 0. The arrays given are left as they are.
    """
    parts = _checked(faces, east, north)
    face, *edges = (np.maximum(part, 0.0).ravel() for part in parts)
    edge = np.concatenate(edges)
    sides = _sides(parts[0].shape)
    violated = np.flatnonzero((edge > face[sides]).any(axis=0))
    touched, ends = np.unique(sides[:, violated], return_inverse=True)

    values, rank = np.unique(np.append(edge[violated], face[touched]), return_inverse=True)
    edge_rank, face_rank = np.split(rank, [len(violated)])
    edge_rank, face_rank = _thresholds(edge_rank, face_rank, ends.reshape(2, -1), len(values))

    edge[violated] = values[edge_rank]
    face[touched] = values[face_rank]
    new_east, new_north = np.split(edge, [parts[1].size])
    shapes = [part.shape for part in parts]
    return face.reshape(shapes[0]), new_east.reshape(shapes[1]), new_north.reshape(shapes[2])


def violations(faces: np.ndarray, east: np.ndarray, north: np.ndarray) -> tuple[int, int]:
    """Violated constraints and all constraints: two per edge against its faces, one per value against 0.

    A constraint counts as violated if missed by more than 1e-9 of the largest magnitude in the
    histogram: what rounding leaves is not counted.
    """
    faces, east, north = _checked(faces, east, north)
    edge_value = np.concatenate([east.ravel(), north.ravel()])
    every = np.concatenate([faces.ravel(), edge_value])
    slack = TOLERANCE * np.abs(every).max()
    above = edge_value - faces.ravel()[_sides(faces.shape)]
    return int((above > slack).sum() + (every < -slack).sum()), above.size + every.size


def _checked(faces: np.ndarray, east: np.ndarray, north: np.ndarray) -> list[np.ndarray]:
    parts = [np.asarray(part, np.float64) for part in (faces, east, north)]
    shapes = [part.shape for part in parts]
    rows, columns = shapes[0] if len(shapes[0]) == 2 else (0, 0)
    if not rows * columns or shapes[1:] != [(rows, columns - 1), (rows - 1, columns)]:
        raise PlanError(
            "euler-shape",
            "an Euler histogram has faces [R, C], east edges [R, C - 1] and north edges [R - 1, C]; "
            f"got {', '.join(str(list(shape)) for shape in shapes)}.",
        )
    if not all(np.isfinite(part).all() for part in parts):
        raise PlanError("euler-values", "an Euler histogram is made of finite numbers; some are not.")
    return parts


def _sides(shape: tuple[int, ...]) -> np.ndarray:
    """int64 [2, edges]: the two faces of each edge, east edges first."""
    cell = np.arange(shape[0] * shape[1]).reshape(shape)
    first = np.concatenate([cell[:, :-1].ravel(), cell[:-1].ravel()])
    second = np.concatenate([cell[:, 1:].ravel(), cell[1:].ravel()])
    return np.stack([first, second])


def _thresholds(
    edge: np.ndarray, face: np.ndarray, ends: np.ndarray, ranks: int
) -> tuple[np.ndarray, np.ndarray]:
    """New ranks of edges and faces: all thresholds, by halving.

    Each rank lies in a range that halves every round. Those with the same range form one subproblem, and
    all subproblems of a round are solved together. An edge and a face whose ranges have parted are in
    order and stay so.
    """
    edge, face = edge.copy(), face.copy()
    edge_low, face_low = np.zeros_like(edge), np.zeros_like(face)
    width = 1 << max(ranks - 1, 0).bit_length()  # of every range; a power of two, so all halve alike
    while width > 1:
        width //= 2
        edge_top, face_top = edge_low + width, face_low + width  # the upper half begins here
        together = edge_low == face_low[ends]
        conflict = together & (edge >= edge_top) & (face < face_top)[ends]
        lowered, raised = _least_cover(conflict, ends, len(face))
        edge[lowered] = edge_top[lowered] - 1
        face[raised] = face_top[raised]
        edge_low = np.where(edge >= edge_top, edge_top, edge_low)
        face_low = np.where(face >= face_top, face_top, face_low)
    return edge, face


def _least_cover(conflict: np.ndarray, ends: np.ndarray, faces: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges to lower and faces to raise such that every conflict is met; fewest in all, fewest faces.

    Among the lines and points of step 3, a point with one line is dropped with the line: lowering
    that edge is never worse. What is left has no such point, and raising all of a part of m lines and k
    points is then strictly better than anything else if m > k. Otherwise m = k, and its edges come down.
    """
    lines = np.flatnonzero(conflict.any(axis=0))
    # A loose end is drawn as a line from the face to itself.
    first = np.where(conflict[0, lines], ends[0, lines], ends[1, lines])
    second = np.where(conflict[1, lines], ends[1, lines], ends[0, lines])
    remaining = _without_trees(first, second, faces)
    graph = coo_array(
        (np.ones(remaining.sum(), np.int8), (first[remaining], second[remaining])), shape=(faces, faces)
    )
    parts, part = connected_components(graph, directed=False)
    more_lines = np.bincount(part[first[remaining]], minlength=parts) > np.bincount(part, minlength=parts)
    raised = more_lines[part]
    # A line between a raised point and a dropped one must still come down, for the dropped one.
    return lines[~(raised[first] & raised[second])], raised


@njit(cache=True, nogil=True)
def _without_trees(first, second, faces):
    """Bool [lines]: those left when points with a single line are dropped with it, again and again."""
    degree = np.zeros(faces, np.int64)
    code = np.zeros(faces, np.int64)  # exclusive or of the lines at a point: with one left, its number
    for line in range(len(first)):
        degree[first[line]] += 1
        code[first[line]] ^= line
        if second[line] != first[line]:
            degree[second[line]] += 1
            code[second[line]] ^= line
    remaining = np.ones(len(first), np.bool_)
    for start in range(faces):
        point = start
        while degree[point] == 1:
            line = code[point]
            remaining[line] = False
            other = first[line] + second[line] - point
            degree[point] = 0
            if other != point:
                degree[other] -= 1
                code[other] ^= line
                point = other
    return remaining
