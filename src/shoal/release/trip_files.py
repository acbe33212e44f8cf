"""The files of a release of synthetic trips: points with times, in the columns of the input.

trips.parquet is GeoParquet and says in its own metadata that it is synthetic, on which grid and steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import SourceError
from shoal.release.density_files import as_cell
from shoal.release.histogram_files import NOT_PUBLISHED
from shoal.release.trip_formats import FORMATS, TripChunk
from shoal.space.cells import CellGrid

if TYPE_CHECKING:
    from shoal.postprocess.synthetic.path_points import PathPoints

TRIPS = "trips"  # name of every file, whatever its format
ABOUT = b"shoal.synthetic"  # the key of the metadata, a JSON object
DIGITS = 7


@dataclass(frozen=True, kw_only=True)
class TripColumns:
    """Names of the columns: as in the input, where it has them."""

    user: str = "user"
    trip: str = "trip"
    point: str = "point"
    time: str = "time"
    x: str = "lon"
    y: str = "lat"
    geometry: str = "geometry"

    @classmethod
    def like(cls, columns: Mapping[str, str], *, planar: bool) -> TripColumns:
        """As in a source; where two share a column, or a name is ours or a formula, by roles."""
        x, y = ("x", "y") if planar else ("lon", "lat")
        usual = {"user": "user", "trip": "trip", "time": "time", "x": x, "y": y}
        roles = {"user": "user", "trip": "trip", "time": "time", "x": x, "y": y}
        named = {name: columns.get(role, usual[name]) for name, role in roles.items()}
        every = [*named.values(), "point", "geometry"]
        apart = len(set(every)) == len(every) and not any(as_cell(name) != name for name in every)
        return cls(**(named if apart else usual))

    def meanings(self) -> dict[str, str]:
        return {
            self.user: "a made-up user, s and a number; every trip has one of its own",
            self.trip: "the made-up trip, the same",
            self.point: "number of the point in its trip, from 0",
            self.time: "when, UTC (a timestamp in Parquet, ISO 8601 text in CSV)",
            self.x: "longitude in degrees" if self.x != "x" else "x in metres",
            self.y: "latitude in degrees" if self.y != "y" else "y in metres",
        }


def files_of(columns: TripColumns, formats: Iterable[str]) -> dict[str, dict[str, str]]:
    """The files of a release and what their columns mean."""
    found = {}
    for name in formats:
        meanings = columns.meanings()
        if name == "parquet":
            meanings[columns.geometry] = "the point, WKB"
        found[f"{TRIPS}.{name}"] = meanings if FORMATS[name].rows else FORMATS[name].words
    return found


@dataclass(frozen=True, kw_only=True)
class TripsAbout:
    """What a file says of itself."""

    grid: CellGrid
    step_s: float
    trips: int

    def to_json(self, columns: TripColumns) -> str:
        grid = self.grid.describe()
        return json.dumps(
            {"synthetic": True, "grid": grid, "step_s": self.step_s, "trips": self.trips, **asdict(columns)}
        )


def write_trips(
    folder: Path,
    chunks: Iterable[PathPoints],
    about: TripsAbout,
    columns: TripColumns,
    formats: Iterable[str],
) -> None:
    """All data files of the release into `folder`; a chunk holds whole trips."""
    told = about.to_json(columns)
    writers = [
        FORMATS[name](folder / f"{TRIPS}.{name}", columns, about.grid, {ABOUT: told}) for name in formats
    ]
    digits = max(DIGITS, len(str(about.trips)))
    try:
        for points in chunks:
            chunk = TripChunk(points, digits)
            for writer in writers:
                writer.write(chunk)
    finally:
        for writer in writers:
            writer.close()


@dataclass(frozen=True, eq=False)
class PublishedTrips:
    """A published file, read again."""

    path: Path
    about: TripsAbout
    columns: TripColumns
    manifest: Mapping[str, Any]  # empty where the file came alone

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Points as encoding takes them: user, trip, time_us, x, y; every trip is a user of its own."""
        names, done = self.columns, 0
        try:
            file = pq.ParquetFile(self.path)
        except NOT_PUBLISHED:
            raise _not_synthetic(self.path) from None
        for group in range(file.num_row_groups):
            table = self._group(file, group)
            user = done + np.cumsum(table[names.point].to_numpy() == 0)
            if not user.size:
                continue
            done = int(user[-1])
            time_us = table[names.time].to_numpy()
            x, y = table[names.x].to_numpy(), table[names.y].to_numpy()
            yield pa.record_batch(
                {"user": user, "trip": np.zeros_like(user), "time_us": time_us, "x": x, "y": y}
            )

    def _group(self, file: pq.ParquetFile, group: int) -> pa.Table:
        names = self.columns
        try:
            table = file.read_row_group(group, [names.point, names.time, names.x, names.y])
            whole, real = (names.point, names.time), (names.x, names.y)
            columns = {name: table[name].cast(pa.int64()) for name in whole}
            columns |= {name: table[name].cast(pa.float64()) for name in real}
            if any(column.null_count for column in columns.values()):
                raise ValueError("a value is missing")
            return pa.table(columns)
        except NOT_PUBLISHED:
            raise _not_synthetic(self.path) from None


def read_synthetic(path: str | Path) -> PublishedTrips:
    """A release folder of synthetic trips, or its trips.parquet alone."""
    path = Path(path)
    folder, file = (path, path / f"{TRIPS}.parquet") if path.is_dir() else (path.parent, path)
    try:
        about = json.loads((pq.read_schema(file).metadata or {})[ABOUT])
        grid = CellGrid(**{**about["grid"], "box": tuple(about["grid"]["box"])})
        names = TripColumns(**{name: about[name] for name in TripColumns.__dataclass_fields__})
        said = TripsAbout(grid=grid, step_s=float(about["step_s"]), trips=int(about["trips"]))
        manifest = {}
        if path.is_dir():
            manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        if not all(isinstance(name, str) for name in vars(names).values()):
            raise TypeError("a column's name is no text")
    except NOT_PUBLISHED:
        if (path / "events.parquet").exists():
            raise SourceError(
                "not-synthetic",
                f"{path} holds records of sites, not trips; pages are drawn of trips alone.",
                "`shoal inspect` looks into events.parquet; the owner's report has the figures.",
            ) from None
        raise _not_synthetic(path) from None
    return PublishedTrips(file, said, names, manifest)


def _not_synthetic(path: Path) -> SourceError:
    return SourceError(
        "not-synthetic",
        f"{path} is not a release of synthetic trips.",
        "Name the folder that `shoal synthesize run` wrote, or its trips.parquet.",
    )
