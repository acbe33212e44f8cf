"""Line numbers of CSV records: where the n-th readable record starts, and which lines are unparsable.

DuckDB counts records and not lines (a quoted field may hold line breaks), so lines are found by a second
pass. It runs only on files that have bad rows, and stops at the last line asked for.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence

from shoal.events.files import open_text


def find_lines(
    path: str, delimiter: str, fields: int, used: Sequence[int], wanted: Collection[int], unparsable: int
) -> tuple[dict[int, int], list[int]]:
    """Lines of the readable records numbered `wanted` (from 1), and of the first `unparsable` bad lines.

    `used` are the positions of the columns that are read: other columns may hold any bytes.
    """
    lines: dict[int, int] = {}
    broken: list[int] = []
    last, readable = max(wanted, default=0), 0
    for line, record in records(path, delimiter):
        if record == []:  # a blank line
            continue
        if record is None or len(record) != fields or not all(is_utf8(record[place]) for place in used):
            if len(broken) < unparsable:
                broken.append(line)
        else:
            readable += 1
            if readable in wanted:
                lines[readable] = line
        if readable >= last and len(broken) >= unparsable:
            break
    return lines, broken


def records(path: str, delimiter: str) -> Iterator[tuple[int, list[str] | None]]:
    """The line on which each record after the header starts, with its fields (None: broken quotes)."""
    with open_text(path, errors="surrogateescape") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        next(reader, None)
        while True:
            start = reader.line_num + 1
            try:
                yield start, next(reader)
            except csv.Error:
                yield start, None
            except StopIteration:
                return


def is_utf8(field: str) -> bool:
    """False when the field holds bytes that were not UTF-8 (kept as lone surrogates)."""
    return field.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in field)
