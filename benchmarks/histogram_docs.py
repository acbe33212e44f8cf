"""docs/results/histogram.md and its pictures, from the rows that were kept.

python -m benchmarks.histogram_docs [FOLDER]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks.histogram_words as words
from benchmarks.histogram_cells import (
    DELTA,
    METHODS,
    NOISE_FREE,
    PER_USER,
    PUBLISHED,
    RESOLUTION,
    SIZES,
    UNIFORM,
)
from benchmarks.histogram_cost import BOXES_RELEASE, DQAM, EXACT, HIGHS_SECONDS, READ, CostJob
from benchmarks.histogram_means import Cell, cells_of, means_by_method
from benchmarks.histogram_plot import cost_plot, epsilon_plot, resolution_plot
from benchmarks.histogram_rows import FILE, Row, code_of, read_rows

FOLDER = Path(__file__).parents[1] / "docs" / "results"
SHOWN = (UNIFORM, *METHODS)


def write_docs(kept: Path, folder: Path = FOLDER) -> None:
    """The page and its pictures; rows of quick runs stay out of it."""
    full = [row for row in read_rows(kept) if _full(row)]
    rows = [row for row in full if row["code"] == _code_now(row)]
    if len(rows) < len(full):
        print(
            f"left out: {len(full) - len(rows)} rows of code that has changed since; run the benchmark again"
        )
    cells = [cell for cell in cells_of(rows) if cell.data in SIZES]
    main = [c for c in cells if c.unit == "trip" and c.resolution == RESOLUTION]
    if not main:
        print("no full rows yet: docs/results/histogram.md is left as it is")
        return
    folder.mkdir(parents=True, exist_ok=True)
    text = _head(rows, main) + _targets(cells)
    for data in (name for name in SIZES if any(cell.data == name for cell in main)):
        here = [cell for cell in main if cell.data == data]
        picture = epsilon_plot(here, folder / f"histogram-{data}.svg")
        table = errors_table(here)
        text += words.ERRORS.format(title=data, table=table, picture=picture.name)
    text += words.GIVEN.format(table=errors_table(main, ("mae_given",), with_data=True))
    text += _order(main)
    users = [cell for cell in cells if cell.unit == "user"]
    text += words.USERS.format(table=errors_table(users, ("mae_unseen",), with_data=True)) if users else ""
    text += _more(rows) + _resolution(cells, folder) + _published(rows, main) + _noise_free(rows)
    text += _cost(rows, folder) + _consistent(rows)
    (folder / "histogram.md").write_text(text, "utf-8")
    print("written: histogram.md and its pictures")


def error_tables(rows: Sequence[Row]) -> str:
    """For the screen: error on unseen rectangles, a table per data set and unit."""
    cells = cells_of(rows)
    parts = []
    for data, unit in dict.fromkeys((cell.data, cell.unit) for cell in cells):
        here = [cell for cell in cells if (cell.data, cell.unit) == (data, unit)]
        parts.append(f"{data}, unit {unit}: error on unseen rectangles / KLD\n{errors_table(here)}")
    return "\n\n".join([*parts, _noise_free(rows).strip(), _targets(cells).strip()])


def errors_table(
    cells: Sequence[Cell], columns: Sequence[str] = ("mae_unseen", "kld"), with_data: bool = False
) -> str:
    sides = len({cell.resolution for cell in cells}) > 1
    shown = [name for name in SHOWN if any(name in cell.figures for cell in cells)]
    head = [*(["data"] if with_data else []), "trips", *(["cells"] if sides else []), "epsilon", "true mean"]
    body = []
    for cell in cells:
        first = [_data(cell)] if with_data else []
        first += [f"{cell.n:,}", *([f"{cell.resolution}"] if sides else []), f"{cell.epsilon:g}"]
        true = next(iter(cell.figures.values())).get("mean_true", 0.0)
        body.append([*first, _number(true), *(_figure(cell, name, columns) for name in shown), _ratio(cell)])
    return table([*head, *shown, "ratio"], body)


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(line) + " |" for line in body])


def _full(row: Row) -> bool:
    """Not of a quick run, and not of bounds that are no longer asked for."""
    if "part" in row:
        return True
    bounded = row["unit"] == "trip" or (row["per_unit"], row["cap"]) in PER_USER[row["data"]]
    return bounded and (row["resolution"] == RESOLUTION or row["n"] == 100_000)


def _code_now(row: Row) -> str:
    if "part" in row:
        return CostJob(grid=row["data"] if row["part"] == "consistent" else "").code()
    return code_of(row["method"])


def _head(rows: Sequence[Row], main: Sequence[Cell]) -> str:
    dates = sorted({row["at"][:10] for row in rows})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    machines = ", ".join(sorted({row["machine"] for row in rows}))
    reps = sorted({int(cell.mean("boxes", "runs")) for cell in main if "boxes" in cell.figures})
    data = "; ".join(words.DATA[name] for name in SIZES if any(cell.data == name for cell in main))
    return words.HEAD.format(date=span, machine=machines, reps=" to ".join(map(str, reps)), data=data)


def _targets(cells: Sequence[Cell]) -> str:
    every = {cell.data: max(c.n for c in cells if c.data == cell.data) for cell in cells}
    judged = [(cell, cell.ratio, cell.wanted(every[cell.data])) for cell in cells if cell.ratio is not None]
    missed = [cell for cell, ratio, most in judged if ratio is not None and ratio > most]
    met = (
        f"All {len(judged)} cells meet it."
        if not missed
        else f"{len(missed)} of {len(judged)} cells miss it."
    )
    body = [
        [
            _data(cell),
            f"{cell.n:,}",
            f"{cell.resolution}",
            f"{cell.epsilon:g}",
            _number(cell.mean("boxes")),
            f"{_number(cell.mean(cell.best_other or ''))} {cell.best_other}",
            f"{ratio:.3f}",
            f"{most:g}",
            "yes" if ratio <= most else "**no**",
        ]
        for cell, ratio, most in judged
        if ratio is not None
    ]
    head = ["data", "trips", "cells", "epsilon", "boxes", "best other", "ratio", "wanted", "met"]
    return words.TARGETS.format(met=met, table=table(head, body))


def _order(main: Sequence[Cell]) -> str:
    both = [cell for cell in main if {"prish", "dqam"} <= cell.figures.keys()]
    ratios = [cell.mean("prish") / cell.mean("dqam") for cell in both]
    body = [
        [cell.data, f"{cell.n:,}", f"{cell.epsilon:g}"]
        + [_number(cell.mean(name)) for name in ("prish", "dqam")]
        + [f"{ratio:.2f}"]
        for cell, ratio in zip(both, ratios, strict=True)
    ]
    head = ["data", "trips", "epsilon", "prish", "dqam", "prish / dqam"]
    ahead = sum(ratio > 1 for ratio in ratios)
    return words.ORDER.format(ahead=ahead, cells=len(both), table=table(head, body))


def _more(rows: Sequence[Row]) -> str:
    """The number of trips measured, and zCDP, beside the plain figures."""
    plain = {(c.data, c.n, c.resolution, c.epsilon): c for c in cells_of(rows) if c.unit == "trip"}
    bought = [cell for cell in cells_of(rows, trips="bought") if cell.unit == "trip"]
    gauss = cells_of(rows, delta=DELTA)
    body = []
    for kind, cells in (("measured", bought), ("zCDP", gauss)):
        for cell in cells:
            beside = plain.get((cell.data, cell.n, cell.resolution, cell.epsilon))
            for name in cell.figures:
                if name not in METHODS or beside is None or name not in beside.figures:
                    continue
                new, old = cell.mean(name), beside.mean(name)
                first = [f"{name}, {kind}", cell.data, f"{cell.n:,}", f"{cell.epsilon:g}"]
                body.append([*first, _number(new), _number(old), f"{new / old:.2f}"])
    head = ["method", "data", "trips", "epsilon", "error", "plain", "ratio"]
    return words.MORE.format(table=table(head, body)) if body else ""


def _resolution(cells: Sequence[Cell], folder: Path) -> str:
    here = [c for c in cells if (c.data, c.unit, c.n, c.epsilon) == ("sf", "trip", 100_000, 0.1)]
    if len(here) < 2:
        return ""
    resolution_plot(here, folder / "histogram-resolution.svg")
    return words.RESOLUTION.format(table=errors_table(here))


def _published(rows: Sequence[Row], main: Sequence[Cell]) -> str:
    fixed = {
        (row["data"], row["n"], row["resolution"], row["epsilon"], row["method"]): row["epsilon_if_fixed"]
        for row in rows
        if row.get("epsilon_if_fixed")
    }
    body = []
    for cell in main:
        for name in PUBLISHED:
            if name in cell.figures:
                sound = name.split("-")[1]
                would = fixed[cell.data, cell.n, cell.resolution, cell.epsilon, name]
                first = [cell.data, f"{cell.n:,}", name, f"{cell.epsilon:g}", f"{would:,.0f}"]
                errors = [_figure(cell, each, ("mae_unseen",)) for each in (name, sound, "boxes")]
                body.append([*first, *errors])
    head = ["data", "trips", "method", "epsilon claimed", "if fixed", "error", "made sound", "boxes"]
    return words.PUBLISHED.format(table=table(head, body)) if body else ""


def _noise_free(rows: Sequence[Row]) -> str:
    here = [row for row in rows if row["method"] in NOISE_FREE]
    places = sorted({(row["data"], row["n"], row["resolution"]) for row in here})
    body = []
    for place in places:
        mine = [row for row in here if (row["data"], row["n"], row["resolution"]) == place]
        mean = means_by_method(mine)
        true = next(iter(mean.values()))["mean_true"]
        errors = [_number(mean[name]["mae_unseen"]) if name in mean else "" for name in NOISE_FREE]
        looked = [row for row in mine if row.get("one_trip_most") is not None]
        own = [""] * 3
        if looked:
            own = [
                f"{min(row['one_trip_least'] for row in looked)}",
                f"{max(row['one_trip_most'] for row in looked)}",
                f"{sum(row['trips_above_1'] for row in looked) / len(looked):.0%}",
            ]
        body.append([place[0], f"{place[1]:,}", f"{place[2]}", _number(true), *errors, *own])
    head = ["data", "trips", "cells", "true mean", *NOISE_FREE, "least", "most", "trips above 1"]
    return words.NOISE_FREE.format(table=table(head, body)) if body else ""


def _cost(rows: Sequence[Row], folder: Path) -> str:
    here = [row for row in rows if row.get("part") == "cost"]
    if not here:
        return ""
    steps = (READ, EXACT, DQAM, BOXES_RELEASE)
    at = {(row["wanted_trips"], row["resolution"], row["method"]): row for row in here}
    body = []
    for trips, side in sorted({key[:2] for key in at}):
        found = [at.get((trips, side, step)) for step in steps]
        count = next(row["n"] for row in found if row)
        figures = [f"{row['seconds']:.1f} / {row['peak_gb']:.2f}" if row else "" for row in found]
        body.append([f"{count:,}", f"{side}", *figures])
    largest = [at.get((1_000_000, RESOLUTION, step)) for step in steps]
    got = ", ".join(f"{row['method']} {row['seconds']:.0f} s" for row in largest if row) or "not measured"
    got += f", at most {max((row['peak_gb'] for row in largest if row), default=0):.1f} GB"
    cost_plot(here, folder / "histogram-cost.svg", resolution=RESOLUTION, trips=100_000)
    head = ["trips", "cells", *(f"{step}, s / GB" for step in steps)]
    return words.COST.format(got=got, table=table(head, body), releases=_releases(rows))


def _releases(rows: Sequence[Row]) -> str:
    body = []
    for name in METHODS:
        runs = [row for row in rows if row["method"] == name and "part" not in row]
        most = [max((row[key] for row in runs), default=0.0) for key in ("seconds", "peak_gb", "violations")]
        before = [row["violations_before"] for row in runs if row.get("violations_before") is not None]
        said = f"{max(before):.1%}" if before else ""
        body.append([name, f"{len(runs)}", f"{most[0]:.1f}", f"{most[1]:.2f}", said, f"{most[2]:.2%}"])
    return table(["method", "releases", "s", "GB", "violated before repair", "violated"], body)


def _consistent(rows: Sequence[Row]) -> str:
    here = [row for row in rows if row.get("part") == "consistent"]
    body = [
        [
            row["data"],
            f"{row['resolution']} x {row['resolution']}",
            row["method"].split(", ")[1],
            f"{row['violations_before']:.1%}",
            f"{row['seconds']:.2f}" + ("" if row["solved"] else ", stopped"),
            _number(row["changed"]) if row["changed"] is not None else "",
        ]
        for row in sorted(here, key=lambda row: (row["data"], row["resolution"], row["method"]))
    ]
    head = ["grid", "cells", "by", "violated before", "s", "changed in all"]
    return words.CONSISTENT.format(limit=HIGHS_SECONDS, table=table(head, body)) if body else ""


def _data(cell: Cell) -> str:
    if cell.unit == "trip":
        return cell.data
    return f"{cell.data}, per user, m {cell.per_unit}, " + (f"cap {cell.cap}" if cell.cap else "no cap")


def _figure(cell: Cell, name: str, columns: Sequence[str]) -> str:
    if name not in cell.figures:
        return ""
    said = " / ".join(
        _number(cell.figures[name][column]) for column in columns if column in cell.figures[name]
    )
    return f"**{said}**" if name == "boxes" else said


def _ratio(cell: Cell) -> str:
    return "" if cell.ratio is None else f"{cell.ratio:.3f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    write_docs(FILE, *(Path(name) for name in sys.argv[1:]))
