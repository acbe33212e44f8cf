"""What tests of several attacks share."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

TRIP_GRID = CellGrid(box=(0.0, 0.0, 2000.0, 1500.0), columns=20, rows=15, planar=True)  # cells of 100 m


@pytest.fixture(scope="session")
def cases():
    """Small trajectory releases and the tracker's definition in plain loops."""
    spec = spec_from_file_location("tracker_cases", Path(__file__).with_name("tracker_cases.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def walks():
    """Makes random trips, none of them knowing of another: walks(count, seed)."""
    return _walks


def _walks(count, seed, least=5, most=14):
    """Random walks of `least` to `most` cells."""
    generator = np.random.default_rng(seed)
    trips = []
    for _ in range(count):
        x, y = int(generator.integers(20)), int(generator.integers(15))
        trip = [(y * 20 + x, 0, 0)]
        for tick in range(1, int(generator.integers(least, most + 1))):
            step = (0, 0)
            while step == (0, 0) or not (0 <= x + step[0] < 20 and 0 <= y + step[1] < 15):
                step = tuple(int(each) for each in generator.integers(-1, 2, 2))
            x, y = x + step[0], y + step[1]
            trip.append((y * 20 + x, tick, 0))
        trips.append(trip)
    return CellPaths.of(TRIP_GRID, 60, trips)
