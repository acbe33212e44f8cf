"""Lines of CSV taken apart, each on its own: nothing in one line changes how another is read.

This is a privacy property: one user's line can neither swallow the lines of others (an open quote), nor be
taken for several (a line break in quotes, a lone carriage return). A line ends at a line feed; a carriage
return before it is dropped. A line is bad where it has another carriage return or a NUL byte, quotes that are
not closed on it, too few or too many fields, a used field that is not UTF-8, or more than MAX_LINE bytes.
Blank lines and repeated header lines are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

from shoal.errors import SourceError
from shoal.events.files import MAX_LINE, corrupt_csv, corrupt_parquet, unpacked, whole_lines
from shoal.events.schema import LAST_US, EventSource

QUOTE, LINE_FEED, RETURN = 0x22, 0x0A, 0x0D


class CsvLines:
    """The lines of CSV files as an Arrow stream: a column r_<role> per role, unparsable, file and row.

    DuckDB asks for the stream at every scan. An error while reading is kept in `error`, since DuckDB passes
    on its text alone.
    """

    _corrupt = staticmethod(corrupt_csv)

    def __init__(self, source: EventSource) -> None:
        self.source = source
        self.error: SourceError | None = None
        self.share = 0.0  # of the files, as far as they were read

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        named = [(f"r_{role}", pa.string()) for role in self.source.columns]
        file = pa.dictionary(pa.int32(), pa.string())
        return pa.schema([*named, ("unparsable", pa.bool_()), ("file", file), ("row", pa.int64())])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        paths = self.source.paths
        for number, path in enumerate(paths):
            try:
                yield from self._file(path, number)
            except SourceError as error:
                self.error = error
                raise
            except (pa.ArrowException, OSError) as error:
                self.error = self._corrupt(path, error)
                raise self.error from None
            self.share = (number + 1) / len(paths)

    def _file(self, path: str, number: int) -> Iterator[pa.RecordBatch]:
        before, header = 0, True
        for content in whole_lines(unpacked(path, self._told(number))):
            letters = np.frombuffer(content, np.uint8)
            ends = np.flatnonzero(letters == LINE_FEED)
            if not content.endswith(b"\n"):
                ends = np.append(ends, letters.size)
            starts = np.concatenate(([0], ends[:-1] + 1))
            names, which = take_apart(letters, starts[header:], ends[header:], self.source)
            file = pa.DictionaryArray.from_arrays(
                pa.repeat(pa.scalar(0, pa.int32()), which.size), pa.array([path])
            )
            row = pa.array(which + (before + 1 + header))
            yield pa.RecordBatch.from_arrays([*names.values(), file, row], schema=self._schema)
            before, header = before + ends.size, False

    def _told(self, number: int):
        def tell(share: float) -> None:
            self.share = (number + min(share, 1.0)) / len(self.source.paths)

        return tell


class ParquetRows(CsvLines):
    """The rows of Parquet files as the same stream, for times that DuckDB cannot read itself.

    DuckDB converts milliseconds to microseconds while it reads a file, and refuses the whole file where one
    does not fit. Here times before 1970 or after 2099 become -1 ms, which makes their row a bad one.
    """

    _corrupt = staticmethod(corrupt_parquet)

    @cached_property
    def _schema(self) -> pa.Schema:
        path = self.source.paths[0]
        return self._named(pa.RecordBatch.from_pylist([], pq.read_schema(path)), path, 0).schema

    def _file(self, path: str, number: int) -> Iterator[pa.RecordBatch]:
        before = 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(2048, columns=list(set(self.source.columns.values()))):
                yield self._named(batch, path, before)
                before += batch.num_rows
                self._told(number)(before / file.metadata.num_rows)

    def _named(self, rows: pa.RecordBatch, path: str, before: int) -> pa.RecordBatch:
        rows.validate(full=True)  # text that is not UTF-8
        columns = {}
        for role, name in self.source.columns.items():
            column = rows[name]
            if self.source.types[role] == "VARCHAR":
                column = column.cast(pa.string())
            elif pa.types.is_timestamp(column.type) and column.type.unit == "ms":
                missing = column.is_null().to_numpy(zero_copy_only=False)
                ms = column.cast(pa.int64()).fill_null(0).to_numpy()
                us = np.where((ms >= 0) & (ms < LAST_US // 1000), ms, -1) * 1000
                column = pa.array(us, pa.timestamp("us"), mask=missing)
            columns[f"r_{role}"] = column
        size = rows.num_rows
        columns |= {"unparsable": pa.repeat(False, size), "file": pa.repeat(path, size)}
        return pa.record_batch(columns | {"row": pa.array(np.arange(before + 1, before + size + 1))})


def lines_of(text: pa.Array, source: EventSource) -> tuple[dict[str, pa.Array], np.ndarray]:
    """`take_apart` of lines that something else has cut at line feeds."""
    text = pa.concat_arrays([text.cast(pa.large_binary())])
    _, offsets, content = text.buffers()
    bounds = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1].copy()
    letters = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    return take_apart(letters, bounds[:-1], bounds[1:], source)


def take_apart(
    letters: np.ndarray, starts: np.ndarray, ends: np.ndarray, source: EventSource
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Arrow columns r_<role> (null where empty) and unparsable, and which of the lines each row is."""
    used = list(dict.fromkeys(source.columns.values()))
    slot = np.array([used.index(name) if name in used else -1 for name in source.names], np.int64)
    header, header_at = _joined(used)
    size = int((ends - starts).sum())
    out = np.empty((len(used), size), np.uint8)
    offsets = np.zeros((len(used), starts.size + 1), np.int32)
    broken = np.empty(starts.size, np.bool_)
    which = np.empty(starts.size, np.int64)
    delimiter = ord(source.delimiter)
    rows = _take_apart(letters, starts, ends, delimiter, slot, header, header_at, out, offsets, broken, which)
    texts = {name: _strings(out[place], offsets[place, : rows + 1]) for place, name in enumerate(used)}
    columns = {f"r_{role}": texts[name] for role, name in source.columns.items()}
    return columns | {"unparsable": pa.array(broken[:rows])}, which[:rows]


def _joined(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [name.encode() for name in names]
    bounds = np.cumsum([0, *map(len, encoded)])
    return np.frombuffer(b"".join(encoded), np.uint8), bounds.astype(np.int64)


def _strings(content: np.ndarray, offsets: np.ndarray) -> pa.Array:
    valid = np.diff(offsets) > 0
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    content_copy = content[: offsets[-1]].copy()
    return pa.StringArray.from_buffers(
        valid.size, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(content_copy), bits
    )


@njit(cache=True, nogil=True)
def _take_apart(letters, starts, ends, delimiter, slot, header, header_at, out, offsets, broken, which):
    """Fill the columns; returns the number of rows, good or broken."""
    length = np.zeros(out.shape[0], np.int64)
    rows = 0
    for line in range(starts.size):
        start, end = starts[line], ends[line]
        if end - start >= 3 and letters[start] == 0xEF and letters[start + 1] == 0xBB:
            start += 3 * (letters[start + 2] == 0xBF)
        if end > start and letters[end - 1] == RETURN:
            end -= 1
        if end == start:
            continue
        good = end - start <= MAX_LINE and _fields(letters, start, end, delimiter, slot, out, length)
        if good and _is_header(header, header_at, out, offsets[:, rows], length):
            length[:] = offsets[:, rows]
            continue
        for place in range(length.size):
            if good and not _is_utf8(out[place], offsets[place, rows], length[place]):
                good = False
        if not good:
            length[:] = offsets[:, rows]
        rows += 1
        offsets[:, rows] = length
        broken[rows - 1] = not good
        which[rows - 1] = line
    return rows


@njit(cache=True, nogil=True)
def _fields(letters, start, end, delimiter, slot, out, length):
    """Append the used fields of one line; False where it cannot be taken apart."""
    field, at = 0, start
    while field < slot.size:
        place = slot[field]
        quoted = at < end and letters[at] == QUOTE
        at += quoted
        while True:
            if at == end:
                if quoted:
                    return False  # never closed
                break
            byte = letters[at]
            if byte == RETURN or byte == 0:
                return False
            if quoted and byte == QUOTE:
                at += 1
                if at == end or letters[at] != QUOTE:
                    break
            elif byte == delimiter and not quoted:
                break
            if place >= 0:
                out[place, length[place]] = byte
                length[place] += 1
            at += 1
        field += 1
        if at == end:
            return field == slot.size
        if letters[at] != delimiter:
            return False  # text after the closing quote
        at += 1
    return False


@njit(cache=True, nogil=True)
def _is_header(header, header_at, out, before, length):
    """Whether every used field holds the name of its column."""
    for place in range(length.size):
        size = header_at[place + 1] - header_at[place]
        if length[place] - before[place] != size:
            return False
        for k in range(size):
            if out[place, before[place] + k] != header[header_at[place] + k]:
                return False
    return True


@njit(cache=True, nogil=True)
def _is_utf8(content, start, end):
    """As RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF."""
    at = start
    while at < end:
        first = content[at]
        at += 1
        if first < 0x80:
            continue
        more = 1 + (first >= 0xE0) + (first >= 0xF0)
        if first < 0xC2 or first > 0xF4 or at + more > end:
            return False
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        for k in range(more):
            byte = content[at + k]
            if byte < (low if k == 0 else 0x80) or byte > (high if k == 0 else 0xBF):
                return False
        at += more
    return True
