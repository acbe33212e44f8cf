"""Answers of an Euler histogram: direct sums, missing parts, shapes."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal.space.cells import CellGrid, Euler, Rectangles, random_rectangles


def parts(generator, rows, columns):
    return {
        "faces": generator.normal(size=(rows, columns)),
        "east": generator.normal(size=(rows, columns - 1)),
        "north": generator.normal(size=(rows - 1, columns)),
        "blocks": generator.normal(size=(rows - 1, columns - 1)),
    }


def direct(histogram, x0, x1, y0, y1):
    """Face by face, edge by edge."""
    total = 0.0
    for y in range(y0, y1):
        for x in range(x0, x1):
            total += histogram.faces[y, x]
            if histogram.east is not None and x + 1 < x1:
                total -= histogram.east[y, x]
            if histogram.north is not None and y + 1 < y1:
                total -= histogram.north[y, x]
            if histogram.blocks is not None and x + 1 < x1 and y + 1 < y1:
                total += histogram.blocks[y, x]
    return total


@for_each(("rows", "columns"), [(4, 6), (1, 5), (5, 1), (1, 1)])
@for_each("left_out", [(), ("blocks",), ("east", "north", "blocks")])
def test_answers_are_direct_sums(rows, columns, left_out):
    generator = np.random.default_rng(61)
    kept = {name: value for name, value in parts(generator, rows, columns).items() if name not in left_out}
    histogram = Euler(**kept)
    grid = CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=columns, rows=rows, planar=True)
    drawn = random_rectangles(grid, 60, 5)
    expected = [
        direct(histogram, *row)
        for row in zip(*(s.tolist() for s in (drawn.x0, drawn.x1, drawn.y0, drawn.y1)), strict=True)
    ]
    assert histogram.answers(drawn) == pytest.approx(expected)
    assert histogram.shape == (rows, columns)


def test_whole_numbers_stay_whole_and_small_types_do_not_overflow():
    histogram = Euler(faces=np.full((20, 20), 120, np.int8))
    answer = histogram.answers(Rectangles.of([(0, 20, 0, 20)]))
    assert answer.dtype == np.int64
    assert answer.tolist() == [48_000]


@pytest.mark.parametrize("name", ["east", "north", "blocks"])
def test_parts_of_another_shape_are_refused(name):
    wrong = {**parts(np.random.default_rng(62), 3, 4), name: np.zeros((3, 4))}
    with pytest.raises(GuaranteeError, match="euler-shape"):
        Euler(**wrong)
