"""The whole way on real cities, where the files are there."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import shapely
from scipy.spatial import cKDTree

from shoal.errors import GeometryError
from shoal.space.checks import LONLAT, equal_area_crs, transform_xy
from shoal.space.geography import LATTICE, voronoi_weights
from shoal.space.places import Sites, read_sites, read_zones

FOLDER = Path(os.environ.get("SHOAL_DATA", Path(__file__).parents[4] / "shared" / "data")) / "geo"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no real geometry: set SHOAL_DATA to its folder")


@pytest.fixture(scope="module")
def paris():
    zones = read_zones(FOLDER / "paris_iris.parquet", id_column="iris_code", name_column="iris_name")
    sites = read_sites(FOLDER / "paris_mobile_sites_2018_01.parquet", id_column="row")
    return zones, sites


def test_paris_weights_against_thrown_points(paris):
    zones, sites = paris
    sites = Sites(sites.ids[:1303], sites.x[:1303], sites.y[:1303], sites.crs)
    started = time.perf_counter()
    weights = voronoi_weights(sites, zones)
    assert time.perf_counter() - started < 5  # about 0.4 s on an idle core
    assert weights.shape == (992, 1303)
    assert set(weights.matrix.sum(axis=0).tolist()) == {LATTICE}
    # Oracle: points thrown evenly on the sphere, nearest site in the plane; compare the visits of each zone.
    rng = np.random.default_rng(1)
    west, south, east, north = zones.bounds
    lon, lat = (
        rng.uniform(west, east, 1_000_000),
        np.degrees(np.arcsin(rng.uniform(np.sin(np.radians(south)), np.sin(np.radians(north)), 1_000_000))),
    )
    zone = zones.locate(lon, lat)
    plane = equal_area_crs(zones.bounds)
    tree = cKDTree(np.column_stack(transform_xy(sites.x, sites.y, LONLAT, plane)))
    nearest = tree.query(np.column_stack(transform_xy(lon, lat, LONLAT, plane)))[1]
    first_of_mast = {}
    for k, place in enumerate(zip(sites.x, sites.y, strict=True)):
        first_of_mast.setdefault(place, k)
    mast = np.array([first_of_mast[p] for p in zip(sites.x, sites.y, strict=True)])
    counts = np.zeros(weights.shape)
    np.add.at(counts, (zone[zone >= 0], mast[nearest[zone >= 0]]), 1)
    thrown = counts.sum(axis=0)
    common = np.flatnonzero(thrown > 300)
    oracle = counts[:, common] / thrown[common]
    assert len(common) > 100
    assert np.abs(weights.matrix.toarray()[:, common] / LATTICE - oracle).max() < 0.12
    assert np.abs(weights.matrix.toarray()[:, common] / LATTICE - oracle).mean() < 1e-4


def test_paris_sites_lie_in_the_zone_their_file_names(paris):
    import pyarrow.parquet as pq

    zones, sites = paris
    claimed = pq.read_table(FOLDER / "paris_mobile_sites_2018_01.parquet")["iris_code"].to_pylist()
    found = zones.locate(sites.x, sites.y)
    agree = np.mean([k >= 0 and zones.ids[k] == code for k, code in zip(found, claimed, strict=True)])
    assert agree > 0.98


def test_san_francisco_has_invalid_polygons_that_repair_mends():
    path = FOLDER / "sf_neighborhoods.parquet"
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
    zones = read_zones(FOLDER / "nyc_neighborhoods.parquet", id_column="ntacode", name_column="ntaname")
    assert zones.count == 195
    assert any("overlap by slivers" in note for note in zones.notes)
    assert any("slivers lie between" in note for note in zones.notes)
