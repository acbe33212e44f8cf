"""A tiny town that runs of the command share."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.worlds import OnDisk, zones_json

from shoal.privacy.ledger import open_ledger

SQUARES = {"A": (0, 0), "B": (1, 0), "C": (0, 1), "D": (1, 1)}


class Town(OnDisk):
    """A tiny town on disk, and how to run a density on it with one thing changed."""

    words = ("density", "run")
    population = "town"
    hour = 3_600_000_000

    def __init__(self, folder):
        paths = {"zones": folder / "zones.geojson", "sites": folder / "sites.csv"}
        super().__init__(folder, "events.parquet", **paths, epsilon="1")
        self.zones(*((zone, self.square(*at)) for zone, at in SQUARES.items()))
        sites = [f"S{i},{2.305 + 0.01 * (i % 2)},{48.805 + 0.01 * (i // 2)}" for i in range(4)]
        (folder / "sites.csv").write_text("site,lon,lat\n" + "\n".join(sites) + "\n")
        self.events(
            user=[1, 1, 2, 3],
            time=[self.start, self.start + self.hour, self.start, self.start + 2 * self.hour],
            site=["S0", "S1", "S2", "S3"],
        )

    @staticmethod
    def square(west, south, size=0.01):
        x, y = 2.3 + west * 0.01, 48.8 + south * 0.01
        return [[[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]]

    def events(self, time=None, **columns):
        if time is not None:
            columns["time"] = pa.array(time, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table(columns), self.folder / "events.parquet")

    def csv(self, text):
        self.source = self.folder / "events.csv"
        self.source.write_text(text)

    def zones(self, *shapes):
        (self.folder / "zones.geojson").write_text(zones_json(shapes))


class Walks(OnDisk):
    """Samples of people who walk between a few spots for a day in Paris, and how to run a release of them."""

    words = ("trajectories", "run")
    population = "town"

    def __init__(self, folder, users=60, hours=24, seed=1):
        end = "2026-03-03" if hours == 24 else f"2026-03-02T{hours:02d}:00"
        super().__init__(folder, "samples.parquet", end=end, origin="2.3,48.8")
        self.users, self.hours = users, hours
        rng = np.random.default_rng(seed)
        count = users * hours
        spots = np.array([[2.31, 48.81], [2.35, 48.84], [2.36, 48.80], [2.40, 48.86]])
        self.user = rng.integers(1, users + 1, count)
        self.time = self.start + rng.integers(0, hours * 3600, count) * 1_000_000
        at = spots[(self.user + (self.time - self.start) // (6 * 60 * self.minute)) % len(spots)]
        self.lon, self.lat = (at + rng.uniform(0, 0.01, (count, 2))).T
        self.write()

    def write(self, **changed):
        """The samples as Parquet, some columns changed."""
        time = pa.array(self.time, pa.timestamp("us", "UTC"))
        columns = {"user": self.user, "time": time, "lon": self.lon, "lat": self.lat, **changed}
        pq.write_table(pa.table(columns), self.source)

    def verify_arguments(self, *more):
        key = self.folder / "owner" / "record_key.parquet"
        release = self.folder / "release"
        return ["trajectories", "verify", self.source, release, "--key", key, *more]


@pytest.fixture(autouse=True)
def own_ledger(tmp_path, monkeypatch):
    """No test looks at the ledger of the person who runs it."""
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))


@pytest.fixture
def town(tmp_path):
    open_ledger().create("town", currency="rho", limit_nano=10**8, delta=1e-6)
    return Town(tmp_path)


@pytest.fixture
def walks(tmp_path):
    """Six hours of sixty people, as in `Walks`."""
    open_ledger().create("town", currency="rho", limit_nano=10**8, delta=1e-6)
    return Walks(tmp_path, hours=6)


@pytest.fixture
def day_of_walks(tmp_path):
    """A whole day: 48 epochs of half an hour."""
    open_ledger().create("town", currency="rho", limit_nano=10**8, delta=1e-6)
    return Walks(tmp_path)
