"""Rows and users inside public zones and a window, and why the others are not."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from shoal.cli.main import shoal
from shoal.errors import SourceError
from shoal.events.schema import choose_columns

NOON = 1_772_449_200_000_000  # 2026-03-02 12:00 in Paris
DAY = 86_400_000_000


@pytest.fixture
def points(tmp_path):
    rows = [
        (1, NOON, 2.305, 48.805),
        (1, NOON, 48.805, 2.305),  # swapped
        (2, NOON, 0.0, 0.0),
        (2, NOON, 3.0, 48.8),
        (3, NOON - DAY, 2.305, 48.805),
        (3, NOON + DAY, 2.305, 48.805),
    ]
    user, time, lon, lat = zip(*rows, strict=True)
    path = tmp_path / "points.parquet"
    table = {"user": user, "time": pa.array(time, pa.timestamp("us", "UTC")), "lon": lon, "lat": lat}
    pq.write_table(pa.table(table), path)
    return path


def test_rows_that_are_not_inside_are_counted_by_reason(points):
    window = ("--start", "2026-03-02", "--end", "2026-03-03", "--time-zone", "Europe/Paris")
    grid = ("--box", "2.30,48.80,2.32,48.82", "--cell-m", "1000")
    result = CliRunner().invoke(shoal, ["inspect", str(points), *window, *grid, "--json"])
    assert result.exit_code == 0, result.output
    inside = json.loads(result.stdout)["inside"]
    assert (inside["rows"], inside["rows_inside"], inside["users"], inside["users_inside"]) == (6, 1, 3, 1)
    assert {reason: rows for reason, rows in inside["outside"].items() if rows} == {
        "before the window": 1,
        "after the window": 1,
        "at 0,0": 1,
        "outside the zones, and inside with longitude and latitude swapped": 1,
        "outside the zones": 1,
    }
    tables = CliRunner().invoke(shoal, ["inspect", str(points), *window])
    assert "4 of 6 (66.7%)" in tables.output
    assert "1 rows are at 0,0" in tables.output


def test_a_window_needs_both_ends(points):
    result = CliRunner().invoke(shoal, ["inspect", str(points), "--start", "2026-03-02"])
    assert "window-range" in str(result.exception)


def test_users_are_guessed_from_names_of_people_and_vehicles_only():
    assert choose_columns(["id", "taxi", "time", "lon", "lat"], [], None, {})[1]["user"] == "taxi"
    with pytest.raises(SourceError, match="missing-column"):
        choose_columns(["id", "time", "lon", "lat"], [], None, {})
