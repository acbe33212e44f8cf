"""Cells of the histogram tables: means over repetitions, and ours against the best sound other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.histogram_cells import METHODS
from benchmarks.histogram_rows import Row

OURS = "boxes"
NEVER_ABOVE = 1.05
COLUMNS = ("mae_given", "mae_unseen", "kld", "violations", "seconds", "peak_gb", "mean_true")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All methods in one setting."""

    data: str
    unit: str
    per_unit: int
    cap: int | None
    n: int
    resolution: int
    epsilon: float | None
    figures: dict[str, dict[str, float]] = field(repr=False)  # method, column

    def mean(self, method: str, column: str = "mae_unseen") -> float:
        return self.figures[method][column]

    @property
    def best_other(self) -> str | None:
        others = [name for name in METHODS if name != OURS and name in self.figures]
        return min(others, key=self.mean) if others else None

    @property
    def ratio(self) -> float | None:
        """Of our error to that of the best sound other."""
        other = self.best_other
        return self.mean(OURS) / self.mean(other) if other and OURS in self.figures else None

    def wanted(self, every: int | None = None) -> float:
        """The most the ratio may be; `every` is the number of all trips of the data set."""
        if self.unit != "trip" or self.resolution != 256:
            return NEVER_ABOVE
        if self.n == 1_000:
            return 0.6
        if self.n == 100_000:
            return 0.3
        large = self.data == "sf" and self.n == every and (self.epsilon or 0) >= 0.1
        return 0.15 if large else NEVER_ABOVE


def cells_of(rows: Iterable[Row], *, trips: str = "declared", delta: float | None = None) -> list[Cell]:
    """By data, unit, trips, resolution and epsilon; rows without an epsilon are in every cell of their trips.

    `trips`: where their number was declared, or where it was bought.
    """
    runs = [row for row in rows if "part" not in row and row.get("delta") == delta and row["trips"] == trips]
    groups: dict[tuple, list[Row]] = {}
    for row in runs:
        groups.setdefault((*_place(row), row["epsilon"]), []).append(row)
    cells = []
    for (*place, epsilon), here in groups.items():
        if epsilon is None:
            continue
        here = here + groups.get((*place, None), [])
        names = ("data", "unit", "per_unit", "cap", "n", "resolution")
        cells.append(
            Cell(**dict(zip(names, place, strict=True)), epsilon=epsilon, figures=_figures(here))  # type: ignore[arg-type]
        )
    return sorted(cells, key=_order)


def _order(cell: Cell) -> tuple:
    return cell.data, cell.unit, cell.n, cell.resolution, cell.cap or 0, cell.epsilon


def means_by_method(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Of rows of one setting."""
    return _figures(rows)


def _place(row: Row) -> tuple:
    return row["data"], row["unit"], row["per_unit"], row["cap"], row["n"], row["resolution"]


def _figures(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        here = [row for row in rows if row["method"] == name]
        found[name] = {
            column: float(np.mean([row[column] for row in here]))
            for column in COLUMNS
            if all(row.get(column) is not None for row in here)
        }
        found[name]["runs"] = float(len(here))
    return found
