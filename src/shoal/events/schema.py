"""What a source of events is: its files, its shape, and which column plays which role.

Roles are declared, or guessed from usual names. A foreign source is not opened by this process: an engine on
a cluster reads it where it lies.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from shoal.errors import PlanError, SourceError
from shoal.setting import Plan, rule, setting

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.events.readers import RowReport


Format = Literal["csv", "parquet"]
TimeUnit = Literal["s", "ms", "us"]
OnBadRow = Literal["stop", "drop"]
Window = tuple[int, int]  # start (included) and end (not) in UTC microseconds

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
class SourcePlan(Plan):
    """What the owner states about a source, in a plan or by flags; None where nothing is stated."""

    paths: tuple[str, ...] = setting((), "Files, folders or patterns of files.", flag="source", file=True)
    shape: str | None = setting(None, "What a row stands for.", choices=tuple(Shape), code="unknown-shape")
    columns: Mapping[str, str] = setting(
        dict,
        "Which column plays a role, where its name is not a usual one; repeatable.",
        flag="column",
        metavar="ROLE=NAME",
        example="user=imsi",
    )
    time_zone: str | None = setting(
        None,
        "Clock of times without a zone, as Europe/Paris.",
        metavar="ZONE",
        example="Europe/Paris",
        published=True,
    )
    time_unit: TimeUnit | None = setting(
        None, "Unit of numeric times since 1970.", type_code="unknown-time-unit", example="s", published=True
    )
    time_format: str | None = setting(
        None, "How text times are written, as '%d/%m/%Y %H:%M:%S'.", metavar="FORMAT", published=True
    )
    coordinate_scale: float | None = setting(
        None,
        "Factor that converts the stored coordinates to degrees, for example 1e-5.",
        above=0,
        code="coordinate-scale-range",
        metavar="FACTOR",
        remedy="Leave out --coordinate-scale.",
        published=True,
    )
    point_seconds: float | None = setting(
        None,
        "Step between points of trip lists.",
        above=0,
        code="point-seconds-range",
        metavar="SECONDS",
        unit="s",
        remedy="Leave out --point-seconds.",
        published=True,
    )
    delimiter: str | None = setting(None, "Delimiter of CSV files.", metavar="CHAR")
    source_name: str | None = setting(
        None,
        "Public name of the source in the key of the run, such as calls-2026-03.",
        metavar="NAME",
        shown="the paths",
    )
    on_bad_row: OnBadRow | None = setting(
        None,
        "Stop at bad rows, or drop them.",
        usual="stop",
        type_code="unknown-on-bad-row",
        example="drop",
        published=True,
    )


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
LEAST_ROWS = 100  # from which users that are all different suggest a row number
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
class TripRule(Plan):
    """How points become trips; at least one of gap, flag and stay."""

    gap_minutes: float | None = setting(
        None,
        "A step this long or longer starts a new trip.",
        above=0,
        code="trip-rule",
        example=5,
        label="Gap that ends a trip",
        unit="minutes",
    )
    flag: bool = setting(False, "Trips are runs in which the flag column is true.", flag="trip-flag")
    stay_m: float | None = setting(
        None, "A stay remains within this many metres ...", above=0, code="trip-rule", example=200, unit="m"
    )
    stay_minutes: float | None = setting(
        None,
        "... for this long or longer, and ends a trip.",
        above=0,
        code="trip-rule",
        example=15,
        unit="minutes",
    )
    min_points: int = setting(
        1, "Trips with fewer points are left out.", least=1, code="trip-rule", example=2
    )

    @rule("stay_m", "stay_minutes")
    def _check_stay(self) -> None:
        if (self.stay_m is None) != (self.stay_minutes is None):
            message = "a stay needs both a distance and a time."
            raise PlanError("trip-rule", message, "Pass --stay-m 200 and --stay-minutes 15, say.")

    @rule("gap_minutes", "stay_m", "flag")
    def _check_some(self) -> None:
        if self.gap_minutes is None and self.stay_m is None and not self.flag:
            raise PlanError(
                "trip-rule", "a trip rule needs a gap, a flag or a stay.", "Pass --gap-minutes 5, say."
            )


# In order of preference; compared without case, blanks, dashes and underscores.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "user": (  # names of people and vehicles only: a column called "id" may number the rows
        *("user", "userid", "uid", "imsi", "msisdn", "subscriber", "subscriberid", "person", "personid"),
        *("deviceid", "device", "cardid", "card", "taxiid", "taxi", "vehicleid", "vehicle", "cabid", "cab"),
        *("customer", "customerid", "passenger", "passengerid", "rider", "riderid", "driver", "driverid"),
        *("bikeid", "bike", "carid", "car", "busid", "bus", "mmsi"),
    ),
    "time": ("time", "timestamp", "datetime", "eventtime", "ts", "timeutc", "unixtime", "epoch"),
    "site": (
        *("site", "siteid", "cell", "cellid", "tower", "towerid", "antenna", "antennaid"),
        *("station", "stationid", "basestation", "bts"),
    ),
    "lon": ("lon", "lng", "long", "longitude", "lone5", "lone6", "lone7"),
    "lat": ("lat", "latitude", "late5", "late6", "late7"),
    "x": ("x", "xm", "easting"),
    "y": ("y", "ym", "northing"),
    "trip": ("trip", "tripid", "journey", "journeyid", "trajectory", "trajectoryid", "trajid"),
    "start_time": ("starttime", "departuretime", "entrytime", "timein", "tapintime"),
    "start_site": ("startsite", "startstation", "origin", "fromsite", "fromstation", "from", "entrystation"),
    "end_time": ("endtime", "arrivaltime", "exittime", "timeout", "tapouttime"),
    "end_site": ("endsite", "endstation", "destination", "tosite", "tostation", "to", "exitstation"),
    "flag": ("flag", "occupied", "hired", "moving"),
}


def choose_columns(
    names: Sequence[str],
    list_names: Sequence[str],
    shape: Shape | None,
    given: Mapping[str, str],
) -> tuple[Shape, dict[str, str], tuple[str, ...]]:
    """The shape, the column of every role, and sentences about what was guessed.

    >>> choose_columns(["imsi", "timestamp", "cell_id"], [], None, {})[:2]
    (<Shape.SITE: 'site'>, {'user': 'imsi', 'time': 'timestamp', 'site': 'cell_id'})
    """
    check_roles(given, names)
    usual = {role: name for role in ROLES if (name := usual_column(role, names, given)) is not None}
    columns = {**usual, **given}
    guessed = []
    if shape is None:
        shape = guess_shape(columns, given, list_names)
        guessed.append(f"shape {shape}, from the columns")
    planar = "x" in columns and ("x" in given or "lon" not in columns)
    roles = [*required_roles(shape, planar), "flag"]
    missing = [role for role in roles if role not in columns and role != "flag"]
    if missing:
        raise missing_roles(shape, missing, names)
    chosen = {role: columns[role] for role in roles if role in columns}
    guessed += [f'{role} = "{name}"' for role, name in chosen.items() if role not in given and role != name]
    return shape, chosen, tuple(guessed)


def check_roles(given: Mapping[str, str], names: Sequence[str]) -> None:
    """Every role that is given is a role, and every column that is given exists."""
    for role, name in given.items():
        if role not in ROLES:
            raise PlanError(
                "unknown-role",
                f'"{role}" is not a role of a column.',
                f"Roles are {', '.join(ROLES)}." + near(role, ROLES),
            )
        if name not in names:
            raise SourceError(
                "missing-column",
                f'no column "{name}" (asked for as {role}); the columns are {listed(names)}.',
                f"Pass --column {role}=NAME with one of these." + near(name, names),
            )


def usual_column(role: str, names: Sequence[str], given: Mapping[str, str]) -> str | None:
    """The column with the most usual name for a role, among those not given another role."""
    taken = {name for other, name in given.items() if other != role}
    plain = {plain_name(name): name for name in reversed(names) if name not in taken}
    for usual in USUAL_NAMES[role]:
        if usual in plain:
            return plain[usual]
    return None


def guess_shape(columns: Mapping[str, str], given: Mapping[str, str], list_names: Sequence[str]) -> Shape:
    """The richest shape whose columns are all there; columns that were given settle what is ambiguous."""
    if "start_time" in columns and "end_time" in columns and "site" not in given and "time" not in given:
        return Shape.TRANSIT
    if "site" in given:
        return Shape.SITE
    points = "lon" in columns and "lat" in columns
    planar = "x" in columns and "y" in columns
    if (points or planar) and any(columns.get(role) in list_names for role in ("lon", "x")):
        return Shape.TRIP_LIST
    if (points or planar) and "trip" in columns:
        return Shape.TRIP_POINT
    if "site" in columns and not ("lon" in given or "x" in given):
        return Shape.SITE
    if planar and ("x" in given or not points):
        return Shape.PLANAR
    return Shape.POINT if points else Shape.SITE


def missing_roles(shape: Shape, missing: Sequence[str], names: Sequence[str]) -> SourceError:
    role = missing[0]
    hints = [hint for hint in (near(usual, names) for usual in USUAL_NAMES[role][:3]) if hint]
    return SourceError(
        "missing-column",
        f'shape "{shape}" needs a column for {", ".join(missing)}; the columns are {listed(names)}.',
        f"Pass --column {role}=NAME, or another --shape." + (hints[0] if hints else ""),
    )


def plain_name(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in " -_.")


def near(name: str, names: Sequence[str]) -> str:
    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f' Did you mean "{matches[0]}"?' if matches else ""


def listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


class ForeignSource(EventSource):
    """Scans and checks of this package ask it instead of opening files."""

    def batches(
        self, *, sites: Sequence[str] | None, window_us: Window | None, with_flag: bool, by_user: bool
    ) -> Iterator[pa.RecordBatch]:
        """Normalised events, as `scan` gives them, brought here; `by_user`: sorted by user."""
        raise NotImplementedError

    def row_report(
        self, *, sites: Sequence[str] | None, with_flag: bool, progress: Callable[[float], None] | None
    ) -> RowReport:
        """Every row looked at once, as `check_rows` does."""
        raise NotImplementedError

    def any_row(
        self, *, sites: Sequence[str] | None, window_us: Window, test: Callable[[pa.RecordBatch], bool]
    ) -> bool:
        """Whether any batch of events passes; `test` can be pickled."""
        raise NotImplementedError

    def contents(self) -> list[str]:
        """What names the rows it holds: digests of its files, or of all its rows."""
        raise NotImplementedError
