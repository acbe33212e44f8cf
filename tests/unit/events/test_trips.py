"""Trip rules against a plain Python reading of the same words."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.events.schema import TripRule
from shoal.events.trips import split_trips

MINUTE_US = 60_000_000


def oracle(points, rule: TripRule, distance) -> list[int]:
    """Trips of one user's points [(minute, place, flag)], by lists: cut by flag and gap, then by stays."""
    pieces, piece = [], []
    for number, (minute, _, flag) in enumerate(points):
        gap = piece and rule.gap_minutes is not None and minute - points[piece[-1]][0] >= rule.gap_minutes
        if piece and (gap or (rule.flag and not flag)):
            pieces.append(piece)
            piece = []
        if flag or not rule.flag:
            piece.append(number)
    pieces.append(piece)
    trips = [trip for piece in pieces for trip in cut_at_stays(piece, points, rule, distance)]
    found = [-1] * len(points)
    for index, trip in enumerate(trip for trip in trips if len(trip) >= rule.min_points):
        for number in trip:
            found[number] = index
    return found


def cut_at_stays(piece, points, rule, distance):
    if rule.stay_m is None or not piece:
        return [piece] if piece else []
    stay = first_stay(piece, points, rule, distance)
    if stay is None:
        return [piece]
    first, last = stay
    before, after = piece[: first + 1], piece[last:]
    rest = cut_at_stays(after, points, rule, distance) if len(after) > 1 else []
    return ([before] if len(before) > 1 else []) + rest


def first_stay(piece, points, rule, distance):
    """Positions in the piece of the first point from which the user stays, and of the last within reach."""
    for first in range(len(piece)):
        last = first
        while (
            last + 1 < len(piece)
            and distance(points[piece[first]][1], points[piece[last + 1]][1]) <= rule.stay_m
        ):
            last += 1
        if last > first and points[piece[last]][0] - points[piece[first]][0] >= rule.stay_minutes:
            return first, last
    return None


rules = st.builds(
    lambda gap, flag, stay, least: TripRule(
        gap_minutes=gap if gap or flag or stay else 2.0,
        flag=flag,
        stay_m=stay[0] if stay else None,
        stay_minutes=stay[1] if stay else None,
        min_points=least,
    ),
    st.none() | st.sampled_from([1.0, 2.0, 3.0]),
    st.booleans(),
    st.none() | st.tuples(st.sampled_from([1.0, 2.0]), st.sampled_from([1.0, 2.0, 4.0])),
    st.integers(1, 3),
)
point = st.tuples(st.integers(0, 4), st.integers(-3, 3), st.booleans())  # minutes since the last, place, flag


@settings(max_examples=400, deadline=None)
@given(rule=rules, users=st.lists(st.lists(point, min_size=1, max_size=14), max_size=4))
def test_split_is_what_the_words_say(rule, users):
    user, time_us, x, flags, expected = [], [], [], [], []
    for number, steps in enumerate(users):
        points, minute = [], 0
        for step, place, flag in steps:
            minute += step
            points.append((minute, place, flag))
        expected += oracle(points, rule, lambda one, two: abs(one - two))
        user += [number * 7 - 3] * len(points)
        time_us += [minute * MINUTE_US for minute, _, _ in points]
        x += [float(place) for _, place, _ in points]
        flags += [flag for _, _, flag in points]
    found = split_trips(
        np.array(user, dtype=np.int64),
        np.array(time_us, dtype=np.int64),
        np.array(x, dtype=np.float64),
        np.zeros(len(x)),
        rule,
        np.array(flags, dtype=bool),
        planar=True,
    )
    assert found.tolist() == expected


def split(rule, minutes, x, y, planar=False, flag=None):
    minutes = np.array(minutes) * MINUTE_US
    return split_trips(
        np.zeros(len(minutes)), minutes, np.array(x), np.array(y), rule, flag, planar=planar
    ).tolist()


def test_a_gap_of_exactly_the_limit_splits():
    assert split(TripRule(gap_minutes=5), [0, 4, 9, 13], [0.0] * 4, [0.0] * 4) == [0, 0, 1, 1]


def test_a_stay_ends_one_trip_and_begins_the_next():
    x = [0.0, 500.0, 1000.0, 1010.0, 990.0, 1500.0, 2000.0]
    rule = TripRule(stay_m=50, stay_minutes=10)
    assert split(rule, [0, 1, 2, 7, 12, 13, 14], x, [0.0] * 7, planar=True) == [0, 0, 0, -1, 1, 1, 1]
    assert split(rule, [0, 1, 2, 7, 11, 12, 13], x, [0.0] * 7, planar=True) == [0] * 7


@pytest.mark.parametrize(
    ("lon", "lat"),
    [((2.0, 2.001), (48.0, 48.0)), ((2.0, 2.0), (48.0, 48.001)), ((179.9995, -179.9995), (0.0, 0.0))],
)
def test_distances_on_the_globe_are_metres(lon, lat):
    """Against the law of cosines: the pair is a stay just above its distance and none just below."""
    phi = [math.radians(each) for each in lat]
    angle = math.sin(phi[0]) * math.sin(phi[1]) + math.cos(phi[0]) * math.cos(phi[1]) * math.cos(
        math.radians(lon[1] - lon[0])
    )
    metres = 6_371_008.8 * math.acos(angle)
    assert 50 < metres < 150
    for factor, expected in ((1.001, [-1, -1]), (0.999, [0, 0])):
        assert split(TripRule(stay_m=metres * factor, stay_minutes=1), [0, 1], lon, lat) == expected


@for_each(
    "settings",
    [
        {},
        {"gap_minutes": 0.0},
        {"gap_minutes": float("nan")},
        {"stay_m": 10.0},
        {"stay_minutes": 10.0},
        {"stay_m": -1.0, "stay_minutes": 10.0},
        {"flag": True, "min_points": 0},
    ],
)
def test_rules_that_make_no_sense(settings):
    with pytest.raises(PlanError, match="trip-rule"):
        TripRule(**settings)


def test_a_flag_rule_needs_flags():
    with pytest.raises(PlanError, match="trip-rule"):
        split(TripRule(flag=True), [0], [0.0], [0.0])
