from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from shoal.events.simulate import PRESETS
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import HOME, make_ground, make_people, open_stream
from shoal.events.simulate.traces import BLOCK_M, ROUTE_POINTS, TURN, _lay_route, draw_trips, loggers


@pytest.fixture(scope="module")
def ground():
    return make_ground(make_city(PRESETS["town"], 3), PRESETS["town"], 3)


def test_a_route_follows_the_street_lattice_and_makes_no_detour():
    state, route = np.empty(1, np.uint64), np.empty((ROUTE_POINTS, 2))
    open_stream(state, 1, 1, 1, 1)
    n = _lay_route(state, route, 30.0, -55.0, 2100.0, 1400.0)
    street = route[1 : n - 1]
    turned = street @ np.array([[np.cos(TURN), -np.sin(TURN)], [np.sin(TURN), np.cos(TURN)]])
    step = np.abs(np.diff(turned, axis=0))
    assert np.allclose(np.sort(step, axis=1), [0, BLOCK_M], atol=1e-6)
    assert step.sum() == pytest.approx(np.abs(turned[-1] - turned[0]).sum())
    assert np.allclose(route[0], [30, -55])
    assert np.allclose(route[n - 1], [2100, 1400])


def test_a_very_long_route_fits():
    state, route = np.empty(1, np.uint64), np.empty((ROUTE_POINTS, 2))
    open_stream(state, 1, 1, 1, 1)
    n = _lay_route(state, route, -4e6, 0.0, 4e6, 3e6)
    assert n <= ROUTE_POINTS
    assert np.allclose(route[n - 1], [4e6, 3e6])


def test_points_come_regularly_at_speeds_of_a_town(ground):
    people = make_people(ground, 3, 0, 60)
    _, trip, first, second, x, y = draw_trips(people, ground, 1, 3)
    assert len(np.unique(trip)) == len(trip)
    for a, b in pairwise(first):
        gap = np.diff(second[a:b])
        assert len(set(gap)) <= 1
        assert set(gap) <= {15, 20, 30, 60}
        if b - a > 5:
            metres = np.hypot(np.diff(x[a:b]), np.diff(y[a:b])).sum()
            assert 0.1 < metres / gap.sum() < 15  # metres per second


def test_trips_start_and_end_at_the_persons_places(ground):
    people = make_people(ground, 3, 0, 60)
    user, _, first, _, x, y = draw_trips(people, ground, 1, 3)
    leads = np.flatnonzero(np.concatenate([[True], user[1:] != user[:-1]]))
    home = ground.xy[people.anchors[:, HOME]]
    start = np.column_stack([x[first[leads]], y[first[leads]]])
    reach = 5 * ground.spread_m[people.anchors[:, HOME]] + 30
    assert (np.hypot(*(start - home).T) < reach).all()
    # A trip begins where the last one of the user ended, but for the noise of the points.
    for k in np.flatnonzero(user[1:] == user[:-1]):
        end, begin = first[k + 1] - 1, first[k + 1]
        assert np.hypot(x[end] - x[begin], y[end] - y[begin]) < 60


def test_about_the_wanted_share_carries_a_logger(ground):
    people = make_people(ground, 3, 0, 20_000)
    carriers = loggers(people, 0.1, 3)
    assert abs(len(carriers.index) - 2000) < 5 * np.sqrt(20_000 * 0.1 * 0.9)
    assert np.array_equal(people.anchors[carriers.index], carriers.anchors)
