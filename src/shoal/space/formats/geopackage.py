"""Rows of a GeoPackage: an SQLite file whose geometry is WKB after a short header (OGC 12-128)."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shoal.errors import GeometryError
from shoal.space.checks import crs_name
from shoal.space.formats.rows import (
    MAX_BYTES,
    FileRows,
    check_size,
    choose_layer,
    from_wkb,
    no_geometry,
    unreadable,
)

_ENVELOPE_BYTES = (0, 32, 48, 48, 64)  # by envelope kind: none, XY, XYZ, XYM, XYZM
_UNDEFINED = (-1, 0)  # srs_id of undefined planar and undefined geographic coordinates
_TABLES = {"gpkg_contents", "gpkg_geometry_columns", "gpkg_spatial_ref_sys"}
_SECONDS = 30.0  # for all queries of one file
_FUNCTIONS = ("lower",)  # what our own queries call


def read_geopackage(path: Path, layer: str | None = None, content: bytes | None = None) -> FileRows:
    """All rows of one layer; `content` is the file itself where it lies in an archive named `path`."""
    try:
        with closing(_open(path, content)) as database:
            _guard(database)
            return _read(database, path, layer)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
        raise unreadable(path, error) from None
    except MemoryError:  # SQLite says so of some damaged schemas, however much memory there is
        raise unreadable(path, "its schema is damaged, or it needs more memory than there is.") from None


def _open(path: Path, content: bytes | None) -> sqlite3.Connection:
    if content is not None:
        database = sqlite3.connect(":memory:")
        # An SQLite file in memory cannot have a write-ahead log, so the header must not ask for one.
        database.deserialize(content[:18] + b"\x01\x01" + content[20:])
        return database
    # Immutable: read where nothing may be written. But a log beside the file holds rows not yet in it.
    logs = (Path(f"{path}{suffix}") for suffix in ("-wal", "-journal"))
    pending = any(log.is_file() and log.stat().st_size for log in logs)
    query = "mode=ro" if pending else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{query}", uri=True)


def _guard(database: sqlite3.Connection) -> None:
    """Whatever a file defines (functions in columns, recursion, collations), its queries end."""
    end = time.monotonic() + _SECONDS
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
    database.set_progress_handler(lambda: time.monotonic() > end, 100_000)

    def allow(action: int, first: str | None, name: str | None, *_: str | None) -> int:
        plain = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
        ours = action == sqlite3.SQLITE_FUNCTION and name in _FUNCTIONS
        ours |= action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
        return sqlite3.SQLITE_OK if plain or ours else sqlite3.SQLITE_DENY

    database.set_authorizer(allow)


def _read(database: sqlite3.Connection, path: Path, layer: str | None) -> FileRows:
    # Views and virtual tables have no page of their own: what they would compute is not looked at.
    known = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    tables = {str(name) for (name,) in database.execute(known)}
    if "gpkg_contents" in tables and "gpkg_geometry_columns" not in tables:
        raise no_geometry(path)  # a package of tables only
    if not tables >= _TABLES:
        raise unreadable(path, f"it lacks the table {min(_TABLES - tables)} of a GeoPackage.")
    for name in _TABLES:
        _check_stored(database, path, name)
    listed = database.execute(
        "SELECT c.table_name, g.column_name, g.srs_id FROM gpkg_contents c JOIN gpkg_geometry_columns g "
        "ON lower(c.table_name) = lower(g.table_name) WHERE c.data_type = 'features' ORDER BY c.rowid"
    )
    layers = {str(table): (str(column), srs_id) for table, column, srs_id in listed}
    if not layers:
        raise no_geometry(path)
    table = choose_layer(path, list(layers), layer)
    column, srs_id = layers[table]
    if table.lower() not in map(str.lower, tables):
        raise unreadable(path, f"the layer {table!r} is a view; save it as a table.")
    _check_stored(database, path, table)
    rows = database.execute(f"SELECT * FROM {_quoted(table)}")
    names = [str(about[0]) for about in rows.description]
    if column.lower() not in map(str.lower, names):
        raise unreadable(path, f"the layer {table!r} has no column {column!r} for its geometry.")
    values = list(map(list, zip(*_bounded(rows, path), strict=True))) or [[] for _ in names]
    place = [name.lower() for name in names].index(column.lower())
    geometry = from_wkb([_wkb(blob, path, row) for row, blob in enumerate(values[place])], path)
    columns = {name: values[k] for k, name in enumerate(names) if k != place}
    return FileRows(columns=columns, geometry=geometry, crs=_crs(database, srs_id))


def _check_stored(database: sqlite3.Connection, path: Path, table: str) -> None:
    """Refuse computed columns (hidden 2 and 3): a few bytes may define values of any length."""
    if any(about[6] in (2, 3) for about in database.execute(f"PRAGMA table_xinfo({_quoted(table)})")):
        raise unreadable(path, f"the table {table!r} has computed columns; save it with stored values.")


def _bounded(rows: sqlite3.Cursor, path: Path) -> Iterator[tuple]:
    """All rows, unless they are too many or too long: damaged pages may repeat without end."""
    size = 0
    for count, row in enumerate(rows, 1):
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if size > MAX_BYTES or count % 1000 == 0:
            check_size(path, rows=count, bytes_=size, cells=count * len(row))
        yield row


def _wkb(blob: object, path: Path, row: int) -> bytes | None:
    """The WKB in a GeoPackageBinary: magic GP, version, flags, srs_id, envelope, WKB."""
    if blob is None:
        return None
    if not isinstance(blob, bytes) or len(blob) < 8 or blob[:2] != b"GP":
        raise unreadable(path, f"row {row + 1} has a geometry without the GeoPackage header.")
    version, flags = blob[2], blob[3]
    if version != 0:
        raise unreadable(path, f"row {row + 1} has a geometry of version {version + 1}; only 1 can be read.")
    if flags & 0b100000:
        raise unreadable(path, f"row {row + 1} has an extended geometry type, which is not WKB.")
    envelope, empty = (flags >> 1) & 0b111, flags & 0b10000
    if envelope >= len(_ENVELOPE_BYTES):
        raise unreadable(path, f"row {row + 1} has an unknown kind of envelope ({envelope}).")
    wkb = blob[8 + _ENVELOPE_BYTES[envelope] :]
    return None if empty and not wkb else wkb


def _crs(database: sqlite3.Connection, srs_id: object) -> object:
    """Authority and number where PROJ knows them, else the definition; an srs_id of -1 or 0 is none."""
    if srs_id in _UNDEFINED:
        return None
    row = database.execute(
        "SELECT organization, organization_coordsys_id, definition "
        "FROM gpkg_spatial_ref_sys WHERE srs_id = ?",
        (srs_id,),
    ).fetchone()
    if row is None:
        return f"srs_id {srs_id}, which the file does not define"
    try:
        return crs_name(f"{row[0]}:{row[1]}")
    except GeometryError:
        return str(row[2])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
