"""Ids and names that cannot be written, or that act on a terminal, do not get in or out."""

import gzip
import json
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.fuzz.maps import PACKAGE
from tests.loops import for_each

from shoal.errors import GeometryError, ShoalError
from shoal.space.formats.shapefiles import _encoding
from shoal.space.places import read_sites, read_zones

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
