"""The result of an attack in one shape: the terminal, `--json`, the files and the page are made from it.

For the owner's eyes only: findings are computed on raw data and never written into a release.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import OutputError
from shoal.kinds.describe import Table
from shoal.kinds.owner import open_owner_folder
from shoal.release.manifest import MANIFEST
from shoal.release.staging import private_file, refuse_inside_release, unwritable

BINS = 50
POINTS_DRAWN = 400  # of a curve on the page


@dataclass(frozen=True)
class Column:
    """One column of a table: the key in a row, the heading, and the format of numbers; none: text.

    `read` takes the value from the whole row where it is not the one under the key.

    >>> Column("share", "found", ".1%").cell({"share": 0.25}), Column("set_at", "set at", "g").cell({})
    ('25.0%', '')
    """

    key: str
    heading: str
    form: str = ""
    missing: str = ""
    read: Callable[[Mapping[str, Any]], Any] | None = None

    def cell(self, row: Mapping[str, Any]) -> str:
        value = row.get(self.key) if self.read is None else self.read(row)
        return self.missing if value is None else format(value, self.form)


def table_of(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], **shown: Any) -> Table:
    """Rows as a table of the terminal; numbers stand right."""
    return Table(
        header=tuple(column.heading for column in columns),
        rows=[tuple(column.cell(row) for column in columns) for row in rows],
        right=tuple(number for number, column in enumerate(columns) if column.form),
        **shown,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """The result of one attack."""

    figures: Mapping[str, Any] = field(repr=False)  # NAME.json and --json
    summary: Sequence[str] = ()  # of the page and --json: what the tables say, in sentences
    notes: Sequence[str] = ()  # for the terminal, what no table says
    tables: Sequence[Table] = ()
    curves: Any = field(default=None, repr=False)  # NAME.parquet: a table, or columns by name; None: no file
    html: str = field(default="", repr=False)  # NAME.html; empty: no file
    stored: bool = True  # written to the owner's folder
    sentence: str = ""  # what the attack gained, with one number: the first line on the terminal and the page
    chart: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the page: spread, curves or bars

    def write(self, folder: Path, name: str) -> dict[str, Path]:
        """The files by their endings, beside those of earlier attacks: NAME-2.json, NAME-3.json and so on.

        None where the findings are not stored.
        """
        if not self.stored:
            return {}
        taken = {path.stem for path in Path(folder).glob(f"{name}*.*")}
        names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 2)))
        free = next(each for each in names if each not in taken)
        return write_findings(folder, free, self.figures, self.curves, self.html)


def write_findings(
    folder: Path, name: str, figures: Mapping[str, Any], curves: Any = None, html: str = ""
) -> dict[str, Path]:
    """NAME.html, NAME.json and NAME.parquet, readable by the owner alone; earlier ones are replaced."""
    refuse_inside_release(Path(folder))
    if (Path(folder) / MANIFEST).exists():
        raise OutputError(
            "attack-in-release",
            f"{folder} is a release; what an attack finds must never lie in one.",
            "Choose another folder with --out.",
        )
    folder = open_owner_folder(folder)
    given = {"html": html or None, "json": figures, "parquet": curves}
    paths = {ending: folder / f"{name}.{ending}" for ending, content in given.items() if content is not None}
    try:
        for ending, text in (("html", html), ("json", json.dumps(figures, indent=2) + "\n")):
            if ending in paths:
                with private_file(paths[ending], text=True) as file:
                    file.write(text)
        if curves is not None:
            with private_file(paths["parquet"]) as file:
                table = curves if isinstance(curves, pa.Table) else pa.table(dict(curves))
                pq.write_table(table, file, compression="zstd")
    except OSError as error:
        raise unwritable(folder, error) from error
    return paths


def stacked(parts: Iterable[Mapping[str, Any]], text: Sequence[str]) -> pa.Table:
    """One table of several parts: arrays are columns, other values repeated; `text` names columns of text.

    >>> stacked([{"counts": "raw", "set_at": None, "share": np.array([0.5, 1.0])}], ["counts"]).to_pylist()[1]
    {'counts': 'raw', 'set_at': None, 'share': 1.0}
    """
    tables = []
    for part in parts:
        rows = next(len(value) for value in part.values() if isinstance(value, np.ndarray))
        columns = {
            name: value
            if isinstance(value, np.ndarray)
            else pa.array([value] * rows, pa.string() if name in text else pa.float64())
            for name, value in part.items()
        }
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def plain(value: float) -> float | None:
    """JSON has no word for a figure that does not exist."""
    return float(value) if np.isfinite(value) else None


def drawn_curve(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """A curve of the page, with few enough points to draw."""
    every = -(-len(x) // POINTS_DRAWN) or 1
    return {"name": name, **{axis: [*v[::every].tolist(), float(v[-1])] for axis, v in (("x", x), ("y", y))}}


def spread(series: Mapping[str, np.ndarray], of: str) -> dict[str, Any]:
    """Histograms over people of one quantity from 0 to 1, and their quartiles.

    >>> spread({"a": np.array([0.0, 1.0, 1.0])}, "error")["series"][0]["quartiles"]
    [0.5, 1.0, 1.0]
    """
    edges = np.linspace(0.0, 1.0, BINS + 1)
    drawn = []
    for name, values in series.items():
        known = values[~np.isnan(values)]
        counts, _ = np.histogram(np.clip(known, 0.0, 1.0), edges)
        quartiles = [float(each) for each in np.quantile(known, [0.25, 0.5, 0.75])] if known.size else []
        mean = float(known.mean()) if known.size else None
        drawn.append({"name": name, "counts": counts.tolist(), "quartiles": quartiles, "mean": mean})
    return {"of": of, "counted": "people", "edges": edges.tolist(), "series": drawn}
