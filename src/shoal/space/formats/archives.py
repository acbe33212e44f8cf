"""Rows of the Shapefile, GeoPackage or GeoJSON in a zip archive, read in memory."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from shoal.errors import GeometryError
from shoal.space.formats.geopackage import read_geopackage
from shoal.space.formats.rows import FileRows, choose_layer, read_bounded, read_geojson, unreadable
from shoal.space.formats.shapefiles import SUFFIXES, read_shapefile

_READ = (".shp", ".gpkg", ".geojson")
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, OverflowError,
    RuntimeError, KeyError, AssertionError,  # encrypted, or packed in a way Python does not know
)  # fmt: skip


def read_zipped(path: Path, layer: str | None = None) -> FileRows:
    """The one file in the archive, in whatever folder, or the one named like `layer`."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = _member(archive, path, layer)
            parts = _beside(archive, member, path)
    except _DAMAGE as error:
        raise unreadable(path, error) from None
    content = parts[member.suffix.lower()]
    if member.suffix.lower() == ".gpkg":
        return read_geopackage(path, None if layer == member.stem else layer, content)
    choose_layer(path, [member.stem], layer)
    return read_geojson(content, path) if member.suffix.lower() == ".geojson" else read_shapefile(parts, path)


def _member(archive: zipfile.ZipFile, path: Path, layer: str | None) -> PurePosixPath:
    members = [PurePosixPath(name) for name in archive.namelist() if not name.startswith("__MACOSX/")]
    members = [member for member in members if member.suffix.lower() in _READ]
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


def _beside(archive: zipfile.ZipFile, member: PurePosixPath, path: Path) -> dict[str, bytes]:
    """The chosen file and, for a Shapefile, its parts, by suffix."""

    def unpacked(name: str) -> bytes:
        with archive.open(name) as file:
            return read_bounded(path, file.read)

    parts = {member.suffix.lower(): unpacked(str(member))}
    for name in archive.namelist() if member.suffix.lower() == ".shp" else ():
        other = PurePosixPath(name)
        suffix = other.suffix.lower()
        if other.with_suffix("") == member.with_suffix("") and suffix in SUFFIXES and suffix not in parts:
            parts[suffix] = unpacked(name)
    return parts
