"""Streams of numbers for drawn trips: the published generator, even, and independent of each other."""

import numpy as np
from scipy import stats
from tests.loops import for_each

from shoal.postprocess.synthetic.numbers import mix, pick, stream, uniform, uniforms

ALARM = 1e-6
# The first outputs of SplitMix64 from the seed 1234567, as published with its reference code.
KNOWN = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
STEP, WORD = 0x9E3779B97F4A7C15, 2**64


def test_a_stream_is_splitmix():
    for draw, word in enumerate(KNOWN):
        assert int(mix(np.uint64((1234567 + (draw + 1) * STEP) % WORD))) == word
        assert float(uniform(np.uint64(1234567), draw)) == (word >> 11) / 2**53


@for_each("seed", [0, 1, 2**63 + 5])
@for_each("purpose", [1, 42])
def test_numbers_of_things_are_even(seed, purpose):
    drawn = uniforms(seed, purpose, 50_000)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.chisquare(np.bincount((drawn * 100).astype(int), minlength=100)).pvalue > ALARM
    assert stats.kstest(drawn, "uniform").pvalue > ALARM
    pairs = (drawn[:-1] * 10).astype(int) * 10 + (drawn[1:] * 10).astype(int)  # one thing and the next
    assert stats.chisquare(np.bincount(pairs[::2], minlength=100)).pvalue > ALARM


def test_numbers_within_a_stream_are_even():
    states = [np.uint64(stream(5, 2, thing)) for thing in range(200)]
    drawn = np.array([uniform(state, draw) for state in states for draw in range(50)])
    assert stats.kstest(drawn, "uniform").pvalue > ALARM
    assert np.unique(drawn).size == drawn.size


@for_each(
    ("one", "other"),
    [((1, 1), (1, 2)), ((1, 1), (2, 1)), ((0, 1), (1, 0)), ((1, 21), (1, 1021)), ((3, 4), (4, 3))],
)
def test_seeds_and_purposes_share_nothing(one, other):
    first, second = uniforms(*one, 20_000), uniforms(*other, 20_000)
    for shift in (0, 1):
        near = stats.spearmanr(first[shift:], second[: 20_000 - shift])
        assert near.pvalue > ALARM
    assert np.intersect1d(first, second).size == 0


def test_a_thing_has_its_number_whatever_their_count_is():
    assert np.array_equal(uniforms(9, 3, 10), uniforms(9, 3, 5000)[:10])
    assert uniforms(9, 3, 7)[6] == uniform(np.uint64(stream(9, 3, 6)), 0)
    assert uniforms(9, 3, 0).size == 0


def test_places_are_picked_in_proportion_to_their_weights():
    weights = np.array([0.0, 3.0, -2.0, 1.0, 0.0, 6.0, 0.0])
    seen = np.bincount(pick(weights, uniforms(1, 1, 60_000)), minlength=7)
    assert seen[[0, 2, 4, 6]].tolist() == [0, 0, 0, 0]
    assert stats.chisquare(seen[[1, 3, 5]], [18_000, 6_000, 36_000]).pvalue > ALARM


def test_picks_at_the_borders():
    ends = np.array([0.0, 0.25, 1 - 2**-53])
    assert pick(np.array([0.0, 1.0, 3.0, 0.0]), ends).tolist() == [1, 2, 2]
    assert pick(np.array([0.1] * 10 + [0.0]), ends[-1:]).tolist() == [9]
    assert pick(np.array([1e-300, 0.0]), ends).tolist() == [0, 0, 0]
