"""A report as one HTML file: templates filled, the chart library inside, written for its owner alone.

Arrays are encoded as base64, JSON cannot end its script element, and maps of many cells are drawn in blocks.
"""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from shoal.errors import OutputError, PlanError
from shoal.release.staging import private_file


def write_page(path: Path, page: str) -> Path:
    """Write the page to `path`, readable by the owner alone, and return the path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with private_file(path, text=True) as file:
            file.write(page)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def fill(template: str, parts: dict[str, str]) -> str:
    """Replace {{name}} once each, in one pass, so that what is put in is never read as a placeholder."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], template)


def asset(name: str) -> str:
    return resources.files("shoal.release.page").joinpath("assets", name).read_text(encoding="utf-8")


def scripts(*names: str) -> str:
    return "\n".join(asset(name) for name in names)


_TOP = re.compile(r"^(?:const|let|function|class) (\w+)", re.M)
_NEEDS = {"format.js": (), "map.js": ("format.js",), "plot.js": ("format.js",)}


def module(name: str) -> str:
    """A script of the reports as a module: the page of the studio imports what the reports have inside."""
    head = [f"import {{ {', '.join(_TOP.findall(asset(each)))} }} from './{each}';" for each in _NEEDS[name]]
    tail = f"export {{ {', '.join(_TOP.findall(asset(name)))} }};"
    return "\n".join([*head, asset(name), tail])


def plotly_js() -> str:
    """The library as the wheel ships it: 4.8 MB, of which there is no smaller bundle inside."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", "<\\/script")


def local_times(slot_starts: list[str]) -> list[datetime]:
    """Slot starts as times; an error that says how to write them where they are not ISO times."""
    try:
        return [datetime.fromisoformat(start) for start in slot_starts]
    except ValueError as error:
        raise PlanError(
            "report-slots",
            f"slot starts must be ISO times; {error}.",
            "Write them like 2026-03-02T00:00:00+01:00.",
        ) from error


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        "report-unwritable",
        f"the report needs a folder it can write to; {path} gave: {error.strerror}.",
        "Choose another folder or free some space.",
    )


def float32_base64(values: np.ndarray) -> str:
    """Little-endian float32, row by row: a third of the size of JSON text and quick to read."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def uint16_base64(values: np.ndarray) -> str:
    """Little-endian uint16."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<u2").tobytes()).decode("ascii")


def json_for_script(payload: Any) -> str:
    """JSON for a script element: NaN becomes null, and no character can close the element or open another.

    >>> json_for_script({"name": "</script><b>", "x": float("nan")})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e","x":null}'
    """
    text = json.dumps(plain(payload), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def plain(value: Any) -> Any:
    """The value with numpy types turned into plain ones, and NaN or infinity into None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


MOST_DRAWN = 256  # cells along a side of a map; finer ones are drawn in blocks
COLOUR_QUANTILE = 0.995  # the few fullest cells share the last colour


def drawn_blocks(faces: np.ndarray) -> tuple[np.ndarray, int]:
    """Means of square blocks of cells, where a side has more than can be told apart."""
    block = -(-max(faces.shape) // MOST_DRAWN)
    if block == 1:
        return faces, 1
    rows, columns = (-(-side // block) for side in faces.shape)
    padded = np.full((rows * block, columns * block), np.nan)
    padded[: faces.shape[0], : faces.shape[1]] = faces
    return np.nanmean(padded.reshape(rows, block, columns, block), axis=(1, 3)), block


def colour_end(values: np.ndarray) -> float:
    """The value that the last colour stands for."""
    some = values[values > 0]
    return float(np.quantile(some, COLOUR_QUANTILE)) if some.size else 1.0
