"""Methods compared: compare.json with every run, compare.html with utility against epsilon.

The page is drawn from plain rows, as a benchmark or a comparison writes them. Optional parts: the series of
one zone as each method gives it, error by slot, and box plots over zones (figures 3 to 10 of Acs and
Castelluccia 2014).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.kinds.density.compare import Comparison, World
from shoal.kinds.density.plan import ComparePlan, any_method
from shoal.kinds.owner import open_owner_folder
from shoal.metrics.density import BoxFigures, relative_errors
from shoal.release.page.page import RAW_BANNER, local_times, render, write_page
from shoal.release.staging import private_file, unwritable
from shoal.space.clock import day_ticks, slot_label, slot_word

DRAWN = ("mre", "pc", "emd_m", "bias", "mae", "coverage")
FIGURES = (*DRAWN, "seconds")
SCRIPTS = ("format.js", "plot.js", "compare.js")
SIMULATED_BANNER = "Computed on a simulated city: nothing here comes from private data."


@dataclass(frozen=True, kw_only=True)
class ComparedMethod:
    """Description of a method beside its figures."""

    name: str
    words: str  # one plain line: what it does
    guarantee: str  # what it truly promises, in one line
    sound: bool = True  # False: for comparison only, its lines are dashed


@dataclass(frozen=True, kw_only=True)
class ComparedSlots:
    """Series over slots, one per method, all at one epsilon: of a zone, and errors by slot."""

    epsilon: float
    slot_starts: list[str] = field(repr=False)  # local ISO time with offset
    zone: str = ""  # name of the zone shown
    zone_exact: np.ndarray | None = field(default=None, repr=False)  # [slots] people
    zone_people: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    mre: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)  # [slots] mean over zones
    emd_m: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class CompareReportInputs:
    """`rows`: method, epsilon, mre, pc, emd_m, bias, mae, coverage; a repeated (method, epsilon) is averaged.

    Missing or None figures are left out of the charts. Other columns are not looked at.
    """

    title: str
    subtitle: str
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    methods: tuple[ComparedMethod, ...] = ()  # in the order of the legend; methods not listed follow
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    on_private_data: bool  # True: the page says that it is the owner's alone
    slots: ComparedSlots | None = None
    boxes: Sequence[tuple[str, float, BoxFigures, BoxFigures]] = ()  # method, epsilon, MRE, PC over zones


@dataclass(frozen=True, kw_only=True)
class ComparedPoint:
    """One method at one epsilon: the mean of each figure over repetitions, and how far they lie apart."""

    method: str
    epsilon: float
    repetitions: int
    mean: dict[str, float | None]
    least: dict[str, float | None]
    most: dict[str, float | None]


def compare_report_html(inputs: CompareReportInputs) -> str:
    """The whole page as text."""
    points = compared_points(inputs.rows)
    order = [method.name for method in inputs.methods]
    names = [*dict.fromkeys([*order, *(point.method for point in points)])]
    names = [name for name in names if any(point.method == name for point in points)]
    unsound = {method.name for method in inputs.methods if not method.sound}
    private = inputs.on_private_data
    place = {name: i for i, name in enumerate(names)}
    return render(
        "compare.html",
        *SCRIPTS,
        payload=_payload(inputs, points, names),
        title=inputs.title,
        subtitle=[compare_subtitle(inputs.subtitle, points)],
        banner=RAW_BANNER if private else SIMULATED_BANNER,
        simulated=not private,
        warnings=inputs.warnings,
        one_run=CHANCE if min(point.repetitions for point in points) == 1 else "",
        assumptions=inputs.assumptions,
        points=sorted(points, key=lambda point: (point.epsilon, place[point.method])),
        unsound=unsound,
        methods=inputs.methods,
    )


def compared_points(rows: Sequence[Mapping[str, Any]]) -> list[ComparedPoint]:
    """Rows brought together by method and epsilon, in the order they first appear."""
    groups: dict[tuple[str, float], list[Mapping[str, Any]]] = {}
    for row in rows:
        try:
            key = str(row["method"]), float(row["epsilon"])
        except (KeyError, TypeError, ValueError) as error:
            raise _bad_row(sorted(map(str, row))) from error
        if not (isfinite(key[1]) and key[1] > 0):
            raise _bad_row([f"epsilon = {key[1]}"])
        groups.setdefault(key, []).append(row)
    if not groups:
        raise PlanError(
            "compare-rows", "a comparison needs at least one row; got none.", "Run a method first."
        )
    points = []
    for (method, epsilon), group in groups.items():
        values = {name: _defined(group, name) for name in FIGURES}
        points.append(
            ComparedPoint(
                method=method,
                epsilon=epsilon,
                repetitions=len(group),
                mean={name: float(np.mean(v)) if v else None for name, v in values.items()},
                least={name: min(v, default=None) for name, v in values.items()},
                most={name: max(v, default=None) for name, v in values.items()},
            )
        )
    return points


def _defined(group: list[Mapping[str, Any]], name: str) -> list[float]:
    values = [row.get(name) for row in group]
    return [float(value) for value in values if value is not None and isfinite(float(value))]


def _bad_row(received: list[str]) -> PlanError:
    return PlanError(
        "compare-row",
        f"a row needs a method and an epsilon above 0; got {', '.join(received) or 'an empty row'}.",
        "Write rows like {method, epsilon, mre, pc, emd_m, bias, mae, coverage}.",
    )


def _payload(inputs: CompareReportInputs, points: list[ComparedPoint], names: list[str]) -> dict[str, Any]:
    unsound = {method.name for method in inputs.methods if not method.sound}
    lines = []
    for name in names:
        of_method = sorted((p for p in points if p.method == name), key=lambda p: p.epsilon)
        lines.append(
            {
                "method": name,
                "sound": name not in unsound,
                "epsilon": [p.epsilon for p in of_method],
                **{
                    figure: {
                        "mean": [p.mean[figure] for p in of_method],
                        "least": [p.least[figure] for p in of_method],
                        "most": [p.most[figure] for p in of_method],
                    }
                    for figure in DRAWN
                },
            }
        )
    return {"lines": lines, "slots": _slots(inputs.slots, names), "boxes": _boxes(inputs.boxes, names)}


def _slots(slots: ComparedSlots | None, names: list[str]) -> dict[str, Any] | None:
    if slots is None:
        return None
    starts = local_times(slots.slot_starts)
    series = {"zonePeople": slots.zone_people, "mre": slots.mre, "emd_m": slots.emd_m}
    for of_method in series.values():
        for name, values in of_method.items():
            if np.shape(values) != (len(starts),):
                raise PlanError(
                    "compare-slots",
                    f"there must be one value per slot; got {list(np.shape(values))} of {name} "
                    f"for {len(starts)} slots.",
                    "Pass series over the slots given.",
                )
    return {
        "epsilon": slots.epsilon,
        "zone": slots.zone,
        "slotLabels": [slot_label(start) for start in starts],
        "slotWord": slot_word(starts),
        "dayTicks": day_ticks(starts),
        "zoneExact": slots.zone_exact,
        **{
            key: [
                [name, of_method[name]]
                for name in (*names, *set(of_method).difference(names))
                if name in of_method
            ]
            for key, of_method in series.items()
        },
    }


def _boxes(
    boxes: Sequence[tuple[str, float, BoxFigures, BoxFigures]], names: list[str]
) -> list[dict[str, Any]]:
    """Box plots, ordered by epsilon and then as the legend."""
    place = {name: i for i, name in enumerate(names)}
    ordered = sorted(boxes, key=lambda box: (place.get(box[0], len(names)), box[1]))
    return [
        {"method": method, "epsilon": epsilon, "mre": asdict(mre), "pc": asdict(pc)}
        for method, epsilon, mre, pc in ordered
    ]


CHANCE = (
    "With one repetition the difference between two close methods may be random. "
    "`--repetitions 10` runs each ten times and shows the mean, and on the page how far the runs lie apart."
)


def compare_subtitle(words: str, points: list[ComparedPoint]) -> str:
    """Methods, data and repetitions of a comparison."""
    repeated = {point.repetitions for point in points}
    least, most = min(repeated), max(repeated)
    often = f"{least}" if least == most else f"{least} to {most}"
    times = (
        f"mean of {often} repetitions; bars show the smallest and the largest" if most > 1 else "one run each"
    )
    return f"{words}. {times[0].upper()}{times[1:]}." if words else f"{times[0].upper()}{times[1:]}."


def means(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per method and epsilon: the mean of each figure over its repetitions."""
    first = {(run.method, run.set_at): run for run in reversed(comparison.runs)}
    return [
        {
            "method": point.method,
            "set_at": point.epsilon,
            "epsilon": first[point.method, point.epsilon].epsilon,
            "delta": first[point.method, point.epsilon].delta,
            "repetitions": point.repetitions,
            **point.mean,
        }
        for point in compared_points(_rows(comparison))
    ]


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    return [{**asdict(run), "epsilon": run.set_at} for run in comparison.runs]


def comparison_json(world: World, plan: ComparePlan, comparison: Comparison) -> dict[str, Any]:
    """All that was compared, as plain values; methods for comparison only have no epsilon."""
    return {
        "on_private_data": world.private,
        "what": world.subtitle,
        "users": world.users,
        "warnings": list(world.warnings),
        "assumptions": list(world.assumptions),
        "seeded": plan.seed is not None,
        "methods": [
            {
                "name": name,
                "kind": "release" if any_method(name).sound else "comparison",
                "set_by_epsilon": any_method(name).set_by_epsilon,
                "words": any_method(name).summary,
                "guarantee": comparison.guarantees[name],
            }
            for name in plan.methods
        ],
        "means": means(comparison),
        "runs": [asdict(run) for run in comparison.runs],
    }


def write_comparison(
    folder: Path, world: World, plan: ComparePlan, comparison: Comparison
) -> tuple[Path, Path]:
    """compare.html and compare.json in `folder`, readable by the owner alone; earlier ones are replaced."""
    folder = open_owner_folder(folder)
    page, figures = folder / "compare.html", folder / "compare.json"
    figures_json = comparison_json(world, plan, comparison)
    try:
        write_page(page, compare_report_html(_inputs(world, plan, comparison)))
        with private_file(figures, text=True) as file:
            json.dump(figures_json, file, indent=2)
    except OSError as error:
        raise unwritable(folder, error) from error
    return page, figures


def _inputs(world: World, plan: ComparePlan, comparison: Comparison) -> CompareReportInputs:
    return CompareReportInputs(
        title="Density methods compared",
        subtitle=world.subtitle,
        rows=_rows(comparison),
        methods=tuple(_method(name, comparison.guarantees) for name in plan.methods),
        warnings=world.warnings,
        assumptions=world.assumptions,
        on_private_data=world.private,
        slots=_compared_slots(world, comparison),
        boxes=comparison.boxes,
    )


def _method(name: str, guarantees: Mapping[str, str]) -> ComparedMethod:
    method = any_method(name)
    return ComparedMethod(name=name, words=method.summary, guarantee=guarantees[name], sound=method.sound)


def _compared_slots(world: World, comparison: Comparison) -> ComparedSlots:
    """The busiest zone's series, and errors by slot."""
    busiest = int(np.argmax(comparison.exact.sum(axis=1)))
    setting = world.counting.setting
    return ComparedSlots(
        epsilon=comparison.shown_epsilon,
        slot_starts=setting.clock.starts_local(),
        zone=world.zones.names[busiest],
        zone_exact=comparison.exact[busiest],
        zone_people={name: people[busiest] for name, people in comparison.shown.items()},
        mre={name: _by_slot(comparison.exact, people) for name, people in comparison.shown.items()},
    )


def _by_slot(exact: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Relative error of each slot: mean over zones with people; zeros where there are none."""
    visited = exact.sum(axis=1) > 0
    if not visited.any():
        return np.zeros(exact.shape[1])
    return relative_errors(exact[visited], people[visited]).mean(axis=0)
