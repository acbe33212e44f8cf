"""A page as one file: templates filled, the chart library inside, written for its owner alone."""

from __future__ import annotations

import re
from datetime import datetime
from importlib import resources
from pathlib import Path

from shoal.errors import OutputError, PlanError
from shoal.release.private import private_file


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
    return resources.files("shoal.release.report").joinpath("assets", name).read_text(encoding="utf-8")


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
