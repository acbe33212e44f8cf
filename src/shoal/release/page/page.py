"""A report as one HTML file: a template on one shell, the chart library inside, written for its owner alone.

Arrays are encoded as base64, JSON cannot end its script element, and maps of many cells are drawn in blocks.

Templates use functions of this file as filters: numbers and names as a reader writes them. A filter returns
text, or rows of text, never HTML: the templates escape what they are given.
"""

from __future__ import annotations

import base64
import json
import math
import re
import tomllib
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import numpy as np

from shoal.errors import OutputError, PlanError
from shoal.privacy.guarantee import promise as promise_of
from shoal.release.manifest import is_tuned
from shoal.release.staging import private_file

if TYPE_CHECKING:
    from jinja2 import Environment

    from shoal.space.places import Zones


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
        finalize=lambda value: value if isinstance(value, str) else number(value),
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    environment.filters |= FILTERS
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


def drawn_zones(zones: Zones) -> dict[str, Any]:
    """The outlines of zones, for the scripts of maps."""
    from shoal.space.places import outlines

    drawn = outlines(zones)
    return {**drawn, "xy": uint16_base64(drawn["xy"])}


CELL_COLOUR_QUANTILE = 0.995  # the few fullest cells share the last colour


def colour_end(values: np.ndarray) -> float:
    """The value that the last colour stands for."""
    some = values[values > 0]
    return float(np.quantile(some, CELL_COLOUR_QUANTILE)) if some.size else 1.0


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


UNDEFINED = "not defined"
LIST_SHOWN = 12


def number(value: Any) -> str:
    """A number as a reader writes it: 1,234,567; 0.0123; 1e-06.

    >>> number(1234567), number(0.012345678), number(1e-6), number(None), number(True)
    ('1,234,567', '0.0123457', '1e-06', 'none', 'yes')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if math.isnan(value):
            return UNDEFINED
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:,.6g}"
    return str(value)


def percent(share: float, signed: bool = False) -> str:
    """A share in percent, with as many decimals as it deserves.

    >>> percent(0.1234), percent(0.00123), percent(-0.02, signed=True), percent(float("nan"))
    ('12.3 %', '0.12 %', '-2.0 %', 'not defined')
    """
    if math.isnan(share):
        return UNDEFINED
    value = 100 * share
    if value == 0:
        return "0 %"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2
    return f"{value:{'+' if signed else ''},.{decimals}f} %"


def signed_percent(share: float) -> str:
    return percent(share, signed=True)


def people(value: float) -> str:
    """People: one decimal below 100, whole numbers above.

    >>> people(0.0), people(12.34), people(1234.5)
    ('0', '12.3', '1,234')
    """
    if math.isnan(value):
        return UNDEFINED
    return f"{value:,.1f}" if 0 < abs(value) < 100 else f"{value:,.0f}"


def metres(value: float) -> str:
    """Metres, one decimal below 100.

    >>> metres(12.34), metres(1234.5), metres(float("nan"))
    ('12.3 m', '1,234 m', 'not defined')
    """
    return UNDEFINED if math.isnan(value) else f"{people(value)} m"


def duration(value: float) -> str:
    """Minutes below two hours, else hours.

    >>> duration(30), duration(120), duration(90), duration(8.5)
    ('30 minutes', '2 hours', '90 minutes', '8.5 minutes')
    """
    if value >= 120 and value % 60 == 0:
        return f"{value / 60:,.0f} hours"
    return f"{number(float(value))} minute{'' if value == 1 else 's'}"


def distance(value: float) -> str:
    """Kilometres with a decimal from one on, else metres.

    >>> distance(200.0), distance(1849.0), distance(float("nan"))
    ('200 m', '1.8 km', 'not defined')
    """
    if math.isnan(value):
        return UNDEFINED
    return f"{value / 1000:,.1f} km" if value >= 1000 else f"{value:.0f} m"


def minutes(value: float) -> str:
    """Minutes, with a decimal where they are not whole.

    >>> minutes(12.0), minutes(12.34)
    ('12 min', '12.3 min')
    """
    if math.isnan(value):
        return UNDEFINED
    return f"{value:,.1f} min" if value % 1 else f"{value:,.0f} min"


def correlation(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.3f}"


def figure(value: float) -> str:
    """A score near 0 or 1.

    >>> figure(0.01234), figure(0.91234)
    ('0.0123', '0.912')
    """
    return UNDEFINED if math.isnan(value) else f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}"


def moment(start: datetime) -> str:
    """The clock time of a moment.

    >>> moment(datetime(2026, 3, 2, 8))
    'Mon 2 Mar 2026, 08:00'
    """
    return f"{day(start)}, {start:%H:%M}"


def day(date: datetime) -> str:
    return f"{date:%a} {date.day} {date:%b %Y}"


def date_of(created: Any) -> str:
    """The date of an ISO time; any other text as it stands."""
    try:
        date = datetime.fromisoformat(str(created))
    except ValueError:
        return str(created)
    return f"{date.day} {date:%b %Y}"


_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


def time_of(text: str) -> str:
    """An ISO time as a reader writes it, with its offset where it has one; any other text as it stands.

    >>> time_of("2026-03-02T08:00:00"), time_of("2026-03-01T23:00:00+00:00")
    ('Mon 2 Mar 2026, 08:00', 'Sun 1 Mar 2026, 23:00 UTC')
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment(at)} {at:%Z}".rstrip()


def words(key: str) -> str:
    return key.replace("_", " ").replace(".", ": ")


def short(value: Any) -> str:
    """A parameter on one line; of a long list, its first entries and how many there are."""
    if isinstance(value, dict):
        return ", ".join(f"{words(str(key))} {short(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        shown = ", ".join(short(item) for item in value[:LIST_SHOWN])
        return shown + (f" ... ({len(value):,} in all)" if len(value) > LIST_SHOWN else "") or "none"
    return time_of(value) if isinstance(value, str) and _ISO.match(value) else number(value)


def flat(value: Any, path: str = "") -> list[tuple[str, str]]:
    """Nested parameters as rows of a name and a value.

    >>> flat({"window": {"start": "2026-03-02T00:00:00"}, "jump_m": None})
    [('Window: start', 'Mon 2 Mar 2026, 00:00'), ('Jump that cuts a trip (metres)', 'not set')]
    """
    if isinstance(value, dict) and value:
        return [
            row for key, item in value.items() for row in flat(item, f"{path}.{key}" if path else str(key))
        ]
    return [(label_of(path), "not set" if value is None else short(value))]


LABELS = tomllib.loads(asset("labels.toml"))


def label_of(path: str) -> str:
    """The label of a parameter; in a table of parameters, that of the table and the name inside.

    >>> label_of("jump_m"), label_of("mechanism.parts.stay_places")
    ('Jump that cuts a trip (metres)', 'Mechanism: parts in use: stay places')
    """
    first, *inner = path.split(".")
    names = [LABELS["inner"].get(key, key.replace("_", " ")) for key in inner]
    return ": ".join([LABELS["parameters"].get(first, first.replace("_", " ").capitalize()), *names])


def guarantee_sentence(manifest: dict[str, Any]) -> str:
    """The guarantee in one plain sentence; the manifest's own sentence where it has one."""
    promise = manifest.get("promise")
    if isinstance(promise, str) and promise.strip():
        return promise
    guarantee = manifest.get("guarantee") or {}
    epsilon, delta = guarantee.get("epsilon"), guarantee.get("delta")
    if not isinstance(epsilon, int | float):
        return "The manifest states no differential privacy guarantee for this release."
    unit = guarantee.get("unit") or manifest.get("unit") or "unit"
    return promise_of(epsilon, float(delta or 0), str(unit))


def spends_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Named spends as a table: header, rows, and the columns of amounts.

    >>> spends_of({"spends": [{"name": "trips", "epsilon": 0.5}]})["right"]
    range(1, 2)
    """
    spends = [spend for spend in manifest.get("spends") or [] if isinstance(spend, dict)]
    columns = list(dict.fromkeys(key for spend in spends for key in spend))
    first = next((at for at, column in enumerate(columns) if column in ("rho", "epsilon")), len(columns))
    return {
        "header": [words(column) for column in columns],
        "rows": [[short(spend.get(key, "")) for key in columns] for spend in spends],
        "right": range(first, len(columns)),
    }


def budget_shares(budget: dict[str, Any]) -> tuple[float, float] | None:
    """Percent of the budget spent before and by this release; None where the figures are no numbers."""
    try:
        before, now = (100 * float(share) for share in budget["shares"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return min(100.0, max(0.0, before)), min(100.0, max(0.0, now))


FILTERS = {
    each.__name__: each
    for each in (
        *(number, percent, signed_percent, people, metres, duration, distance, minutes, correlation, figure),
        *(day, moment, date_of, words, short, flat, guarantee_sentence, spends_of, budget_shares, is_tuned),
    )
}
