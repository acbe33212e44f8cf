"""docs/results/trajectories.md and its pictures, from the rows that were kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.table import machine_class
from benchmarks.trajectories_data import WORDS
from benchmarks.trajectories_plot import growth_plot, tau_plot

FOLDER = Path(__file__).parents[1] / "docs" / "results"
ONE = ("part", "data", "method", "users", "days", "k", "tau_min", "epsilon_min")
Row = Mapping[str, Any]

COLUMNS: dict[str, Callable[[Row], str]] = {
    "data": lambda row: row["data"],
    "method": lambda row: row["method"],
    "users": lambda row: f"{row['users']:,}",
    "samples": lambda row: f"{row['samples']:,}",
    "days": lambda row: str(row["days"]),
    "k": lambda row: str(row["k"]),
    "tau / epoch, min": lambda row: f"{row['tau_min']} / {row['epsilon_min']}",
    "windows violated": lambda row: "0" if not row["violations"] else f"{row['violated_share']:.2%}",
    "users hit": lambda row: f"{row['users_hit'] / row['users']:.1%}" if row["violations"] else "0",
    "suppressed": lambda row: f"{row['suppressed']:.2%}",
    "space, km": lambda row: _quartiles(row, "space_m", 1000, ".1f"),
    "time, min": lambda row: _quartiles(row, "time_min", 1, ".0f"),
    "four points": lambda row: f"{row['linked_by_4_points']:.0%}",
    "release, s": lambda row: f"{row['seconds']:.0f}",
    "verify, s": lambda row: f"{row['verify_seconds']:.0f}",
    "GB": lambda row: f"{row['peak_gb']:.2f}",
}

HEAD = """# Records hidden among k

{date}; {machine}.

`make bench-trajectories`. Every row is a release in a process of its own; each was checked for every
user and every start of a window by the [verifier](../trajectories-verify.md), which shares no code with
it. *Space* is width + height of a released box, *time* its length, quartiles over boxes; 0.2 km is one
cell of the lattice, the least there is. *Suppressed* is the share of samples in no box. *Four points*:
people singled out by four of their own samples, drawn at random. *Release* is the time to choose
carriers and merge, *GB* the most memory of the whole process, reading and verification included.

Data: {data}.
"""

CITY = """
## A city like the paper's

29,191 people, 400 base stations, 2,731 km2, 14 days. Wanted at k = 2, tau = epoch = 30 min: median at
most 0.6 km and 10 min, at most 1.5 % suppressed, release in 4 minutes, verified in 2 more, under 3 GB.
Got: {got}.

{table}

"forgets after a day": two people may hide each other again the next day. `raw` is raw pseudonyms. With
k = 5 everybody needs four new partners in every window, which takes long; the 14 days at k = 5 were timed
on a machine that was busy with other work at twice its cores, at low priority. The whole
command at k = 2 over 14 days, from start-up through reading, verification of the written file, measuring,
attacks and report, took 237 s and 2.1 GB beside another job.
"""

TAU = """
## Against tau

The same city, k = 2, epoch = tau. The paper printed, for its own data: medians of 1 to 3 km and below
45 min, 1 to 7 % suppressed.

{table}

![granularity against tau](trajectories-tau.svg)
"""

PUBLISHED = """
## The published algorithm on the same data

3,000 people, one week. `published` is kte-hide after algorithm 2 of the paper, with its spectral
clustering on 32 neighbours; it leaves windows in which fewer than k records fit.

{table}
"""

GROWTH = """
## Growth

Three days, k = 2, tau = epoch = 30 min, one block of users. {words}

{table}

![growth](trajectories-growth.svg)
"""

REAL = """
## Real data

516 taxis are few, seen every minute, and seldom side by side; check-ins are a dozen people per half
hour of a large city, over ten months. Both are harder than a city of phones, and it shows: this is what
k people alike cost there.

{table}
"""


def write_docs(kept: Path) -> None:
    """The page and its pictures; of rows for the same job the last counts."""
    latest: dict[tuple, Row] = {}
    for line in kept.read_text("utf-8").splitlines():
        row = json.loads(line)
        latest[tuple(row[name] for name in ONE)] = row
    parts: dict[str, list[Row]] = {}
    for row in latest.values():
        parts.setdefault(row["part"], []).append(row)
    data = "; ".join(f"`{name}` {words}" for name, words in WORDS.items())
    text = HEAD.format(date=datetime.now(UTC).date(), machine=machine_class(), data=data)
    city = [row for row in parts.get("city", []) if row["data"] == "abi"]
    base = next(row for row in city if _is_base(row))
    text += CITY.format(got=_got(base), table=_table(parts["city"], without=("users",)))
    over_tau = sorted([base, *parts.get("tau", [])], key=lambda row: row["tau_min"])
    text += TAU.format(table=_table(over_tau, without=("data", "method", "users", "samples", "days", "k")))
    text += PUBLISHED.format(
        table=_table(parts.get("published", []), without=("data", "users", "samples", "days", "k"))
    )
    text += GROWTH.format(
        words=_growth(parts.get("growth", [])), table=_table(parts.get("growth", []), GROWING)
    )
    if "real" in parts:
        text += REAL.format(table=_table(parts["real"], without=("k",)))
    (FOLDER / "trajectories.md").write_text(text, "utf-8")
    tau_plot(
        [{**row, "data": "abi, 29,191 users"} for row in over_tau] + _small(parts),
        FOLDER / "trajectories-tau.svg",
    )
    growth_plot(parts.get("growth", []), FOLDER / "trajectories-growth.svg")
    print("written: trajectories.md, trajectories-tau.svg, trajectories-growth.svg")


GROWING = ("users", "samples", "suppressed", "space, km", "time, min", "release, s", "verify, s", "GB")


def _is_base(row: Row) -> bool:
    return (row["k"], row["tau_min"], row["epsilon_min"], row["method"]) == (2, 30, 30, "kte")


def _small(parts: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The rows beside the published algorithm, as lines of the same picture."""
    return [
        {**row, "data": f"3,000 users, {row['method']}", "method": ""} for row in parts.get("published", [])
    ]


def _got(row: Row) -> str:
    return (
        f"{row['median_space_m'] / 1000:.1f} km, {row['median_time_min']:.0f} min, {row['suppressed']:.2%}, "
        f"{row['seconds']:.0f} s, {row['verify_seconds']:.0f} s, {row['peak_gb']:.1f} GB, "
        f"{row['violations']} windows violated"
    )


def _growth(rows: Sequence[Row]) -> str:
    if len(rows) < 2:
        return ""
    first, last = rows[0], rows[-1]
    more, longer = last["users"] / first["users"], last["seconds"] / first["seconds"]
    return f"{more:.0f} times the people take {longer:.0f} times as long."


def _quartiles(row: Row, name: str, unit: float, form: str) -> str:
    return " / ".join(format(row[f"{which}_{name}"] / unit, form) for which in ("q1", "median", "q3"))


def _table(rows: Sequence[Row], names: Sequence[str] | None = None, *, without: Sequence[str] = ()) -> str:
    names = [name for name in names or COLUMNS if name not in without]
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(COLUMNS[name](row) for name in names) + " |" for row in rows]
    return "\n".join(lines)
