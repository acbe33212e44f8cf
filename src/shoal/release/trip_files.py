"""The files of a release of synthetic trips: points with times, in the columns of the input.

trips.parquet is GeoParquet and says in its own metadata that it is synthetic, on which grid and steps.

Points of trips written as GeoParquet, CSV, GPX or GeoJSON, chunk by chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from shoal.errors import SourceError
from shoal.release.histogram_files import NOT_PUBLISHED
from shoal.release.readme import as_cell
from shoal.space.cells import CellGrid
from shoal.space.checks import LONLAT
from shoal.space.places import geo_metadata

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
        """Names as in a source; names of roles if roles share one, or a name is reserved or a formula."""
        x, y = ("x", "y") if planar else ("lon", "lat")
        usual = {"user": "user", "trip": "trip", "time": "time", "x": x, "y": y}
        named = {name: columns.get(role, role) for name, role in usual.items()}
        every = [*named.values(), "point", "geometry"]
        apart = len(set(every)) == len(every) and not any(as_cell(name) != name for name in every)
        return cls(**(named if apart else usual))

    def fields(self, time: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """Names and types of the columns but for the geometry; `time` is the type of times."""
        kinds = (pa.string(), pa.string(), pa.int32(), time, pa.float64(), pa.float64())
        names = (self.user, self.trip, self.point, self.time, self.x, self.y)
        return list(zip(names, kinds, strict=True))

    def meanings(self) -> dict[str, str]:
        return {
            self.user: "id of a synthetic user, s and a number; every trip has one of its own",
            self.trip: "id of the synthetic trip, equal to that of the user",
            self.point: "number of the point in its trip, from 0",
            self.time: "time in UTC (a timestamp in Parquet, ISO 8601 text in CSV)",
            self.x: "longitude in degrees" if self.x != "x" else "x in metres",
            self.y: "latitude in degrees" if self.y != "y" else "y in metres",
        }


def files_of(columns: TripColumns, formats: Iterable[str]) -> dict[str, dict[str, str]]:
    """The files of a release and what their columns mean."""
    files = {}
    for name in formats:
        meanings = columns.meanings()
        if name == "parquet":
            meanings[columns.geometry] = "the point, WKB"
        files[f"{TRIPS}.{name}"] = meanings if FORMATS[name].rows else FORMATS[name].words
    return files


@dataclass(frozen=True, kw_only=True)
class TripsAbout:
    """Metadata of a file."""

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
    description = about.to_json(columns)
    writers = [
        FORMATS[name](folder / f"{TRIPS}.{name}", columns, about.grid, {ABOUT: description})
        for name in formats
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
        described = TripsAbout(grid=grid, step_s=float(about["step_s"]), trips=int(about["trips"]))
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
    return PublishedTrips(file, described, names, manifest)


def _not_synthetic(path: Path) -> SourceError:
    return SourceError(
        "not-synthetic",
        f"{path} is not a release of synthetic trips.",
        "Name the folder that `shoal synthesize run` wrote, or its trips.parquet.",
    )


SECOND_US = 1_000_000
_WKB = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])


@dataclass(frozen=True, eq=False)
class TripChunk:
    """Points of some trips, and the names of these."""

    points: PathPoints
    digits: int

    @cached_property
    def names(self) -> pa.Array:
        """string, one per point: s0000001 and so on."""
        trip = self.points.trip
        low, high = (int(trip[0]), int(trip[-1]) + 1) if trip.size else (0, 0)
        known = pa.array([f"s{number + 1:0{self.digits}d}" for number in range(low, high)], pa.string())
        return known.take(pa.array(trip - low))

    @cached_property
    def times(self) -> pa.Array:
        return pa.array(self.points.time_us, pa.timestamp("us", "UTC"))

    @cached_property
    def iso_times(self) -> pa.Array:
        """string: whole seconds where all of them are."""
        whole = not (self.points.time_us % SECOND_US).any()
        moments = pa.array(self.points.time_us, pa.timestamp("us"))
        text = (moments.cast(pa.timestamp("s")) if whole else moments).cast(pa.string())
        # Ten times as fast as strftime, which writes the same.
        text = pc.call_function("binary_replace_slice", [text], pc.ReplaceSliceOptions(10, 11, "T"))
        return pc.call_function("binary_join_element_wise", [text, pa.scalar("Z"), pa.scalar("")])

    @cached_property
    def starts(self) -> np.ndarray:
        """int64 [trips + 1]: where each trip's points begin."""
        return np.append(np.flatnonzero(self.points.number == 0), self.points.trip.size)

    def columns(self, names: TripColumns, times: pa.Array) -> dict[str, Any]:
        points = self.points
        return {
            names.user: self.names,
            names.trip: self.names,
            names.point: points.number,
            names.time: times,
            names.x: points.x,
            names.y: points.y,
        }


class ParquetTrips:
    """GeoParquet 1.1: one row per point, a row group holds whole trips."""

    rows = True
    words: ClassVar[dict[str, str]] = {}

    def __init__(self, path: Path, columns: TripColumns, grid: CellGrid, about: dict[bytes, str]) -> None:
        self.path, self.names = path, columns
        geo = geo_metadata(columns.geometry, ["Point"], None if grid.planar else LONLAT)
        fields = [*columns.fields(pa.timestamp("us", "UTC")), (columns.geometry, pa.binary())]
        self.schema = pa.schema(fields, metadata={**geo, **about})
        self.writer = pq.ParquetWriter(path, self.schema, compression="zstd")

    def write(self, chunk: TripChunk) -> None:
        columns = chunk.columns(self.names, chunk.times)
        columns[self.names.geometry] = points_wkb(chunk.points.x, chunk.points.y)
        table = pa.table(columns, schema=self.schema)
        if table.num_rows:
            self.writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        self.writer.close()


class CsvTrips:
    """One row per point, with a line of names."""

    rows = True
    words: ClassVar[dict[str, str]] = {}

    def __init__(self, path: Path, columns: TripColumns, grid: CellGrid, about: dict[bytes, str]) -> None:
        self.names = columns
        self.schema = pa.schema(columns.fields(pa.string()))
        options = pyarrow.csv.WriteOptions(quoting_style="none")
        self.writer = pyarrow.csv.CSVWriter(path, self.schema, write_options=options)

    def write(self, chunk: TripChunk) -> None:
        self.writer.write_table(pa.table(chunk.columns(self.names, chunk.iso_times), schema=self.schema))

    def close(self) -> None:
        self.writer.close()


class _Text:
    """A text of one part per trip."""

    rows = False
    words: ClassVar[dict[str, str]] = {}
    head = tail = between = ""

    def __init__(self, path: Path, columns: TripColumns, grid: CellGrid, about: dict[bytes, str]) -> None:
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        self.file.write(self.head)
        self.empty = True

    def write(self, chunk: TripChunk) -> None:
        points = chunk.points
        times, names = chunk.iso_times.to_pylist(), chunk.names
        x, y = points.x.tolist(), points.y.tolist()
        for low, high in zip(chunk.starts[:-1].tolist(), chunk.starts[1:].tolist(), strict=True):
            if not self.empty:
                self.file.write(self.between)
            self.empty = False
            self.file.write(self.trip(names[low].as_py(), times[low:high], x[low:high], y[low:high]))

    def trip(self, name: str, times: list[str], x: list[float], y: list[float]) -> str:
        raise NotImplementedError

    def close(self) -> None:
        if not self.file.closed:
            self.file.write(self.tail)
            self.file.close()


class GpxTrips(_Text):
    """GPX 1.1: one track per trip."""

    words: ClassVar[dict[str, str]] = {"trk": "one synthetic trip: its name and its points with times, UTC"}
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<gpx version="1.1" creator="shoal" '
        'xmlns="http://www.topografix.com/GPX/1/1">\n<metadata><desc>synthetic trips: made by nobody'
        "</desc></metadata>\n"
    )
    tail = "</gpx>\n"

    def trip(self, name: str, times: list[str], x: list[float], y: list[float]) -> str:
        points = "".join(
            f'<trkpt lat="{lat!r}" lon="{lon!r}"><time>{time}</time></trkpt>'
            for time, lon, lat in zip(times, x, y, strict=True)
        )
        return f"<trk><name>{escape(name)}</name><type>synthetic</type><trkseg>{points}</trkseg></trk>\n"


class GeoJsonTrips(_Text):
    """GeoJSON: one line per trip, a point where it has one."""

    words: ClassVar[dict[str, str]] = {
        "trip": "id of the synthetic trip, s and a number",
        "synthetic": "true",
        "times": "time of each point in UTC",
        "geometry": "the trip's line, longitude first; a point where it has one point",
    }
    head = '{"type":"FeatureCollection","features":[\n'
    between = ",\n"
    tail = "\n]}\n"

    def trip(self, name: str, times: list[str], x: list[float], y: list[float]) -> str:
        places = [list(place) for place in zip(x, y, strict=True)]
        kind, coordinates = ("LineString", places) if len(places) > 1 else ("Point", places[0])
        return json.dumps(
            {
                "type": "Feature",
                "properties": {"trip": name, "synthetic": True, "times": times},
                "geometry": {"type": kind, "coordinates": coordinates},
            },
            separators=(",", ":"),
        )


FORMATS = {"parquet": ParquetTrips, "csv": CsvTrips, "gpx": GpxTrips, "geojson": GeoJsonTrips}
GLOBE_ONLY = ("gpx", "geojson")


def points_wkb(x: np.ndarray, y: np.ndarray) -> pa.Array:
    """Points as little-endian WKB."""
    packed = np.zeros(x.size, _WKB)
    packed["order"], packed["type"], packed["x"], packed["y"] = 1, 1, x, y
    ends = np.arange(x.size + 1, dtype=np.int32) * _WKB.itemsize
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(packed.tobytes())]
    return pa.Array.from_buffers(pa.binary(), x.size, buffers)
