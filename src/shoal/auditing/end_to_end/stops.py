"""Decisions of a run to stop before the reserve that depend on rows of the data, in one table.

A run that stops releases nothing, but that it stopped may be seen. The end-to-end replay passes the flags
that switch these decisions off and fails on any other difference in outcome between neighbours.
`docs/known-limits.md` holds `section()`; `python -m shoal.auditing.end_to_end.stops` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BEGIN, END = "<!-- stops: written by shoal.auditing.end_to_end.stops -->", "<!-- end of stops -->"


@dataclass(frozen=True, kw_only=True)
class Stop:
    """One decision: codes of its errors, the module that takes it, how to switch it off, what it reveals."""

    codes: tuple[str, ...]
    where: str
    flag: str
    reveals: str
    source: Mapping[str, Any] = field(default_factory=dict)  # settings by which the replay switches it off


STOPS = (
    Stop(
        codes=("bad-row", "mixed-time-zones", "naive-time"),
        where="events/readers.py",
        flag="`--on-bad-row drop`",
        reveals="that at least one row is malformed, or gives its time in another way than the rest",
        source={"on_bad_row": "drop"},
    ),
    Stop(
        codes=("nobody-counted",),
        where="kinds/run.py",
        flag="`--allow-empty`; in Python, `run(..., allow_empty=True)`",
        reveals="that no event lies in the window and the zones",
    ),
    Stop(
        codes=("user-unique",),
        where="kinds/run.py",
        flag="`--column user=NAME`",
        reveals="that no user has two events in the window, where the column of users was guessed",
    ),
    Stop(
        codes=("unreadable-csv", "corrupt-parquet", "memory-limit"),
        where="events/source.py",
        flag="none",
        reveals="that a file is damaged, or that one row or row group does not fit in memory",
    ),
    Stop(
        codes=(
            *("missing-file", "empty-file", "file-name", "mixed-formats", "different-schemas"),
            *("corrupt-packed-file", "packed-too-tightly", "oversized-value"),
        ),
        where="events/files.py, events/source.py",
        flag="none; keep the records of a person out of files of their own",
        reveals="that a file of the source is missing, empty, damaged, of another form than the others, or "
        "holds a text of more than 64 KiB, even where the release is stored",
    ),
)


def switched_off() -> dict[str, Any]:
    """Settings of a source under which no listed decision is taken."""
    return {name: value for stop in STOPS for name, value in stop.source.items()}


def section() -> str:
    """The table as Markdown, between its marks."""
    rows = [
        f"| {', '.join(f'`{code}`' for code in stop.codes)} | {stop.reveals} | {stop.flag} |"
        for stop in STOPS
    ]
    return "\n".join(
        [
            BEGIN,
            "| stops before the reserve | a recipient could learn | switched off by |",
            "| --- | --- | --- |",
            *rows,
            END,
        ]
    )


if __name__ == "__main__":
    print(section())
