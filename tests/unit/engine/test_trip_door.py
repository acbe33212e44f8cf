"""The door to bounded trips lets sums out, keeps counts of rectangles, and refuses bins that are none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from shoal.engine import trip_door
from shoal.engine.trip_door import TripDoor
from shoal.errors import GuaranteeError
from shoal.space.rectangles import Rectangles

PATHS = [[(0, 0), (1, 0)], [(2, 2)], [(0, 1), (0, 2), (1, 2)]]


@dataclass
class LeftColumn:
    """Bins by the first column; `shift` and `short` plant mistakes."""

    count: int = 3
    shift: int = 0
    short: int = 0

    def index(self, x0, x1, y0, y1, shape):
        return (x0 + self.shift)[self.short :]


@pytest.fixture
def door(trips_of):
    return TripDoor(replace(trips_of(3, 3, PATHS), per_unit=2, all_trips=9, cap=5))


def test_what_it_tells(door):
    assert (door.count(), door.all_trips(), door.per_unit, door.cap) == (3, 9, 2, 5)
    assert (door.grid.columns, door.grid.rows) == (3, 3)
    assert door.distinct(Rectangles.of([(0, 1, 0, 3), (1, 3, 1, 3), (2, 3, 0, 1)])).tolist() == [2, 2, 0]
    assert door.shared_faces(6).tolist() == [[3, 3, 0], [2, 0, 0], [2, 2, 6]]
    assert door.binned(LeftColumn()).tolist() == [2, 0, 1]
    assert door.binned(LeftColumn(count=5)).tolist() == [2, 0, 1, 0, 0]


def test_counts_are_made_once_and_cannot_be_changed_from_outside(door, monkeypatch):
    calls = []
    count = trip_door.distinct_counts
    monkeypatch.setattr(trip_door, "distinct_counts", lambda *given: calls.append(1) or count(*given))
    asked = Rectangles.of([(0, 3, 0, 3)])
    door.distinct(asked)[0] = 99
    assert door.distinct(asked).tolist() == [3]
    assert len(calls) == 1


def test_rectangles_that_are_gone_keep_their_answers_to_themselves(door):
    """An object made where another was may have its id."""
    expected = {0: 2, 1: 2, 2: 1}
    for i in range(300):
        x = i % 3
        assert door.distinct(Rectangles.of([(x, x + 1, 0, 3)])).tolist() == [expected[x]]


@pytest.mark.parametrize("wrong", [{"shift": 1}, {"shift": -1}, {"short": 1}, {"count": 2}])
def test_a_trip_in_no_bin_is_refused(door, wrong):
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        door.binned(LeftColumn(**wrong))


def test_no_trips(trips_of):
    door = TripDoor(trips_of(2, 2, []))
    assert door.count() == 0
    assert door.binned(LeftColumn(count=4)).tolist() == [0, 0, 0, 0]
    assert door.distinct(Rectangles.of([(0, 2, 0, 2)])).tolist() == [0]
    assert not door.shared_faces(3).any()


def test_paths_are_not_shown(door):
    door.distinct(Rectangles.of([(0, 3, 0, 3)]))
    assert repr(door) == "TripDoor()"
    assert "array" not in repr(door.trips)


def test_a_bin_cannot_change_what_the_next_one_sees(door):
    class Greedy(LeftColumn):
        def index(self, x0, x1, y0, y1, shape):
            x0[:] = 0
            return x0

    before = door.binned(LeftColumn()).tolist()
    with pytest.raises(ValueError, match="read-only"):
        door.binned(Greedy())
    assert door.binned(LeftColumn()).tolist() == before == [2, 0, 1]
