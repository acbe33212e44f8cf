"""The words and tables of the report, as escaped HTML made from the manifest and the figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from html import escape
from typing import Any

from shoal.metrics.density import BoxFigures, DensityUtility
from shoal.privacy.guarantee import promise as promise_of
from shoal.release.manifest import is_tuned

UNDEFINED = "not defined"
BUDGET_LABELS = {
    "population": "Population",
    "currency": "Currency",
    "limit": "Lifetime budget",
    "spent_before": "Spent before",
    "this_release": "This release",
    "left": "Left",
}
LIST_SHOWN = 12


def text(value: Any) -> str:
    """Anything as HTML text, never as HTML.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return escape(value if isinstance(value, str) else number(value), quote=True)


def number(value: Any) -> str:
    """A number as a reader writes it: 1,234,567; 0.0123; 1e-06.

    >>> number(1234567), number(0.012345678), number(1e-6), number(None), number(True)
    ('1,234,567', '0.0123457', '1e-06', 'none', 'yes')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if math.isnan(value):
            return UNDEFINED
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:,.6g}"
    return str(value)


def percent(share: float, signed: bool = False) -> str:
    """A share in percent, with as many decimals as it deserves.

    >>> percent(0.1234), percent(0.00123), percent(-0.02, signed=True), percent(float("nan"))
    ('12.3 %', '0.12 %', '-2.0 %', 'not defined')
    """
    if math.isnan(share):
        return UNDEFINED
    value = 100 * share
    if value == 0:
        return "0 %"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2
    return f"{value:{'+' if signed else ''},.{decimals}f} %"


def people(value: float) -> str:
    """People: one decimal below 100, whole numbers above.

    >>> people(0.0), people(12.34), people(1234.5)
    ('0', '12.3', '1,234')
    """
    if math.isnan(value):
        return UNDEFINED
    return f"{value:,.1f}" if 0 < abs(value) < 100 else f"{value:,.0f}"


def metres(value: float) -> str:
    """Metres, one decimal below 100.

    >>> metres(12.34), metres(1234.5), metres(float("nan"))
    ('12.3 m', '1,234 m', 'not defined')
    """
    return UNDEFINED if math.isnan(value) else f"{people(value)} m"


def guarantee_sentence(manifest: dict[str, Any]) -> str:
    """The guarantee in one plain sentence; the manifest's own sentence where it has one."""
    promise = manifest.get("promise")
    if isinstance(promise, str) and promise.strip():
        return text(promise)
    guarantee = manifest.get("guarantee") or {}
    epsilon, delta = guarantee.get("epsilon"), guarantee.get("delta")
    if not isinstance(epsilon, int | float):
        return "The manifest states no differential privacy guarantee for this release."
    unit = guarantee.get("unit") or manifest.get("unit") or "unit"
    return text(promise_of(epsilon, float(delta or 0), str(unit)))


def subtitle(manifest: dict[str, Any], starts: list[datetime], utility: DensityUtility) -> str:
    """Where, when, how much: one line under the title."""
    first, last = starts[0], starts[-1]
    window = f"{first:%a} {first.day} {first:%b %Y, %H:%M} to {last:%a} {last.day} {last:%b %Y, %H:%M}"
    parts = [
        f"{utility.zones:,} zone{'s' if utility.zones != 1 else ''}",
        f"{utility.slots:,} time slot{'s' if utility.slots != 1 else ''}",
        f"slots starting {window}" if utility.slots > 1 else f"slot starting {window.split(' to ')[0]}",
    ]
    if manifest.get("population"):
        parts.insert(0, f"population {_short(manifest['population'])}")
    if manifest.get("created"):
        parts.append(f"released {_when(manifest['created'])}")
    return " &middot; ".join(text(part) for part in parts)


def key_figures(manifest: dict[str, Any], utility: DensityUtility) -> str:
    """The row of tiles on top."""
    tiles = [
        ("Guarantee", *_guarantee_tile(manifest.get("guarantee") or {})),
        ("Mean relative error", percent(utility.mean_relative_error), "mean over zones and slots"),
        ("Correlation", _plain(utility.pearson, "{:.3f}"), "Pearson, mean over zones"),
        ("Mean absolute error", f"{people(utility.mean_absolute_error)} people", "per zone and slot"),
        ("Bias of the city total", percent(utility.total_bias_share, signed=True), "released against raw"),
    ]
    if utility.emd_m is not None:
        tiles.append(("Map error (EMD)", metres(utility.emd_m), "people moved, mean over slots"))
    if utility.coverage is not None:
        tiles.append(("95 % intervals hold", percent(utility.coverage), "of the raw values"))
    return "".join(
        f'<div class="tile"><dt>{text(name)}</dt><dd>{text(value)}</dd><p>{text(note)}</p></div>'
        for name, value, note in tiles
    )


def _guarantee_tile(guarantee: dict[str, Any]) -> tuple[str, str]:
    epsilon, delta, rho = (guarantee.get(name) for name in ("epsilon", "delta", "rho"))
    if epsilon is None:
        return "none", "not differentially private"
    small = f"delta {number(float(delta))}" if delta else "delta 0 (pure)"
    return f"ε = {number(float(epsilon))}", small + (f", rho {number(float(rho))}" if rho is not None else "")


def notices(manifest: dict[str, Any], utility: DensityUtility, slots_drawn: int) -> str:
    """What a reader must know before trusting a picture; empty when there is nothing."""
    lines = []
    if manifest.get("reproducible"):
        lines.append(
            "The noise of this run was seeded: it can be computed again, and the run must not be published."
        )
    if is_tuned(manifest.get("tuned_on_private_data")):
        lines.append(
            "A parameter of this plan was chosen by looking at private data; the guarantee leaves that out."
        )
    if utility.exact_total == 0:
        lines.append(
            "Nobody was seen in any zone in this window: relative errors and correlations are not defined."
        )
    elif utility.zones_without_people:
        lines.append(
            f"{utility.zones_without_people:,} of {utility.zones:,} zones had nobody in the whole window. "
            "They have no relative error and are left out of its mean; on average "
            f"{people(utility.released_in_empty_zones)} people per slot were released there."
        )
    if utility.clear_share is not None and utility.clear_share < 0.5:
        lines.append(
            f"Mostly noise: only {percent(utility.clear_share)} of the released counts stand clear of it "
            "(their interval leaves zero out). Larger zones or slots, or a larger epsilon, would help."
        )
    if slots_drawn < utility.slots:
        lines.append(
            f"The map and the series show the first {slots_drawn:,} of {utility.slots:,} slots, to keep "
            "this file small. All error figures cover all slots."
        )
    return "".join(f'<p class="notice">{text(line)}</p>' for line in lines)


def emd_note(utility: DensityUtility) -> str:
    """What the distance between maps is, and on how many slots it was computed."""
    what = (
        "EMD, the earth mover's distance: how far the average person must be moved to turn the released map "
    )
    what += "into the raw one, both as shares of their totals."
    if utility.emd_m is None or utility.by_slot.mean_emd_m is None:
        return text(what + " Not computed here: no zone centres were given, or there are too many zones.")
    if utility.emd_slots != utility.slots:
        what += f" Computed on {utility.emd_slots:,} of {utility.slots:,} slots: where both maps have people"
        what += ", and evenly spaced ones of a long window."
    return text(what)


def error_table(utility: DensityUtility) -> str:
    """Error figures over zones: mean and the figures of the box plots."""
    formats = {
        "mre": ("Relative error", percent),
        "mae": ("Absolute error (people)", people),
        "pearson": ("Correlation (Pearson)", lambda value: _plain(value, "{:.3f}")),
        "bias": ("Bias of the zone's total", lambda value: percent(value, signed=True)),
        "coverage": ("Raw values inside the interval", percent),
    }
    rows = []
    for key, (label, form) in formats.items():
        box = utility.boxes.get(key)
        if box is not None:
            rows.append([label, f"{box.count:,}", *(form(value) for value in _box_row(box))])
    head = ["Per zone", "Zones", "Mean", "Lower quartile", "Median", "Upper quartile"]
    lines = [
        f"Raw total over all zones and slots: {people(utility.exact_total)}; released: "
        f"{people(utility.released_total)} ({percent(utility.total_bias_share, signed=True)}).",
    ]
    if not math.isnan(utility.slot_total_bias_share_mean):
        share = percent(utility.slot_total_bias_share_mean)
        lines.append(f"City total of a single slot: off by {share} on average.")
    if utility.emd_m is not None:
        lines.append(f"Distance between the raw and the released map: {metres(utility.emd_m)} on average.")
    if utility.interval_width_mean is not None:
        lines.append(f"Mean width of an interval: {people(utility.interval_width_mean)} people.")
    if utility.zones_flat:
        lines.append(f"Zones with a flat raw series, hence no correlation: {utility.zones_flat:,}.")
    return table(head, rows, numeric_from=1) + f"<p>{text(' '.join(lines))}</p>"


def budget_table(budget: dict[str, Any]) -> str:
    """The population's budget before and after, with a bar where the figures are numbers."""
    if not budget:
        return '<p class="empty">No budget was recorded: this run was not charged to a population.</p>'
    keys = [
        *(key for key in BUDGET_LABELS if key in budget),
        *(key for key in budget if key not in BUDGET_LABELS),
    ]
    rows = [[BUDGET_LABELS.get(key, words(key)), _short(budget[key])] for key in keys]
    return _budget_bar(budget) + table(["Budget", "Value"], rows, numeric_from=1)


def spends_table(manifest: dict[str, Any]) -> str:
    """What each named share of the budget paid for."""
    spends = [spend for spend in manifest.get("spends") or [] if isinstance(spend, dict)]
    if not spends:
        return '<p class="empty">The manifest lists no spends.</p>'
    columns = list(dict.fromkeys(key for spend in spends for key in spend))
    rows = [[_short(spend.get(key, "")) for key in columns] for spend in spends]
    amounts = columns.index("rho") if "rho" in columns else None
    return f'<div class="whole-names">{table([words(column) for column in columns], rows, amounts)}</div>'


def plan_table(manifest: dict[str, Any]) -> str:
    """Everything that was given by the owner and is public, as in the manifest."""
    public = manifest.get("public") or {}
    rows = [[words(path), value] for path, value in flat(public)]
    if not public:
        return '<p class="empty">The manifest lists nothing public.</p>'
    return f'<div class="plan">{table(["Public parameter", "Value"], rows)}</div>'


def _budget_bar(budget: dict[str, Any]) -> str:
    shares = []
    try:
        limit = float(budget["limit"])
        for key in ("spent_before", "this_release"):
            shares.append(min(100.0, max(0.0, 100 * float(budget[key]) / limit)))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return ""
    return (
        '<div class="bar" role="img" aria-label="Share of the budget spent">'
        f'<span class="before" style="width:{shares[0]:.2f}%"></span>'
        f'<span class="now" style="width:{shares[1]:.2f}%"></span></div>'
        f'<p class="bar-key"><i class="before"></i> spent before {shares[0]:.1f} % '
        f'<i class="now"></i> this release {shares[1]:.1f} % <i></i> left</p>'
    )


def table(head: list[str], rows: Iterable[list[str]], numeric_from: int | None = None) -> str:
    """A table of escaped texts; columns from `numeric_from` on are set to the right."""

    def cell(tag: str, column: int, value: str) -> str:
        mark = ' class="num"' if numeric_from is not None and column >= numeric_from else ""
        return f"<{tag}{mark}>{text(value)}</{tag}>"

    top = "".join(cell("th", column, name) for column, name in enumerate(head))
    body = "".join(f"<tr>{''.join(cell('td', c, value) for c, value in enumerate(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def flat(value: Any, path: str = "") -> Iterable[tuple[str, str]]:
    """Nested parameters as rows; keys joined by a point."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, _short(value)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{words(str(key))} {_short(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        shown = ", ".join(_short(item) for item in value[:LIST_SHOWN])
        return shown + (f" ... ({len(value):,} in all)" if len(value) > LIST_SHOWN else "") or "none"
    return number(value)


def _when(created: Any) -> str:
    try:
        moment = datetime.fromisoformat(str(created))
    except ValueError:
        return str(created)
    return f"{moment.day} {moment:%b %Y}"


def words(key: str) -> str:
    return key.replace("_", " ").replace(".", ": ")


def _plain(value: float, form: str) -> str:
    return UNDEFINED if math.isnan(value) else form.format(value)


def _box_row(box: BoxFigures) -> tuple[float, float, float, float]:
    return box.mean, box.q1, box.median, box.q3
