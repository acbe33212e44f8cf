"""Every CSV record lies on one line: quotes are closed where they were opened, before the line ends.

This is a privacy check. An open quote lets one user's row swallow the rows of others up to the next quote,
and a quoted line break lets a parallel reader take text inside a field for rows. Either would let one user
move the counts by more than the bound allows. So such a file is refused whole, whatever `on_bad_row` says.
The same pass shows that packed files unpack to their end (DuckDB takes a cut one for a shorter file).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.errors import SourceError
from shoal.events.files import open_packed

CHUNK = 1 << 22
QUOTE, LINE_FEED, RETURN = 0x22, 0x0A, 0x0D
FIELD_START, PLAIN, QUOTED, QUOTE_SEEN = range(4)


def check_quotes(files: Sequence[str], delimiter: str) -> None:
    """Refuse CSV files with line breaks or open ends inside quotes; each version of a file is read once."""
    for path in files:
        facts = os.stat(path)
        line = first_broken_line(path, delimiter, facts.st_size, facts.st_mtime_ns)
        if line:
            raise SourceError(
                "csv-quotes",
                "quotes must open at the start of a field and close at its end, on the same line; "
                f'line {line} of "{path}" breaks this.',
                "Write it again with quotes doubled and no line breaks inside fields, or as Parquet.",
            )


def check_lines(lines: pa.Array, delimiter: str) -> None:
    """The same of lines that something else has cut apart: each must end outside quotes."""
    text = pa.concat_arrays([lines.cast(pa.large_string())])
    _, offsets, content = text.buffers()
    bounds = np.frombuffer(offsets, np.int64)[: len(text) + 1]
    letters = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    if any_broken(letters, bounds, ord(delimiter)):
        raise SourceError(
            "csv-quotes",
            "quotes must open at the start of a field and close at its end, on the same line; "
            "a line of the source breaks this.",
            "Write it again with quotes doubled and no line breaks inside fields, or as Parquet.",
        )


@lru_cache(maxsize=4096)
def first_broken_line(path: str, delimiter: str, size: int, changed_ns: int) -> int:
    """The line, from 1, on which quotes go wrong; 0 if none does."""
    state, line = FIELD_START, 1
    try:
        with open_packed(path) as stream:
            while content := stream.read(CHUNK):
                state, line, broken = walk(np.frombuffer(content, np.uint8), ord(delimiter), state, line)
                if broken:
                    return line
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            "corrupt-packed-file" if path.lower().endswith((".gz", ".zst")) else "unreadable-csv",
            f'"{path}" cannot be read to its end ({str(error)[:120]}).',
            "Copy or write it again; a truncated copy is the usual cause.",
        ) from None
    return line if state == QUOTED else 0


@njit(cache=True, nogil=True)
def walk(content, delimiter, state, line):
    """Follow the quotes through a piece of the file: (state, line, whether they broke on that line)."""
    for byte in content:
        if state == QUOTED:
            if byte == QUOTE:
                state = QUOTE_SEEN
            elif byte in (LINE_FEED, RETURN):
                return state, line, True
        elif byte in (LINE_FEED, RETURN):
            state = FIELD_START
            line += byte == LINE_FEED
        elif byte == delimiter:
            state = FIELD_START
        elif byte == QUOTE and state != PLAIN:
            state = QUOTED  # at the start of a field, or doubled inside one
        elif state == QUOTE_SEEN:
            return state, line, True  # text after the closing quote
        else:
            state = PLAIN
    return state, line, False


@njit(cache=True, nogil=True)
def any_broken(content, bounds, delimiter):
    """Whether quotes go wrong on any line, or one ends inside them."""
    for i in range(bounds.size - 1):
        state, _, broken = walk(content[bounds[i] : bounds[i + 1]], delimiter, FIELD_START, 1)
        if broken or state == QUOTED:
            return True
    return False
