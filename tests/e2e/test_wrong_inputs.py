"""Inputs that owners get wrong: nothing is spent, and the message names the cause."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.conftest import Town

from shoal.privacy.ledger import open_ledger

DAY = {"--start": "2026-03-02", "--end": "2026-03-03", "--time-zone": "Europe/Paris"}
BOX = "2.30,48.80,2.32,48.82"
SPENDS = {"--population": "town", "--epsilon": "1"}
DENSITY = ("density", "run"), {**DAY, **SPENDS, "--box": BOX, "--cell-m": "500"}
HISTOGRAM = ("histogram", "run"), {**DAY, **SPENDS, "--box": BOX, "--cells": "8", "--gap-minutes": "30"}
SYNTHETIC = ("synthesize", "run"), {**DAY, **SPENDS, "--box": BOX, "--cell-m": "500", "--gap-minutes": "30"}
TRAJECTORIES = ("trajectories", "run"), {**DAY, "--population": "town", "--origin": "2.3,48.8"}
QUERY = ("query",), {**DAY, **SPENDS, "--box": BOX, "--cell-m": "500"}


def points(folder, **changed):
    """A thousand fixes of forty people in one day in Paris, some columns changed."""
    chance = np.random.default_rng(1)
    columns = {
        "user": chance.integers(1, 41, 1000),
        "time": pa.array(Town.start + chance.integers(0, 86_400, 1000) * 10**6, pa.timestamp("us", "UTC")),
        "lon": 2.30 + 0.02 * chance.random(1000),
        "lat": 48.80 + 0.02 * chance.random(1000),
    }
    columns = {name: changed.get(name, values) for name, values in {**columns, **changed}.items()}
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    pq.write_table(table, folder / "points.parquet")


def swapped(folder):
    points(folder)
    table = pq.read_table(folder / "points.parquet")
    pq.write_table(table.rename_columns(["user", "time", "lat", "lon"]), folder / "points.parquet")


def swapped_in_america(folder):
    points(folder, lon=np.linspace(37.7, 37.8, 1000), lat=np.linspace(-122.5, -122.4, 1000))


def at_zero(folder):
    points(folder, lon=np.zeros(1000), lat=np.zeros(1000))


def row_numbers(folder, name="device"):
    points(folder, user=None, **{name: np.arange(1000)})


def row_numbers_called_id(folder):
    row_numbers(folder, "id")


def metres(folder):
    ring = [[650_000, 6_860_000], [651_000, 6_860_000], [651_000, 6_861_000], [650_000, 6_860_000]]
    zone(folder, ring)


def degrees(folder):
    zone(folder, [[2.30, 48.80], [2.32, 48.80], [2.32, 48.82], [2.30, 48.80]])


def elsewhere(folder):
    zone(folder, [[-0.1, 51.5], [0.0, 51.5], [0.0, 51.6], [-0.1, 51.5]])


def zone(folder, ring):
    points(folder)
    Town.zones(type("Folder", (), {"folder": folder}), ("A", [ring]))


ZONES = {"--zones": "zones.geojson", "--box": None, "--cell-m": None}
WRONG = {
    "the window is a year late": (
        (DENSITY, HISTOGRAM, SYNTHETIC, TRAJECTORIES, QUERY),
        points,
        {"--start": "2027-03-02", "--end": "2027-03-03"},
        "nobody-counted: .* in the window",
    ),
    "the box is elsewhere": ((HISTOGRAM,), points, {"--box": "2.9,48.8,3.0,48.9"}, "nobody-counted: .* box"),
    "zones of another city": ((DENSITY,), elsewhere, ZONES, "nobody-counted: .* zones"),
    "longitude and latitude swapped": ((DENSITY, HISTOGRAM), swapped, {}, "nobody-counted: .* look swapped"),
    "swapped, beyond 90 degrees": ((DENSITY, SYNTHETIC), swapped_in_america, {}, "bad-row: .*look swapped"),
    "positions missing": ((DENSITY,), at_zero, {}, "nobody-counted: .*0,0"),
    "another time zone": (
        (DENSITY, HISTOGRAM, QUERY),
        points,
        {"--time-zone": "America/Los_Angeles"},
        "time-zone-away: .* America/Los_Angeles",
    ),
    "a time zone that is none": ((DENSITY,), points, {"--time-zone": "Paris"}, "time-zone"),
    "a latitude of 95": (
        (DENSITY,),
        points,
        {"--box": "2.30,48.80,2.32,95"},
        "lonlat-(swapped|range): .* 95",
    ),
    "a box with its coordinates swapped": (
        (DENSITY,),
        points,
        {"--box": "-48.8,92,-48.7,93"},
        "lonlat-swapped|lonlat-range",
    ),
    "the end before the start": ((DENSITY,), points, {"--end": "2026-03-01"}, "window"),
    "zones in metres that do not say so": ((DENSITY,), metres, ZONES, "lonlat-range: .* metres"),
    "zones in degrees, called metres": (
        (DENSITY,),
        degrees,
        {**ZONES, "--zones-crs": "EPSG:2154"},
        "zones-outside-crs: .*EPSG:2154",
    ),
    "a box over the date line": (
        (DENSITY, HISTOGRAM),
        points,
        {"--box": "170,-20,-170,-10"},
        "box-(antimeridian|range): .*antimeridian",
    ),
    "the world in squares": ((DENSITY,), points, {"--box": "-180,-90,180,90"}, "box-wide: "),
    "the world in cells": ((HISTOGRAM,), points, {"--box": "-180,-90,180,90"}, "box-wide: "),
    "the row number as the user": ((DENSITY, HISTOGRAM), row_numbers, {}, "user-unique: .*device"),
    "a column called id": ((DENSITY,), row_numbers_called_id, {}, "missing-column: .* user"),
    "a column that is not there": ((DENSITY,), points, {"--column": "user=imsi"}, "missing-column: .*imsi"),
    "a population that does not exist": ((DENSITY,), points, {"--population": "twon"}, "population.*twon"),
    "a decimal comma": ((DENSITY,), points, {"--epsilon": "0,5"}, "decimal comma"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_spends_nothing_and_is_named(name, tmp_path, monkeypatch, command):
    kinds, write, changed, message = WRONG[name]
    monkeypatch.chdir(tmp_path)
    open_ledger().create("town", currency="rho", limit_nano=10**9)
    write(tmp_path)
    for run, flags in kinds:
        named = {**flags, **changed}
        given = [part for pair in named.items() if pair[1] is not None for part in pair]
        code, _, error = command(*run, "points.parquet", *given)
        assert code in (2, 3, 4), (run, error)
        assert re.search(message, error.replace("\n", " ")), (run, error)
        assert "Traceback" not in error
        assert open_ledger().state().population("town").spent_nano == 0
        assert not (tmp_path / "release").exists()
