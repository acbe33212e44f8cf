"""The files of a histogram release: numbers on faces and inner edges, the boxes behind them, zone names.

histogram.parquet says in its own metadata where its cells lie, so that it can be read alone.

Read back, a published histogram answers how many distinct trips meet rectangles, polygons and zones. Free.

    histogram = read_histogram("release")
    histogram.answer([(5.02, 47.31, 5.05, 47.33)])      one number per box
    histogram.polygon(shape)                             with the area by which its cells differ
    histogram.zones()                                    the zones of the release, or others

A box counts in the cells whose centre lies in it, a polygon likewise. An answer is the sum of the faces of
these cells minus the sum of the edges between two of them. Where a shape has holes or several parts, a trip
counts once per connected piece inside the shape.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import GuaranteeError, PlanError, SourceError
from shoal.release.manifest import MANIFEST
from shoal.space.cells import (
    CellGrid,
    CellShape,
    Euler,
    Rectangles,
    as_boxes,
    cells_of,
    in_coordinates,
    map_box,
    snap,
)
from shoal.space.places import Zones, read_zones, write_zones
from shoal.stages.noisy import NoisyHistogram

HISTOGRAM, POOL, ZONES = "histogram.parquet", "pool.parquet", "zones.geojson"
DECIMALS = 3
KINDS = ("face", "east", "north")
ABOUT = b"shoal.histogram"  # the key of the metadata, a JSON object
_COLUMNS = {
    HISTOGRAM: {
        "kind": "face: a cell. east, north: the edge between the cell and the next one in that direction",
        "column": "column of the cell, from 0 in the west",
        "row": "row of the cell, from 0 in the south",
        "trips": "trips through the cell or over the edge, with noise; see README.md",
    },
    POOL: {
        "x0": "first column of a synthetic trip's bounding box, in cells",
        "x1": "last column, included",
        "y0": "first row, in cells",
        "y1": "last row, included",
        "shape": "one of 12 paths through the box, from corner to opposite corner",
        "weight": "number of trips that it stands for",
    },
    ZONES: {"zone": "id of the zone", "name": "its name", "geometry": "its polygon"},
}


def files_of(*, pool: bool, zones: bool) -> dict[str, dict[str, str]]:
    """The files of a release and what their columns mean."""
    wanted = {HISTOGRAM: True, POOL: pool, ZONES: zones}
    return {name: dict(columns) for name, columns in _COLUMNS.items() if wanted[name]}


def write_public(folder: Path, zones: Zones | None) -> None:
    """The file of the release that contains only public zones."""
    if zones is not None:
        write_zones(zones, folder / ZONES)


def write_histogram(folder: Path, noisy: NoisyHistogram, grid: CellGrid) -> None:
    """The noisy files of the release into `folder`: scaled up and rounded."""
    euler, scale = noisy.euler, noisy.scale
    if euler.blocks is not None:
        raise GuaranteeError("euler-shape", "a published histogram has faces and edges alone.")
    parts = [(kind, values) for kind, values in zip(KINDS, _values(euler), strict=True) if values is not None]
    about = {
        **grid.describe(),
        "trips": round(noisy.trips * scale, DECIMALS),
        "violated_before": noisy.violated_before,
    }
    tables = [_part(kind, values * scale) for kind, values in parts]
    table = pa.concat_tables(tables).replace_schema_metadata({ABOUT: json.dumps(about)})
    pq.write_table(table, folder / HISTOGRAM, compression="zstd")
    if noisy.pool is not None:
        names = ("x0", "x1", "y0", "y1", "shape")
        columns = {name: getattr(noisy.pool, name) for name in names}
        columns["weight"] = np.round(noisy.pool.weight * scale, 2 * DECIMALS)
        pq.write_table(pa.table(columns), folder / POOL, compression="zstd")


def _values(euler: Euler) -> tuple[np.ndarray | None, ...]:
    return euler.faces, euler.east, euler.north


def _part(kind: str, values: np.ndarray) -> pa.Table:
    """One row per face or edge, row by row from the south-west: the rows depend on public things alone."""
    row, column = np.indices(values.shape, np.int32)
    which = pa.array(np.full(values.size, KINDS.index(kind), np.int8))
    return pa.table(
        {
            "kind": pa.DictionaryArray.from_arrays(which, pa.array(KINDS)),
            "column": column.ravel(),
            "row": row.ravel(),
            "trips": np.round(values, DECIMALS).ravel() + 0.0,  # no -0.0
        }
    )


def read_histogram_file(path: Path) -> tuple[CellGrid, Euler, dict[str, Any]]:
    """Grid, numbers, and what else the file says of itself."""
    try:
        stored = pq.read_metadata(path)
        about = json.loads((stored.metadata or {})[ABOUT])
        west, south, east, north = (float(side) for side in about["box"])
        grid = CellGrid(
            box=(west, south, east, north),
            columns=int(about["columns"]),
            rows=int(about["rows"]),
            planar=bool(about["planar"]),
        )
        if stored.num_rows > 3 * grid.count or not math.isfinite(float(about["trips"])):
            raise ValueError("more rows than faces and edges, or no number of trips")
        table = pq.read_table(path, columns=list(_COLUMNS[HISTOGRAM]))
        kinds = table["kind"].cast(pa.string()).to_numpy(zero_copy_only=False)
        column, row, trips = (table[name].to_numpy() for name in ("column", "row", "trips"))
        parts = {kind: _grid_of(kind, kinds, column, row, trips, grid) for kind in KINDS}
    except NOT_PUBLISHED:
        raise SourceError(
            "not-a-histogram",
            f"{path} is not a published histogram of trips.",
            "Name the folder that `shoal histogram run` wrote, or its histogram.parquet.",
        ) from None
    euler = Euler(faces=parts["face"], east=parts["east"], north=parts["north"])  # pyright: ignore
    return grid, euler, about


# What reading a damaged or forged file of ours may raise.
NOT_PUBLISHED = (
    OSError, pa.ArrowException, KeyError, ValueError, TypeError, IndexError, OverflowError, AttributeError,
    RecursionError, MemoryError, PlanError,
)  # fmt: skip


def _grid_of(kind: str, kinds, column, row, trips, grid: CellGrid) -> np.ndarray | None:
    """The numbers of one kind in their places; a place that is missing or given twice is an error."""
    here = kinds == kind
    if kind != "face" and not here.any():
        return None
    shape = grid.rows - (kind == "north"), grid.columns - (kind == "east")
    values = np.full(shape, np.nan)
    values[row[here], column[here]] = trips[here]
    if here.sum() != values.size or np.isnan(values).any():
        raise ValueError("not every place has a number")
    return values


@dataclass(frozen=True, kw_only=True)
class AreaAnswer:
    """Distinct trips in an area, and the cells that stand for it; trips are NaN where it has no cell."""

    name: str
    trips: float
    cells: int
    missed: float = 0.0  # share of the area outside the cells
    added: float = 0.0  # area of the cells outside, as a share of the area
    outside: float = 0.0  # share beyond the map
    parts: int = 1
    holes: int = 0
    box: tuple[float, ...] | None = None  # as asked, west, south, east, north; None: another shape
    snapped: tuple[float, float, float, float] | None = None  # the cells of a box
    beyond: tuple[float, ...] | None = None  # the map's box, where the area lies wholly beyond it

    @property
    def notes(self) -> list[str]:
        """What a reader should know of this answer."""
        if self.beyond is not None:
            west, south, east, north = self.beyond
            return [
                f"the area lies beyond the map, which is {west:g} to {east:g}, {south:g} to {north:g}: there "
                "is no answer. Longitude (or x) comes before latitude: are they swapped?"
            ]
        notes = []
        if not self.cells:
            notes.append("no cell has its centre inside: there is no answer.")
        if self.outside > 1e-9:
            notes.append(f"{self.outside:.1%} of the area lies beyond the map and was not counted.")
        if self.parts > 1 or self.holes:
            what = " and ".join(
                words
                for count, words in (
                    (self.parts if self.parts > 1 else 0, f"{self.parts} parts"),
                    (self.holes, f"{self.holes} hole{'s' * (self.holes > 1)}"),
                )
                if count
            )
            notes.append(
                f"the cells have {what}: a trip counts once for each part it crossed, and one that goes all "
                "the way round a hole counts less."
            )
        return notes


@dataclass(frozen=True, eq=False)
class PublishedHistogram:
    """Faces and edges as they were published; every answer is arithmetic on them."""

    grid: CellGrid
    euler: Euler = field(repr=False)
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)  # empty: the file came alone
    folder: Path | None = None

    @property
    def trips(self) -> float:
        """All trips on the map, as published."""
        return float(self.about["trips"])

    def answer(self, boxes: Sequence) -> np.ndarray:
        """float64: distinct trips in each box (west, south, east, north); NaN where no centre lies inside."""
        return self.answer_cells(self.snap(boxes))

    def snap(self, boxes: Sequence) -> Rectangles:
        """The cells that stand for each box."""
        return snap(self.grid, as_boxes(boxes, self.grid.planar))

    def answer_cells(self, rectangles: Rectangles) -> np.ndarray:
        """The same for ranges of cells."""
        trips = np.full(rectangles.count, np.nan)
        some = np.flatnonzero(rectangles.areas > 0)
        queries = rectangles.take(some)
        queries.check(self.grid)
        trips[some] = self.euler.answers(queries)
        return trips

    def boxes(self, boxes: Sequence, names: Sequence[str] | None = None) -> list[AreaAnswer]:
        """Answers to boxes with the cells they became."""
        table = as_boxes(boxes, self.grid.planar)
        names = [str(i + 1) for i in range(len(table))] if names is None else names
        snapped = snap(self.grid, table)
        trips = self.answer_cells(snapped)
        sides = zip(snapped.x0, snapped.x1, snapped.y0, snapped.y1, strict=True)
        answers = []
        for name, box, count, (x0, x1, y0, y1) in zip(
            names, table.tolist(), trips.tolist(), sides, strict=True
        ):
            cells = int((x1 - x0) * (y1 - y0))
            corners = map_box(self.grid, (int(x0), int(x1), int(y0), int(y1))) if cells else None
            answers.append(
                AreaAnswer(
                    name=name,
                    trips=count,
                    cells=cells,
                    box=tuple(box),
                    snapped=corners,
                    beyond=None if _overlap(box, self.grid.box) else self.grid.box,
                    **_box_difference(box, corners, self.grid.box),
                )
            )
        return answers

    def polygon(self, shape: Any, name: str = "polygon") -> AreaAnswer:
        """Distinct trips in a polygon (shapely, in the coordinates of the grid)."""
        cells = cells_of(shape, self.grid)
        return AreaAnswer(
            name=name,
            trips=self._cells_answer(cells),
            cells=cells.cells,
            missed=cells.missed,
            added=cells.added,
            outside=cells.outside,
            parts=cells.parts,
            holes=cells.holes,
            beyond=None if cells.outside < 1 else self.grid.box,
        )

    def zones(self, zones: Zones | None = None, names: Sequence[str] | str | None = None) -> list[AreaAnswer]:
        """One answer per zone, or for the zones of these names or ids; by default the release's own zones."""
        names = [names] if isinstance(names, str) else names
        zones = zones or self.own_zones
        shapes = in_coordinates(zones.geometry, zones.crs, self.grid)
        wanted = range(zones.count) if names is None else [_find(zones, name) for name in names]
        return [self.polygon(shapes[i], zones.names[i]) for i in wanted]

    @cached_property
    def own_zones(self) -> Zones:
        if self.folder is None or not (self.folder / ZONES).is_file():
            raise PlanError(
                "zones-missing", "the release has no zones of its own.", "Pass --zones FILE with polygons."
            )
        return read_zones(self.folder / ZONES, on_overlap="allow", holes="allow")

    def _cells_answer(self, shape: CellShape) -> float:
        """Faces of the cells minus edges between two of them."""
        mask, euler = shape.mask, self.euler
        if not shape.cells:
            return float("nan")
        trips = euler.faces[mask].sum()
        if euler.east is not None:
            trips -= euler.east[mask[:, :-1] & mask[:, 1:]].sum()
        if euler.north is not None:
            trips -= euler.north[mask[:-1] & mask[1:]].sum()
        return float(trips)


def read_histogram(path: str | Path) -> PublishedHistogram:
    """A release folder, or its histogram.parquet alone."""
    path = Path(path)
    folder = path if path.is_dir() else None
    grid, euler, about = read_histogram_file(path / HISTOGRAM if folder else path)
    manifest = {}
    if folder is not None:
        try:
            manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
            if not isinstance(manifest, dict):
                raise ValueError("not an object")
        except (OSError, ValueError, RecursionError):
            raise SourceError(
                "not-a-release",
                f"{folder} has no manifest that can be read.",
                "Check it with `shoal verify`.",
            ) from None
    return PublishedHistogram(grid, euler, about, manifest, folder)


def _find(zones: Zones, name: str) -> int:
    for known in (zones.ids, zones.names):
        if known.count(name) == 1:
            return known.index(name)
    many = zones.names.count(name) > 1
    raise PlanError(
        "zone-name",
        f"{'several zones are' if many else 'no zone is'} called {name!r}.",
        "Use its id." if many else f"Known are {', '.join(zones.names[:5])}{', ...' * (zones.count > 5)}.",
    )


def _box_difference(box: list[float], cells: tuple | None, whole: tuple) -> dict[str, Any]:
    """By how much the cells differ from the box that was asked for, in shares of its area."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    outside = 1 - _overlap(box, whole) / area
    if cells is None:
        return {"missed": 1.0, "outside": outside}
    common = _overlap(box, cells)
    taken = (cells[2] - cells[0]) * (cells[3] - cells[1])
    return {"missed": 1 - common / area, "added": (taken - common) / area, "outside": outside}


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)
