"""Rows with a geometry, read from any of the formats, before they are called zones or sites."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio.errors
import pyogrio.raw
import shapely
import shapely.errors

from shoal.errors import GeometryError
from shoal.space.projection import LONLAT, crs_name

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
    read = _read_geoparquet(path) if kind == "Parquet" else _read_ogr(path, layer)
    if len(read.geometry) == 0:
        raise GeometryError("empty-file", f"{path} has no rows.", "Check how the file was written.")
    if crs is not None:
        read = Layer(path=read.path, columns=read.columns, geometry=read.geometry, crs=given_crs(crs))
    return read


def given_crs(crs: str | None) -> str | None:
    """The coordinate system the owner named."""
    return None if crs is None or is_planar(crs) else crs_name(crs)


def is_planar(crs: str | None) -> bool:
    """Whether the owner said that coordinates are metres with no place on the globe."""
    return crs is not None and crs.lower() == PLANAR


def _kind(path: Path) -> str:
    """The format, which name and first bytes must agree on."""
    if not path.is_file():
        raise GeometryError("file-missing", f"there is no file {path}.", "Check the path.")
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


def _read_ogr(path: Path, layer: str | None) -> Layer:
    try:
        target = str(path)
        if path.suffix.lower() == ".zip":
            target, layer = _inside_zip(path, layer)
        layers = [str(name) for name, _ in pyogrio.list_layers(target)]
        if (layer is None and len(layers) > 1) or (layer is not None and layer not in layers):
            raise GeometryError(
                "layer-choice",
                f"{path} has {len(layers)} layers: {', '.join(layers[:8])}; asked for {layer or 'none'}.",
                "Name one of them as the layer.",
            )
        meta, _, geometry, fields = pyogrio.raw.read(target, layer=layer, force_2d=True)
    except (
        pyogrio.errors.DataSourceError,
        pyogrio.errors.DataLayerError,
        zipfile.BadZipFile,
        ValueError,
    ) as error:
        raise GeometryError(
            "file-unreadable", f"{path} cannot be read: {error}", "Check how the file was written."
        ) from None
    if geometry is None:
        raise GeometryError("geometry-missing", f"{path} has no geometry.", "Check how the file was written.")
    columns = {str(n): list(c) for n, c in zip(meta["fields"], fields, strict=True)}
    crs = None if _says_no_crs(path) else crs_name(meta["crs"])
    return Layer(path=str(path), columns=columns, geometry=_from_wkb(geometry, path), crs=crs)


def _inside_zip(path: Path, layer: str | None) -> tuple[str, str | None]:
    """Where GDAL finds the one file in the archive, in whatever folder, or the one named like `layer`."""
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if n.lower().endswith((".shp", ".gpkg", ".geojson"))]
    names = [name for name in names if not name.startswith("__MACOSX/")]
    chosen = [name for name in names if Path(name).stem == layer] if len(names) > 1 else names
    if not names:
        raise GeometryError(
            "geometry-missing", f"{path} holds no Shapefile, GeoPackage or GeoJSON.", "Check it."
        )
    if len(chosen) != 1:
        stems = ", ".join(Path(name).stem for name in names[:8])
        raise GeometryError(
            "layer-choice", f"{path} holds {len(names)} files: {stems}.", "Name one of them as the layer."
        )
    return f"/vsizip/{{{path}}}/{chosen[0]}", layer if len(names) == 1 else None


def _says_no_crs(path: Path) -> bool:
    """Whether a GeoJSON file has a null `crs`, as we write for planar zones; GDAL takes it for lon/lat."""
    if _BY_EXTENSION.get(path.suffix.lower(), "GeoJSON") != "GeoJSON":
        return False
    with path.open("rb") as file:
        head = file.read(4096).split(b'"features"')[0]
    return re.search(rb'"crs"\s*:\s*null', head) is not None


def _from_wkb(wkb: np.ndarray, path: Path) -> np.ndarray:
    try:
        with np.errstate(invalid="ignore"):  # NaN coordinates are for the checks to name
            return shapely.force_2d(shapely.from_wkb(wkb))
    except (shapely.errors.GEOSException, TypeError):
        raise _bad_metadata(path, "its geometry column is not WKB") from None


def _bad_metadata(path: Path, why: str) -> GeometryError:
    return GeometryError("geometry-metadata", f"{path} is broken GeoParquet: {why}.", "Write it again.")


def _read_geoparquet(path: Path) -> Layer:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise GeometryError(
            "file-unreadable", f"{path} cannot be read: {error}", "Check how the file was written."
        ) from None
    metadata = (table.schema.metadata or {}).get(b"geo")
    if metadata is None:
        raise GeometryError(
            "geometry-missing",
            f"{path} is Parquet without GeoParquet metadata.",
            "Write it as GeoParquet, or as GeoPackage or GeoJSON.",
        )
    try:
        geo = json.loads(metadata)
        name, about = geo["primary_column"], geo["columns"][geo["primary_column"]]
        stored = table[name].to_numpy(zero_copy_only=False)
    except (ValueError, KeyError, TypeError) as error:
        raise _bad_metadata(path, f"its metadata cannot be followed ({error})") from None
    if about.get("encoding") != "WKB":
        raise GeometryError(
            "geometry-encoding",
            f"{path} stores its geometry as {about.get('encoding')}; only WKB can be read.",
            "Write it with WKB geometry, which every GeoParquet writer offers.",
        )
    geometry = _from_wkb(stored, path)
    columns = {c: table[c].to_pylist() for c in table.column_names if c not in geo["columns"]}
    # GeoParquet: no crs key means OGC:CRS84, a null crs means unknown.
    crs = crs_name(about["crs"]) if "crs" in about else LONLAT
    return Layer(path=str(path), columns=columns, geometry=geometry, crs=crs)
