"""docs/results/density.md from the rows of a full run: the same tables, with date, size and machine."""

from __future__ import annotations

import textwrap
from pathlib import Path

from benchmarks.density_cities import BenchCity
from benchmarks.density_rows import DELTA, Variant
from benchmarks.density_words import Table, city_table, order_table, target_table

TARGET = Path(__file__).parents[1] / "docs" / "results" / "density.md"
COST = Path(__file__).parents[1] / "docs" / "results" / "density-cost.md"
NOTES = f"""
`make bench-density` at delta = {DELTA:g} (pure methods without). MRE / PC / EMD in metres / bias of the
city's total in percent, means over the repetitions (`runs`). The truth is every visit: a user once per
place and slot, nothing capped. Noise is seeded, of the same distributions as a release's; the sample of
visits that bounded methods keep is the same in all repetitions. Seconds are of mechanism and post-
processing at epsilon 0.3, events already counted; coverage is of the 95 % intervals there. EMD is exact, on
every seventh slot.

`floor` is the error of the raw counts as a prediction of counts drawn anew around them (Poisson): about
what somebody who knew the true rates would have. Methods with * are no release: they promise less than
their epsilon reads like, or nothing. `best undeclared` measures the number of users, not given it.
"Printed" are the figures of the paper, on data of its own: MRE / PC / EMD at epsilon 0.3, ell 30.
"""
CANNOT = """
## Real movement

536 taxis and 1,083 check-in users are few. At epsilon 1 the noise of a plain count is several times a
zone's people, so no method can tell hour by hour how a zone differs from the city; what can be had is the
total, the city's rhythm and, roughly, which regions are busy. Where noise is larger than what is measured,
`best` falls back to these: flat rather than noisy. Its intervals are wide there, and say so. More users,
wider zones or longer slots are the only remedy.
"""


def write_docs(cities: list[BenchCity], chosen: list[Variant], rows: list[dict]) -> None:
    """Only full rows may stand in the documents."""
    full = [row for row in rows if row["size"] == "full"]
    if not full:
        print("no full rows yet: docs/results/density.md is left as it is")
        return
    dates = sorted({row["at"][:10] for row in full})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    machines = ", ".join(sorted({row["machine"] for row in full}))
    simulated = [c for c in cities if c.name.startswith(("paris", "rough"))]
    real = [c for c in cities if c not in simulated]
    parts = [f"# Density\n\n{span}; {machines}.\n{NOTES.rstrip()}"]
    parts.append("## best against the scheme made sound\n\n" + _said(target_table(cities, full)))
    parts.append("## The order of the paper\n\n" + _said(order_table(cities, full)))
    parts.append("## Simulated people")
    parts += [_city(city, full, chosen) for city in simulated]
    parts.append(CANNOT.strip())
    parts += [_city(city, full, chosen) for city in real]
    if COST.exists():
        parts.append("Cost against users, zones and slots: [density-cost.md](density-cost.md).")
    TARGET.write_text("\n\n".join(part for part in parts if part) + "\n", "utf-8")
    print(f"written: {TARGET.name}")


def _city(city: BenchCity, rows: list[dict], chosen: list[Variant]) -> str:
    table = city_table(city, rows, chosen)
    return "" if not table.rows else f"### {table.title.split(': MRE')[0]}\n\n{table.markdown()}"


def _said(table: Table) -> str:
    return textwrap.fill(f"{table.title[0].upper()}{table.title[1:]}.", 120) + "\n\n" + table.markdown()
