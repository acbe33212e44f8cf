from __future__ import annotations

import numpy as np
import pytest

from shoal.events.simulate import PRESETS
from shoal.events.simulate.geography import make_city
from shoal.events.simulate.people import HOME, NIGHT, WORK, make_ground, make_people
from shoal.events.simulate.rhythm import WEEK_MINUTES, empty_week, plan_week, stay_at


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


def test_people_do_not_depend_on_the_block_they_are_made_in(ground):
    whole, half = make_people(ground, 3, 0, 300), make_people(ground, 3, 150, 300)
    for a, b in zip(whole, half, strict=True):
        assert np.array_equal(a[150:], b)


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


def test_stay_at_agrees_with_a_plain_search(ground):
    people = make_people(ground, 3, 0, 5)
    stays = empty_week()
    plan_week(stays, np.empty(1, np.uint64), ground, people, 2, 3, 0)
    for minute in np.linspace(0, WEEK_MINUTES, 500):
        expected = max(k for k in range(stays.size[0]) if stays.arrive[k] <= minute)
        assert stay_at(stays, minute) == expected
