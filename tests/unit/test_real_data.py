"""Public samples of cities and trips, where they are at hand: read as they are, they agree with oracles."""

import os
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely
from scipy.spatial import cKDTree

from shoal.errors import GeometryError
from shoal.events.readers import check_rows
from shoal.events.schema import TripRule
from shoal.events.source import open_source
from shoal.events.trips import count_trips
from shoal.space.checks import LONLAT, equal_area_crs, transform_xy
from shoal.space.geography import LATTICE, voronoi_weights
from shoal.space.places import Sites, read_sites, read_zones

SAMPLES = Path(os.environ.get("SHOAL_DATA", Path(__file__).parents[3] / "shared" / "data"))


def sample(name):
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"the sample {name} is not here (set SHOAL_DATA)")
    return path


def test_paris_weights_against_thrown_points():
    zones = read_zones(sample("geo/paris_iris.parquet"), id_column="iris_code", name_column="iris_name")
    path = sample("geo/paris_mobile_sites_2018_01.parquet")
    sites = read_sites(path, id_column="row")
    claimed = pq.read_table(path)["iris_code"].to_pylist()
    found = zones.locate(sites.x, sites.y)
    assert np.mean([k >= 0 and zones.ids[k] == code for k, code in zip(found, claimed, strict=True)]) > 0.98
    sites = Sites(sites.ids[:1303], sites.x[:1303], sites.y[:1303], sites.crs)
    weights = voronoi_weights(sites, zones)
    assert weights.shape == (992, 1303)
    assert set(weights.matrix.sum(axis=0).tolist()) == {LATTICE}
    # Oracle: points thrown evenly on the sphere, nearest site in the plane; compare the visits of each zone.
    rng = np.random.default_rng(1)
    west, south, east, north = zones.bounds
    lon = rng.uniform(west, east, 1_000_000)
    lat = np.degrees(np.arcsin(rng.uniform(np.sin(np.radians(south)), np.sin(np.radians(north)), lon.size)))
    zone = zones.locate(lon, lat)
    plane = equal_area_crs(zones.bounds)
    tree = cKDTree(np.column_stack(transform_xy(sites.x, sites.y, LONLAT, plane)))
    nearest = tree.query(np.column_stack(transform_xy(lon, lat, LONLAT, plane)))[1]
    places, first_of_mast = list(zip(sites.x, sites.y, strict=True)), {}
    for k, place in enumerate(places):
        first_of_mast.setdefault(place, k)
    mast = np.array([first_of_mast[place] for place in places])
    counts = np.zeros(weights.shape)
    np.add.at(counts, (zone[zone >= 0], mast[nearest[zone >= 0]]), 1)
    common = np.flatnonzero(counts.sum(axis=0) > 300)
    assert len(common) > 100
    oracle = counts[:, common] / counts[:, common].sum(axis=0)
    assert np.abs(weights.matrix.toarray()[:, common] / LATTICE - oracle).max() < 0.12
    assert np.abs(weights.matrix.toarray()[:, common] / LATTICE - oracle).mean() < 1e-4


def test_san_francisco_has_invalid_polygons_that_repair_mends():
    path = sample("geo/sf_neighborhoods.parquet")
    with pytest.raises(GeometryError, match="polygon-invalid"):
        read_zones(path, id_column="name")
    zones = read_zones(path, id_column="name", repair=True)
    assert shapely.is_valid(zones.geometry).all()
    west, south, east, north = zones.bounds
    rng = np.random.default_rng(2)
    ids = tuple(f"S{k}" for k in range(200))
    sites = Sites(ids, rng.uniform(west, east, 200), rng.uniform(south, north, 200), LONLAT)
    weights = voronoi_weights(sites, zones)
    assert weights.column_l1 == LATTICE
    assert 0 < weights.lost.mean() < 1  # half of the box is the bay


def test_new_york_slivers_pass_with_a_note():
    path = sample("geo/nyc_neighborhoods.parquet")
    zones = read_zones(path, id_column="ntacode", name_column="ntaname")
    assert zones.count == 195
    assert any("overlap by slivers" in note for note in zones.notes)
    assert any("slivers lie between" in note for note in zones.notes)


def test_occupied_runs_of_taxis():
    path = sample("cabspotting/sample_49cabs_7days.parquet")
    rows = pq.read_table(path).to_pylist()
    rows.sort(key=lambda row: (row["user_id"], row["timestamp"], row["lon"], row["lat"], row["occupied"]))
    runs = trips = 0
    for (_, occupied), run in groupby(rows, key=lambda row: (row["user_id"], row["occupied"])):
        times = [row["timestamp"] for row in run]
        if occupied:
            runs += 1
            trips += 1 + sum(after - before >= 300 for before, after in pairwise(times))
    source = open_source(path)
    assert count_trips(source, TripRule(flag=True)) == runs
    assert count_trips(source, TripRule(flag=True, gap_minutes=5)) == trips


@pytest.mark.exhaustive
def test_occupied_runs_of_all_taxis():
    sample("cabspotting/cabspotting_part0.parquet")
    source = open_source(str(SAMPLES / "cabspotting/cabspotting_part*.parquet"))
    assert source.coordinate_scale == 1e-5
    assert count_trips(source, TripRule(flag=True)) == 464_048


def test_trips_in_lists_and_numbers_of_a_bounded_kind():
    path = sample("trips/porto_sample_trips.parquet")
    table = pq.read_table(path, columns=["taxi_id", "timestamp", "lon"]).to_pylist()
    report = check_rows(open_source(path, point_seconds=15))
    assert report.rows == sum(max(len(row["lon"] or []), 1) for row in table)
    assert report.by_reason["null-user"] == sum(len(row["lon"]) for row in table if row["taxi_id"] is None)
    source = open_source(sample("trips/oldenburg_brinkhoff.parquet"), time_unit="s")
    assert source.shape == "planar"
    assert check_rows(source).bad == 0
