"""What every reader returns, and the errors they share."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
import shapely.errors

from shoal.errors import GeometryError

# NotImplementedError: curves. TypeError: neither bytes nor text. struct.error: cut short.
NOT_WKB = (shapely.errors.GEOSException, NotImplementedError, TypeError, ValueError, struct.error)
MAX_BYTES = 1 << 28  # of a file, and of what it unpacks to
MAX_ROWS = 2_000_000
MAX_CELLS = 30_000_000  # rows times columns


@dataclass(frozen=True, kw_only=True)
class FileRows:
    """Columns and one flat geometry per row; `crs` as the file puts it, None where it says nothing."""

    columns: dict[str, list]
    geometry: np.ndarray
    crs: object


def from_wkb(wkb: Sequence[bytes | None], path: Path) -> np.ndarray:
    """Shapes from WKB; None stays None, and NaN coordinates are left for the checks to name."""
    stored = np.empty(len(wkb), dtype=object)
    stored[:] = wkb
    try:
        with np.errstate(invalid="ignore"):
            for one in stored:
                _check_nesting(one)
            return shapely.force_2d(shapely.from_wkb(stored))
    except NOT_WKB:
        row = next(row for row, one in enumerate(stored) if not _is_wkb(one))
        raise unreadable(path, f"row {row + 1} has {_fault(stored[row])}.") from None


def _is_wkb(one: bytes | None) -> bool:
    try:
        with np.errstate(invalid="ignore"):
            _check_nesting(one)
            shapely.from_wkb(one)
    except NOT_WKB:
        return False
    return True


def _check_nesting(wkb: bytes | None) -> None:
    """Collections are refused, also inside others: GEOS follows their nesting until the stack overflows."""
    if wkb is None:
        return
    if not isinstance(wkb, bytes):
        raise TypeError("WKB is bytes")
    if len(wkb) >= 5 and _kind(wkb, 0)[1] > 3:
        _end(wkb, 0, (4, 5, 6))


def _kind(wkb: bytes, at: int) -> tuple[str, int, int, int]:
    """Byte order, kind from 1 (point) to 7 (collection) and more, dimensions, and where the rest begins."""
    order = "<" if wkb[at] == 1 else ">"
    (code,) = struct.unpack_from(f"{order}I", wkb, at + 1)
    iso = code % 0x10000 // 1000
    dimensions = 2 + bool(code & 0x80000000) + bool(code & 0x40000000) + (iso in (1, 2)) + 2 * (iso == 3)
    return order, code % 0x10000 % 1000, dimensions, at + 5 + 4 * bool(code & 0x20000000)


def _end(wkb: bytes, at: int, allowed: tuple[int, ...]) -> int:
    """Where a geometry of one of these kinds ends; its parts must be of the kind that it is made of."""
    if at >= len(wkb):
        raise ValueError("cut short")
    order, kind, dimensions, at = _kind(wkb, at)
    if kind not in allowed:
        raise ValueError("a collection, or a part of another kind")
    if kind == 1:
        return at + 8 * dimensions
    (count,) = struct.unpack_from(f"{order}I", wkb, at)
    at += 4
    if kind == 2:
        return at + 8 * dimensions * count
    for _ in range(count):
        if kind == 3:
            at += 4 + 8 * dimensions * struct.unpack_from(f"{order}I", wkb, at)[0]
        else:
            at = _end(wkb, at, (kind - 3,))
    return at


def _fault(wkb: bytes) -> str:
    kind = int.from_bytes(wkb[1:5], "little" if wkb[:1] == b"\x01" else "big") & 0xFFFF
    if 8 <= kind % 1000 <= 14:
        return "a curve, and only straight edges can be read"
    if kind % 1000 == 7:
        return "a collection of geometries, and a zone is a polygon, a site a point"
    return "a geometry that is not WKB"


def not_finite(path: Path, row: int) -> GeometryError:
    """For a row with NaN or infinity where a shape cannot even be made, such as a ring that never closes."""
    return GeometryError(
        "coordinate-nan",
        f"coordinates must be finite; row {row + 1} of {path} has others.",
        "Remove or complete these rows.",
    )


def unreadable(path: Path, why: object) -> GeometryError:
    return GeometryError(
        "file-unreadable", f"{path} cannot be read: {why}", "Check how the file was written."
    )


def read_bounded(path: Path, read: Callable[[int], bytes]) -> bytes:
    """What `read` gives for the largest size allowed and one byte more, or an error that it is too large."""
    content = read(MAX_BYTES + 1)
    check_size(path, bytes_=len(content))
    return content


def check_size(path: Path, *, bytes_: int = 0, rows: int = 0, cells: int = 0) -> None:
    """Refuse files that would fill the memory; no map of zones or sites comes near."""
    for found, most, what in (
        (bytes_, MAX_BYTES, "bytes, unpacked"),
        (rows, MAX_ROWS, "rows"),
        (cells, MAX_CELLS, "values: its rows times its columns"),
    ):
        if found > most:
            raise GeometryError(
                "file-too-large",
                f"{path} holds more than {most} {what}.",
                "Keep only the rows and columns that are needed, or simplify the shapes.",
            )


def no_geometry(path: Path) -> GeometryError:
    return GeometryError("geometry-missing", f"{path} has no geometry.", "Check how the file was written.")


def choose_layer(path: Path, layers: list[str], asked: str | None) -> str:
    """The layer that was asked for, or the only one."""
    if (asked is None and len(layers) > 1) or (asked is not None and asked not in layers):
        raise GeometryError(
            "layer-choice",
            f"{path} has {len(layers)} layers: {', '.join(layers[:8])}; asked for {asked or 'none'}.",
            "Name one with --zones-layer (in Python, layer); a file of sites must have a single layer.",
        )
    return layers[0] if asked is None else asked
