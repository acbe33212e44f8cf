"""The public map of a release, from every kind of plan, and the place of hand-made events."""

import numpy as np
import pyarrow as pa
import pytest
from tests.loops import for_each
from tests.worlds import ring_of, zones_json

from shoal.errors import GeometryError, PlanError
from shoal.space.geography import LATTICE, Geography, open_geography
from shoal.space.plan import SpacePlan

BOX = (2.30, 48.80, 2.40, 48.85)
HALVES = {"left": (2.30, 48.80, 2.35, 48.85), "right": (2.35, 48.80, 2.40, 48.85)}
SQUARES = {"low": (0, 0, 1000, 1000), "high": (0, 1000, 1000, 2000)}


def zone_file(path, boxes, **more):
    path.write_text(zones_json(((zone, [ring_of(*box)]) for zone, box in boxes.items()), **more))
    return str(path)


@pytest.fixture
def halves(tmp_path):
    return zone_file(tmp_path / "halves.geojson", HALVES)


@pytest.fixture
def squares(tmp_path):
    return zone_file(tmp_path / "squares.geojson", SQUARES, crs=None)


@pytest.fixture
def sites(tmp_path):
    (tmp_path / "sites.csv").write_text("site,lon,lat\nA,2.31,48.82\nB,2.39,48.82\n")
    return str(tmp_path / "sites.csv")


def batch(**places):
    """Events of users 7, 8, ... at times 0, 1, ..., with one column more than any place needs."""
    count = len(next(iter(places.values())))
    users, times = pa.array(range(7, 7 + count)), pa.array(range(count))
    columns = {"user": users, "time_us": times, "speed": pa.nulls(count), **places}
    return pa.record_batch({name: pa.array(column) for name, column in columns.items()})


def placed(geography: Geography, *batches):
    found = list(geography.place(iter(batches)))
    assert len(found) == len(batches)
    for one in found:
        assert one.schema.names == ["user", "time_us", "site"]
        assert one.schema.field("site").type == pa.int32()
    return [tuple(row.values()) for row in pa.Table.from_batches(found).to_pylist()]


@for_each(
    ("code", "settings"),
    [
        ("plan-zones", {}),
        ("plan-zones", {"sites": "s.csv", "box": BOX}),
        ("plan-zones", {"zones": "z.geojson", "cell_m": 500.0}),
        ("plan-zones", {"cell_m": 500.0, "h3": 8, "box": BOX}),
        ("plan-box", {"cell_m": 500.0}),
        ("plan-box", {"h3": 8}),
        ("box-range", {"h3": 8, "box": (2.4, 48.8, 2.3, 48.9)}),
        ("plan-type", {"h3": 8, "box": (2.3, 48.8, 2.4)}),
        ("box-range", {"h3": 8, "box": (2.3, 48.8, float("nan"), 48.9)}),
        ("box-range", {"cell_m": 500.0, "box": (2.3, 48.9, 2.4, 48.8)}),
        ("plan-type", {"cell_m": 500.0, "box": ("a", 48.8, 2.4, 48.9)}),
    ],
)
def test_plans_that_make_no_sense(code, settings):
    with pytest.raises(PlanError) as caught:
        SpacePlan(**settings)
    assert caught.value.code == code
    assert caught.value.remedy


def test_sites_are_counted_and_spread_over_zones(halves, sites):
    geography = open_geography(SpacePlan(zones=halves, sites=sites), has_sites=True, planar=False)
    assert (geography.places, geography.site_ids) == (2, ("A", "B"))
    # The border lies half way between the two sites: each keeps its own half.
    assert geography.weights.matrix.toarray().tolist() == pytest.approx(
        np.array([[LATTICE, 0], [0, LATTICE]]), abs=LATTICE * 1e-3
    )
    events = (batch(site=pa.array([1, 0], pa.int32())), batch(site=pa.array([-1], pa.int32())))
    assert placed(geography, *events) == [(7, 0, 1), (8, 1, 0), (7, 0, -1)]
    geography = open_geography(SpacePlan(box=BOX, cell_m=20_000.0, sites=sites), has_sites=True, planar=False)
    assert (geography.zones.count, geography.places) == (1, 2)
    assert geography.weights.matrix.toarray().tolist() == [[LATTICE, LATTICE]]
    with pytest.raises(PlanError, match="plan-sites"):
        open_geography(SpacePlan(zones=halves), has_sites=True, planar=False)


def test_sites_with_columns_of_other_names(tmp_path, halves):
    (tmp_path / "s.csv").write_text("mast,east,north\nA,2.325,48.85\nB,2.375,48.85\n")
    settings = {"zones": halves, "sites": str(tmp_path / "s.csv"), "site_id": "mast"}
    plan = SpacePlan(**settings, site_lon="east", site_lat="north")
    sites = open_geography(plan, has_sites=True, planar=False).sites
    assert sites is not None
    assert (sites.ids, sites.x.tolist(), sites.y.tolist()) == (("A", "B"), [2.325, 2.375], [48.85, 48.85])
    assert sites.crs == "EPSG:4326"
    plan = SpacePlan(**settings, site_lon="east", site_lat="north", sites_crs="planar")
    with pytest.raises(GeometryError, match="crs-mixed"):  # what is said of the coordinates wins
        open_geography(plan, has_sites=True, planar=False)
    with pytest.raises(GeometryError, match="column-pair"):
        open_geography(SpacePlan(**settings, site_lon="east"), has_sites=True, planar=False)


def test_layers_and_maps_that_do_not_fit(tmp_path, halves, squares):
    from shutil import copy

    path = str(copy(halves, tmp_path / "layered.geojson"))
    assert open_geography(SpacePlan(zones=path, zones_layer="layered"), has_sites=False, planar=False)
    with pytest.raises(GeometryError, match="layer-choice"):
        open_geography(SpacePlan(zones=path, zones_layer="other"), has_sites=False, planar=False)
    for zones, planar, word in ((halves, True, "EPSG:4326"), (squares, False, "planar")):
        with pytest.raises(PlanError, match=word) as caught:
            open_geography(SpacePlan(zones=zones), has_sites=False, planar=planar)
        assert caught.value.code == "plan-planar"
        assert "--zones-crs" in caught.value.remedy


def test_sites_in_another_coordinate_system(tmp_path, halves):
    # 3 E, 46.5 N is (700000, 6600000) in Lambert 93; these two are some 2.34 and 2.40 E, 48.83 N.
    (tmp_path / "s.csv").write_text("mast,x,y\nA,651500,6858000\nB,655900,6858000\n")
    settings = {"zones": halves, "sites": str(tmp_path / "s.csv"), "site_id": "mast"}
    with pytest.raises(GeometryError) as caught:  # no place on the globe, unlike the zones
        open_geography(SpacePlan(**settings), has_sites=True, planar=False)
    assert caught.value.code == "crs-mixed"
    geography = open_geography(SpacePlan(**settings, sites_crs="EPSG:2154"), has_sites=True, planar=False)
    assert geography.sites is not None
    assert geography.sites.crs == "EPSG:2154"
    assert np.asarray(geography.weights.matrix.sum(axis=0)).tolist() == [LATTICE, LATTICE]


def test_points_are_located_in_zones_of_degrees_or_metres(halves, squares, tmp_path):
    geography = open_geography(SpacePlan(zones=halves), has_sites=False, planar=False)
    assert (geography.places, geography.sites, geography.site_ids) == (2, None, None)
    assert geography.weights.matrix.toarray().tolist() == [[LATTICE, 0], [0, LATTICE]]
    events = (batch(x=[2.39, 2.31, 3.0], y=[48.81, 48.81, 48.81]), batch(x=[2.32], y=[48.84]))
    assert placed(geography, *events) == [(7, 0, 1), (8, 1, 0), (9, 2, -1), (7, 0, 0)]
    geography = open_geography(SpacePlan(zones=squares), has_sites=False, planar=True)
    assert geography.zones.crs is None
    assert placed(geography, batch(x=[500.0, 500.0, -1.0], y=[1500.0, 500.0, 0.0])) == [
        (7, 0, 1),
        (8, 1, 0),
        (9, 2, -1),
    ]
    (tmp_path / "s.csv").write_text("site,x,y\nA,500,500\nB,1500,500\n")
    plan = SpacePlan(sites=str(tmp_path / "s.csv"), box=(0, 0, 2000, 1000), cell_m=1000.0)
    geography = open_geography(plan, has_sites=True, planar=False)
    assert geography.zones.crs is None
    assert geography.weights.matrix.toarray().tolist() == [[LATTICE, 0], [0, LATTICE]]


def test_points_in_degrees_or_metres_are_located_in_projected_zones(tmp_path):
    boxes = {
        "origin": (699_000, 6_599_000, 701_000, 6_601_000),
        "east": (701_000, 6_599_000, 703_000, 6_601_000),
    }
    zones = zone_file(tmp_path / "z.geojson", boxes)
    plan = SpacePlan(zones=zones, zones_crs="EPSG:2154")
    geography = open_geography(plan, has_sites=False, planar=False)
    assert geography.zones.crs == "EPSG:4326"
    # 3 E, 46.5 N is the origin of Lambert 93, and 2 km are 0.026 degrees of longitude there.
    assert placed(geography, batch(x=[3.0, 3.026, 3.1], y=[46.5] * 3)) == [(7, 0, 0), (8, 1, 1), (9, 2, -1)]
    zones = zone_file(tmp_path / "z.geojson", {"origin": (699_000, 6_599_000, 701_000, 6_601_000)})
    plan = SpacePlan(zones=zones, zones_crs="EPSG:2154")
    geography = open_geography(plan, has_sites=False, planar=True)
    assert placed(geography, batch(x=[700_000.0, 0.0], y=[6_600_000.0, 0.0])) == [(7, 0, 0), (8, 1, -1)]


def test_grids_for_degrees_and_metres_and_h3_for_degrees_only():
    degrees = open_geography(SpacePlan(box=BOX, cell_m=1000.0), has_sites=False, planar=False)
    assert degrees.zones.crs == "EPSG:4326"
    corner = degrees.zones.ids[placed(degrees, batch(x=[2.3001], y=[48.8001]))[0][2]]
    assert corner == "r000c000"
    metres = open_geography(SpacePlan(box=(0, 0, 3000, 2000), cell_m=1000.0), has_sites=False, planar=True)
    assert (metres.zones.crs, metres.zones.count) == (None, 6)
    assert placed(metres, batch(x=[2500.0], y=[1500.0])) == [(7, 0, 5)]
    import h3

    geography = open_geography(SpacePlan(box=BOX, h3=8), has_sites=False, planar=False)
    (row,) = placed(geography, batch(x=[2.35], y=[48.825]))
    assert geography.zones.ids[row[2]] == h3.latlng_to_cell(48.825, 2.35, 8)
    with pytest.raises(PlanError, match="plan-h3"):
        open_geography(SpacePlan(box=BOX, h3=8), has_sites=False, planar=True)


def test_zone_options_reach_the_reader(tmp_path):
    ring = {
        "a": (0, 0, 3000, 1000),
        "b": (0, 2000, 3000, 3000),
        "c": (0, 1000, 1000, 2000),
        "d": (2000, 1000, 3000, 2000),
    }
    path = zone_file(tmp_path / "z.geojson", ring, crs=None)
    with pytest.raises(GeometryError, match="zones-holes"):
        open_geography(SpacePlan(zones=path), has_sites=False, planar=True)
    plan = SpacePlan(zones=path, holes="allow", zone_id="row", zone_name="zone")
    zones = open_geography(plan, has_sites=False, planar=True).zones
    assert (zones.ids[0], zones.names[0]) == ("Z0001", "a")
