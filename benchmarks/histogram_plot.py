"""Pictures of the histogram benchmark as SVG: error against epsilon and resolution, and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.histogram_cells import METHODS, UNIFORM
from benchmarks.histogram_cost import BOXES_RELEASE, DQAM, EXACT, READ
from benchmarks.histogram_means import Cell
from benchmarks.histogram_rows import Row
from benchmarks.trajectories_plot import Chart, charts_svg

ORDER = ("boxes", "dqam", "prish", "mwem", "dawa", "laplace")  # colours go by place


def epsilon_plot(cells: Sequence[Cell], path: Path) -> Path:
    """One data set: a chart per number of trips, a line per method."""
    charts = []
    for n in sorted({cell.n for cell in cells}):
        here = [cell for cell in cells if cell.n == n]
        charts.append(
            Chart(
                title=f"{n:,} trips",
                x_title="epsilon",
                y_title="mean absolute error, unseen",
                lines=_errors(here, lambda cell: cell.epsilon or 0.0),
            )
        )
    return _write(path, charts)


def resolution_plot(cells: Sequence[Cell], path: Path) -> Path:
    chart = Chart(
        title="100,000 cab trips, epsilon 0.1",
        x_title="cells along a side",
        y_title="mean absolute error, unseen",
        lines=_errors(cells, lambda cell: float(cell.resolution)),
    )
    return _write(path, [chart])


def cost_plot(rows: Sequence[Row], path: Path, *, resolution: int, trips: int) -> Path:
    """Seconds and memory against trips at one resolution; seconds against resolution."""
    by_trips = [row for row in rows if row["resolution"] == resolution]
    by_side = [row for row in rows if row["wanted_trips"] == trips]
    charts = [
        Chart(
            title=f"Time, {resolution} x {resolution}",
            x_title="trips",
            y_title="seconds",
            lines=_steps(by_trips, "n", "seconds"),
        ),
        Chart(
            title=f"Memory, {resolution} x {resolution}",
            x_title="trips",
            y_title="GB at most",
            lines=_steps(by_trips, "n", "peak_gb"),
        ),
        Chart(
            title=f"Time, about {trips:,} trips",
            x_title="cells along a side",
            y_title="seconds",
            lines=_steps(by_side, "resolution", "seconds"),
        ),
    ]
    return _write(path, charts)


def _errors(cells: Iterable[Cell], x: Callable[[Cell], float]) -> dict[str, list[tuple[float, float]]]:
    cells = list(cells)
    lines = {
        name: sorted((x(cell), cell.mean(name)) for cell in cells if name in cell.figures)
        for name in (*ORDER, UNIFORM)
        if name == UNIFORM or name in METHODS
    }
    return {name: points for name, points in lines.items() if points}


def _steps(rows: Iterable[Row], x: str, y: str) -> dict[str, list[tuple[float, float]]]:
    rows = list(rows)
    lines = {
        step: sorted((float(row[x]), float(row[y])) for row in rows if row["method"] == step and row[y])
        for step in (READ, EXACT, DQAM, BOXES_RELEASE)
    }
    return {step: points for step, points in lines.items() if points}


def _write(path: Path, charts: Sequence[Chart]) -> Path:
    path.write_text(charts_svg(charts), "utf-8")
    return path
