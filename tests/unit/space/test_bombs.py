"""Small files that would unpack or compute without end are refused in seconds and little memory.

Each is read in a process of its own with a limit on memory, by the command's own readers.
"""

import gzip
import io
import json
import resource
import sqlite3
import subprocess
import sys
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.fuzz.maps import PACKAGE
from tests.worlds import zones_json

SECONDS, MEBIBYTES = 10.0, 1024

READ = """
import sys
from shoal.errors import ShoalError
kind, path = sys.argv[1:]
try:
    if kind == "zones":
        from shoal.space.places import read_zones
        read_zones(path, on_overlap="stop", holes="allow")
    elif kind == "sites":
        from shoal.space.places import read_sites
        read_sites(path)
    else:
        from shoal.events.readers import check_rows
        from shoal.events.readers import scan
        from shoal.events.source import open_source
        source = open_source(path, on_bad_row="drop")
        print(check_rows(source).bad, sum(batch.num_rows for batch in scan(source)))
except ShoalError as error:
    print(error.code)
status = open("/proc/self/status").read()  # of this program alone; getrusage counts the one that started it
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


def geopackage(path, layer: str) -> None:
    with sqlite3.connect(path) as database:
        database.executescript(
            PACKAGE + "INSERT INTO gpkg_geometry_columns VALUES ('z', 'geom', 4326);" + layer
        )


def endless_view(folder):
    path = folder / "z.gpkg"
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    geopackage(path, f"CREATE VIEW z AS {endless} SELECT i AS id, NULL AS geom FROM n;")
    return "zones", path, "file-unreadable"


def computed_columns(folder):
    """Each column is twice as long as the one before it, up to 256 MiB; eight are the longest."""
    path = folder / "z.gpkg"
    doubled = ", ".join(f"c{k} TEXT GENERATED ALWAYS\tAS/**/(c{k - 1} || c{k - 1})" for k in range(1, 26))
    longest = ", ".join(f"d{k} TEXT AS/**/(c25 || 'x')" for k in range(8))
    geopackage(path, f"CREATE TABLE z (geom BLOB, c0 TEXT, {doubled}, {longest});")
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO z (c0) VALUES ('abcdefg')")
    return "zones", path, "file-unreadable"


def zip_bomb(folder):
    path = folder / "z.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("z.geojson", "w", force_zip64=True) as member,
    ):
        member.write(b'{"type":')
        for _ in range(40):
            member.write(b" " * (1 << 24))
    return "zones", path, "file-too-large"


def gzip_sites(folder):
    path = folder / "s.csv.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(b"site,lon,lat\n")
        for _ in range(40):
            file.write(b"a" * (1 << 24))
    return "sites", path, "file-too-large"


def gzip_events(folder):
    path = folder / "e.csv.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(b"user,time,site\n")
        for _ in range(60):
            file.write(b"a" * (1 << 24))
    return "events", path, "packed-too-tightly"


def zstd_events(folder):
    path = folder / "e.csv.zst"
    with pa.output_stream(str(path), compression="zstd") as file:
        file.write(b"user,time,site\n")
        for _ in range(200):
            file.write(b"1,2026-06-01T12:00:00Z,a\n" * 600_000)
    return "events", path, "packed-too-tightly"


def long_ids(folder):
    """20,000 rows of one user id of a mebibyte, in two mebibytes."""
    path = folder / "e.parquet"
    user = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, np.int32)), pa.array(["u" * (1 << 20)]))
    time_ = pa.array(np.full(20_000, 1_780_000_000_000_000), pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"user": user, "time": time_, "site": ["a"] * 20_000}), path)
    return "events", path, "oversized-value"


def long_plain_ids(folder):
    """2,048 rows of a user id of a mebibyte, stored in full, before many short ones."""
    path = folder / "e.parquet"
    users = pa.chunked_array([pa.array(["u" * (1 << 20)] * 64)] * 32 + [pa.array(["v"] * 500_000)])
    time_ = pa.array(np.full(len(users), 1_780_000_000_000_000), pa.timestamp("us", "UTC"))
    table = pa.table({"user": users, "time": time_, "site": ["a"] * len(users)})
    pq.write_table(table, path, use_dictionary=False, compression="zstd")
    return "events", path, "oversized-value"


def long_zone_ids(folder):
    path = folder / "z.parquet"
    rows = 20_000
    zone = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["z" * (1 << 20)]))
    shape = pa.array([shapely.to_wkb(shapely.box(0, 0, 1, 1))] * rows)
    geo = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}
    table = pa.table({"zone": zone, "geometry": shape}).replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(table, path)
    return "zones", path, "file-too-large"


def many_names(folder):
    path = folder / "z.geojson"
    point = {"type": "Point", "coordinates": [1, 2]}
    features = [{"type": "Feature", "properties": {f"p{k}": k}, "geometry": point} for k in range(30_000)]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return "zones", path, "file-too-large"


def overlapping(folder):
    path = folder / "z.geojson"
    ring = shapely.get_coordinates(shapely.Point(0, 0).buffer(1, quad_segs=16))
    path.write_text(zones_json((str(k), [(ring + k * 1e-5).tolist()]) for k in range(4000)))
    return "zones", path, "zones-overlap"


def nested_collections(folder):
    """GEOS would follow them until its stack overflows."""
    path = folder / "z.parquet"
    header = b"\x01\x07\x00\x00\x00\x01\x00\x00\x00"
    inner = b"\x01\x06\x00\x00\x00\x01\x00\x00\x00"
    shapes = pa.array([header * 1_000_000, inner * 1_000_000])
    geo = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}
    table = pa.table({"zone": ["a", "b"], "geometry": shapes})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return "zones", path, "file-unreadable"


BOMBS = [
    endless_view, computed_columns, zip_bomb, gzip_sites, gzip_events, zstd_events, long_ids, long_plain_ids,
    long_zone_ids, many_names, overlapping, nested_collections,
]  # fmt: skip


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


QUICK = (endless_view, computed_columns, many_names, long_ids, overlapping)


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(bomb, marks=[] if bomb in QUICK else pytest.mark.exhaustive, id=bomb.__name__)
        for bomb in BOMBS
    ],
)
def test_a_bomb_is_refused_soon_and_small(tmp_path, bomb):
    kind, path, said = bomb(tmp_path)
    before = time.monotonic()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-c", READ, kind, str(path)],
        capture_output=True,
        text=True,
        preexec_fn=limited,
        timeout=120,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.returncode == 0, ended.stderr[-2000:]
    words, mebibytes = ended.stdout.split("\n")[:2]
    assert words == said
    assert int(mebibytes) < MEBIBYTES
    # CPU time, so that a busy machine does not fail the test; the wall time is that on an idle one.
    assert after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime < SECONDS
    assert time.monotonic() - before < 100


def test_a_damaged_zip_is_said_to_be_damaged(tmp_path):
    from shoal.errors import GeometryError
    from shoal.space.places import read_zones

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z.geojson", json.dumps({"type": "FeatureCollection", "features": []}) * 50)
    damaged = bytearray(content.getvalue())
    damaged[60:70] = b"\xff" * 10
    (tmp_path / "z.zip").write_bytes(bytes(damaged))
    with pytest.raises(GeometryError, match="file-unreadable"):
        read_zones(tmp_path / "z.zip")
