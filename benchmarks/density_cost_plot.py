"""Small line charts on logarithmic axes as one SVG, values written at the points."""

from __future__ import annotations

import math
from dataclasses import dataclass

WIDTH, HEIGHT, MARGIN = 300, 190, 46
STYLE = "text { font: 11px sans-serif; fill: #333 } .title { font-weight: bold; font-size: 12px }"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One line: positive sizes and what they cost."""

    title: str
    points: list[tuple[float, float]]


def cost_svg(panels: list[Panel], columns: int) -> str:
    """All panels in rows of `columns`."""
    rows = math.ceil(len(panels) / columns)
    drawn = [_panel(panel, i % columns * WIDTH, i // columns * HEIGHT) for i, panel in enumerate(panels)]
    size = f'width="{columns * WIDTH}" height="{rows * HEIGHT}"'
    box = f'viewBox="0 0 {columns * WIDTH} {rows * HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _panel(panel: Panel, left: float, top: float) -> str:
    x = _scale([size for size, _ in panel.points], left + MARGIN, left + WIDTH - MARGIN)
    y = _scale([cost for _, cost in panel.points], top + HEIGHT - 36, top + 44, least_span=math.log(4))
    at = [(x(size), y(cost)) for size, cost in panel.points]
    line = " ".join(f"{px:.1f},{py:.1f}" for px, py in at)
    parts = [
        f'<text class="title" x="{left + 12}" y="{top + 18}">{panel.title}</text>',
        f'<line x1="{left + 24}" y1="{top + HEIGHT - 26}" x2="{left + WIDTH - 16}" y2="{top + HEIGHT - 26}" '
        'stroke="#999"/>',
        f'<polyline points="{line}" fill="none" stroke="#2166ac" stroke-width="2"/>',
    ]
    for (px, py), (size, cost) in zip(at, panel.points, strict=True):
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="#2166ac"/>')
        parts.append(f'<text x="{px:.1f}" y="{py - 8:.1f}" text-anchor="middle">{_short(cost)}</text>')
        parts.append(f'<text x="{px:.1f}" y="{top + HEIGHT - 10}" text-anchor="middle">{_short(size)}</text>')
    return "\n".join(parts)


def _scale(values: list[float], start: float, end: float, least_span: float = 0.1):
    """Logarithm of a value to a position; small differences are not blown up."""
    logs = [math.log(value) for value in values]
    low, high = min(logs), max(logs)
    spare = max(0.0, least_span - (high - low)) / 2
    low, high = low - spare, high + spare
    return lambda value: start + (math.log(value) - low) / (high - low) * (end - start)


def _short(value: float) -> str:
    """2M, 200k, 168, 12.5"""
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    if value >= 10_000:
        return f"{value / 1e3:.3g}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
