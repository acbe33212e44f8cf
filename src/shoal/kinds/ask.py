"""A set of zones and slots as a person writes it, and the same by number.

Queries as an owner writes them (zone ids, a box, local times) are turned into questions by number:

    {"name": "Monday morning", "zones": ["Z1", "Z2"], "from": "2026-03-02T07:00", "to": "2026-03-02T10:00"}
    {"name": "a box, all week", "bbox": [2.30, 48.84, 2.36, 48.88]}
    {"name": "first day", "slots": [0, 1, 2, 3]}

Zones by id or by box (those whose centre lies in it), else all; slots by time or by number, else all. All of
it is public: a query says nothing of the events.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import PlanError
from shoal.space.plan import is_coordinate

if TYPE_CHECKING:
    from shoal.space.clock import Clock
    from shoal.space.places import Zones
    from shoal.space.setting import Question

MOST_QUERIES = 100_000
MOST_BYTES = 1 << 26
WORDS = {"from": "start", "to": "end"}  # as written -> as a field


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One query as it is written."""

    name: str = ""
    zones: tuple[str, ...] | None = None
    bbox: tuple[float, float, float, float] | None = None  # west, south, east, north
    start: str | None = None
    end: str | None = None  # exclusive
    slots: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.zones is not None and self.bbox is not None:
            raise self._wrong("names zones and a box; say one of them")
        if self.slots is not None and (self.start is not None or self.end is not None):
            raise self._wrong("names slots and times; say one of them")
        if not self.name.isprintable() or len(self.name) > 200:
            raise PlanError("query-name", "the name of a query is a printable line of up to 200 characters.")

    @classmethod
    def of(cls, written: Mapping[str, Any], number: int) -> Ask:
        """From the fields of a line of a file; `number` names those without a name."""
        known = [WORDS_BACK.get(each.name, each.name) for each in fields(cls)]
        for name in written:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
                raise PlanError("query-file", f"query {number} has a field {name!r} that is not known.", hint)
        values: dict[str, Any] = {
            WORDS.get(name, name): value for name, value in written.items() if value is not None
        }
        values["name"] = values.get("name") or f"query {number}"
        for name, value in values.items():
            if not _fits(name, value):
                raise PlanError(
                    "query-file", f"query {number} has a {name} of the wrong kind: {value!r:.60}."
                )
        for name in ("zones", "bbox", "slots"):
            if name in values:
                values[name] = tuple(values[name])
        return cls(**values)

    def question(self, zones: Zones, clock: Clock) -> Question:
        """By number, on these zones and this clock."""
        from shoal.space.setting import Question

        return Question(name=self.name, zones=self._zones(zones), slots=self._slots(clock))

    def _zones(self, zones: Zones) -> tuple[int, ...]:
        if self.bbox is not None:
            from shoal.space.setting import zones_in_box

            inside = zones_in_box(zones, self.bbox)
            if not inside:
                raise self._wrong("has a box in which no zone has its centre", "Check west,south,east,north.")
            return inside
        if self.zones is None:
            return tuple(range(zones.count))
        number = {zone: i for i, zone in enumerate(zones.ids)}
        unknown = [zone for zone in self.zones if zone not in number]
        if unknown:
            near = difflib.get_close_matches(unknown[0], zones.ids, 1)
            hint = f"Did you mean {near[0]}?" if near else f"The zones are called {zones.ids[0]}, ..."
            raise self._wrong(f"names a zone {unknown[0]!r:.60} that is not there", hint)
        if not self.zones:
            raise self._wrong("covers no zone")
        return tuple(number[zone] for zone in self.zones)

    def _slots(self, clock: Clock) -> tuple[int, ...]:
        if self.slots is not None:
            if not self.slots:
                raise self._wrong("covers no slot")
            if min(self.slots) < 0 or max(self.slots) >= clock.slots:
                raise self._wrong(f"names slots outside the window, which are 0 to {clock.slots - 1}")
            return tuple(self.slots)
        # A wall clock time that comes twice means its first occurrence, as in the window.
        walls = [datetime.fromisoformat(label).replace(tzinfo=None) for label in clock.starts_local()]
        first = 0 if self.start is None else self._edge(self.start, walls, clock)
        last = clock.slots if self.end is None else self._edge(self.end, walls, clock)
        if first >= last:
            raise self._wrong("covers no slot: it must end after it begins", "The end is exclusive.")
        return tuple(range(first, last))

    def _edge(self, written: str, walls: list[datetime], clock: Clock) -> int:
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            raise self._wrong(
                f"has a time {written!r:.40} that cannot be read", "Write 2026-03-02T07:00."
            ) from None
        if moment == clock.end:
            return clock.slots
        if moment not in walls:
            raise self._wrong(
                f"has a time {written} at which no slot of the window begins",
                f"The window is {clock.start} to {clock.end} in slots of {clock.slot_minutes} minutes.",
            )
        return walls.index(moment)

    def _wrong(self, what: str, remedy: str = "") -> PlanError:
        called = f'"{self.name}" ' if self.name else ""
        return PlanError("query-set", f"the query {called}{what}.", remedy)


WORDS_BACK = {field: word for word, field in WORDS.items()}


def read_asks(path: str | Path) -> tuple[Ask, ...]:
    """One query per line of JSON; empty lines are left out."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            lines = file.read(MOST_BYTES).decode().split("\n")
    except (OSError, ValueError) as error:
        raise PlanError("query-file", f"the queries {path} cannot be read.", "Check the path.") from error
    asks = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            written = json.loads(line)
        except (ValueError, RecursionError):
            written = None
        if not isinstance(written, dict):
            raise PlanError(
                "query-file",
                f"line {number} of {path} is not an object of JSON.",
                'One query per line: {"zones": ["Z1", "Z2"], "from": "2026-03-02T07:00"}.',
            )
        asks.append(Ask.of(written, number))
    if not asks:
        raise PlanError("query-file", f"{path} holds no query.", "Write one per line.")
    if len(asks) > MOST_QUERIES:
        raise PlanError("query-file", f"{path} holds more than {MOST_QUERIES:,} queries.")
    return tuple(asks)


_DIGITS = re.compile("[0-9]+").fullmatch


def parse_slots(text: str) -> tuple[int, ...]:
    """Numbers and ranges: "0-5,8" is 0 to 5 and 8."""
    chosen: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not all(_DIGITS(each) for each in ((first, last) if dash else (first,))) or len(part) > 20:
            raise PlanError("query-slots", f"slots are numbers and ranges; got {text!r:.60}.", "As 0-5,8.")
        if dash and int(last) - int(first) > 1_000_000:
            raise PlanError("query-slots", f"a range of slots is too long; got {part!r}.", "As 0-5,8.")
        chosen += range(int(first), int(last if dash else first) + 1)
    return tuple(chosen)


def _fits(name: str, value: Any) -> bool:
    if name in ("name", "start", "end"):
        return isinstance(value, str)
    if name == "bbox":
        return isinstance(value, list) and len(value) == 4 and all(map(is_coordinate, value))
    kind: Any = {"zones": str, "slots": int}[name]
    return isinstance(value, list) and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)
