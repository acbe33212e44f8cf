"""Error of a histogram of trips: of answers to rectangles, of its faces, of its own consistency.

    mean absolute error    mean over rectangles of |estimated - exact|
    KLD                    sum over cells with H > 0 of H log(H / H') / trips: H exact faces, H' estimated
    violated share         of the constraints "an edge is not above a face beside it, nothing is below 0"

A cell with H > 0 and H' at 0 would make the KLD infinite. H' is raised to FLOOR there: half of what the
release files can write. H and H' need not have the same sum, so the KLD may be below 0.

>>> kld(np.array([[2.0, 0.0]]), np.array([[1.0, 5.0]]), trips=2) == float(np.log(2))
True
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import PlanError

if TYPE_CHECKING:
    from shoal.space.cells import CellGrid, Euler, Rectangles

FLOOR = 0.0005  # trips
SIZE_EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # shares of the map


def mean_absolute_error(estimated: np.ndarray, exact: np.ndarray) -> float:
    """Mean of |estimated - exact|; NaN where there are no rectangles."""
    estimated, exact = _alike(estimated, exact)
    return float(np.abs(estimated - exact).mean()) if exact.size else float("nan")


def kld(exact_faces: np.ndarray, estimated_faces: np.ndarray, trips: float) -> float:
    """Relative entropy of the exact faces to the estimated ones, per trip; NaN without trips."""
    exact, estimated = _alike(exact_faces, estimated_faces)
    if not trips > 0:
        return float("nan")
    here = exact > 0
    return float((exact[here] * np.log(exact[here] / np.maximum(estimated[here], FLOOR))).sum() / trips)


def violated_share(euler: Euler) -> float:
    """Share of violated constraints; two for each inner edge, and one for each number not to be negative.

    A constraint counts as violated if missed by more than 1e-9 of the largest face: floats are not exact.
    """
    faces = np.asarray(euler.faces, np.float64)
    slack = 1e-9 * max(1.0, float(np.abs(faces).max(initial=0.0)))
    broken, constraints = int((faces < -slack).sum()), faces.size
    for edges, first, second in (
        (euler.east, faces[:, :-1], faces[:, 1:]),
        (euler.north, faces[:-1], faces[1:]),
    ):
        if edges is None:
            continue
        broken += int((edges > first + slack).sum() + (edges > second + slack).sum() + (edges < -slack).sum())
        constraints += 3 * edges.size
    return broken / constraints


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """Errors of the rectangles that cover from `low` up to `high` of the map."""

    low: float
    high: float
    rectangles: int
    mean_absolute_error: float  # NaN where there are none
    mean_exact: float


@dataclass(frozen=True, kw_only=True)
class HistogramUtility:
    """Errors of a released histogram against all trips, and of the same answers without any noise."""

    trips: int  # all of the source on the map
    bounded_trips: int
    mean_exact: float  # trips in an unseen rectangle
    given: float  # mean absolute error on rectangles that the method could choose from
    unseen: float  # and on others
    bounded: float  # of exact counts of the bounded trips, scaled up: the error of bounding alone
    euler: float  # of the exact Euler histogram of all trips: the error from loops and returns
    euler_blocks: float  # the same with full 2 x 2 blocks counted back in
    kld: float
    violated_before: float | None  # None: the method has no repair
    violated_after: float
    rectangles: tuple[int, int]  # given, unseen
    by_size: dict[str, list[SizeFigures]]  # released, euler, euler_blocks

    def figures(self) -> dict[str, Any]:
        """For JSON, where the number of bounded trips has the key `kept`."""
        figures = asdict(self)
        return {"kept" if name == "bounded_trips" else name: value for name, value in figures.items()}


def error_by_size(
    rectangles: Rectangles,
    grid: CellGrid,
    estimated: np.ndarray,
    exact: np.ndarray,
    bins: tuple[float, ...] = SIZE_EDGES,
) -> list[SizeFigures]:
    """The mean absolute error against the share of the map that a rectangle covers; bins are open below."""
    estimated, exact = _alike(estimated, exact)
    share = rectangles.areas / grid.count
    which = np.digitize(share, np.asarray(bins)[1:-1], right=True)
    figures = []
    for i, (low, high) in enumerate(pairwise(bins)):
        here = which == i
        count = int(here.sum())
        figures.append(
            SizeFigures(
                low=low,
                high=high,
                rectangles=count,
                mean_absolute_error=mean_absolute_error(estimated[here], exact[here]),
                mean_exact=float(exact[here].mean()) if count else float("nan"),
            )
        )
    return figures


def _alike(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first.shape != second.shape:
        raise PlanError(
            "metric-shape",
            f"estimated and exact numbers must have one shape; got {list(first.shape)} and "
            f"{list(second.shape)}.",
        )
    return first, second
