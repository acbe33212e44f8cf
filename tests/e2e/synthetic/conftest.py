"""A small map of trips, and how to make a release of synthetic ones of them."""

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from shoal.privacy.ledger import open_ledger

START = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris
MINUTE = 60_000_000
EIGHT = 8 * 60 * MINUTE


# Along the second row from the west, one cell a minute, with two minutes in the fourth cell.
ALONG = [(50 + 100 * i, 150) for i in (0, 1, 2, 3, 3, 3, 4, 5)]
TRIPS = [(user, ALONG) for user in range(400)]


class Walks:
    """Trips on a planar map of 8 x 6 cells of 100 m, written as points, and how to run a release of them."""

    start, minute, eight, along, trips = START, MINUTE, EIGHT, ALONG, TRIPS

    def __init__(self, folder):
        self.folder = folder
        self.source = folder / "trips.parquet"
        self.flags = {
            "--box": "0,0,800,600",
            "--cell-m": 100,
            "--start": "2026-03-02",
            "--end": "2026-03-03",
            "--time-zone": "Europe/Paris",
            "--population": "rich",
            "--epsilon": 1000,
            "--trips-cap": 1,
            "--out": folder / "release",
            "--owner": folder / "owner",
        }

    def write(self, trips, names=("user", "trip", "time", "x", "y"), seconds=60):
        """trips: (user, [(x, y), ...]); `seconds` between points, from eight in the morning."""
        rows = [
            (user, number, START + EIGHT + i * seconds * 1_000_000, float(x), float(y))
            for number, (user, points) in enumerate(trips)
            for i, (x, y) in enumerate(points)
        ]
        user, trip, time, x, y = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
        kinds = (pa.int64(), pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.float64())
        columns = [
            pa.array(values, kind) for values, kind in zip((user, trip, time, x, y), kinds, strict=True)
        ]
        pq.write_table(pa.table(columns, names=list(names)), self.source)

    def arguments(self, *more):
        named = [
            str(part) for flag, value in self.flags.items() if value is not None for part in (flag, value)
        ]
        return ["synthesize", "run", str(self.source), *named, *map(str, more)]

    def released(self, command, *flags):
        code, out, err = command(*self.arguments(*flags))
        assert code == 0, err
        return self.folder / "release", out, err

    @staticmethod
    def spent(population="rich"):
        return open_ledger().state().population(population).spent_nano

    @staticmethod
    def manifest_of(release):
        return json.loads((release / "manifest.json").read_text())


@pytest.fixture
def walks(tmp_path):
    open_ledger().create("rich", currency="epsilon", limit_nano=10**18)
    open_ledger().create("small", currency="rho", limit_nano=10**12, delta=1e-6)
    return Walks(tmp_path)
