"""Two trajectory releases overlap in time where some microsecond lies in both windows, and only there."""

from itertools import product
from pathlib import Path

import pytest

from shoal.kinds.trajectories.compose import _look_up
from shoal.privacy.ledger import Population

POPULATION = Population(name="town", pots={}, delta=None, note="", at="2026-01-01T00:00:00+00:00")
NEW = (20, 30)  # microseconds; a window begins with its first and ends before its second
RELATIONS = {
    "before": (5, 15),
    "meets": (5, 20),
    "overlaps": (15, 25),
    "starts": (20, 25),
    "during": (22, 28),
    "finishes": (25, 30),
    "equals": (20, 30),
    "finished by": (15, 30),
    "contains": (15, 35),
    "started by": (20, 35),
    "overlapped by": (25, 35),
    "met by": (30, 35),
    "after": (32, 40),
}


def found(window, new):
    note = {"manifest_sha256": "0" * 64, "path": "/nowhere", "window": window}
    return _look_up(note, new, None, None, Path("/nowhere"), POPULATION)


def shares_a_microsecond(one, other):
    return bool({*range(*one)} & {*range(*other)})


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_relation_of_two_windows(relation):
    earlier = RELATIONS[relation]
    assert found(list(earlier), NEW).overlaps == shares_a_microsecond(earlier, NEW)
    assert found(list(NEW), earlier).overlaps == shares_a_microsecond(earlier, NEW)
    assert found(list(earlier), NEW).window_us == earlier


def test_all_thirteen_relations_and_windows_that_are_not_known():
    """Two intervals are distinguished by the order of their four ends."""

    def order(one):
        return tuple((a > b) - (a < b) for a, b in product(one, NEW))

    assert len({order(each) for each in RELATIONS.values()}) == 13
    assert found(None, NEW).overlaps


def test_all_windows_of_a_short_day():
    windows = [(a, b) for a in range(6) for b in range(a + 1, 7)]
    for one, other in product(windows, windows):
        assert found(list(one), other).overlaps == shares_a_microsecond(one, other), (one, other)
