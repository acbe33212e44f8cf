"""What every reader returns, and the errors they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
import shapely.errors

from shoal.errors import GeometryError

# NotImplementedError: curves. TypeError: neither bytes nor text.
NOT_WKB = (shapely.errors.GEOSException, NotImplementedError, TypeError, ValueError)


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
            return shapely.force_2d(shapely.from_wkb(stored))
    except NOT_WKB:
        row = next(row for row, one in enumerate(stored) if not _is_wkb(one))
        raise unreadable(path, f"row {row + 1} has {_fault(stored[row])}.") from None


def _is_wkb(one: bytes | None) -> bool:
    try:
        with np.errstate(invalid="ignore"):
            shapely.from_wkb(one)
    except NOT_WKB:
        return False
    return True


def _fault(wkb: bytes) -> str:
    kind = int.from_bytes(wkb[1:5], "little" if wkb[:1] == b"\x01" else "big") & 0xFFFF
    if 8 <= kind % 1000 <= 14:
        return "a curve, and only straight edges can be read"
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
