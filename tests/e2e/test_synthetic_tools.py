"""The example that opens synthetic trips in other tools, run on a small release."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.privacy.ledger import open_ledger

EXAMPLE = Path(__file__).parents[2] / "examples" / "synthetic_tools.py"
START = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris


@pytest.fixture
def release(tmp_path, command):
    """Twenty trips of a lon/lat town, each at least a kilometre and a half long."""
    open_ledger().create("town", currency="epsilon", limit_nano=10**18)
    trip, step = np.divmod(np.arange(400 * 8), 8)
    columns = {
        "user": trip,
        "trip": trip,
        "time": pa.array(START + 3_600_000_000 + step * 60_000_000, pa.timestamp("us", "UTC")),
        "lon": 5.003 + 0.0055 * step,
        "lat": np.full(trip.size, 47.305),
    }
    pq.write_table(pa.table(columns), tmp_path / "trips.parquet")
    flags = "--box 5.0,47.3,5.06,47.32 --start 2026-03-02 --end 2026-03-03 --time-zone Europe/Paris"
    flags += " --population town --epsilon 1000 --trips 400 --count 20"
    folders = ("--out", tmp_path / "release", "--owner", tmp_path / "owner")
    code, _, err = command("synthesize", "run", tmp_path / "trips.parquet", *flags.split(), *folders)
    assert code == 0, err
    return tmp_path / "release"


def test_the_example_reads_every_trip(release):
    missing = [tool for tool in ("geopandas", "movingpandas", "trackintel") if find_spec(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    done = subprocess.run([sys.executable, EXAMPLE, release], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points = pq.read_metadata(release / "trips.parquet").num_rows
    assert f"geopandas: {points:,} points of 20 trips, all synthetic" in done.stdout
    found = re.search(r"movingpandas: (\d+) trajectories, ([\d.]+) km", done.stdout)
    assert int(found[1]) == 20
    assert 1.5 < float(found[2]) < 4.5  # seven moves of 414 m
    assert f"trackintel: {points:,} positionfixes" in done.stdout
