"""Regions of near zones, from public geometry alone: k-means on centroids, the same for the same map."""

from __future__ import annotations

import numpy as np

ROUNDS = 40


def regions_of(xy_m: np.ndarray, count: int) -> np.ndarray:
    """int64 [zones]: the region of each zone, numbered from 0 without gaps, at most `count` of them.

    >>> regions_of(np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]]), 2).tolist()
    [0, 0, 1]
    """
    xy = np.asarray(xy_m, np.float64)
    count = min(count, len(np.unique(xy, axis=0)))
    if count <= 1:
        return np.zeros(len(xy), np.int64)
    centres = _spread_out(xy, count)
    nearest = _nearest(xy, centres)
    for _ in range(ROUNDS):
        held = np.bincount(nearest, minlength=count)
        sums = np.column_stack([np.bincount(nearest, xy[:, axis], count) for axis in (0, 1)])
        centres = np.where(held[:, None] > 0, sums / np.maximum(held, 1)[:, None], centres)
        again = _nearest(xy, centres)
        if (again == nearest).all():
            break
        nearest = again
    first = {int(region): place for place, region in reversed(list(enumerate(nearest)))}
    order = sorted(first, key=lambda region: first[region])  # in order of their first zone
    number = np.zeros(count, np.int64)
    number[order] = np.arange(len(order))
    return number[nearest]


def _spread_out(xy: np.ndarray, count: int) -> np.ndarray:
    """Starting centres: the zone nearest to the middle, then always the farthest from those chosen."""
    middle = xy.mean(axis=0)
    chosen = [int(np.argmin(((xy - middle) ** 2).sum(axis=1)))]
    away = ((xy - xy[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, ((xy - xy[chosen[-1]]) ** 2).sum(axis=1))
    return xy[chosen].copy()


def _nearest(xy: np.ndarray, centres: np.ndarray) -> np.ndarray:
    best, least = np.zeros(len(xy), np.int64), np.full(len(xy), np.inf)
    for number, centre in enumerate(centres):
        away = ((xy - centre) ** 2).sum(axis=1)
        nearer = away < least
        best[nearer], least[nearer] = number, away[nearer]
    return best
