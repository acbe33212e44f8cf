"""Methods compared: utility against epsilon, drawn and tabled on one page that opens offline.

Drawn from plain rows, as a benchmark or a comparison writes them. Optional parts: the series of one zone as
each method gives it, error by slot, and box plots over zones (figures 3 to 10 of Acs and Castelluccia 2014).

The words and tables of a comparison, as escaped HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.metrics.density import BoxFigures
from shoal.release.page.page import asset, fill, json_for_script, local_times, plotly_js, scripts, write_page
from shoal.release.page.payload import day_ticks, slot_label, slot_word
from shoal.release.page.tables import metres, number, people, percent, table, text

FIGURES = ("mre", "pc", "emd_m", "bias", "mae", "coverage")
SCRIPTS = ("format.js", "plot.js", "compare.js")
RAW_BANNER = "Owner's eyes only: contains figures computed on raw data. Do not publish."
SIMULATED_BANNER = "Computed on a simulated city: nothing here comes from private data."


@dataclass(frozen=True, kw_only=True)
class ComparedMethod:
    """What a reader must know of a method beside its figures."""

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


def write_compare_report(path: Path, inputs: CompareReportInputs) -> Path:
    """Write the comparison to `path` (readable by the owner alone) and return the path."""
    return write_page(Path(path), compare_report_html(inputs))


def compare_report_html(inputs: CompareReportInputs) -> str:
    """The whole page as text."""
    points = compared_points(inputs.rows)
    order = [method.name for method in inputs.methods]
    names = [*dict.fromkeys([*order, *(point.method for point in points)])]
    names = [name for name in names if any(point.method == name for point in points)]
    unsound = {method.name for method in inputs.methods if not method.sound}
    private = inputs.on_private_data
    return fill(
        asset("compare.html"),
        {
            "title": text(inputs.title),
            "css": asset("report.css"),
            "banner": text(RAW_BANNER if private else SIMULATED_BANNER),
            "banner_class": "banner" if private else "banner simulated",
            "subtitle": compare_subtitle(inputs.subtitle, points),
            "warnings": paragraphs(inputs.warnings, "notice"),
            "chance": chance_note(points),
            "assumptions": paragraphs(inputs.assumptions, "assumption"),
            "figures": figures_table(points, names, unsound),
            "methods": methods_table(inputs.methods),
            "payload": json_for_script(_payload(inputs, points, names)),
            "plotly": plotly_js(),
            "script": scripts(*SCRIPTS),
        },
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
    found = [row.get(name) for row in group]
    return [float(value) for value in found if value is not None and isfinite(float(value))]


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
                    for figure in FIGURES
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


NOTHING = "-"
CHANCE = (
    "With one repetition the difference between two close methods may be chance. "
    "`--repetitions 10` runs each ten times and shows the mean, and on the page how far the runs lie apart."
)


def compare_subtitle(words: str, points: list[ComparedPoint]) -> str:
    """What was compared, on what, how often."""
    repeated = {point.repetitions for point in points}
    least, most = min(repeated), max(repeated)
    often = f"{least}" if least == most else f"{least} to {most}"
    times = (
        f"mean of {often} repetitions; bars show the smallest and the largest" if most > 1 else "one run each"
    )
    return text(f"{words}. {times[0].upper()}{times[1:]}." if words else f"{times[0].upper()}{times[1:]}.")


def chance_note(points: list[ComparedPoint]) -> str:
    """What one run cannot tell; nothing where every method was run more than once."""
    return paragraphs([CHANCE] if min(point.repetitions for point in points) == 1 else [], "notice")


def paragraphs(lines: Iterable[str], kind: str) -> str:
    return "".join(f'<p class="{kind}">{text(line)}</p>' for line in lines)


def figures_table(points: list[ComparedPoint], names: list[str], unsound: set[str]) -> str:
    """One row per epsilon and method: all figures. An `unsound` method does not have its epsilon: marked."""
    head = [
        "Set at epsilon",
        "Method",
        "Relative error (MRE)",
        "Correlation (PC)",
        "EMD",
        "Bias of the total",
        "Off by (people)",
        "Covered",
        "Runs",
    ]
    place = {name: i for i, name in enumerate(names)}
    rows = []
    for point in sorted(points, key=lambda point: (point.epsilon, place[point.method])):
        mre, pc, emd, bias = (point.mean[name] for name in ("mre", "pc", "emd_m", "bias"))
        mae, coverage = point.mean["mae"], point.mean["coverage"]
        rows.append(
            [
                number(point.epsilon),
                point.method + (" (comparison only)" if point.method in unsound else ""),
                NOTHING if mre is None else percent(mre),
                NOTHING if pc is None else f"{pc:.3f}",
                NOTHING if emd is None else metres(emd),
                NOTHING if bias is None else percent(bias, signed=True),
                NOTHING if mae is None else people(mae),
                NOTHING if coverage is None else percent(coverage),
                number(point.repetitions),
            ]
        )
    return table(head, rows, numeric_from=2)


def methods_table(methods: Iterable[ComparedMethod]) -> str:
    """What each method does and what it truly promises; nothing where none were described."""
    rows = [
        [method.name, method.words, method.guarantee, "release" if method.sound else "comparison only"]
        for method in methods
    ]
    if not rows:
        return ""
    head = ["Method", "What it does", "What it promises", "For"]
    return f'<h2>The methods</h2><div class="whole-names">{table(head, rows)}</div>'
