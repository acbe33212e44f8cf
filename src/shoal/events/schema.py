"""What a source of events is: its files, its shape, and which column plays which role."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

from shoal.errors import PlanError

Format = Literal["csv", "parquet"]
TimeUnit = Literal["s", "ms", "us"]
OnBadRow = Literal["stop", "drop"]

TABLE = "table:"  # before the name of a table of Spark's catalogue
ROLES = (
    *("user", "time", "site", "lon", "lat", "x", "y", "trip"),
    *("start_time", "start_site", "end_time", "end_site", "flag"),
)

# Times before 1970 or after 2100 are bad rows: they are parsing accidents, not events.
FIRST_US = 0
LAST_US = 4_102_444_800_000_000  # 2100-01-01T00:00:00Z, not included


class Shape(StrEnum):
    """What a row of the source stands for."""

    SITE = "site"  # user, time, site
    POINT = "point"  # user, time, lon, lat
    PLANAR = "planar"  # user, time, x, y
    TRIP_POINT = "trip-point"  # user, trip, time, lon, lat (or x, y)
    TRIP_LIST = "trip-list"  # user, trip, time, lon, lat as lists; one row is a trip
    TRANSIT = "transit"  # user, start_time, start_site, end_time, end_site

    @property
    def has_sites(self) -> bool:
        return self in (Shape.SITE, Shape.TRANSIT)

    @property
    def has_trips(self) -> bool:
        return self in (Shape.TRIP_POINT, Shape.TRIP_LIST)


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """What the owner says about a source, on the command line or in a plan; None is "not said"."""

    paths: tuple[str, ...] = ()
    shape: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    time_zone: str | None = None
    time_unit: TimeUnit | None = None
    time_format: str | None = None  # of text times, as strptime takes it
    coordinate_scale: float | None = None
    point_seconds: float | None = None
    on_bad_row: OnBadRow | None = None  # stop, unless said
    delimiter: str | None = None
    source_name: str | None = None  # names the source in the key of a run; None: the paths as written

    def reading(self) -> dict[str, Any]:
        """What opening the source takes: all but its name."""
        return {name: value for name, value in vars(self).items() if name != "source_name"}


@dataclass(frozen=True, kw_only=True)
class EventSource:
    """A description of files of events; it can be pickled and holds no open files.

    `columns` maps roles to column names, `types` maps the same roles to the types found in the files
    (DuckDB's names; VARCHAR for all of CSV), `names` lists all columns in file order.
    """

    paths: tuple[str, ...]
    format: Format
    shape: Shape
    columns: Mapping[str, str]
    types: Mapping[str, str]
    names: tuple[str, ...]
    time_zone: str | None = None
    time_unit: TimeUnit | None = None
    time_format: str | None = None
    coordinate_scale: float = 1.0
    point_seconds: float | None = None
    on_bad_row: OnBadRow = "stop"
    delimiter: str = ","
    guessed: tuple[str, ...] = field(default=())  # sentences about what was guessed, to be shown
    relation: str | None = None  # rows come from this relation of the connection, not from files

    @property
    def planar(self) -> bool:
        """Places are x, y in metres (or map units) and not lon, lat."""
        return "x" in self.columns

    def understood(self) -> dict[str, Any]:
        """How rows are read, whatever they lie in: part of the name of a run."""
        return {each.name: getattr(self, each.name) for each in fields(EventSource) if each.name not in WHERE}

    @property
    def user_is_integer(self) -> bool:
        return self.types["user"] in INTEGER_TYPES


WHERE = ("paths", "names", "types", "guessed", "relation")  # where rows lie, and what follows from the rest
INTEGER_TYPES = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"))
WIDE_INTEGER_TYPES = frozenset(("UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"))
FLOAT_TYPES = frozenset(("FLOAT", "DOUBLE"))
NAIVE_TYPES = frozenset(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"))
ZONED_TYPES = frozenset(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"))


def elsewhere(path: str) -> bool:
    """A table of Spark's, or a path with a scheme: nothing that this process opens.

    >>> elsewhere("table:calls"), elsewhere("s3a://bucket/calls"), elsewhere("calls/*.parquet")
    (True, True, False)
    """
    return path.startswith(TABLE) or ":/" in path


def written(paths: Iterable[str]) -> str:
    """Paths, patterns or tables as one text, spelt one way."""
    return "\n".join(path if elsewhere(path) else os.path.normpath(path) for path in paths)


def required_roles(shape: Shape, planar: bool) -> tuple[str, ...]:
    """Roles that must have a column."""
    place = ("x", "y") if planar else ("lon", "lat")
    return {
        Shape.SITE: ("user", "time", "site"),
        Shape.POINT: ("user", "time", "lon", "lat"),
        Shape.PLANAR: ("user", "time", "x", "y"),
        Shape.TRIP_POINT: ("user", "trip", "time", *place),
        Shape.TRIP_LIST: ("user", "trip", "time", *place),
        Shape.TRANSIT: ("user", "start_time", "start_site", "end_time", "end_site"),
    }[shape]


@dataclass(frozen=True, kw_only=True)
class TripRule:
    """How points become trips; at least one of gap, flag and stay."""

    gap_minutes: float | None = None
    flag: bool = False
    stay_m: float | None = None
    stay_minutes: float | None = None
    min_points: int = 1

    def __post_init__(self) -> None:
        for name in ("gap_minutes", "stay_m", "stay_minutes"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                option = name.replace("_", "-")
                raise PlanError(
                    "trip-rule", f"{option} must be above 0; got {value}.", f"Pass --{option} 5, say."
                )
        if (self.stay_m is None) != (self.stay_minutes is None):
            message = "a stay needs both a distance and a time."
            raise PlanError("trip-rule", message, "Pass --stay-m 200 --stay-minutes 15, say.")
        if self.gap_minutes is None and self.stay_m is None and not self.flag:
            raise PlanError(
                "trip-rule", "a trip rule needs a gap, a flag or a stay.", "Pass --gap-minutes 5, say."
            )
        if self.min_points < 1:
            message = f"min-points must be at least 1; got {self.min_points}."
            raise PlanError("trip-rule", message, "Pass --min-points 2, say.")
