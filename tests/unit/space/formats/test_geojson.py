"""GeoJSON against hand-made documents; shapes against WKT."""

import json
from pathlib import Path

import pytest
import shapely
from tests.loops import for_each

from shoal.errors import GeometryError
from shoal.space.formats.rows import read_geojson
from shoal.space.layers import read_layer

PATH = Path("z.geojson")
RING = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
HOLE = [[1, 1], [1, 2], [2, 2], [2, 1], [1, 1]]


def feature(geometry, **more):
    return {"type": "Feature", "properties": {}, **more, "geometry": geometry}


def collection(*features, **more):
    return {"type": "FeatureCollection", **more, "features": list(features)}


def read(document):
    return read_geojson(json.dumps(document).encode(), PATH)


def refused(document):
    with pytest.raises(GeometryError) as caught:
        read(document)
    return caught.value


@for_each(
    ("geometry", "wkt"),
    [
        ({"type": "Point", "coordinates": [1, 2]}, "POINT (1 2)"),
        ({"type": "Point", "coordinates": [1, 2, 35.0]}, "POINT (1 2)"),
        ({"type": "Point", "coordinates": []}, "POINT EMPTY"),
        ({"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}, "MULTIPOINT ((1 2), (3 4))"),
        ({"type": "LineString", "coordinates": [[1, 2], [3, 4, 5]]}, "LINESTRING (1 2, 3 4)"),
        ({"type": "MultiLineString", "coordinates": [[[1, 2], [3, 4]]]}, "MULTILINESTRING ((1 2, 3 4))"),
        (
            {"type": "Polygon", "coordinates": [RING, HOLE]},
            "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))",
        ),
        ({"type": "Polygon", "coordinates": []}, "POLYGON EMPTY"),
        ({"type": "MultiPolygon", "coordinates": [[RING]]}, "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)))"),
        (
            {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2]}]},
            "GEOMETRYCOLLECTION (POINT (1 2))",
        ),
    ],
)
def test_every_kind_of_geometry(geometry, wkt):
    for document in (collection(feature(geometry)), feature(geometry), geometry):
        rows = read(document)
        assert (len(rows.geometry), rows.crs) == (1, "EPSG:4326")
        assert not shapely.has_z(rows.geometry[0])
        assert rows.geometry[0].wkt == shapely.from_wkt(wkt).wkt


def test_properties_and_ids_as_columns():
    rows = read(collection(feature(None, properties={"a": 1}), feature(None, properties={"b": [2, "é"]})))
    assert rows.columns == {"a": [1, None], "b": [None, '[2, "é"]']}
    assert rows.geometry.tolist() == [None, None]
    assert read(feature(None, properties=None)).columns == {}
    assert read(collection(feature(None, id=7), feature(None))).columns == {"id": [7, None]}
    assert read(feature(None, id=7, properties={"id": "x"})).columns == {"id": ["x"]}


@pytest.mark.parametrize(
    ("crs", "name"),
    [
        ({"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}, "EPSG:4326"),
        ({"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::2154"}}, "EPSG:2154"),
        ({"type": "EPSG", "properties": {"code": 2154}}, "EPSG:2154"),
        (None, None),
    ],
)
def test_the_older_crs_member(tmp_path, crs, name):
    document = collection(feature({"type": "Point", "coordinates": [1, 2]}), crs=crs)
    (tmp_path / "z.geojson").write_text(json.dumps(document))
    assert read_layer(tmp_path / "z.geojson").crs == name


def test_a_crs_that_names_nothing_unless_the_owner_does(tmp_path):
    document = collection(feature({"type": "Point", "coordinates": [1, 2]}), crs={"type": "link"})
    assert refused(document).code == "crs-unknown"
    document["crs"] = {"type": "name", "properties": {"name": "EPSG:nonsense"}}
    (tmp_path / "z.geojson").write_text(json.dumps(document))
    with pytest.raises(GeometryError, match="crs-unknown"):
        read_layer(tmp_path / "z.geojson")
    assert read_layer(tmp_path / "z.geojson", crs="EPSG:2154").crs == "EPSG:2154"


def test_a_byte_order_mark_and_other_encodings():
    text = json.dumps(feature(None, properties={"é": "ü"}), ensure_ascii=False)
    assert read_geojson(b"\xef\xbb\xbf" + text.encode(), PATH).columns == {"é": ["ü"]}
    assert read(feature(None, properties={"a": "\U0001f41f"})).columns == {"a": ["\U0001f41f"]}
    for content in (
        text.encode("latin-1"),
        text.encode("utf-16-le"),
        json.dumps(feature(None, properties={"a": "\ud83d"})).encode(),
    ):
        with pytest.raises(GeometryError, match="file-unreadable"):
            read_geojson(content, PATH)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_coordinates_that_are_no_numbers(number):
    text = json.dumps(feature({"type": "Polygon", "coordinates": [RING]}))
    for content in (text.replace("[[[0, 0]", f"[[[{number}, 0]"), text.replace("[4, 4]", f"[4, {number}]")):
        assert number in content
        with pytest.raises(GeometryError) as caught:
            read_geojson(content.encode(), PATH)
        assert caught.value.code == "coordinate-nan"
        assert "row 1" in caught.value.message


def test_bad_or_endless_geometry_is_refused_by_row():
    good = feature({"type": "Polygon", "coordinates": [RING]})
    error = refused(collection(good, feature({"type": "Polygon", "coordinates": [RING[:2]]})))
    assert error.code == "file-unreadable"
    assert "row 2" in error.message
    for content in (b'{"a":' + b"[" * 100_000, b'{"type":"GeometryCollection","geometries":[' * 20_000):
        with pytest.raises(GeometryError, match="file-unreadable"):
            read_geojson(content, PATH)


def paths(node, here=()):
    yield here
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        yield from paths(child, (*here, key))


def replaced(node, path, junk):
    if not path:
        return junk
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = replaced(node[path[0]], path[1:], junk)
    return copy


@for_each("junk", [None, True, -1, 1e999, "x", [], ["x"], [[]], {}, {"type": "Polygon"}])
def test_junk_in_any_place_is_refused_or_read(junk):
    document = collection(
        feature({"type": "Polygon", "coordinates": [RING, HOLE]}, id=1, properties={"a": {"b": 1}}),
        feature({"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2]}]}),
        crs={"type": "name", "properties": {"name": "EPSG:4326"}},
    )
    outcomes = set()
    for path in paths(document):
        try:
            outcomes.add(len(read(replaced(document, path, junk)).geometry))
        except GeometryError as error:
            outcomes.add(error.code if error.remedy else "no remedy")
    assert "file-unreadable" in outcomes
    assert 2 in outcomes
    assert "no remedy" not in outcomes
