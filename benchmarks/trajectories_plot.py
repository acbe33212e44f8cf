"""Pictures of the trajectory benchmarks as SVG: time of a merge, time of a release, granularity against tau.

Rows are plain dicts as the benchmarks write them. A row without a figure is left out of that figure's line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 46
LEGEND_LINE = 17
MOST_TICKS, LEAST_APART = 8, 34  # where an axis is marked at the values themselves; pixels
STYLE = "text { font: 11px sans-serif; fill: #333 } .title { font-weight: bold; font-size: 12px }"
# Told apart without red-green vision (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#a06a00", "#000000", "#7a7a7a")
PAPER_SPACE_KM, PAPER_TIME_MIN, PAPER_SUPPRESSED = (1.0, 3.0), (0.0, 45.0), (1.0, 7.0)

Row = Mapping[str, Any]
Lines = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Named lines over a logarithmic x; y logarithmic too, or from 0. A band is a published range."""

    title: str
    x_title: str
    y_title: str
    lines: Lines
    log_y: bool = True
    band: tuple[float, float] | None = None
    guide: bool = False  # a dotted line on which twice the size costs twice the time


def merge_plot(rows: Iterable[Row], path: Path) -> Path:
    """Time of one k-merge against its samples; rows `k`, `samples` (in all), `seconds`, perhaps `data`."""
    lines = _lines(rows, lambda row: f"k = {row['k']}{_of(row)}", "samples", "seconds", unit=1e-3)
    chart = Chart(
        title="Time of one k-merge",
        x_title="samples in all",
        y_title="milliseconds",
        lines=lines,
        guide=True,
    )
    return _write(path, [chart])


def growth_plot(rows: Sequence[Row], path: Path) -> Path:
    """Seconds and memory against users; rows `users`, `seconds`, and perhaps `verify_seconds`, `peak_gb`."""
    seconds = {
        name: points
        for column, name in (("seconds", "release"), ("verify_seconds", "verification"))
        for points in [_lines(rows, lambda _: "", "users", column).get("", [])]
        if points
    }
    charts = [Chart(title="Time", x_title="users", y_title="seconds", lines=seconds, guide=True)]
    memory = _lines(rows, lambda _: "memory", "users", "peak_gb")
    if memory:
        charts.append(Chart(title="Memory", x_title="users", y_title="GB at most", lines=memory))
    return _write(path, charts)


def tau_plot(rows: Sequence[Row], path: Path) -> Path:
    """Median space, median time and share suppressed against tau, one line per `data` (and `method`).

    Rows `tau_min`, `median_space_m`, `median_time_min`, `suppressed` (a share). Grey: the published ranges.
    """
    figures = (
        ("Median space", "km, width + height", "median_space_m", 1000.0, PAPER_SPACE_KM),
        ("Median time", "minutes", "median_time_min", 1.0, PAPER_TIME_MIN),
        ("Suppressed", "% of samples", "suppressed", 0.01, PAPER_SUPPRESSED),
    )
    charts = [
        Chart(
            title=title,
            x_title="tau, minutes",
            y_title=words,
            lines=_lines(rows, _name, "tau_min", column, unit=unit),
            log_y=False,
            band=band,
        )
        for title, words, column, unit, band in figures
    ]
    return _write(path, charts)


def charts_svg(charts: Sequence[Chart]) -> str:
    """All charts in one row, one legend below."""
    names = list(dict.fromkeys(name for chart in charts for name in chart.lines))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    notes = [(name, colour[name], "") for name in names if name]
    if any(chart.band for chart in charts):
        notes.append(("range published by Gramaglia et al. 2017", "#d9dde1", 'stroke-width="9"'))
    if any(chart.guide for chart in charts):
        notes.append(("linear growth", "#777", 'stroke-dasharray="2 4"'))
    width, height = WIDTH * len(charts), HEIGHT + LEGEND_LINE * len(notes) + 8
    drawn = [_chart(chart, i * WIDTH, colour) for i, chart in enumerate(charts)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">\n<style>{STYLE}</style>\n'
        '<rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join([*drawn, _legend(notes)])
        + "\n</svg>\n"
    )


def _write(path: Path, charts: Sequence[Chart]) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(charts_svg(charts), "utf-8")
    return path


def _lines(rows: Iterable[Row], name: Callable[[Row], str], x: str, y: str, *, unit: float = 1.0) -> Lines:
    lines: Lines = {}
    for row in rows:
        if row.get(x) and row.get(y) is not None:
            lines.setdefault(name(row), []).append((float(row[x]), float(row[y]) / unit))
    return {each: sorted(points) for each, points in lines.items()}


def _of(row: Row) -> str:
    return f", {row['data']}" if row.get("data") else ""


def _name(row: Row) -> str:
    return ", ".join(str(row[part]) for part in ("data", "method") if row.get(part))


def _chart(chart: Chart, left: float, colour: Mapping[str, str]) -> str:
    points = [point for line in chart.lines.values() for point in line]
    parts = [f'<text class="title" x="{left + 12}" y="18">{escape(chart.title)}</text>']
    if not points:
        return "\n".join([*parts, f'<text x="{left + LEFT}" y="{HEIGHT / 2}">nothing measured</text>'])
    x_of, x_ticks = _log_axis([x for x, _ in points], left + LEFT, left + WIDTH - RIGHT, at_values=True)
    y_values = [y for _, y in points]
    if chart.log_y:
        y_of, y_ticks = _log_axis([y for y in y_values if y > 0] or [1.0], HEIGHT - BOTTOM, TOP)
    else:
        y_of, y_ticks = _plain_axis(max([*y_values, *(chart.band or ())]), HEIGHT - BOTTOM, TOP)
    if chart.band:
        low, high = (y_of(end) for end in chart.band)
        size = f'width="{WIDTH - LEFT - RIGHT}" height="{low - high:.1f}"'
        parts.append(f'<rect x="{left + LEFT}" y="{high:.1f}" {size} fill="#e6e9ec"/>')
    parts += _frame(chart, left, x_of, x_ticks, y_of, y_ticks)
    if chart.guide:
        parts += [_guide(line, x_of, y_of) for line in chart.lines.values() if line[0][1] > 0]
    for name, line in chart.lines.items():
        parts += _line([(x_of(x), y_of(y)) for x, y in line if y > 0 or not chart.log_y], colour[name])
    return "\n".join(parts)


def _frame(chart: Chart, left: float, x_of, x_ticks, y_of, y_ticks) -> list[str]:
    right, low, middle = left + WIDTH - RIGHT, HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2
    parts = []
    for tick in y_ticks:
        y = y_of(tick)
        parts.append(f'<line x1="{left + LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#d5dae0"/>')
        parts.append(f'<text x="{left + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    for tick in x_ticks:
        x = x_of(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{low}" x2="{x:.1f}" y2="{low + 5}" stroke="#999"/>')
        parts.append(f'<text x="{x:.1f}" y="{low + 18}" text-anchor="middle">{_short(tick)}</text>')
    parts.append(f'<line x1="{left + LEFT}" y1="{low}" x2="{right}" y2="{low}" stroke="#999"/>')
    centre = left + (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{centre}" y="{low + 36}" text-anchor="middle">{escape(chart.x_title)}</text>')
    at = f"{left + 15},{middle}"
    parts.append(
        f'<text x="{left + 15}" y="{middle}" text-anchor="middle" transform="rotate(-90 {at})">'
        f"{escape(chart.y_title)}</text>"
    )
    return parts


def _guide(points: list[tuple[float, float]], x_of, y_of) -> str:
    """From the first point on, growing as fast as x, cut at the frame."""
    x0, y0 = points[0]
    shown = []
    for step in range(101):
        x = x0 * (max(x for x, _ in points) / x0) ** (step / 100)
        if TOP <= y_of(y0 * x / x0) <= HEIGHT - BOTTOM:
            shown.append((x_of(x), y_of(y0 * x / x0)))
    ends = " ".join(f"{x:.1f},{y:.1f}" for x, y in (shown[0], shown[-1])) if shown else ""
    return f'<polyline points="{ends}" fill="none" stroke="#777" stroke-dasharray="2 4"/>'


def _line(at: list[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in at]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _legend(notes: Sequence[tuple[str, str, str]]) -> str:
    parts = []
    for i, (name, colour, more) in enumerate(notes):
        y = HEIGHT + LEGEND_LINE * i
        style = more or 'stroke-width="2"'
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + 28}" y2="{y}" stroke="{colour}" {style}/>')
        parts.append(f'<text x="{LEFT + 36}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join(parts)


def _log_axis(values: list[float], start: float, end: float, at_values: bool = False):
    """Position of a value, and ticks: the values themselves where they are few, else round numbers."""
    low, high = math.log10(min(values)), math.log10(max(values))
    spare = max(0.04 * (high - low), (0.3 - (high - low)) / 2, 0.02)
    low, high = low - spare, high + spare

    def place(value: float) -> float:
        return start + (math.log10(value) - low) / (high - low) * (end - start)

    few = sorted(set(values))
    apart = min((abs(place(b) - place(a)) for a, b in pairwise(few)), default=LEAST_APART)
    if at_values and len(few) <= MOST_TICKS and apart >= LEAST_APART:
        return place, few
    factors = (1,) if high - low > 2.6 else (1, 2, 5) if high - low > 0.7 else (1, 1.5, 2, 3, 4, 5, 7)
    ticks = [f * 10.0**p for p in range(math.floor(low), math.ceil(high) + 1) for f in factors]
    return place, [tick for tick in ticks if low <= math.log10(tick) <= high]


def _plain_axis(most: float, start: float, end: float):
    """From 0, ticks at 1, 2 or 5 times a power of ten."""
    high = 1.08 * most if most > 0 else 1.0
    rough = high / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    ticks = [step * i for i in range(int(high / step) + 1)]
    return lambda value: start + value / high * (end - start), ticks


def _short(value: float) -> str:
    """2M, 200k, 168, 12.5, 0.05"""
    for unit, word in ((1e6, "M"), (1e3, "k")):
        if value >= 10_000 and value >= unit:
            return f"{value / unit:.3g}{word}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
