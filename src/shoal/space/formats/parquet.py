"""Rows of Parquet and GeoParquet files (WKB geometry); dictionaries are not expanded, to bound memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.errors import GeometryError
from shoal.space.checks import LONLAT
from shoal.space.formats.rows import FileRows, check_size, from_wkb, unreadable

# What Arrow raises over damaged files, text that is not UTF-8, times out of range, two columns of one name.
DAMAGE = (
    pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError, TypeError, IndexError,
    AttributeError, RuntimeError,
)  # fmt: skip


def read_parquet(path: Path) -> tuple[dict[str, list], dict[bytes, bytes]]:
    """Values by column, and the metadata of the schema; lists and structures are left out."""
    try:
        schema = pq.read_schema(path)
        plain = [field.name for field in schema if not pa.types.is_nested(field.type)]
        texts = [name for name in plain if _is_text(schema.field(name).type)]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            about = file.metadata
            size = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
            cells = about.num_rows * len(plain)
            check_size(path, rows=about.num_rows, cells=cells, bytes_=size)
            table = file.read(columns=plain, use_threads=False)
        columns = {name: table[name] for name in plain}
        check_size(path, bytes_=sum(_bytes(column) for column in columns.values()))
        return {name: column.to_pylist() for name, column in columns.items()}, dict(schema.metadata or {})
    except DAMAGE as error:
        raise unreadable(path, str(error)[:200] or type(error).__name__) from None


def _is_text(kind: pa.DataType) -> bool:
    return str(kind).removeprefix("large_").removesuffix("_view") in ("string", "binary")


def _bytes(column: pa.ChunkedArray) -> int:
    """What the values take, each as often as it is there."""
    total = 0
    for chunk in column.chunks:
        if not pa.types.is_dictionary(chunk.type):
            total += chunk.nbytes
            continue
        lengths = pc.call_function("binary_length", [chunk.dictionary]).to_numpy(zero_copy_only=False)
        places = chunk.indices.drop_null().to_numpy()
        total += int(np.asarray(lengths, np.int64)[places].sum()) if places.size else 0
    return total


def read_geoparquet(path: Path) -> FileRows:
    """All rows; a missing `crs` means longitude and latitude, a null one that it is not known."""
    columns, metadata = read_parquet(path)
    if b"geo" not in metadata:
        raise GeometryError(
            "geometry-missing",
            f"{path} is Parquet without GeoParquet metadata.",
            "Write it as GeoParquet, or as GeoPackage or GeoJSON.",
        )
    try:
        geo = json.loads(metadata[b"geo"])
        name, about = geo["primary_column"], geo["columns"][geo["primary_column"]]
        encoding, crs = about.get("encoding"), about.get("crs", LONLAT)
        shapes = {str(each) for each in geo["columns"]}
        stored = columns[name] if encoding == "WKB" else []
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _bad_metadata(path, f"its metadata cannot be followed ({error})") from None
    if encoding != "WKB":
        raise GeometryError(
            "geometry-encoding",
            f"{path} stores its geometry as {encoding}; only WKB can be read.",
            "Write it with WKB geometry, which every GeoParquet writer offers.",
        )
    if not all(one is None or isinstance(one, bytes) for one in stored):
        raise _bad_metadata(path, "its geometry column is not WKB")
    plain = {column: values for column, values in columns.items() if column not in shapes}
    return FileRows(columns=plain, geometry=from_wkb(stored, path), crs=crs)


def _bad_metadata(path: Path, why: str) -> GeometryError:
    return GeometryError("geometry-metadata", f"{path} is broken GeoParquet: {why}.", "Write it again.")
