"""A small map of trips, and how to make a release of synthetic ones of them."""

import pytest
from tests.worlds import MINUTE_US, MONDAY_US, OnDisk, write_points

from shoal.privacy.ledger import open_ledger

EIGHT = 8 * 60 * MINUTE_US
# Along the second row from the west, one cell a minute, with two minutes in the fourth cell.
ALONG = [(50 + 100 * i, 150) for i in (0, 1, 2, 3, 3, 3, 4, 5)]
TRIPS = [(user, ALONG) for user in range(400)]


class Walks(OnDisk):
    """Trips on a planar map of 8 x 6 cells of 100 m, written as points, and how to run a release of them."""

    words = ("synthesize", "run")
    eight, along, trips = EIGHT, ALONG, TRIPS

    def __init__(self, folder):
        flags = {"box": "0,0,800,600", "cell_m": 100, "epsilon": 1000, "trips_cap": 1}
        super().__init__(folder, "trips.parquet", **flags)

    def write(self, trips, **more):
        """trips: (user, [(x, y), ...]) from eight in the morning."""
        write_points(self.source, trips, MONDAY_US + EIGHT, **more)


@pytest.fixture
def walks(tmp_path):
    open_ledger().create("rich", currency="epsilon", limit_nano=10**18)
    open_ledger().create("small", currency="rho", limit_nano=10**12, delta=1e-6)
    return Walks(tmp_path)
