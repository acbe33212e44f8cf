"""Dyadic buckets against all covers, and the map that noise has nothing to say on."""

from __future__ import annotations

import numpy as np
from tests.loops import for_each

from shoal.space.cells import Rectangles
from shoal_baselines.postprocess.cells import cover_by_intervals, interval_levels, map_or_flat


def every_cover(begin, length, cells, finest):
    """All ways to cover the cells of a dyadic interval by dyadic intervals, as lists of (start, length)."""
    if begin >= cells:
        return [[]]
    covers = [[(begin, length)]]
    if length > finest:
        half = length // 2
        covers += [
            left + right
            for left in every_cover(begin, half, cells, finest)
            for right in every_cover(begin + half, half, cells, finest)
        ]
    return covers


@for_each("cells", [1, 2, 5, 8])
@for_each("finest", [1, 2])
@for_each("seed", range(4))
def test_the_cover_is_the_cheapest_of_all(cells, finest, seed):
    generator = np.random.default_rng(seed)
    lengths = interval_levels(cells, finest)
    costs = [generator.normal(2, 3, -(-cells // length)) for length in lengths]
    known = dict(zip(lengths, costs, strict=True))

    def price(cover):
        own = (max(known[length][start // length], 0) if length in known else 0 for start, length in cover)
        return sum(own) + 1.5 * len(cover)

    whole = max(lengths, default=finest)
    best = min(every_cover(0, whole, cells, finest), key=price)
    bucket = cover_by_intervals(costs, finest, cells, price=1.5)
    starts = [0, *(np.flatnonzero(np.diff(bucket)) + 1)]
    assert starts == [start for start, _ in best]


def test_a_map_of_noise_is_flattened_and_one_of_trips_is_not():
    generator = np.random.default_rng(3)
    given = Rectangles.of([(0, 4, 0, 8), (2, 7, 1, 6), (0, 8, 0, 3), (5, 8, 5, 8)])
    signal = np.zeros((8, 8))
    signal[:4, :4] = 50.0
    noise = generator.laplace(0, 2, (8, 8))
    kept = map_or_flat(signal + noise, 800.0, 8.0, given)
    assert kept.tolist() == (signal + noise).tolist()
    flat = map_or_flat(np.full((8, 8), 2.0) + 0.1 * noise, 128.0, 8.0, given)
    assert flat.tolist() == np.full((8, 8), 2.0).tolist()
