"""Events: CSV and Parquet under mutation, read to the end."""

import functools
import gzip
import io
import random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.mutate import TEXTS, bytes_of, no_internal_error, written

from shoal.events.readers import check_rows, scan
from shoal.events.source import limited_connection, open_source

PIECES = (
    *(b'"', b'""', b",", b";", b"\t", b"|", b"\r", b"\n", b"\0", b"\xff"),
    *(b"\xef\xbb\xbf", b"[1.5, 2]", b"'"),
)
TIMES = (
    *("2026-06-01T12:00:00Z", "2026-06-01 12:00:00", "2026-06-01T12:00:00+02:00"),
    *("1780000000", "2026-02-30", ""),
)
HEADERS = (
    "user,time,site", "user,time,lon,lat", "user;time;x;y", "user\ttrip\ttime\tlon\tlat",
    "imsi,timestamp,cell_id,a", "user,start_time,start_site,end_time,end_site", '"user","time","site"',
    "user,trip,time,lon,lat,flag", "id,ts,lone5,late5",
)  # fmt: skip


@functools.cache
def _opened():
    opened = limited_connection("256MB", threads=1)
    return opened, opened.__enter__()


def connection():
    """One for many inputs; a new one where a damaged file made DuckDB give up the old, as every run has."""
    try:
        _opened()[1].execute("SELECT 1").fetchall()
    except duckdb.FatalException:
        _opened.cache_clear()
    return _opened()[1]


def read(path: str, rng: random.Random) -> None:
    """Opened as a plan may say, checked now and then, and scanned."""
    said = {
        "on_bad_row": rng.choice(("drop", "drop", "stop")),
        "time_zone": rng.choice((None, "UTC", "Europe/Paris")),
        "time_unit": rng.choice((None, None, "s", "ms")),
        "shape": rng.choice((None, None, None, "site", "point", "trip-list")),
        "delimiter": rng.choice((None, None, None, ",", ";", '"', "ab", "\u00e9")),
        "time_format": rng.choice((None, None, None, "%d/%m/%Y", "%Y", "%")),
    }
    source = open_source(path, **said)
    sites = ["gare", "port", "a"] if source.shape.has_sites and rng.random() < 0.7 else None
    if rng.random() < 0.1:
        check_rows(source, sites=sites)
    for batch in scan(source, sites=sites, connection=connection()):
        batch.validate(full=True)


def fuzz_csv(rng: random.Random) -> None:
    header = rng.choice(HEADERS)
    mark = max(",;\t", key=header.count)
    lines = [header]
    for _ in range(rng.randrange(12)):
        fields = [_field(rng, name) for name in header.split(mark)]
        lines.append(mark.join(fields))
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(content) + 1)
        content = content[:at] + rng.choice(PIECES) + content[at + rng.randrange(3) :]
    if rng.random() < 0.3:
        content = bytes_of(rng, content)
    name = "e.csv"
    if rng.random() < 0.1:
        name, content = "e.csv.gz", gzip.compress(content, 1)
        content = bytes_of(rng, content) if rng.random() < 0.6 else content
    path = written(name, content)
    no_internal_error(lambda: read(str(path), rng))


def _field(rng: random.Random, name: str) -> str:
    if rng.random() < 0.1:
        return rng.choice(TEXTS)
    if "time" in name or name == "ts":
        return rng.choice(TIMES)
    if name in ("lon", "lat", "x", "y", "lone5", "late5"):
        return rng.choice(("5.02", "47", "-200", "nan", "1e400", "[1,2]", "[1", ""))
    return rng.choice(("1", "gare", "a", '"port"', "true"))


@functools.cache
def tables() -> tuple[bytes, ...]:
    rows = 40
    time = pa.array(np.arange(rows) * 3_600_000_000 + 1_780_000_000_000_000, pa.timestamp("us", "UTC"))
    user = pa.array([f"user {k % 5}" for k in range(rows)])
    number = pa.array(np.arange(rows) % 7, pa.int64())
    lon, lat = pa.array(np.linspace(5, 6, rows)), pa.array(np.linspace(47, 48, rows))
    listed = pa.array([[5.0, 5.1, 5.2]] * rows)
    shapes = (
        {"user": user, "time": time, "site": pa.array(["gare", "port"] * (rows // 2))},
        {"user": number, "time": time, "lon": lon, "lat": lat},
        {"user": number, "trip": number, "time": pa.array(np.arange(rows), pa.int32()), "x": lon, "y": lat},
        {"user": user, "trip": number, "time": time, "lon": listed, "lat": listed},
        {"user": user, "time": pa.array(["2026-06-01T12:00:00Z"] * rows), "site": user, "flag": number},
    )
    made = []
    for columns in shapes:
        for packed, version, encoded in (
            ("none", "2.6", True),
            ("zstd", "1.0", False),
            ("snappy", "2.6", True),
        ):
            content = io.BytesIO()
            pq.write_table(
                pa.table(columns), content, compression=packed, version=version, use_dictionary=encoded,
                row_group_size=17, data_page_version="2.0" if encoded else "1.0",
            )  # fmt: skip
            made.append(content.getvalue())
    return tuple(made)


def fuzz_parquet(rng: random.Random) -> None:
    content = rng.choice(tables())
    if rng.random() < 0.3:  # the footer: schema, statistics, offsets
        size = int.from_bytes(content[-8:-4], "little")
        start = len(content) - 8 - size
        footer = bytes_of(rng, content[start:-8])
        content = content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    elif rng.random() < 0.95:
        content = bytes_of(rng, content)
    path = written("e.parquet", content)
    no_internal_error(lambda: read(str(path), rng))
