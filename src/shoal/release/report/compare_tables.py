"""The words and tables of a comparison, as escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shoal.release.report.tables import metres, number, people, percent, table, text

if TYPE_CHECKING:
    from shoal.release.report.compare import ComparedMethod, ComparedPoint

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
