"""How far the map of people read off the boxes is from the raw one.

Coarse cells of `cell_cells` lattice cells (30 of 100 m: 3 km) and slots of `slot_steps` steps (60 of 1 min).

    raw        X[cell, slot]   number of users with a sample there
    from boxes R[cell, slot]   number of users to expect there if each box stood for one point, drawn evenly
                               from its lattice points: with f the share of a box's lattice points that lie in
                               (cell, slot), a record counts 1 - product over its boxes of (1 - f)

So a box of one lattice point counts as its sample did, two boxes of a record in a cell and slot are not two
users, and what lies across a border is shared by volume. Nothing raw enters R. A box that holds samples of
several cells or slots stands for one point, so presences are lost; boxes of one cell may reach into others,
so presences are added. `total_ratio` is the balance of both and of suppression.

    relative_error    sum |R - X| / sum X: mean absolute error over the mean of X
    total_variation   per slot half the sum over cells of |R / sum R - X / sum X|, the share of people that
                      stand in a wrong cell; mean over slots, weighted by sum X. 1 where a slot lost all.
    total_ratio       sum R / sum X
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.stages.trajectories import Boxes, LatticeSamples

CELL_CELLS = 30
SLOT_STEPS = 60
HOURS = 24
MOST_CELLS = 2**24  # of one slot
WIDEST_CELLS = 2**21  # of a report: a continent; above, it is points gone astray that cost minutes
Six = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
AT_ONCE = 2**22  # values in memory at a time, four arrays of them


@dataclass(frozen=True, kw_only=True)
class DensityError:
    """Errors over the whole window; NaN without samples."""

    relative_error: float
    total_variation: float
    total_ratio: float
    cell_cells: int
    slot_steps: int


@dataclass(frozen=True, kw_only=True)
class CoarseGrid:
    """Cells from the lattice's multiples of `cell_cells`, slots from its step 0."""

    first_x: int  # in coarse cells
    first_y: int
    columns: int
    rows: int
    first_slot: int
    slots: int
    cell_cells: int = CELL_CELLS
    slot_steps: int = SLOT_STEPS

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.slots, self.columns, self.rows

    @classmethod
    def around(
        cls, samples: LatticeSamples, *, cell_cells: int = CELL_CELLS, slot_steps: int = SLOT_STEPS
    ) -> CoarseGrid:
        """The grid that holds all samples, and with them all boxes of a truthful release."""
        if cell_cells < 1 or slot_steps < 1:
            raise PlanError("metric-cell", "a coarse cell and a slot have at least one lattice unit.")
        ends = [
            (int(column.min()) // cell_cells, int(column.max()) // cell_cells) if len(column) else (0, -1)
            for column in (samples.x, samples.y)
        ]
        (west, east), (south, north) = ends
        return cls(
            first_x=west,
            first_y=south,
            columns=east - west + 1,
            rows=north - south + 1,
            first_slot=0,
            slots=-(-samples.steps // slot_steps),
            cell_cells=cell_cells,
            slot_steps=slot_steps,
        )

    def parts(self) -> Iterator[CoarseGrid]:
        """The same cells for some slots at a time, so few that their densities fit in memory."""
        stride = max(1, AT_ONCE // max(self.columns * self.rows, 1))
        for first in range(0, self.slots, stride):
            yield replace(self, first_slot=first, slots=min(stride, self.slots - first))


def density_error(
    samples: LatticeSamples, boxes: Boxes, *, cell_cells: int = CELL_CELLS, slot_steps: int = SLOT_STEPS
) -> DensityError:
    """Density computed from the boxes against the raw one, over the whole window, some slots at a time."""
    grid = CoarseGrid.around(samples, cell_cells=cell_cells, slot_steps=slot_steps)
    _check_area(grid)
    apart = moved = raw_total = released_total = 0.0
    for part in grid.parts():
        raw, released = (each.reshape(part.slots, -1) for each in _both(samples, boxes, part))
        x, r = raw.sum(axis=1), released.sum(axis=1)
        apart += float(np.abs(released - raw).sum())
        raw_total, released_total = raw_total + float(x.sum()), released_total + float(r.sum())
        visited = x > 0
        raw[visited] /= x[visited, None]
        released[r > 0] /= r[r > 0, None]
        wrong = np.where(r > 0, 0.5 * np.abs(released - raw).sum(axis=1), 1.0)
        moved += float((wrong * x)[visited].sum())
    share = 1 / raw_total if raw_total else np.nan
    return DensityError(
        relative_error=apart * share,
        total_variation=moved * share,
        total_ratio=released_total * share,
        cell_cells=cell_cells,
        slot_steps=slot_steps,
    )


def density_or_nan(samples: LatticeSamples, boxes: Boxes) -> DensityError:
    """The same; NaN where a few points far away make the area too wide: a report goes on without."""
    if _cells(CoarseGrid.around(samples)) <= WIDEST_CELLS:
        return density_error(samples, boxes)
    undefined = dict.fromkeys(("relative_error", "total_variation", "total_ratio"), float("nan"))
    return DensityError(**undefined, cell_cells=CELL_CELLS, slot_steps=SLOT_STEPS)


@dataclass(frozen=True, kw_only=True, eq=False)
class HourlyMaps:
    """Mean people per cell and slot by hour of day: float64 [24, columns, rows], raw and from boxes."""

    grid: CoarseGrid
    raw: np.ndarray = field(repr=False)
    released: np.ndarray = field(repr=False)


def hourly_maps(
    samples: LatticeSamples, boxes: Boxes, hour_of_step: np.ndarray, *, cell_cells: int, slot_steps: int
) -> HourlyMaps:
    """Maps of the two densities by the hour in which a slot starts, the mean over its days."""
    grid = CoarseGrid.around(samples, cell_cells=cell_cells, slot_steps=slot_steps)
    _check_area(grid)
    hour = np.asarray(hour_of_step)[:: grid.slot_steps]
    sums = np.zeros((2, HOURS, grid.columns, grid.rows))
    for part in grid.parts():
        of_part = hour[part.first_slot : part.first_slot + part.slots]
        for each, density in enumerate(_both(samples, boxes, part)):
            np.add.at(sums[each], of_part, density)
    sums /= np.maximum(np.bincount(hour, minlength=HOURS), 1)[:, None, None]
    return HourlyMaps(grid=grid, raw=sums[0], released=sums[1])


def raw_density(samples: LatticeSamples, grid: CoarseGrid) -> np.ndarray:
    """float64 [slots, columns, rows]: users with a sample in the cell and slot."""
    return _density(samples.start, (samples.t, samples.t, samples.x, samples.x, samples.y, samples.y), grid)


def box_density(boxes: Boxes, grid: CoarseGrid) -> np.ndarray:
    """float64 [slots, columns, rows]: users to expect in the cell and slot, by the rule above."""
    return _density(boxes.start, boxes.columns[1:], grid)


def _both(samples: LatticeSamples, boxes: Boxes, grid: CoarseGrid) -> tuple[np.ndarray, np.ndarray]:
    """Raw and from boxes, side by side: the kernel lets other threads run."""
    with ThreadPoolExecutor(2) as pool:
        raw, released = pool.submit(raw_density, samples, grid), pool.submit(box_density, boxes, grid)
        return raw.result(), released.result()


def _cells(grid: CoarseGrid) -> int:
    return grid.columns * grid.rows


def _check_area(grid: CoarseGrid) -> None:
    cells = _cells(grid)
    if cells > MOST_CELLS:
        raise PlanError(
            "metric-area",
            f"the samples span {cells:,} coarse cells; a density takes up to {MOST_CELLS:,}.",
            "Check for points far away, or take larger cells.",
        )


def _density(start: np.ndarray, columns: Six, grid: CoarseGrid) -> np.ndarray:
    out = np.zeros(grid.shape)
    absent = np.ones(grid.shape)
    first = np.array([grid.first_slot, grid.first_x, grid.first_y], np.int64)
    size = np.array([grid.slot_steps, grid.cell_cells, grid.cell_cells], np.int64)
    touched = np.empty(1024, np.int64)
    _spread_boxes(start, *columns, first, size, absent, touched, out)
    return out


@njit(cache=True, inline="always")
def _share(low, high, cell, size):
    """Share of low..high, ends included, that lies in a cell."""
    return (min(high, (cell + 1) * size - 1) - max(low, cell * size) + 1) / (high - low + 1)


@njit(cache=True, nogil=True)
def _spread_boxes(start, t0, t1, x0, x1, y0, y1, first, size, absent, touched, out):
    """`absent`: probability that one record is not in a cell; reset to ones after every record."""
    slots, columns, rows = out.shape
    for record in range(len(start) - 1):
        count = 0
        for box in range(start[record], start[record + 1]):
            first_slot = max(t0[box] // size[0], first[0])
            last_slot = min(t1[box] // size[0], first[0] + slots - 1)
            if first_slot > last_slot:
                continue
            first_x, last_x = (
                max(x0[box] // size[1], first[1]),
                min(x1[box] // size[1], first[1] + columns - 1),
            )
            first_y, last_y = max(y0[box] // size[2], first[2]), min(y1[box] // size[2], first[2] + rows - 1)
            for slot in range(first_slot, last_slot + 1):
                in_slot = _share(t0[box], t1[box], slot, size[0])
                for column in range(first_x, last_x + 1):
                    in_column = in_slot * _share(x0[box], x1[box], column, size[1])
                    for row in range(first_y, last_y + 1):
                        s, i, j = slot - first[0], column - first[1], row - first[2]
                        if absent[s, i, j] == 1.0:
                            if count == len(touched):
                                touched = np.concatenate((touched, np.empty(count, np.int64)))
                            touched[count] = (s * columns + i) * rows + j
                            count += 1
                        absent[s, i, j] *= 1.0 - in_column * _share(y0[box], y1[box], row, size[2])
        for at in range(count):
            place = touched[at]
            j = place % rows
            i, s = (place // rows) % columns, place // rows // columns
            out[s, i, j] += 1.0 - absent[s, i, j]
            absent[s, i, j] = 1.0
