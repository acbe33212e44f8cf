"""Small worlds of trips for the tests of sums over paths."""

import pyarrow as pa
import pytest
from tests.worlds import grid_trips

from shoal.space.cells import CellGrid


@pytest.fixture
def trips_of():
    """trips_of(columns, rows, paths): trips from lists of (column, row), each a unit of its own."""

    def make(columns, rows, paths):
        return grid_trips(CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=columns, rows=rows, planar=True), paths)

    return make


@pytest.fixture
def random_paths():
    """random_paths(generator, columns, rows, count): walks that turn and come back as they like."""

    def walk(generator, columns, rows):
        x, y = int(generator.integers(columns)), int(generator.integers(rows))
        path, way, turn = [(x, y)], (1, 0), generator.random()
        for _ in range(int(generator.integers(0, 25))):
            if generator.random() < turn:
                way = [(1, 0), (-1, 0), (0, 1), (0, -1)][generator.integers(4)]
            if 0 <= x + way[0] < columns and 0 <= y + way[1] < rows:
                x, y = x + way[0], y + way[1]
                path.append((x, y))
        return path

    return lambda generator, columns, rows, count: [walk(generator, columns, rows) for _ in range(count)]


def every_rectangle(columns, rows):
    return [
        (x0, x1, y0, y1)
        for x0 in range(columns)
        for x1 in range(x0 + 1, columns + 1)
        for y0 in range(rows)
        for y1 in range(y0 + 1, rows + 1)
    ]


def event_batch(rows, user_type=None):
    """One batch of (user, time_us, site); users are integers or texts."""
    user, time_us, site = zip(*rows, strict=True) if rows else ((), (), ())
    kind = user_type or (pa.string() if user and isinstance(user[0], str) else pa.int64())
    columns = [pa.array(user, kind), pa.array(time_us, pa.int64()), pa.array(site, pa.int32())]
    return pa.RecordBatch.from_arrays(columns, names=["user", "time_us", "site"])
