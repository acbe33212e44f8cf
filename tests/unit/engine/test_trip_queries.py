"""The query interface to bounded trips returns sums, keeps counts of rectangles, and refuses invalid bins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from shoal.engine import trip_queries
from shoal.engine.trip_queries import TripQueries
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
def queries(trips_of):
    return TripQueries(replace(trips_of(3, 3, PATHS), per_unit=2, all_trips=9, cap=5))


def test_what_it_tells(queries):
    assert (queries.count(), queries.all_trips(), queries.per_unit, queries.cap) == (3, 9, 2, 5)
    assert (queries.grid.columns, queries.grid.rows) == (3, 3)
    assert queries.distinct(Rectangles.of([(0, 1, 0, 3), (1, 3, 1, 3), (2, 3, 0, 1)])).tolist() == [2, 2, 0]
    assert queries.shared_faces(6).tolist() == [[3, 3, 0], [2, 0, 0], [2, 2, 6]]
    assert queries.binned(LeftColumn()).tolist() == [2, 0, 1]
    assert queries.binned(LeftColumn(count=5)).tolist() == [2, 0, 1, 0, 0]


def test_counts_are_made_once_and_cannot_be_changed_from_outside(queries, monkeypatch):
    calls = []
    count = trip_queries.distinct_counts
    monkeypatch.setattr(trip_queries, "distinct_counts", lambda *given: calls.append(1) or count(*given))
    asked = Rectangles.of([(0, 3, 0, 3)])
    queries.distinct(asked)[0] = 99
    assert queries.distinct(asked).tolist() == [3]
    assert len(calls) == 1


def test_rectangles_that_are_gone_keep_their_answers_to_themselves(queries):
    """An object made where another was may have its id."""
    expected = {0: 2, 1: 2, 2: 1}
    for i in range(300):
        x = i % 3
        assert queries.distinct(Rectangles.of([(x, x + 1, 0, 3)])).tolist() == [expected[x]]


@pytest.mark.parametrize("wrong", [{"shift": 1}, {"shift": -1}, {"short": 1}, {"count": 2}])
def test_a_trip_in_no_bin_is_refused(queries, wrong):
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        queries.binned(LeftColumn(**wrong))


def test_no_trips(trips_of):
    queries = TripQueries(trips_of(2, 2, []))
    assert queries.count() == 0
    assert queries.binned(LeftColumn(count=4)).tolist() == [0, 0, 0, 0]
    assert queries.distinct(Rectangles.of([(0, 2, 0, 2)])).tolist() == [0]
    assert not queries.shared_faces(3).any()


def test_paths_are_not_shown(queries):
    queries.distinct(Rectangles.of([(0, 3, 0, 3)]))
    assert repr(queries) == "TripQueries()"
    assert "array" not in repr(queries.trips)


def test_a_bin_cannot_change_what_the_next_one_sees(queries):
    class Greedy(LeftColumn):
        def index(self, x0, x1, y0, y1, shape):
            x0[:] = 0
            return x0

    before = queries.binned(LeftColumn()).tolist()
    with pytest.raises(ValueError, match="read-only"):
        queries.binned(Greedy())
    assert queries.binned(LeftColumn()).tolist() == before == [2, 0, 1]
