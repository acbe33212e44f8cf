"""The plain columns of a Parquet file: read without expanding dictionaries, so that memory is bounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.space.formats.rows import check_size, unreadable

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
