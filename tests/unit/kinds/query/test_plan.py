"""Queries as they are written: zones by id or box, slots by time or number, and what is refused."""

import numpy as np
import pytest
import shapely

from shoal.errors import PlanError
from shoal.kinds.ask import Ask, parse_slots, read_asks
from shoal.kinds.query.plan import as_written
from shoal.space.clock import Clock
from shoal.space.places import Zones

ZONES = Zones(
    ids=("A", "B", "C"),
    names=("", "", ""),
    geometry=np.array([shapely.box(x, 48.0, x + 1, 49.0) for x in (2, 3, 4)]),
)
CLOCK = Clock(start="2026-03-02", end="2026-03-04", time_zone="Europe/Paris")  # 48 hours


def question(**fields):
    return Ask(**fields).question(ZONES, CLOCK)


def test_all_zones_and_slots_where_nothing_is_said():
    asked = question()
    assert (asked.zones, len(asked.slots)) == ((0, 1, 2), 48)


def test_zones_by_id_and_by_box():
    assert question(zones=("C", "A", "C")).zones == (0, 2)
    assert question(bbox=(2.2, 48.2, 3.7, 48.8)).zones == (0, 1)


def test_slots_by_time_and_by_number():
    assert question(start="2026-03-02T07:00", end="2026-03-02T10:00").slots == (7, 8, 9)
    assert question(start="2026-03-03").slots == tuple(range(24, 48))
    assert question(start="2026-03-03T23:00", end="2026-03-04").slots == (47,)
    assert question(slots=(5, 3, 5)).slots == (3, 5)


def test_an_hour_that_comes_twice_means_its_first():
    clock = Clock(start="2026-10-25", end="2026-10-26", time_zone="Europe/Paris")
    assert Ask(start="2026-10-25T02:00", end="2026-10-25T03:00").question(ZONES, clock).slots == (2, 3)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"zones": ("D",)}, "not there"),
        ({"zones": ()}, "no zone"),
        ({"bbox": (9.0, 9.0, 9.1, 9.1)}, "no zone has its centre"),
        ({"slots": ()}, "no slot"),
        ({"slots": (48,)}, "outside the window"),
        ({"slots": (-1,)}, "outside the window"),
        ({"start": "2026-03-02T07:30"}, "no slot of the window begins"),
        ({"start": "2026-03-01"}, "no slot of the window begins"),
        ({"start": "2026-03-02T07:00+01:00"}, "no slot of the window begins"),
        ({"start": "noon"}, "cannot be read"),
        ({"start": "2026-03-03", "end": "2026-03-02"}, "end after it begins"),
        ({"zones": ("A",), "bbox": (0.0, 0.0, 1.0, 1.0)}, "one of them"),
        ({"slots": (1,), "end": "2026-03-03"}, "one of them"),
        ({"name": "a\nb"}, "printable"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, words):
    with pytest.raises(PlanError, match=words):
        question(**fields)


def test_a_file_has_a_query_a_line(tmp_path):
    path = tmp_path / "queries.jsonl"
    path.write_text('{"zones": ["A"], "from": "2026-03-02T07:00"}\n\n{"name": "b", "bbox": [2, 48, 3, 49]}\n')
    first, second = read_asks(path)
    assert (first.name, first.zones, first.start) == ("query 1", ("A",), "2026-03-02T07:00")
    assert (second.name, second.bbox) == ("b", (2, 48, 3, 49))
    asked = [each.question(ZONES, CLOCK) for each in (first, second)]
    (tmp_path / "again.jsonl").write_text(as_written(asked, ZONES))
    assert [each.question(ZONES, CLOCK) for each in read_asks(tmp_path / "again.jsonl")] == asked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no query"),
        ("nothing\n", "line 1"),
        ("[1]\n", "line 1"),
        ('{"zones": ["A"]}\n{"zoned": ["A"]}\n', "Did you mean zones"),
        ('{"zones": "A"}\n', "wrong kind"),
        ('{"slots": [true]}\n', "wrong kind"),
        ('{"bbox": [1, 2, 3]}\n', "wrong kind"),
        ('{"from": 7}\n', "wrong kind"),
        ("[" * 100_000, "line 1"),
    ],
)
def test_a_bad_file_says_where(tmp_path, text, words):
    (tmp_path / "queries.jsonl").write_text(text)
    with pytest.raises(PlanError, match=words):
        read_asks(tmp_path / "queries.jsonl")


def test_slots_as_numbers_and_ranges():
    assert parse_slots("0-2, 5") == (0, 1, 2, 5)
    for text in ("", "a", "1-", "-1", "1-99999999", "1..2", "²", "1-٣"):
        with pytest.raises(PlanError, match="query-slots"):
            parse_slots(text)
