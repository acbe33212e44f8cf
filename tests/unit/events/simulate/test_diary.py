"""A user's week, and the trips along the streets between its stays."""

from itertools import pairwise

import numpy as np
import pytest

from shoal.events.simulate import PRESETS
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import HOME, NIGHT, WORK, make_ground, make_people, open_stream
from shoal.events.simulate.rhythm import WEEK_MINUTES, empty_week, plan_week, stay_at
from shoal.events.simulate.visits import BLOCK_M, ROUTE_POINTS, TURN, _lay_route, draw_trips, loggers


@pytest.fixture(scope="module")
def ground():
    return make_ground(make_city(PRESETS["town"], 3), PRESETS["town"], 3)


@pytest.fixture(scope="module")
def weeks(ground):
    people = make_people(ground, 3, 0, 400)
    state, found = np.empty(1, np.uint64), []
    for i in range(400):
        stays = empty_week()
        plan_week(stays, state, ground, people, i, 3, 0)
        n = stays.size[0]
        found.append((stays.arrive[:n], stays.leave[:n], stays.site[:n], stays.kind[:n]))
    return people, found


def test_people_do_not_depend_on_their_block_and_stay_where_a_plain_search_says(ground):
    whole, half = make_people(ground, 3, 0, 300), make_people(ground, 3, 150, 300)
    for a, b in zip(whole, half, strict=True):
        assert np.array_equal(a[150:], b)
    people = make_people(ground, 3, 0, 5)
    stays = empty_week()
    plan_week(stays, np.empty(1, np.uint64), ground, people, 2, 3, 0)
    for minute in np.linspace(0, WEEK_MINUTES, 500):
        expected = max(k for k in range(stays.size[0]) if stays.arrive[k] <= minute)
        assert stay_at(stays, minute) == expected


def test_a_week_is_one_walk_through_time_from_home_to_home(weeks):
    people, found = weeks
    for i, (arrive, leave, site, _) in enumerate(found):
        assert arrive[0] == 0
        assert leave[-1] == WEEK_MINUTES
        assert (leave >= arrive).all()
        assert (arrive[1:] > leave[:-1]).all()
        assert (site[1:] != site[:-1]).all()
        assert site[0] == people.anchors[i, HOME]
        assert site[-1] == people.anchors[i, HOME]


def test_workers_are_at_work_on_weekday_mornings_and_at_home_at_night(weeks):
    people, found = weeks

    def share(minute, kind, chosen):
        at = [k[np.searchsorted(a, minute, side="right") - 1] for a, _, _, k in chosen]
        return np.mean(np.array(at) == kind)

    workers = [week for week, works in zip(found, people.works, strict=True) if works]
    others = [week for week, works in zip(found, people.works, strict=True) if not works]
    assert share(1440 + 10.5 * 60, WORK, workers) > 0.75
    assert share(1440 + 10.5 * 60, WORK, others) == 0
    assert share(5 * 1440 + 10.5 * 60, WORK, workers) == 0  # Saturday
    assert share(1440 + 4 * 60, HOME, found) > 0.97
    assert share(4 * 1440 + 22 * 60, NIGHT, found) > 2 * share(0 * 1440 + 22 * 60, NIGHT, found)


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
    state, route = np.empty(1, np.uint64), np.empty((ROUTE_POINTS, 2))
    open_stream(state, 1, 1, 1, 1)
    n = _lay_route(state, route, -4e6, 0.0, 4e6, 3e6)
    assert n <= ROUTE_POINTS
    assert np.allclose(route[n - 1], [4e6, 3e6])


def test_trips_start_and_end_at_places_at_speeds_of_a_town(ground):
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
    people = make_people(ground, 3, 0, 20_000)
    carriers = loggers(people, 0.1, 3)
    assert abs(len(carriers.index) - 2000) < 5 * np.sqrt(20_000 * 0.1 * 0.9)
    assert np.array_equal(people.anchors[carriers.index], carriers.anchors)
