"""Shapefiles written by GDAL, and by pyshp where GDAL would mend them; GDAL reads along as the oracle."""

import io
import struct
import warnings
from pathlib import Path

import numpy as np
import pyogrio.raw
import pytest
import shapefile
import shapely
from tests.loops import for_each

from shoal.errors import GeometryError
from shoal.space.formats.shapefiles import read_shapefile
from shoal.space.layers import read_layer

PATH = Path("z.shp")


def ring(x, y, side, clockwise=True):
    points = [(x, y), (x, y + side), (x + side, y + side), (x + side, y), (x, y)]
    return points if clockwise else points[::-1]


def written(shapes, kind=shapefile.POLYGON, values=None, encoding="utf-8"):
    """The parts of a Shapefile: `shapes` are lists of rings or lines, points, or None."""
    parts = {suffix: io.BytesIO() for suffix in (".shp", ".shx", ".dbf")}
    named = {suffix[1:]: stream for suffix, stream in parts.items()}
    writer = shapefile.Writer(**named, shapeType=kind, encoding=encoding)
    writer.field("zone", "C", 20)
    for k, one in enumerate(shapes):
        if one is None:
            writer.null()
        elif kind in (shapefile.POLYGON, shapefile.POLYLINE):
            (writer.poly if kind == shapefile.POLYGON else writer.line)(one)
        elif kind == shapefile.POLYGONZ:
            writer.polyz(one)
        elif kind == shapefile.MULTIPOINT:
            writer.multipoint(one)
        else:
            writer.point(*one)
        writer.record((values or [f"z{j}" for j in range(len(shapes))])[k])
    writer.close()
    return {suffix: stream.getvalue() for suffix, stream in parts.items()}


def saved(folder, parts):
    for suffix, content in parts.items():
        (folder / f"z{suffix}").write_bytes(content)
    return folder / "z.shp"


def by_gdal(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shapely.from_wkb(pyogrio.raw.read(str(path))[2])


RINGS = {
    "one": ([ring(0, 0, 10)], 100, 1),
    "one, turned": ([ring(0, 0, 10, clockwise=False)], 100, 1),
    "hole": ([ring(0, 0, 10), ring(2, 2, 2, clockwise=False)], 96, 1),
    "hole first": ([ring(2, 2, 2, clockwise=False), ring(0, 0, 10)], 96, 1),
    "two parts": ([ring(0, 0, 10), ring(20, 0, 2)], 104, 2),
    "two parts, one turned": ([ring(0, 0, 10), ring(20, 0, 2, clockwise=False)], 104, 2),
    "island in a hole": ([ring(0, 0, 10), ring(2, 2, 6, clockwise=False), ring(4, 4, 2)], 68, 2),
    "hole in an island": (
        [ring(0, 0, 10), ring(1, 1, 8, clockwise=False), ring(2, 2, 6), ring(3, 3, 1, clockwise=False)],
        100 - 64 + 36 - 1,
        2,
    ),
}


@pytest.mark.parametrize("name", RINGS)
def test_rings_become_polygons_as_in_gdal(tmp_path, name):
    rings, area, count = RINGS[name]
    parts = written([rings])
    (polygon,) = read_shapefile(parts, PATH).geometry
    assert polygon.is_valid
    assert (polygon.area, len(shapely.get_parts(polygon))) == (area, count)
    (oracle,) = by_gdal(saved(tmp_path, parts))
    assert polygon.equals(oracle)


@pytest.mark.parametrize(
    "rings",
    [
        [ring(0, 0, 10), ring(2, 2, 2)],
        [ring(0, 0, 10, clockwise=False), ring(2, 2, 2)],
        [ring(0, 0, 10), ring(5, 5, 10)],
        [ring(0, 0, 10), ring(0, 0, 10)],
        [ring(0, 0, 10), ring(8, 2, 4, clockwise=False)],
    ],
    ids=["nested shells", "turned inside out", "overlap", "twice", "hole across the edge"],
)
def test_rings_that_make_no_sense_stay_invalid_as_in_gdal(tmp_path, rings):
    parts = written([rings])
    assert not read_shapefile(parts, PATH).geometry[0].is_valid
    assert not by_gdal(saved(tmp_path, parts))[0].is_valid


def test_other_kinds_of_shape():
    points = read_shapefile(written([(1, 2), None], shapefile.POINT), PATH).geometry
    assert points.tolist() == [shapely.Point(1, 2), None]
    many = read_shapefile(written([[(1, 2), (3, 4)]], shapefile.MULTIPOINT), PATH).geometry
    assert many[0].wkt == "MULTIPOINT ((1 2), (3 4))"
    lines = read_shapefile(written([[[(1, 2), (3, 4)], [(5, 6), (7, 8)]]], shapefile.POLYLINE), PATH).geometry
    assert lines[0].wkt == "MULTILINESTRING ((1 2, 3 4), (5 6, 7 8))"
    high = [[(x, y, 35.0) for x, y in ring(0, 0, 10)]]
    (flat,) = read_shapefile(written([high], shapefile.POLYGONZ), PATH).geometry
    assert (flat.area, flat.has_z) == (100, False)


@for_each(
    ("cpg", "encoding"),
    [
        (b"UTF-8", "utf-8"),
        (b"65001\r\n", "utf-8"),
        (b"ISO-8859-1", "latin-1"),
        (b"88592", "iso8859-2"),
        (b"1251", "cp1251"),
        (b"ANSI 1250", "cp1250"),
        (b"system", "utf-8"),
        (b"\xff\xff", "latin-1"),
        (b"", "latin-1"),
        (None, "utf-8"),
        (None, "latin-1"),
    ],
)
def test_encodings(cpg, encoding):
    word = {"cp1251": "Москва", "iso8859-2": "Łódź", "cp1250": "Łódź"}.get(encoding, "Één")
    parts = written([[ring(0, 0, 1)]], values=[word], encoding=encoding)
    if cpg is not None:
        parts[".cpg"] = cpg
    assert read_shapefile(parts, PATH).columns == {"zone": [word]}


def test_deleted_rows_and_gaps_between_shapes():
    parts = written([[ring(k, 0, 1)] for k in range(3)])
    at = parts[".dbf"].index(b"z1") - 1
    parts[".dbf"] = parts[".dbf"][:at] + b"*" + parts[".dbf"][at + 1 :]
    rows = read_shapefile(parts, PATH)
    assert rows.columns == {"zone": ["z0", "z2"]}
    assert [shape.bounds[0] for shape in rows.geometry] == [0, 2]
    parts = written([[ring(0, 0, 1)], [ring(1, 0, 1)]])
    body = parts[".shp"][100:]
    parts[".shp"] = parts[".shp"][:100] + bytes(12) + body  # a gap, as lazy deletion leaves it
    words, start = len(body) // 4, (100 + 12) // 2  # both shapes are equally long; lengths are in 16 bits
    moved = struct.pack(">4i", start, words - 4, start + words, words - 4)
    parts[".shx"] = parts[".shx"][:100] + moved
    assert [s.bounds[0] for s in read_shapefile(parts, PATH).geometry] == [0, 1]


def test_upper_case_names_missing_tables_and_cut_letters(tmp_path):
    parts = written([[ring(0, 0, 1)]])
    for suffix, content in parts.items():
        (tmp_path / f"Z{suffix.upper()}").write_bytes(content)
    assert read_layer(tmp_path / "Z.SHP").columns == {"zone": ["z0"]}
    (tmp_path / "Z.DBF").unlink()
    assert read_layer(tmp_path / "Z.SHP").columns == {}
    parts = written([[ring(0, 0, 1)], [ring(1, 0, 1)]], values=["é" * 10, "Één"])
    parts[".dbf"] = parts[".dbf"].replace("é".encode() * 10, b" " + "é".encode() * 9 + b"\xc3")
    parts[".cpg"] = b"UTF-8"
    assert read_shapefile(parts, PATH).columns["zone"] == [" " + "é" * 9 + "\ufffd", "Één"]


def test_coordinate_systems(tmp_path):
    for crs in ("EPSG:4326", "EPSG:2154", "EPSG:3857"):
        pyogrio.raw.write(
            str(tmp_path / "z.shp"), shapely.to_wkb(np.array([shapely.box(0, 0, 1, 1)])),
            [np.array(["a"])], ["zone"], geometry_type="Polygon", crs=crs, driver="ESRI Shapefile",
        )  # fmt: skip
        assert read_layer(tmp_path / "z.shp").crs == crs
    (tmp_path / "z.prj").write_bytes(b"PROJCS[nonsense")
    with pytest.raises(GeometryError, match="crs-unknown"):
        read_layer(tmp_path / "z.shp")
    assert read_layer(tmp_path / "z.shp", crs="EPSG:2154").crs == "EPSG:2154"


@pytest.mark.parametrize("suffix", [".shp", ".shx", ".dbf"])
def test_cut_or_changed_anywhere_is_refused_or_read(suffix):
    parts = written([[ring(0, 0, 10), ring(2, 2, 2, clockwise=False)], [ring(20, 0, 1)], None])
    content, outcomes = parts[suffix], set()
    for at in range(len(content)):
        changes = (content[at : at + 1], b"\x00", b"\x7f", b"\xff")
        for broken in (content[:at], *(content[:at] + byte + content[at + 1 :] for byte in changes)):
            try:
                outcomes.add(len(read_shapefile({**parts, suffix: broken}, PATH).geometry))
            except GeometryError as error:
                outcomes.add(error.code)
    assert {"file-unreadable", 3} <= outcomes
    assert {o for o in outcomes if isinstance(o, str)} <= {"file-unreadable", "coordinate-nan"}
