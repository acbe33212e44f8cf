"""GeoPackages written by GDAL, and by hand with sqlite3 where GDAL would not."""

import sqlite3
import struct
from contextlib import closing

import numpy as np
import pyogrio.raw
import pyproj
import pytest
import shapely

from shoal.errors import GeometryError
from shoal.space.formats import geopackage, rows
from shoal.space.formats.geopackage import read_geopackage
from shoal.space.layers import read_layer

ONE = shapely.Polygon([(0, 0), (4, 0), (4, 4), (0, 4)], [[(1, 1), (1, 2), (2, 2), (2, 1)]])


def by_gdal(path, geometry, crs="EPSG:4326", **fields):
    columns = fields or {"zone": [f"z{k}" for k in range(len(geometry))]}
    pyogrio.raw.write(
        str(path), shapely.to_wkb(np.array(geometry, dtype=object), output_dimension=4, flavor="iso"),
        [np.array(column) for column in columns.values()], list(columns),
        geometry_type="Unknown", crs=crs, driver="GPKG",
    )  # fmt: skip


def header(flags, envelope=b"", srs_id=4326, magic=b"GP", version=0):
    order = "<" if flags & 1 else ">"
    return magic + bytes([version, flags]) + struct.pack(f"{order}i", srs_id) + envelope


def by_hand(path, blobs, srs_id=4326, srs=(("EPSG", 4326, "undefined"),), data_type="features"):
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            """
            CREATE TABLE gpkg_contents (table_name TEXT, data_type TEXT);
            CREATE TABLE gpkg_geometry_columns (table_name TEXT, column_name TEXT, srs_id INTEGER);
            CREATE TABLE gpkg_spatial_ref_sys
                (srs_id INTEGER, organization TEXT, organization_coordsys_id INTEGER, definition TEXT);
            CREATE TABLE "my ""zones" (fid INTEGER PRIMARY KEY, zone TEXT, geom BLOB, area REAL);
            """
        )
        database.execute("INSERT INTO gpkg_contents VALUES (?, ?)", ('my "zones', data_type))
        database.execute("INSERT INTO gpkg_geometry_columns VALUES (?, 'GEOM', ?)", ('my "zones', srs_id))
        for organization, number, definition in srs:
            database.execute(
                "INSERT INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?)",
                (srs_id, organization, number, definition),
            )
        database.executemany(
            'INSERT INTO "my ""zones" (zone, geom, area) VALUES (?, ?, 1.5)',
            [(f"z{k}", blob) for k, blob in enumerate(blobs)],
        )
        database.commit()
    return path


def refused(path, **options):
    with pytest.raises(GeometryError) as caught:
        read_layer(path, **options)
    assert caught.value.remedy
    return caught.value


WKB = shapely.to_wkb(ONE)


@pytest.mark.parametrize(
    ("kind", "size"), [(0, 0), (1, 4), (2, 6), (3, 6), (4, 8)], ids=["none", "xy", "xyz", "xym", "xyzm"]
)
@pytest.mark.parametrize("little", [0, 1])
def test_every_envelope_and_byte_order(tmp_path, kind, size, little):
    blob = header(kind << 1 | little, struct.pack(f"{'<' if little else '>'}{size}d", *range(size)))
    wkb = shapely.to_wkb(ONE, byte_order=1 - little)  # its own order, not that of the header
    rows = read_layer(by_hand(tmp_path / "z.gpkg", [blob + wkb, None]))
    assert rows.geometry.tolist() == [ONE, None]
    assert rows.columns == {"fid": [1, 2], "zone": ["z0", "z1"], "area": [1.5, 1.5]}


def test_empty_shapes_and_strange_columns_are_read(tmp_path):
    empty = shapely.to_wkb(shapely.Polygon())
    blobs = [header(0b10001) + empty, header(0b10001), header(0b10001) + shapely.to_wkb(shapely.Point())]
    rows = read_layer(by_hand(tmp_path / "z.gpkg", blobs))
    assert rows.geometry[1] is None
    assert shapely.is_empty(rows.geometry[[0, 2]]).all()
    path = by_hand(tmp_path / "y.gpkg", [header(1) + WKB])
    with closing(sqlite3.connect(path)) as database:
        database.execute('ALTER TABLE "my ""zones" ADD COLUMN "known as (old)" TEXT DEFAULT \'x as y\'')
    assert read_layer(path).columns["known as (old)"] == ["x as y"]


@pytest.mark.parametrize(
    ("blob", "word"),
    [
        (header(1, magic=b"PG") + WKB, "header"),
        (b"GP", "header"),
        ("text", "header"),
        (header(1, version=1) + WKB, "version 2"),
        (header(0b100001) + WKB, "extended"),
        (header(0b1011) + WKB, "envelope (5)"),
        (header(1), "not WKB"),
        (header(1) + WKB[:-8], "not WKB"),
        (header(0b11) + WKB, "not WKB"),  # says that it has an envelope, and has none
        (header(1) + struct.pack("<BII", 1, 8, 0), "curve"),
    ],
)
def test_bad_geometry_names_the_row(tmp_path, blob, word):
    error = refused(by_hand(tmp_path / "z.gpkg", [header(1) + WKB, blob]))
    assert error.code == "file-unreadable"
    assert "row 2" in error.message
    assert word in error.message.replace("kind of envelope", "envelope")


@pytest.mark.parametrize("geometry", [ONE, shapely.MultiPolygon([ONE]), shapely.Point(1, 2)])
@pytest.mark.parametrize("dimensions", ["xy", "xyz", "xyzm"])
def test_shapes_written_by_gdal_come_back_flat(tmp_path, geometry, dimensions):
    written = geometry if dimensions == "xy" else shapely.force_3d(geometry, 35.0)
    if dimensions == "xyzm":
        written = shapely.from_wkt(written.wkt.replace(" Z ", " ZM ").replace(" 35", " 35 7"))
        assert shapely.has_m(written)
    by_gdal(tmp_path / "z.gpkg", [written])
    (read,) = read_layer(tmp_path / "z.gpkg").geometry
    assert shapely.get_coordinate_dimension(read) == 2
    assert not shapely.has_m(read)
    assert read.wkt == geometry.wkt


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:2154", "ESRI:54009", "EPSG:3857"])
def test_coordinate_systems_written_by_gdal(tmp_path, crs):
    by_gdal(tmp_path / "z.gpkg", [ONE], crs=crs)
    assert read_layer(tmp_path / "z.gpkg").crs == crs


def test_a_system_without_authority_is_read_from_its_definition(tmp_path):
    laea = "+proj=laea +lat_0=48.8 +lon_0=2.3 +datum=WGS84 +units=m +type=crs"
    by_gdal(tmp_path / "z.gpkg", [ONE], crs=laea)
    assert pyproj.CRS(read_layer(tmp_path / "z.gpkg").crs).equals(pyproj.CRS(laea))


@pytest.mark.parametrize("srs_id", [-1, 0])
def test_undefined_systems_are_none(tmp_path, srs_id):
    path = by_hand(tmp_path / "z.gpkg", [header(1) + WKB], srs_id, [("NONE", srs_id, "undefined")])
    assert read_layer(path).crs is None


@pytest.mark.parametrize("srs", [[], [("NONE", 5, "undefined")], [(None, None, None)]])
def test_systems_that_nobody_knows(tmp_path, srs):
    path = by_hand(tmp_path / "z.gpkg", [header(1) + WKB], 999, srs)
    assert refused(path).code == "crs-unknown"
    assert read_layer(path, crs="EPSG:2154").crs == "EPSG:2154"


@pytest.mark.parametrize("table", ["gpkg_contents", "gpkg_spatial_ref_sys", 'my "zones'])
def test_missing_tables(tmp_path, table):
    path = by_hand(tmp_path / "z.gpkg", [header(1) + WKB])
    with closing(sqlite3.connect(path)) as database:
        database.execute('DROP TABLE "' + table.replace('"', '""') + '"')
    error = refused(path)
    assert error.code == "file-unreadable"
    assert table in error.message.replace('""', '"')


def test_packages_without_geometry_or_rows(tmp_path):
    assert refused(by_hand(tmp_path / "a.gpkg", [None], data_type="attributes")).code == "geometry-missing"
    path = by_hand(tmp_path / "b.gpkg", [None])
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE gpkg_geometry_columns")
    assert refused(path).code == "geometry-missing"
    with closing(sqlite3.connect(tmp_path / "c.gpkg")) as database:
        database.execute("CREATE TABLE t (a)")
    assert refused(tmp_path / "c.gpkg").code == "file-unreadable"
    assert refused(by_hand(tmp_path / "z.gpkg", [])).code == "empty-file"


def test_the_file_is_left_alone_and_its_name_may_be_strange(tmp_path):
    path = by_hand(tmp_path / "50% öst?#.gpkg", [header(1) + WKB])
    before = path.read_bytes()
    path.chmod(0o444)
    assert read_layer(path).geometry.tolist() == [ONE]
    assert path.read_bytes() == before
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


def test_rows_that_are_only_in_the_log_are_read(tmp_path):
    path = by_hand(tmp_path / "z.gpkg", [header(1) + WKB])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA wal_autocheckpoint=0")
        database.execute('INSERT INTO "my ""zones" (zone, geom) VALUES (\'late\', ?)', (header(1) + WKB,))
        database.commit()
        assert read_layer(path).columns["zone"] == ["z0", "late"]
    # Closed, the log is in the file, whose header still asks for one.
    content = path.read_bytes()
    assert content[18:20] == b"\x02\x02"
    assert read_geopackage(path, content=content).columns["zone"] == ["z0", "late"]
    path.chmod(0o444)
    assert read_layer(path).columns["zone"] == ["z0", "late"]


def test_cut_anywhere_is_refused_or_read(tmp_path):
    by_gdal(tmp_path / "z.gpkg", [ONE, ONE])
    content = (tmp_path / "z.gpkg").read_bytes()
    outcomes = set()
    for size in range(20, len(content), len(content) // 40):
        (tmp_path / "cut.gpkg").write_bytes(content[:size])
        outcomes.add(refused(tmp_path / "cut.gpkg").code)
    assert outcomes == {"file-unreadable"}


@pytest.mark.parametrize("table", ['my ""zones', "gpkg_contents", "gpkg_spatial_ref_sys"])
def test_computed_columns_are_refused_however_they_are_written(tmp_path, table):
    path = by_hand(tmp_path / "z.gpkg", [header(1) + WKB])
    with closing(sqlite3.connect(path)) as database:
        database.execute(f'ALTER TABLE "{table}" ADD COLUMN twice TEXT GENERATED ALWAYS\tAS/**/(1+1)')
    assert "computed columns" in refused(path).message


def test_bytes_are_added_up_row_by_row(tmp_path, monkeypatch):
    for module in (rows, geopackage):
        monkeypatch.setattr(module, "MAX_BYTES", 1000)
    stored = iter([("x" * 300,)] * 20)
    with pytest.raises(GeometryError, match="file-too-large"):
        list(geopackage._bounded(stored, tmp_path))  # type: ignore[arg-type]
    assert len(list(stored)) == 16
