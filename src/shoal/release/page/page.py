"""A report as one HTML file: a template on one shell, the chart library inside, written for its owner alone.

Arrays are encoded as base64, JSON cannot end its script element, and maps of many cells are drawn in blocks.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import numpy as np

from shoal.errors import OutputError, PlanError
from shoal.release.page import formats
from shoal.release.staging import private_file

if TYPE_CHECKING:
    from jinja2 import Environment


def write_page(path: Path, page: str) -> Path:
    """Write the page to `path`, readable by the owner alone, and return the path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with private_file(path, text=True) as file:
            file.write(page)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def asset(name: str) -> str:
    return resources.files("shoal.release.page").joinpath("assets", name).read_text(encoding="utf-8")


RAW_BANNER = "Owner's eyes only: contains figures computed on raw data. Do not publish."


def render(
    template: str,
    *scripts: str,
    title: str,
    subtitle: Sequence[str] = (),
    banner: LiteralString = "",
    payload: Any = None,
    **parts: Any,
) -> str:
    """The page of a template: every value is escaped, and is written as a number where it is no text.

    The scripts run in the order given and draw from `payload`. Without scripts the page allows none.
    """
    from markupsafe import Markup

    return (
        _templates()
        .get_template(template)
        .render(
            title=title,
            subtitle=subtitle,
            banner=Markup(banner),
            css=Markup(asset("report.css")),
            payload=Markup(json_for_script(payload)) if scripts else "",
            plotly=Markup(plotly_js()) if scripts else "",
            script=Markup("\n".join(asset(name) for name in scripts)),
            **parts,
        )
    )


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, str) else formats.number(value),
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    environment.filters |= formats.FILTERS
    return environment


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
