"""One clear error per kind of bad geometry file.
Ids and names that cannot be written, or that act on a terminal, do not get in or out.
"""

import gzip
import json
import sqlite3
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio.raw
import pyproj
import pytest
import shapely
from tests.fuzz.maps import PACKAGE
from tests.loops import for_each

from shoal.errors import GeometryError, PlanError, ShoalError
from shoal.space.checks import (
    LONLAT,
    GeometryWarning,
    crs_name,
    equal_area_crs,
    is_lonlat,
    transform,
    transform_xy,
    unit_m,
)
from shoal.space.formats.shapefiles import _encoding
from shoal.space.places import read_sites, read_zones

LEFT = [[2.30, 48.80], [2.35, 48.80], [2.35, 48.85], [2.30, 48.85], [2.30, 48.80]]
RIGHT = [[2.35, 48.80], [2.40, 48.80], [2.40, 48.85], [2.35, 48.85], [2.35, 48.80]]
BOW_TIE = [[2.30, 48.80], [2.35, 48.85], [2.35, 48.80], [2.30, 48.85], [2.30, 48.80]]
OVER = [[2.34, 48.80], [2.40, 48.80], [2.40, 48.85], [2.34, 48.85], [2.34, 48.80]]


def collection(*rings, ids=("a", "b", "c", "d"), kind="Polygon", **more):
    features = [
        {
            "type": "Feature",
            "properties": {"zone": ids[k]},
            "geometry": ring and {"type": kind, "coordinates": [ring]},
        }
        for k, ring in enumerate(rings)
    ]
    return json.dumps({"type": "FeatureCollection", **more, "features": features})


def moved(ring, factor=1.0, swap=False, x=0.0, y=0.0):
    points = [[px * factor + x, py * factor + y] for px, py in ring]
    return [point[::-1] for point in points] if swap else points


def square_ring_around_a_hole():
    def box(x, y, width, height):
        ring = [[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]]
        return [[round(px, 6), round(py, 6)] for px, py in ring]

    return [
        box(2.0, 48.0, 0.3, 0.1),
        box(2.0, 48.2, 0.3, 0.1),
        box(2.0, 48.1, 0.1, 0.1),
        box(2.2, 48.1, 0.1, 0.1),
    ]


def geoparquet(path, geometry, about=None, **columns):
    columns_about = {"geometry": about or {"encoding": "WKB"}}
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": columns_about}
    wkb = pa.array(shapely.to_wkb(np.array(geometry, dtype=object)).tolist(), pa.binary())
    table = pa.table({**columns, "geometry": wkb})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)


POINT = {"type": "Point", "coordinates": [2, 48]}
POINTS = json.dumps({"type": "Feature", "properties": {"zone": "a"}, "geometry": POINT})
TEXT_FILES = [  # code, file name, content (None: no file), what read_zones gets besides
    ("file-missing", "none.geojson", None, {}),
    ("empty-file", "z.geojson", "", {}),
    ("empty-file", "z.geojson", '{"type": "FeatureCollection", "features": []}', {}),
    ("file-unreadable", "z.geojson", collection(LEFT)[:-30], {}),
    ("file-unreadable", "z.geojson", '{"hello": 1}', {}),
    ("format-unknown", "z.doc", "hello", {}),
    ("format-mismatch", "z.gpkg", collection(LEFT), {}),
    ("format-mismatch", "z.parquet", collection(LEFT), {}),
    ("format-mismatch", "z.geojson", "PAR1 and so on", {}),
    ("file-unreadable", "z.parquet", "PAR1 and so on PAR1", {}),
    ("file-unreadable", "z.gpkg", "SQLite format 3\x00 and so on", {}),
    ("file-unreadable", "z.zip", "PK\x03\x04 and so on", {}),
    ("duplicate-id", "z.geojson", collection(LEFT, RIGHT, ids=("a", "a")), {}),
    ("id-empty", "z.geojson", collection(LEFT, RIGHT, ids=("a", None)), {}),
    ("missing-column", "z.geojson", collection(LEFT), {"id_column": "zones"}),
    ("missing-column", "z.geojson", collection(LEFT), {"name_column": "title"}),
    ("id-column-missing", "z.geojson", collection(LEFT).replace('"zone"', '"commune"'), {}),
    ("polygon-invalid", "z.geojson", collection(BOW_TIE), {}),
    ("geometry-empty", "z.geojson", collection(LEFT, None), {}),
    ("geometry-type", "z.geojson", POINTS, {}),
    ("lonlat-swapped", "z.geojson", collection(moved(LEFT, x=120, swap=True)), {}),
    ("lonlat-range", "z.geojson", collection(moved(LEFT, factor=1000)), {}),
    ("zones-overlap", "z.geojson", collection(LEFT, OVER), {}),
    ("zones-holes", "z.geojson", collection(*square_ring_around_a_hole()), {"holes": "stop"}),
    ("crs-missing", "z.geojson", collection(LEFT, crs=None), {}),
    ("crs-unknown", "z.geojson", collection(LEFT), {"crs": "EPSG:nonsense"}),
]


with np.errstate(invalid="ignore"):
    NAN = shapely.Polygon([(0, 0), (1, 0), (float("nan"), 1), (0, 0)])


LINE = shapely.LineString([(0, 0), (1, 1)])
ONE = shapely.box(2.3, 48.8, 2.4, 48.9)
PARQUET_FILES = [
    ("coordinate-nan", [NAN], None),
    ("geometry-type", [LINE], None),
    ("geometry-empty", [shapely.Polygon()], None),
    ("geometry-empty", [None], None),
    ("geometry-encoding", [ONE], {"encoding": "polygon"}),
    ("crs-missing", [ONE], {"encoding": "WKB", "crs": None}),
    ("crs-unknown", [ONE], {"encoding": "WKB", "crs": {"type": "GeographicCRS"}}),
]


@pytest.mark.parametrize(("code", "geometry", "about"), PARQUET_FILES)
def test_bad_geoparquet(tmp_path, code, geometry, about):
    geoparquet(tmp_path / "z.parquet", geometry, about, zone=["a"])
    with pytest.raises(GeometryError, match=code):
        read_zones(tmp_path / "z.parquet")


WKB = b'{"primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}'
SHAPE = b'{"primary_column": "shape", "columns": {"shape": {"encoding": "WKB"}}}'


@pytest.mark.parametrize(
    ("code", "metadata", "columns"),
    [
        *(("geometry-metadata", {"geo": each}, {}) for each in (b"not json", b"{}", b"[]", SHAPE)),
        ("file-unreadable", {"geo": WKB}, {"geometry": pa.array([b"nonsense"], pa.binary())}),
        ("geometry-missing", None, {}),
    ],
)
def test_broken_geoparquet(tmp_path, code, metadata, columns):
    table = pa.table({"zone": ["a"], **columns})
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "z.parquet")
    with pytest.raises(GeometryError, match=code):
        read_zones(tmp_path / "z.parquet")


def test_shapefile_without_coordinate_system(tmp_path):
    geometry = shapely.to_wkb(np.array([ONE], dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pyogrio.raw.write(
            str(tmp_path / "z.shp"), geometry, [np.array(["a"], dtype=object)], ["zone"],
            geometry_type="Polygon", crs=None, driver="ESRI Shapefile",
        )  # fmt: skip
    with pytest.raises(GeometryError, match="crs-missing"):
        read_zones(tmp_path / "z.shp")
    assert read_zones(tmp_path / "z.shp", crs="EPSG:4326").crs == "EPSG:4326"
    assert read_zones(tmp_path / "z.shp", crs="planar").crs is None


def test_layers_must_be_chosen_and_exist(tmp_path):
    path = tmp_path / "z.gpkg"
    for layer in ("one", "two"):
        pyogrio.raw.write(
            str(path), shapely.to_wkb(np.array([ONE])), [np.array(["a"], dtype=object)], ["zone"],
            geometry_type="Polygon", crs="EPSG:4326", driver="GPKG", layer=layer, append=path.exists(),
        )  # fmt: skip
    for layer in (None, "three"):
        with pytest.raises(GeometryError, match=r"layer-choice: .*one, two"):
            read_zones(path, layer=layer)
    assert read_zones(path, layer="two").ids == ("a",)


def test_messages_name_the_zone_and_the_place(tmp_path):
    (tmp_path / "z.geojson").write_text(collection(RIGHT, BOW_TIE, ids=("good", "tie")))
    with pytest.raises(GeometryError, match=r"'tie': Self-intersection\[2.325 48.825\]"):
        read_zones(tmp_path / "z.geojson")
    (tmp_path / "z.geojson").write_text(collection(LEFT, OVER))
    with pytest.raises(GeometryError, match=r"'a' and 'b' \(20.0%\)"):
        read_zones(tmp_path / "z.geojson")
    with pytest.raises(GeometryError, match="Did you mean 'zone'"):
        read_zones(tmp_path / "z.geojson", id_column="zones")


def test_repair_keeps_both_wings_and_holes_warn_by_default(tmp_path):
    (tmp_path / "z.geojson").write_text(collection(BOW_TIE, RIGHT))
    zones = read_zones(tmp_path / "z.geojson", repair=True)
    assert shapely.is_valid(zones.geometry).all()
    assert zones.geometry[0].area == pytest.approx(0.05 * 0.05 / 2)
    assert "repaired 1 invalid polygons: 'a'" in zones.notes[0]
    (tmp_path / "z.geojson").write_text(collection(*square_ring_around_a_hole()))
    with pytest.warns(GeometryWarning, match=r"1 holes .* around \(2.15, 48.15\)"):
        zones = read_zones(tmp_path / "z.geojson")
    assert len(zones.notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_zones(tmp_path / "z.geojson", holes="allow").notes == ()


def test_overlaps_may_be_accepted_and_slivers_pass(tmp_path):
    (tmp_path / "z.geojson").write_text(collection(LEFT, OVER))
    with pytest.warns(GeometryWarning, match="zones-overlap"):
        assert read_zones(tmp_path / "z.geojson", on_overlap="warn").count == 2
    assert read_zones(tmp_path / "z.geojson", on_overlap="allow").count == 2
    assert read_zones(tmp_path / "z.geojson", sliver=0.25).count == 2
    thin = [[x - 0.0002 if x == 2.35 else x, y] for x, y in RIGHT]
    (tmp_path / "z.geojson").write_text(collection(LEFT, thin))
    assert "1 pairs of zones overlap by slivers" in read_zones(tmp_path / "z.geojson").notes[0]


@pytest.mark.parametrize("options", [{"on_overlap": "maybe"}, {"holes": "no"}, {"sliver": -1}, {"sliver": 1}])
def test_bad_options(tmp_path, options):
    (tmp_path / "z.geojson").write_text(collection(LEFT))
    with pytest.raises(PlanError):
        read_zones(tmp_path / "z.geojson", **options)


SITE_FILES = [
    ("file-missing", "none.csv", None, {}),
    ("empty-file", "s.csv", "", {}),
    ("empty-file", "s.csv", "site,lon,lat\n", {}),
    ("missing-column", "s.csv", "site,lon,latt\nA,2,48\n", {}),
    ("missing-column", "s.csv", "site,a,b\nA,2,48\n", {"x_column": "a", "y_column": "c"}),
    ("missing-column", "s.csv", "site,lon,lat\nA,2,48\n", {"id_column": "mast"}),
    ("id-column-missing", "s.csv", "lon,lat\n2,48\n", {}),
    ("duplicate-id", "s.csv", "site,lon,lat\nA,2,48\nA,2,49\n", {}),
    ("id-empty", "s.csv", "site,lon,lat\nA,2,48\n,2,49\n", {}),
    ("coordinate-type", "s.csv", "site,lon,lat\nA,east,48\n", {}),
    ("coordinate-nan", "s.csv", "site,lon,lat\nA,,48\n", {}),
    ("coordinate-nan", "s.csv", "site,lon,lat\nA,nan,48\n", {}),
    ("lonlat-swapped", "s.csv", "site,lon,lat\nA,37.7,-122.4\n", {}),
    ("lonlat-range", "s.csv", "site,lon,lat\nA,650000,6860000\n", {}),
    ("crs-missing", "s.csv", "site,x,y\nA,2.3,48.8\n", {}),
    ("file-unreadable", "s.csv", "site,lon,lat\nA,2\n", {}),
    ("format-mismatch", "s.csv", "PAR1\x00\x00\x00", {}),
    ("format-mismatch", "s.parquet", "site,lon,lat\nA,2,48\n", {}),
    ("format-unknown", "s.xls", "hello", {}),
    ("geometry-type", "s.geojson", collection(LEFT), {"id_column": "zone"}),
    ("geometry-empty", "s.geojson", collection(None), {"id_column": "zone"}),
    ("column-pair", "s.csv", "site,lon,lat\nA,2,48\n", {"x_column": "lon"}),
]


@pytest.mark.parametrize(
    ("read", "code", "name", "content", "options"),
    [*((read_zones, *case) for case in TEXT_FILES), *((read_sites, *case) for case in SITE_FILES)],
)
def test_bad_files(tmp_path, read, code, name, content, options):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(GeometryError, match=f"^{code}:") as caught:
        read(tmp_path / name, **options)
    assert caught.value.remedy


OTHER_ID = collection(LEFT).replace('"zone"', '"commune"')


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("s.csv", "mast,lon,lat\nA,2,48\n", {}, ["--site-id", "id_column"]),
        ("s.csv", "site,lon,lat\nA,2,48\n", {"id_column": "mast"}, ["--site-id", "id_column"]),
        ("s.csv", "site,east,lat\nA,2,48\n", {}, ["--site-lon", "x_column"]),
        ("s.csv", "site,lon,north\nA,2,48\n", {}, ["--site-lat", "y_column"]),
        ("s.csv", "site,lon,lat\nA,2,48\n", {"x_column": "lon"}, ["--site-lon", "--site-lat"]),
        ("z.geojson", OTHER_ID, {}, ["--zone-id"]),
        ("z.geojson", collection(LEFT), {"id_column": "zones"}, ["--zone-id"]),
        ("z.geojson", collection(LEFT), {"name_column": "title"}, ["--zone-name"]),
        ("z.geojson", collection(LEFT), {"layer": "two"}, ["--zones-layer"]),
    ],
)
def test_errors_name_the_option_for_columns(tmp_path, name, content, options, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(GeometryError) as caught:
        (read_sites if name == "s.csv" else read_zones)(tmp_path / name, **options)
    assert all(word in caught.value.remedy for word in words)


@for_each("centre", [(2.35, 48.85), (-122.4, 37.7), (0, 0), (19, 69.6), (151, -33.9), (179, -17)])
def test_areas_are_those_of_the_ellipsoid(centre):
    lon, lat = centre
    square = shapely.segmentize(shapely.box(lon - 0.3, lat - 0.2, lon + 0.3, lat + 0.2), 0.01)
    flat = transform(np.array([square]), LONLAT, equal_area_crs(square.bounds))[0]
    # A geodesic is not a parallel: short segments make the two outlines agree.
    true = abs(pyproj.Geod(ellps="WGS84").geometry_area_perimeter(square)[0])
    assert flat.area == pytest.approx(true, rel=1e-6)


def test_names_and_units_of_coordinate_systems():
    """The origin of Lambert-93 by definition: 3 E, 46.5 N is (700000, 6600000)."""
    x, y = transform_xy([3.0], [46.5], LONLAT, "EPSG:2154")
    assert (x[0], y[0]) == pytest.approx((700_000, 6_600_000), abs=1e-3)
    assert crs_name(None) is None
    assert crs_name(pyproj.CRS(2154).to_wkt()) == "EPSG:2154"
    assert is_lonlat("EPSG:4258")
    assert not is_lonlat("EPSG:2154")
    assert not is_lonlat(None)
    assert unit_m("EPSG:2263") == pytest.approx(0.3048, rel=1e-5)
    own = equal_area_crs((2.2, 48.8, 2.5, 48.9))
    assert pyproj.CRS.from_user_input(crs_name(own)).equals(own)


@for_each("spelling", ["EPSG:4326", "epsg:4326", "OGC:CRS84", 4326, pyproj.CRS(4326).to_json_dict()])
def test_all_spellings_of_lonlat_are_one(spelling):
    assert crs_name(spelling) == LONLAT


@pytest.mark.parametrize("bounds", [(0, 95, 1, 96), (float("nan"), 0, 1, 1)])
def test_bounds_that_are_no_place(bounds):
    with pytest.raises(GeometryError):
        equal_area_crs(bounds)


SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
BAD = ["a\x1b[31mb", "a\nb", "a\u202eb", "a\u200fb", "\x85", "a\u2028b", "x" * 2000, "\x00"]


def geojson(path, zone, name="n"):
    feature = {"type": "Feature", "properties": {"zone": zone, "name": name}, "geometry": SQUARE}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    return path


@pytest.mark.parametrize("zone", BAD)
def test_ids_with_control_characters_and_direction_marks_are_refused(tmp_path, zone):
    with pytest.raises(GeometryError, match="id-text"):
        read_zones(geojson(tmp_path / "z.geojson", f"a{zone}b"), holes="allow")


@pytest.mark.parametrize("zone", ["\u200b", "\u200b\u2060", "\u0301", "\u200d", "\ufeff"])
def test_ids_without_a_visible_character_are_refused(tmp_path, zone):
    with pytest.raises(GeometryError, match="id-text"):
        read_zones(geojson(tmp_path / "z.geojson", zone), holes="allow")


@pytest.mark.parametrize("zone", ["\u0645\u06cc\u200c\u062e", "\U0001f468\u200d\U0001f469", "e\u0301", "?"])
def test_invisible_characters_within_text_are_read(tmp_path, zone):
    assert read_zones(geojson(tmp_path / "z.geojson", zone), holes="allow").ids == (zone,)


@pytest.mark.parametrize("zone", ["\ud800", "a\udfffb"])
def test_half_a_surrogate_pair_is_refused_whatever_the_format(tmp_path, zone):
    with pytest.raises(GeometryError, match=r"file-unreadable|id-text"):
        read_zones(geojson(tmp_path / "z.geojson", zone), holes="allow")
    raw = zone.encode("utf-8", "surrogatepass")
    (tmp_path / "raw.geojson").write_bytes(
        geojson(tmp_path / "z.geojson", "ZONE").read_bytes().replace(b"ZONE", raw)
    )
    with pytest.raises(GeometryError, match="file-unreadable"):
        read_zones(tmp_path / "raw.geojson", holes="allow")
    (tmp_path / "s.csv").write_bytes(b"site,lon,lat\n" + raw + b",1,2\n")
    with pytest.raises(GeometryError, match="format-mismatch"):
        read_sites(tmp_path / "s.csv")
    stored = pa.array([raw])
    site = pa.Array.from_buffers(pa.string(), 1, stored.buffers())
    pq.write_table(pa.table({"site": site, "lon": [1.0], "lat": [2.0]}), tmp_path / "s.parquet")
    with pytest.raises(GeometryError, match="file-unreadable"):
        read_sites(tmp_path / "s.parquet")
    with sqlite3.connect(tmp_path / "z.gpkg") as database:
        database.executescript(
            PACKAGE + "INSERT INTO gpkg_geometry_columns VALUES ('z', 'geom', -1);"
            "CREATE TABLE z (id TEXT, geom BLOB);"
        )
        shape = b"GP\x00\x01\xff\xff\xff\xff" + shapely.to_wkb(shapely.box(0, 0, 1, 1))
        database.execute("INSERT INTO z VALUES (CAST(? AS TEXT), ?)", (raw, shape))
    with pytest.raises(GeometryError, match="file-unreadable"):
        read_zones(tmp_path / "z.gpkg", crs="planar", holes="allow")


@for_each(
    "name",
    ["utf-16-surrogatepass", "utf-7", "rot13", "idna", "punycode", "unicode_escape", "raw_unicode_escape",
     "hex", "base64", "zlib", "undefined", "utf-16", "mbcs", "cp", "utf-8-sig", "../x"],
)  # fmt: skip
def test_a_cpg_names_a_character_set_or_nothing(name):
    assert _encoding(name.encode()) is None


@for_each("name", ["UTF-8", "1252", "ANSI 1252", "88591", "8859-15", "GBK", "Shift_JIS", "koi8-r"])
def test_character_sets_are_known(name):
    assert "a".encode(_encoding(name.encode())) == b"a"


def test_names_and_errors_do_nothing_to_a_terminal(tmp_path):
    zones = read_zones(geojson(tmp_path / "z.geojson", "a", "\u200f\u05d7\u05d9\u05e4\u05d4"), holes="allow")
    assert zones.names == ("\u05d7\u05d9\u05e4\u05d4",)
    error = ShoalError("code", "zone \x1b]0;x\x07 \u202e \udc80", "do\x9b\nthis")
    assert str(error) == "code: zone \\x1b]0;x\\x07 \\u202e \\udc80\ndo\\x9b\nthis"


@pytest.mark.parametrize(
    "content",
    [b"\x1f\x8b\x08\x00", gzip.compress(b"site,lon,lat\na,1,2\n" * 99, mtime=0)[:-9]],
    ids=["header", "cut"],
)
def test_damaged_gzip_of_sites(tmp_path, content):
    path = tmp_path / "s.csv.gz"
    damaged = bytearray(content)
    damaged[12:20] = b"\xff" * 8
    for each in (content, bytes(damaged)):
        path.write_bytes(each)
        with pytest.raises(GeometryError, match="format-mismatch"):
            read_sites(path)


@pytest.mark.parametrize("crs", ["IAU_2015:30100", "IAU_2015:30110", "EPSG:5703", "EPSG:4978"])
def test_only_maps_of_the_earth(tmp_path, crs):
    with pytest.raises(GeometryError, match="crs-kind"):
        read_zones(geojson(tmp_path / "z.geojson", "a"), crs=crs, holes="allow")


def test_coordinates_of_308_digits(tmp_path):
    from shoal.errors import PlanError
    from shoal.space.grid import square_grid
    from shoal.space.plan import SpacePlan

    huge = 10**308
    for box in ((-huge, -huge, huge, huge), (-1e308, -1e308, 1e308, 1e308), (0, 0, 10**5000, 1)):
        with pytest.raises(PlanError, match=r"plan-range|box-range"):
            SpacePlan(box=box, cell_m=500)
        with pytest.raises(PlanError, match="box-range"):
            square_grid(box, 500, crs=None)
    with pytest.raises(PlanError, match="cell-size"):
        square_grid((0, 0, 1, 1), 1e-300, crs=None)
    content = geojson(tmp_path / "z.geojson", "a").read_text().replace("[1, 0]", "[1e300, 0]")
    (tmp_path / "z.geojson").write_text(content)
    with pytest.raises(GeometryError, match="coordinate-range"):
        read_zones(tmp_path / "z.geojson", crs="planar", holes="allow")
