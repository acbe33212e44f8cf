"""The tables of the benchmark of synthetic trips, on the screen and as docs/results/synthetic.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

import benchmarks.synthetic_words as words
from benchmarks.synthetic_cells import (
    ABLATED,
    BRIDGES,
    DELTA,
    EPSILONS,
    NO_NOISE,
    REAL,
    SF_100K,
    SOUND,
    TGM,
    TGM_VARIANTS,
    USERS,
    WITHOUT,
    WORLDS,
    World,
)

Row = dict[str, Any]
PAGE = Path(__file__).parents[1] / "docs" / "results" / "synthetic.md"
MEASURES = {
    "distance_jsd": "distance",
    "pattern_f1": "F1",
    "pattern_f1_35": "F1 3-5",
    "stay_jsd": "stay",
    "length_jsd": "length",
    "visit_error": "visits",
    "od_jsd": "OD",
    "range_error": "range",
}
LARGER_IS_BETTER = ("pattern_f1", "pattern_f1_35")
# Of issue and specification: 100,000 cab trips, per trip; the largest error (F1: the least) that is allowed.
TARGETS = {
    (0.5, None): dict(zip(MEASURES, (0.003, 0.82, None, 0.004, 0.003, 0.016, 0.020, 0.12), strict=True)),
    (1.0, None): dict(zip(MEASURES, (0.002, 0.85, None, 0.002, 0.002, 0.010, 0.014, 0.09), strict=True)),
    (0.5, DELTA): {"pattern_f1": 0.86},
    (1.0, DELTA): {"pattern_f1": 0.88},
}


def shown_table(rows: list[Row]) -> str:
    """Means over repetitions, for the screen."""
    lines = [" ".join([f"{'data':<14}{'unit':<6}{'epsilon':>8} {'delta':>6} {'method':<26}", *_heads()])]
    for cell, found in _means(rows).items():
        data, n, unit, epsilon, delta, method = cell
        head = f"{data + ' ' + format(n, ','):<14}{unit:<6}{epsilon:>8g} {delta or '':>6} {method:<26}"
        figures = [f"{found[name]:>8.4f}" for name in MEASURES]
        lines.append(" ".join([head, *figures, f"{found['seconds']:>7.1f} {found['peak_gb']:>5.2f}"]))
    return "\n".join(lines)


def _heads() -> list[str]:
    return [*(f"{name:>8}" for name in MEASURES.values()), f"{'s':>7} {'GB':>5}"]


def write_docs(rows: list[Row], missing: int = 0) -> None:
    """The page, from the rows that are there; `missing`: how many of those wanted are not."""
    means = _means(rows)
    text = words.HEAD.format(date=max(row["at"] for row in rows)[:10], machine=rows[-1]["machine"])
    text += words.MISSING.format(missing=missing, there=len(rows)) if missing else ""
    text += words.TARGETS.format(table=_targets(means)) + words.RANKS.format(table=_ranks(rows))
    for world in WORLDS:
        here = {cell: found for cell, found in means.items() if _is_of(cell, world)}
        if here:
            text += words.WORLD.format(name=_name(world), table=_table(here, (*SOUND, TGM, NO_NOISE, REAL)))
    users = {cell: found for cell, found in means.items() if _is_of(cell, USERS)}
    text += words.USERS.format(table=_table(users, SOUND)) if users else ""
    ablations = _ablations(means)
    text += words.ABLATIONS.format(tables=ablations) if ablations else ""
    tgm = {c: f for c, f in means.items() if _is_of(c, SF_100K) and c[5].startswith(TGM) and c[3] == ABLATED}
    text += words.TGM.format(table=_table(tgm, (TGM, *TGM_VARIANTS))) if tgm else ""
    PAGE.write_text(text + words.constants_text() + words.cost_text(), "utf-8")
    print(f"written: {PAGE.name}")


def _means(rows: Iterable[Row]) -> dict[tuple, Row]:
    groups: dict[tuple, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[k] for k in ("data", "n", "unit", "epsilon", "delta", "method"))].append(row)
    names = (*MEASURES, "hour_jsd", "duration_jsd", "seconds", "peak_gb")
    return {
        cell: {name: mean(row[name] for row in group) for name in names} for cell, group in groups.items()
    }


def _is_of(cell: tuple, world: World) -> bool:
    wanted = world.n == cell[1] if world.n else not (world.data == "sf" and cell[1] == SF_100K.n)
    return cell[0] == world.data and cell[2] == world.unit and wanted


def _name(world: World) -> str:
    return f"{world.data}, {world.n:,} trips" if world.n else f"{world.data}, all trips"


def _table(means: dict[tuple, Row], methods: Iterable[str]) -> str:
    lines = [
        "| epsilon | delta | method | " + " | ".join(MEASURES.values()) + " | s | GB |",
        "| ---: | ---: | --- |" + " ---: |" * (len(MEASURES) + 2),
    ]
    for method in methods:
        for cell, found in sorted(means.items(), key=lambda item: (item[0][4] or 0, item[0][3])):
            if cell[5] != method:
                continue
            figures = " | ".join(_short(found[name]) for name in MEASURES)
            price = "" if method in (REAL, NO_NOISE) else f"{cell[3]:g}"
            label = f"**{method}**" if method == BRIDGES else method
            cost = f"{found['seconds']:.1f} | {found['peak_gb']:.2f}"
            lines.append(f"| {price} | {cell[4] or ''} | {label} | {figures} | {cost} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def _targets(means: dict[tuple, Row]) -> str:
    lines = [
        "| epsilon | delta | measure | wanted | measured | |",
        "| ---: | ---: | --- | ---: | ---: | --- |",
    ]
    for (epsilon, delta), wanted in TARGETS.items():
        found = means.get((SF_100K.data, SF_100K.n, "trip", epsilon, delta, BRIDGES))
        for name, limit in wanted.items():
            if found is None or limit is None:
                continue
            larger = name in LARGER_IS_BETTER
            met = found[name] >= limit if larger else found[name] <= limit
            sign = ">=" if larger else "<="
            line = f"{epsilon:g} | {delta or ''} | {MEASURES[name]} | {sign} {limit:g} | {found[name]:.4f}"
            lines.append(f"| {line} | {'met' if met else 'missed'} |")
    return "\n".join(lines)


def mean_ranks(rows: list[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """By world and by measure: the mean rank of every sound pure method, 1 is best."""
    means = _means(row for row in rows if row["delta"] is None and row["unit"] == "trip")
    ranks: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for world in WORLDS:
        for epsilon in EPSILONS:
            cells = {
                c[5]: f for c, f in means.items() if _is_of(c, world) and c[3] == epsilon and c[5] in SOUND
            }
            for name in MEASURES if len(cells) == len(SOUND) else ():
                sign = -1 if name in LARGER_IS_BETTER else 1
                order = sorted(cells, key=lambda method, s=sign, n=name: s * cells[method][n])
                for place, method in enumerate(order, 1):
                    for key in (
                        ("all", ""),
                        ("world", _name(world)),
                        ("epsilon", f"{epsilon:g}"),
                        ("measure", MEASURES[name]),
                    ):
                        ranks[key][method].append(place)
    return {key: {method: mean(places) for method, places in found.items()} for key, found in ranks.items()}


def _ranks(rows: list[Row]) -> str:
    lines = ["| | " + " | ".join(SOUND) + " |", "| --- |" + " ---: |" * len(SOUND)]
    for (kind, name), found in mean_ranks(rows).items():
        label = "**all**" if kind == "all" else f"{kind} {name}" if kind == "epsilon" else name
        lines.append(f"| {label} | " + " | ".join(f"{found[method]:.2f}" for method in SOUND) + " |")
    return "\n".join(lines)


def _ablations(means: dict[tuple, Row]) -> str:
    parts = []
    for world in (SF_100K, World("town")):
        for delta in (None, DELTA):
            cells = {
                c: f
                for c, f in means.items()
                if _is_of(c, world)
                and c[3] == ABLATED
                and c[4] == delta
                and (c[5] == BRIDGES or "without" in c[5])
            }
            if cells:
                title = f"{_name(world)}, epsilon {ABLATED:g}" + (f", delta {delta:g}" if delta else ", pure")
                parts.append(
                    f"{title}:\n\n" + _table(cells, (BRIDGES, *(f"without {part}" for part in WITHOUT)))
                )
    return "\n\n".join(parts)
