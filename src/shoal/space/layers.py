"""Rows with a geometry, from any of the formats or a zip archive, before they become zones or sites."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from shoal.errors import GeometryError, printable
from shoal.space.formats.geopackage import read_geopackage
from shoal.space.formats.parquet import read_geoparquet
from shoal.space.formats.rows import FileRows, choose_layer, read_bounded, read_geojson, unreadable
from shoal.space.formats.shapefiles import SUFFIXES, read_shapefile
from shoal.space.projection import crs_name

PLANAR = "planar"  # what an owner passes as `crs` for metres with no place on the globe

_BY_EXTENSION = {
    ".geojson": "GeoJSON",
    ".json": "GeoJSON",
    ".parquet": "Parquet",
    ".geoparquet": "Parquet",
    ".shp": "Shapefile",
    ".zip": "zip",
    ".gpkg": "GeoPackage",
}
_BY_FIRST_BYTES = (
    (b"PAR1", "Parquet"),
    (b"SQLite format 3\x00", "GeoPackage"),
    (b"PK\x03\x04", "zip"),
    (b"\x00\x00\x27\x0a", "Shapefile"),
    (b"{", "GeoJSON"),
)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Columns and one geometry per row."""

    path: str
    columns: dict[str, list]
    geometry: np.ndarray
    crs: str | None


def read_layer(path: str | Path, *, layer: str | None = None, crs: str | None = None) -> Layer:
    """All rows of a geometry file; `crs` replaces what the file says ("planar" for no coordinate system)."""
    path = Path(path)
    kind = _kind(path)
    try:
        rows = _read(path, kind, layer)
    except OSError as error:
        raise unreadable(path, error.strerror or error) from None
    if len(rows.geometry) == 0:
        raise GeometryError("empty-file", f"{path} has no rows.", "Check how the file was written.")
    found_crs = crs_name(rows.crs) if crs is None else given_crs(crs)
    return Layer(path=str(path), columns=rows.columns, geometry=rows.geometry, crs=found_crs)


def given_crs(crs: str | None) -> str | None:
    """The coordinate system the owner named."""
    return None if crs is None or is_planar(crs) else crs_name(crs)


def is_planar(crs: str | None) -> bool:
    """Whether the owner said that coordinates are metres with no place on the globe."""
    return crs is not None and crs.lower() == PLANAR


def _kind(path: Path) -> str:
    """The format, which name and first bytes must agree on."""
    check_file(path)
    with path.open("rb") as file:
        head = file.read(64)
    if not head.strip():
        raise GeometryError("empty-file", f"{path} is empty.", "Check how the file was written.")
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    by_name = _BY_EXTENSION.get(path.suffix.lower())
    by_bytes = next((kind for magic, kind in _BY_FIRST_BYTES if head.startswith(magic)), None)
    if by_bytes is None and by_name is None:
        raise GeometryError(
            "format-unknown",
            f"{path} is none of the formats that can be read.",
            "Use GeoJSON, GeoParquet, Shapefile (.shp or .zip) or GeoPackage.",
        )
    if by_name is not None and by_bytes != by_name:
        raise GeometryError(
            "format-mismatch",
            f"{path} is named like a {by_name} file but holds {by_bytes or 'something else'}.",
            "Rename it, or write it again.",
        )
    return by_bytes or ""


def _read(path: Path, kind: str, layer: str | None) -> FileRows:
    if kind == "GeoPackage":
        return read_geopackage(path, layer)
    if kind == "zip":
        return read_zipped(path, layer)
    if kind == "Parquet":
        return read_geoparquet(path)
    choose_layer(path, [path.stem], layer)
    if kind == "GeoJSON":
        return read_geojson(_content(path), path)
    return read_shapefile(_beside(path), path)


def _beside(path: Path) -> dict[str, bytes]:
    """The files of a Shapefile by suffix, whatever their case."""
    parts = {".shp": _content(path)}
    for other in sorted(path.parent.iterdir()):
        suffix = other.suffix.lower()
        if other.stem == path.stem and suffix in SUFFIXES and suffix not in parts and other.is_file():
            parts[suffix] = _content(other)
    return parts


def check_file(path: Path) -> None:
    try:
        is_there = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        is_there = False
    if printable(str(path)) != str(path):
        raise GeometryError("file-name", f"the name {path} has control characters in it.", "Rename the file.")
    if not is_there:
        raise GeometryError("file-missing", f"there is no file {path}.", "Check the path.")


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return read_bounded(path, file.read)


_IN_ARCHIVES = (".shp", ".gpkg", ".geojson")
_DAMAGED_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, OverflowError,
    RuntimeError, KeyError, AssertionError,  # encrypted, or packed in a way Python does not know
)  # fmt: skip


def read_zipped(path: Path, layer: str | None = None) -> FileRows:
    """The one file in the archive, in whatever folder, or the one named like `layer`."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = _member(archive, path, layer)
            parts = _unpacked(archive, member, path)
    except _DAMAGED_ARCHIVE as error:
        raise unreadable(path, error) from None
    chosen = parts[member.suffix.lower()]
    if member.suffix.lower() == ".gpkg":
        return read_geopackage(path, None if layer == member.stem else layer, chosen)
    choose_layer(path, [member.stem], layer)
    return read_geojson(chosen, path) if member.suffix.lower() == ".geojson" else read_shapefile(parts, path)


def _member(archive: zipfile.ZipFile, path: Path, layer: str | None) -> PurePosixPath:
    members = [PurePosixPath(name) for name in archive.namelist() if not name.startswith("__MACOSX/")]
    members = [member for member in members if member.suffix.lower() in _IN_ARCHIVES]
    chosen = [member for member in members if member.stem == layer] if len(members) > 1 else members
    if not members:
        raise GeometryError(
            "geometry-missing", f"{path} holds no Shapefile, GeoPackage or GeoJSON.", "Check it."
        )
    if len(chosen) != 1:
        stems = ", ".join(member.stem for member in members[:8])
        raise GeometryError(
            "layer-choice", f"{path} holds {len(members)} files: {stems}.", "Name one of them as the layer."
        )
    return chosen[0]


def _unpacked(archive: zipfile.ZipFile, member: PurePosixPath, path: Path) -> dict[str, bytes]:
    """The chosen file and, for a Shapefile, its parts, by suffix."""

    def content(name: str) -> bytes:
        with archive.open(name) as file:
            return read_bounded(path, file.read)

    parts = {member.suffix.lower(): content(str(member))}
    for name in archive.namelist() if member.suffix.lower() == ".shp" else ():
        other = PurePosixPath(name)
        suffix = other.suffix.lower()
        if other.with_suffix("") == member.with_suffix("") and suffix in SUFFIXES and suffix not in parts:
            parts[suffix] = content(name)
    return parts
