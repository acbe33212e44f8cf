"""`shoal synthesize run --method commute`: records of sites in, people who do not exist out."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.privacy.ledger import open_ledger
from shoal.release.verify import check_release

START = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris, a Monday
HOUR = 3_600_000_000


@pytest.fixture
def arguments(tmp_path):
    """600 users who call from S0 at night and from S3 at noon, on five days."""
    open_ledger().create("rich", currency="epsilon", limit_nano=10**18)
    sites = [f"S{i},{5.0 + 0.02 * i},47.3" for i in range(6)]
    (tmp_path / "sites.csv").write_text("site,lon,lat\n" + "\n".join(sites) + "\n")
    user, day, part = (grid.ravel() for grid in np.mgrid[0:600, 0:5, 0:2])
    columns = {
        "user": user,
        "time": pa.array(START + (24 * day + 12 - 10 * part) * HOUR, pa.timestamp("us", "UTC")),
        "site": np.where(part == 1, "S0", "S3"),
    }
    pq.write_table(pa.table(columns), tmp_path / "calls.parquet")
    said = "--method commute --start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris --population rich"
    folders = ("--out", tmp_path / "release", "--owner", tmp_path / "owner")
    given = ("--sites", tmp_path / "sites.csv", "--epsilon", 1000)
    return ("synthesize", "run", tmp_path / "calls.parquet", *said.split(), *given, *folders)


def test_people_live_and_work_where_users_do(arguments, command, tmp_path):
    code, out, err = command(*arguments)
    assert code == 0, err
    assert "epsilon 1000 spent" in out
    release = tmp_path / "release"
    assert not check_release(release).problems
    table = pq.read_table(release / "events.parquet")
    people = len(set(table["user"].to_pylist()))
    assert abs(people - 600) <= 2
    site = np.array(table["site"].to_pylist())
    hour = (table["time"].cast(pa.int64()).to_numpy() - START) // HOUR % 24
    assert np.mean(site[hour == 2] == "S0") > 0.9
    assert np.mean(site[hour == 12] == "S3") > 0.9
    assert table["user"][0].as_py() == "s0000001"
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["public"]["synthetic"] is True
    assert manifest["input"]["users_with_noise"] == pytest.approx(600, abs=2)
    assert all(spend["pays_for"] for spend in manifest["spends"])
    assert "eyes only" in (tmp_path / "owner" / "report.html").read_text()
    assert pyarrow.csv.read_csv(release / "events.csv").num_rows == table.num_rows
    assert str(shoal.open_source(release / "events.parquet", columns={"site": "site"}).shape) == "site"
    code, _, err = command(*(each for each in arguments if each not in ("--sites", tmp_path / "sites.csv")))
    assert (code, err.split(":")[0]) == (2, "plan-sites")
