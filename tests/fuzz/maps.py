"""Maps: GeoJSON, Shapefiles, GeoPackages, GeoParquet and tables of sites under mutation."""

import functools
import io
import json
import random
import sqlite3
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapefile
import shapely
from tests.fuzz.mutate import TEXTS, as_json, bytes_of, json_of, junk, no_internal_error, place, written

from shoal.space.formats.shapefiles import read_shapefile
from shoal.space.places import read_sites, read_zones

warnings.simplefilter("ignore")
SHAPES = [shapely.box(k, 0, k + 1, 1) for k in range(3)]
SHAPES.append(shapely.MultiPolygon([shapely.box(0, 2, 1, 3), shapely.box(2, 2, 3, 3)]))
WKT = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257]],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.01745]]'
)

PACKAGE = """
CREATE TABLE gpkg_contents (table_name TEXT, data_type TEXT);
CREATE TABLE gpkg_geometry_columns (table_name TEXT, column_name TEXT, srs_id INT);
CREATE TABLE gpkg_spatial_ref_sys
    (srs_id INT, organization TEXT, organization_coordsys_id INT, definition TEXT);
INSERT INTO gpkg_contents VALUES ('z', 'features');
"""  # the tables that every GeoPackage has


def zones(path: Path, rng: random.Random) -> None:
    found = read_zones(
        path,
        id_column=rng.choice((None, "row", "zone", "name")),
        crs=rng.choice((None, None, None, "EPSG:4326", "planar")),
        on_overlap=rng.choice(("stop", "allow")),
        holes=rng.choice(("stop", "allow")),
        repair=rng.random() < 0.5,
    )
    if rng.random() < 0.3 and found.crs is not None:
        json.dumps(found.to_geojson(), allow_nan=True, ensure_ascii=False).encode()
    found.digest()
    found.locate(np.array([0.5, 9.0]), np.array([0.5, 9.0]))


@functools.cache
def collection() -> dict:
    features = [
        {
            "type": "Feature",
            "id": k,
            "properties": {"zone": f"Z{k}", "name": "a"},
            "geometry": json.loads(text),
        }
        for k, text in enumerate(shapely.to_geojson(SHAPES))
    ]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    return {"type": "FeatureCollection", "crs": crs, "features": features}


def fuzz_geojson(rng: random.Random) -> None:
    top = json_of(rng, collection())
    if isinstance(top, dict) and rng.random() < 0.3:
        top.pop("crs", None)
    path = written("z.geojson", as_json(rng, top))
    no_internal_error(lambda: zones(path, rng))


@functools.cache
def parts() -> dict[str, bytes]:
    found = {name: io.BytesIO() for name in (".shp", ".shx", ".dbf")}
    with shapefile.Writer(shp=found[".shp"], shx=found[".shx"], dbf=found[".dbf"]) as writer:
        writer.field("zone", "C", 20)
        writer.field("size", "N", 10, 2)
        writer.field("day", "D")
        for k, shape in enumerate(SHAPES):
            writer.shape(json.loads(shapely.to_geojson(shape)))
            writer.record(f"Z{k}", 1.5, "20260302")
    return {name: file.getvalue() for name, file in found.items()} | {".prj": WKT.encode(), ".cpg": b"UTF-8"}


def fuzz_shapefile(rng: random.Random) -> None:
    damaged = dict(parts())
    for name in rng.sample(sorted(damaged), rng.randint(1, 2)):
        if rng.random() < 0.1:
            del damaged[name]
        elif name == ".cpg":
            names = ("utf-16", "rot13", "idna", "cp1252", "utf-7", "hex", "\xff", "gbk", "8859-1")
            damaged[name] = rng.choice(names).encode("latin-1")
        else:
            damaged[name] = bytes_of(rng, damaged[name])
    if rng.random() < 0.7:
        no_internal_error(lambda: read_shapefile(damaged, Path("z.shp")))
        return
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, value in damaged.items():
            archive.writestr(f"{rng.choice(('z', 'z', 'z', 'y', 'a/z'))}{name}", value)
    packed = content.getvalue()
    path = written("z.zip", bytes_of(rng, packed) if rng.random() < 0.5 else packed)
    no_internal_error(lambda: zones(path, rng))


@functools.cache
def package() -> bytes:
    path = place() / "made.gpkg"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.executescript(
        f"PRAGMA page_size = 1024; {PACKAGE}"
        "INSERT INTO gpkg_geometry_columns VALUES ('z', 'geom', 4326);"
        f"INSERT INTO gpkg_spatial_ref_sys VALUES (4326, 'EPSG', 4326, '{WKT}');"
        "CREATE TABLE z (fid INTEGER PRIMARY KEY, geom BLOB, zone TEXT, size REAL);"
    )
    for k, shape in enumerate(SHAPES):
        database.execute(
            "INSERT INTO z VALUES (?, ?, ?, ?)",
            (k, b"GP\0\1" + b"\0" * 4 + shapely.to_wkb(shape), f"Z{k}", 0.5),
        )
    database.commit()
    database.close()
    return path.read_bytes()


def fuzz_geopackage(rng: random.Random) -> None:
    if rng.random() < 0.5:
        path = written("z.gpkg", bytes_of(rng, package()))
    else:
        path = written("z.gpkg", package())
        database = sqlite3.connect(path)
        try:
            database.execute("PRAGMA writable_schema = ON")
            for _ in range(rng.randint(1, 3)):
                _change(rng, database)
            database.commit()
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError, ValueError):
            pass
        finally:
            database.close()
    no_internal_error(lambda: zones(path, rng))


def _change(rng: random.Random, database: sqlite3.Connection) -> None:
    table, columns = rng.choice(
        (
            ("gpkg_contents", ("table_name", "data_type")),
            ("gpkg_geometry_columns", ("table_name", "column_name", "srs_id")),
            ("gpkg_spatial_ref_sys", ("srs_id", "organization", "organization_coordsys_id", "definition")),
            ("z", ("geom", "zone", "size")),
            ("z", ("geom",)),
            ("sqlite_master", ("sql", "name", "type")),
        )
    )
    column = rng.choice(columns)
    value = rng.choice((*TEXTS, 0, -1, 10**12, 0.5, None, rng.randbytes(9), "geom", "z", "Z"))
    if column == "geom" and rng.random() < 0.8:
        value = b"GP\0\1" + b"\0" * 4 + wkb(rng)
    row = "" if table == "sqlite_master" and rng.random() < 0.1 else " WHERE rowid = 1"
    database.execute(f"UPDATE {table} SET {column} = ?{row}", (value,))
    if rng.random() < 0.1:
        database.execute(
            rng.choice(("DROP TABLE z", "CREATE VIEW v AS SELECT 1", "DELETE FROM gpkg_contents"))
        )


def wkb(rng: random.Random) -> bytes:
    """A shape's WKB damaged, or built of counts and kinds that lie."""
    if rng.random() < 0.6:
        return bytes_of(rng, shapely.to_wkb(rng.choice(SHAPES)))
    made = b""
    for _ in range(rng.randint(1, 6)):
        order = rng.choice("<>")
        kind = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 16, 17, 1003, 3006, 0x80000003, 0x20000006, 99))
        count = rng.choice((0, 1, 2, 5, 1000, 2**31, 2**32 - 1))
        made += struct.pack(f"{order}BII", int(order == "<"), kind, count)
        made += struct.pack(f"{order}2d", 0.0, 1.0) if rng.random() < 0.3 else b""
    numbers = [rng.choice((0.0, 1.0, np.nan, np.inf, 1e308)) for _ in range(rng.randrange(12))]
    return made + np.array(numbers).tobytes()


def fuzz_geoparquet(rng: random.Random) -> None:
    if rng.random() < 0.35:
        path = written("z.parquet", bytes_of(rng, _geoparquet(None)))
    else:
        path = written("z.parquet", _geoparquet(rng))
    no_internal_error(lambda: zones(path, rng))


@functools.cache
def _plain_geoparquet() -> bytes:
    table = pa.table({"zone": ["a", "b", "c", "d"], "geometry": shapely.to_wkb(SHAPES).tolist()})
    return _geoparquet_of(table, _GEO)


_COLUMN = {"encoding": "WKB", "geometry_types": [], "crs": {"id": {"authority": "EPSG", "code": 4326}}}
_GEO = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": _COLUMN}}


def _geoparquet_of(table: pa.Table, geo: object) -> bytes:
    content = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), content)
    return content.getvalue()


def _geoparquet(rng: random.Random | None) -> bytes:
    if rng is None:
        return _plain_geoparquet()
    plain = {**_GEO, "columns": {"geometry": {"encoding": "WKB"}}} if rng.random() < 0.5 else _GEO
    geo = json_of(rng, plain) if rng.random() < 0.6 else plain
    shapes = [wkb(rng) if rng.random() < 0.3 else shapely.to_wkb(shape) for shape in SHAPES]
    zone = rng.choice(
        (["a", "b", "c", "d"], [1, 2, 3, 4], [0.5, None, 2.0, 3.0], [b"\xff", b"b", b"c", b"d"], [["a"]] * 4)
    )
    stored = pa.array(rng.choice((shapes, shapes, shapes, ["00"] * 4, [1.0] * 4)))
    names = rng.choice((["zone", "geometry"], ["zone", "geometry"], ["zone", "zone"], ["\x1b", "geometry"]))
    return _geoparquet_of(pa.Table.from_arrays([pa.array(zone), stored], names=names), geo)


def fuzz_sites(rng: random.Random) -> None:
    rows = [["site", "lon", "lat"], ["a", "5.0", "47.0"], ["b", "5.1", "47.1"], ["c", "5.2", "47.2"]]
    for _ in range(rng.randint(1, 3)):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = str(junk(rng))
        if rng.random() < 0.2:
            row.append("x")
    if rng.random() < 0.3:
        content = io.BytesIO()
        columns = dict(zip(("site", "lon", "lat"), zip(*rows[1:], strict=False), strict=False))
        try:
            pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), content)
        except (UnicodeError, pa.ArrowException, ValueError):
            return
        stored = content.getvalue()
        path = written("s.parquet", bytes_of(rng, stored) if rng.random() < 0.6 else stored)
    else:
        text = "\n".join(rng.choice((",", ",", ";")).join(row) for row in rows)
        data = text.encode("utf-8", "surrogatepass")
        path = written("s.csv", bytes_of(rng, data) if rng.random() < 0.5 else data)
    no_internal_error(lambda: read_sites(path, id_column=rng.choice((None, "row", "site", "x"))).digest())
