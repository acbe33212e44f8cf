"""Which column plays which role: as told, or guessed from usual names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from shoal.errors import PlanError, SourceError
from shoal.events.schema import ROLES, Shape, required_roles

# In order of preference; compared without case, blanks, dashes and underscores.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "user": (
        *("user", "userid", "uid", "imsi", "msisdn", "subscriber", "subscriberid", "person", "personid"),
        *("deviceid", "device", "cardid", "card", "taxiid", "vehicleid", "cab", "id"),
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
    """Every role told is a role, and every column told is there."""
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
    """The richest shape whose columns are all there; columns that were told settle what is ambiguous."""
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
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f' Did you mean "{found[0]}"?' if found else ""


def listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
