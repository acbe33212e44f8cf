"""Print a benchmark's rows as a table and append them to benchmarks/out/NAME.jsonl."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out"


def report(name: str, rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """One table on standard output, one line of JSON per row in the file."""
    from rich.console import Console
    from rich.table import Table

    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=title or name)
    for column in columns:
        left = column in ("what", "mechanism", "method")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_shown(row.get(column)) for column in columns))
    Console(width=sum(len(column) + 12 for column in columns)).print(table)
    OUT.mkdir(exist_ok=True)
    stamp = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine_class()}
    with open(OUT / f"{name}.jsonl", "a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, **stamp}) + "\n")


def machine_class() -> str:
    """Cores, memory and architecture; no names."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{os.cpu_count()} cores, {pages / 2**30:.0f} GiB, {platform.machine()}"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        if value and abs(value) < 0.0005:
            return f"{value:.0e}"
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
