"""Every summary falls into exactly one bin, the one its coordinates say."""

import itertools

import numpy as np
from tests.loops import for_each

from shoal.space.trip_setting import TripBins

X, Y = np.array([2.0, 5.0]), np.array([3.0])


def bins(kind, shapes=1):
    return TripBins(kind=kind, x_cuts=X, y_cuts=Y, shapes=shapes)


def column(x):
    return sum(x + 0.5 >= cut for cut in X)


def row(y):
    return sum(y + 0.5 >= cut for cut in Y)


def everything(side=7):
    spans = [(a, b) for a in range(side) for b in range(a, side)]
    rows = [(*x, *y, s) for x, y in itertools.product(spans, spans) for s in (0, 5, 6, 11)]
    return np.array(rows).T


@for_each("shapes", [1, 2, 12])
@for_each("kind", ["box", "x", "y", "centre", "size"])
def test_bins_are_a_partition_by_the_named_coordinates(kind, shapes):
    x0, x1, y0, y1, shape = everything()
    made = bins(kind, shapes)
    index = made.index(x0, x1, y0, y1, shape)
    assert index.min() >= 0
    assert index.max() < made.count
    keys = {
        "box": lambda a, b, c, d: (column(a), column(b), row(c), row(d)),
        "x": lambda a, b, c, d: (column(a), column(b)),
        "y": lambda a, b, c, d: (row(c), row(d)),
        "centre": lambda a, b, c, d: (column((a + b) / 2), row((c + d) / 2)),
        "size": lambda a, b, c, d: column(b - a + d - c),
    }
    seen = {}
    for at, (a, b, c, d, s) in zip(index, zip(x0, x1, y0, y1, shape, strict=True), strict=True):
        key = (keys[kind](a, b, c, d), s // (12 // shapes))
        assert seen.setdefault(at, key) == key  # one key per bin
    assert len(set(seen.values())) == len(seen)  # one bin per key
