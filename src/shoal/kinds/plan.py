"""What plans of every kind share: population, source, folders and window; reading TOML, merging flags.

Then what plans of trips have in common: their unit, their map, their price, their bounds.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import LedgerError, PlanError
from shoal.events.schema import SourcePlan, TripRule, elsewhere, written
from shoal.privacy.accounting import GDP, LARGEST_EPSILON, ZCDP, Budget, check_delta
from shoal.privacy.guarantee import TRIP, Unit, declared_size, population_name
from shoal.privacy.ledger import open_ledger
from shoal.privacy.ledger.rules import is_sha256
from shoal.setting import Plan, rule, setting
from shoal.space.plan import is_coordinate

if TYPE_CHECKING:
    from shoal.space.clock import Clock

DEFAULT_DELTA = 1e-6
LAST_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class StretchPlan(Plan):
    """The period that is released, on the local clock; its end is exclusive."""

    start: str = setting(
        "First day (or local time) of the window.", example="2026-03-02", label="Window from"
    )
    end: str = setting(
        "Day (or local time) after the window.", example="2026-03-09", label="to (not included)"
    )
    time_zone: str = setting(
        "Local clock of the window, as Europe/Paris.",
        metavar="ZONE",
        example="Europe/Paris",
        label="Time zone",
    )


@dataclass(frozen=True, kw_only=True)
class WindowPlan(StretchPlan):
    """The window and its slots, on the local clock."""

    slot_minutes: int = setting(
        60, "Length of a slot.", divides=1440, code="slot-minutes", label="Length of a slot", unit="minutes"
    )


@dataclass(frozen=True, kw_only=True)
class ReleasePlan(Plan):
    """What the plans of every kind of release state."""

    source: SourcePlan = setting(
        "The files to read and how.",
        remedy="Name the files, as arguments or under [source] paths in the plan.",
    )
    population: str = setting(
        "Population whose privacy budget pays for the release. Create one with `shoal ledger create`.",
        key=True,
        remedy="Pass --population NAME; `shoal ledger create NAME` makes one.",
    )
    unit: str = setting(
        "user",
        "What the promise covers; another unit needs --column user=NAME.",
        key=True,
        last=2,
        label="What is protected",
    )
    out: str = setting("release", "Folder of the release; must not exist.", file=True, last=2)
    owner: str = setting("owner", "Folder for the owner's report.", file=True, last=2)
    run_id: str = setting(
        "",
        "Another id makes another release of the same plan, and spends again.",
        key=True,
        last=2,
        label="Run id",
    )
    supersedes: str = setting(
        "", "Manifest hash of an earlier release that this one replaces.", metavar="SHA256", last=2
    )
    licence: str = setting("", "Licence of the release, one line.", last=2, label="Licence")
    seed: int | None = setting(
        None, "For tests only: repeatable noise, never publishable.", (0, LAST_SEED), example=1, last=2
    )

    @rule("unit")
    def _check_unit_name(self) -> None:
        Unit(self.unit)

    @rule("licence")
    def _check_licence(self) -> None:
        if not self.licence.isprintable():
            raise PlanError(
                "plan-licence",
                "the licence must be one line of plain text.",
                "Shorten it to a name or a link.",
            )

    @rule("supersedes")
    def _check_supersedes(self) -> None:
        check_supersedes(self.supersedes)

    @rule("population")
    def _name_population(self) -> None:
        object.__setattr__(self, "population", population_name(self.population))
        if not self.population:
            raise PlanError("plan-population", "the plan names no population.", "Pass --population NAME.")

    @rule("owner", "out")
    def _check_folders(self) -> None:
        owner, out = os.path.realpath(self.owner), os.path.realpath(self.out)
        if os.path.commonpath([owner, out]) == out:
            raise PlanError(
                "plan-folders",
                "the owner's folder lies inside the release; raw figures and keys must stay out of it.",
                "Pass another --owner.",
            )


def check_supersedes(manifest_sha256: str) -> None:
    """The hash of a manifest, or nothing."""
    if manifest_sha256 and not is_sha256(manifest_sha256):
        raise PlanError(
            "plan-supersedes",
            f"a release is named by the SHA-256 hash of its manifest; got {manifest_sha256!r:.70}.",
            "`shoal ledger show NAME --json` lists the hashes of a population's releases.",
        )


def epsilon_setting(default: Any = MISSING, **more: Any) -> Any:
    """The privacy loss of a release, as every private kind states it."""
    described = {
        "above": 0,
        "most": LARGEST_EPSILON,
        "code": "epsilon-range",
        "example": 1.0,
        "key": True,
        "label": "Epsilon",
        "remedy": "Pass --epsilon 1, say: smaller is more private, larger is more accurate.",
    }
    return setting(default, "Privacy loss of the release: smaller is more private.", **described, **more)


def delta_setting(default: Any, **more: Any) -> Any:
    """The probability mass outside the bound, as every private kind states it."""
    described = {"least": 0, "below": 1, "code": "delta-range", "example": DEFAULT_DELTA, "key": True}
    summary = "Probability mass (delta) that the epsilon bound may miss, for example 1e-6."
    return setting(default, summary, label="Delta", **described, **more)


def read_plan(path: str | Path) -> dict[str, Any]:
    """Settings from a TOML file; file names in it are relative to it."""
    path, most_bytes = Path(path), 1 << 16
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise PlanError("plan-file", f"the plan {path} is not a file.", "Name a TOML file.")
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)
        # tomllib takes quadratic time and memory for a key of many parts, all of them on one line
        if len(content) > most_bytes or max(line.count(b".") for line in content.split(b"\n")) > 500:
            message = f"a plan has at most {most_bytes} bytes, and 500 dots in a line; {path} has more."
            raise PlanError("plan-file", message, "Name many files of events by a folder or a pattern.")
        settings = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError("plan-file", f"the plan {path} cannot be read.", "Check the path.") from error
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise PlanError("plan-file", f"the plan {path} is not valid TOML: {str(error)[:200]}.") from error
    here = path.parent
    source = part_in(settings, "source")
    if "paths" in source:
        listed = [source["paths"]] if isinstance(source["paths"], str) else source["paths"]
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise PlanError("plan-type", "source.paths must be a file name or a list of them.")
        source.setdefault("source_name", written(listed))
        source["paths"] = tuple(name if elsewhere(name) else os.path.normpath(here / name) for name in listed)
    files = ((part_in(settings, "space"), ("zones", "sites")), (settings, ("out", "owner", "given_file")))
    for part, names in files:
        for name in names:
            if isinstance(part.get(name), str):
                part[name] = os.path.normpath(here / part[name])
    if isinstance(settings.get("compose_with"), list):  # folders, or hashes of manifests
        settings["compose_with"] = [
            name if is_sha256(name) else os.path.normpath(here / str(name))
            for name in settings["compose_with"]
        ]
    return settings


def part_in(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = settings.get(name, {})
    if not isinstance(part, dict):
        raise PlanError("plan-type", f"[{name}] must be a table of settings.")
    return part


def merge(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags over a plan's settings, part by part; flags that were not given (None, empty) change nothing."""
    merged = dict(settings)
    for price, other in (("rho", "epsilon"), ("epsilon", "rho")):
        if flags.get(price) is not None:
            merged.pop(other, None)
    for name, value in flags.items():
        if isinstance(value, Mapping):
            if not isinstance(merged.get(name, {}), Mapping):
                raise PlanError("plan-type", f"[{name}] must be a table of settings.")
            base = merged.get(name, {})
            if name == "source" and value.get(
                "paths"
            ):  # the name in the plan is that of the plan's own paths
                base = {key: value for key, value in base.items() if key != "source_name"}
            part = merge(base, value)
            if part:
                merged[name] = part
        elif value is not None and value != ():
            merged[name] = value
    return merged


def law_of(population: str) -> str:
    """The law by which releases of a population are priced; of one that does not exist, as it would be."""
    try:
        owner = open_ledger().state().find(population)
    except LedgerError:  # the run says what is wrong with it
        return GDP
    return GDP if owner is None or owner.law != ZCDP else ZCDP


@dataclass(frozen=True, kw_only=True)
class PaidPlan(ReleasePlan):
    """What the plans of every differentially private kind state."""

    pot: str | None = setting(
        None,
        "Part of the population's budget that pays: gaussian or pure.",
        choices=("gaussian", "pure"),
        shown="that of the noise",
        last=2,
        label="Paid from",
    )

    @property
    def law(self) -> str:
        """The law by which the population's releases are priced, where they are not pure."""
        return law_of(self.population)


MOST_PER_USER = 1_000_000
Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class TripPlan(PaidPlan):
    """What every plan of trips states."""

    trip_rule: TripRule | None = setting(
        None, "How points become trips; without it the source names its trips.", only="trips"
    )
    epsilon: float = epsilon_setting()
    delta: float | None = delta_setting(None, shown="none: the noise is then Laplace")
    unit: str = setting(
        "user",
        "What the promise covers: user, or one trip of one user: trip.",
        key=True,
        label="What is protected",
    )
    trips_per_user: int | None = setting(None, "Trips kept of a user.", (1, MOST_PER_USER), only="trips")
    trips_cap: int | None = setting(
        None, "Trips of a user in the number of trips.", (1, MOST_PER_USER), only="trips"
    )
    trips: int | None = setting(
        None,
        "Declared number of trips, kept to two digits and published. Never a count from the data; without it "
        "the number is measured with noise.",
        (1, 10**11),
        example=100_000,
        remedy="Pass --trips 100000, say; or leave it out, and it is measured.",
        only="trips",
        key=True,
        label="Trips, about",
    )
    jump_m: float | None = setting(
        None,
        "A longer step between two points cuts the trip.",
        above=0,
        below=1e9,
        example=500,
        unit="m",
        only="trips",
        key=True,
    )
    window: StretchPlan = setting(
        "The period that is released.",
        remedy="Pass --start, --end and --time-zone; the window is public and never read off the trips.",
    )

    def clock(self) -> Clock:
        from shoal.space.clock import Clock

        return Clock(**asdict(self.window))

    def budget(self) -> Budget:
        return Budget.of(self.epsilon, self.delta, self.law)

    @property
    def per_unit(self) -> int:
        """Trips kept of one unit."""
        return 1 if self.unit == TRIP else self.value_of("trips_per_user")

    @rule("delta")
    def _set_delta(self) -> None:
        """A delta of 0 is none."""
        object.__setattr__(self, "delta", check_delta(self.delta) if self.delta else None)

    @rule("unit", "trips_per_user", "trips_cap")
    def _check_bounds_of_a_trip(self) -> None:
        if self.unit == TRIP and (self.trips_per_user not in (None, 1) or self.trips_cap is not None):
            raise PlanError(
                "trip-bound",
                "where the unit is a trip, every trip is kept and stands for itself.",
                "Leave --trips-per-user and --trips-cap out, or pass --unit user.",
            )

    @rule("unit", "trip_rule")
    def _check_stays(self) -> None:
        if self.unit == TRIP and self.trip_rule is not None and self.trip_rule.stay_m is not None:
            raise PlanError(
                "trip-stay",
                "trips that stays cut apart share the points of the stay, so none of them can be a unit.",
                "Pass --gap-minutes 5 or --trip-flag instead, or --unit user.",
            )

    @rule("unit", "source")
    def _check_unit_column(self) -> None:
        if self.unit not in ("user", TRIP) and "user" not in self.source.columns:
            raise PlanError(
                "plan-unit",
                f"trips are bounded per value of one column; the column of {self.unit} ids is not stated.",
                f"Pass --column user=NAME with the column of {self.unit} ids, not the one of persons.",
            )

    @rule("trips")
    def _round_trips(self) -> None:
        if self.trips is not None:
            object.__setattr__(self, "typed", {"trips": self.trips})
            object.__setattr__(self, "trips", declared_size(self.trips))


@dataclass(frozen=True, kw_only=True)
class BoxPlan(Plan):
    """The public box of a map, and what its coordinates are."""

    box: Box | None = setting(
        None,
        "west,south,east,north of the map; public, never read off the trips.",
        example=(2.25, 48.81, 2.42, 48.91),
        code="box-range",
        label="Box",
        only="trips",
    )
    cells: int | str | None = setting(None, "Cells along each side, or COLUMNSxROWS.", only="trips")
    planar: bool | None = setting(
        None, "Coordinates are x, y in metres.", shown="as the source", only="trips"
    )

    @rule("cells")
    def _check_cells(self) -> None:
        if self.cells is not None:
            sides_of(self.cells)

    def placed(self, planar: bool) -> Box:
        """The box, whose coordinates are those of the source; it is declared, never read off the trips."""
        if self.planar is not None and self.planar != planar:
            coordinates = "x, y in metres" if planar else "longitude and latitude"
            raise PlanError(
                "plan-planar",
                f"the source has {coordinates}; the plan says planar = {str(self.planar).lower()}.",
                "Leave --planar out, or name the coordinates: --column x=NAME --column y=NAME.",
            )
        if self.box is None:
            raise PlanError(
                "box-missing",
                "the plan does not state the box of its map; it is public and never read off the trips.",
                "Pass --box WEST,SOUTH,EAST,NORTH.",
            )
        if not all(map(is_coordinate, self.box)):
            raise PlanError("box-range", f"a box is four numbers; got {self.box!r}.")
        west, south, east, north = map(float, self.box)
        return west, south, east, north


def sides_of(cells: int | str) -> tuple[int, int]:
    """Columns and rows: 256, "256" or "300x200"."""
    parts = str(cells).lower().split("x")
    if len(parts) > 2 or not all(part.strip().isdecimal() for part in parts):
        raise PlanError(
            "grid-size", f"cells are a number or COLUMNSxROWS; got {cells!r}.", "Pass --cells 256, say."
        )
    return int(parts[0]), int(parts[-1])
