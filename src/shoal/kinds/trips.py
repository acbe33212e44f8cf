"""Shared by all kinds of release about trips: preparing, checking rows, reading trips, errors, maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shoal.engine.engine import Encoder, Held
from shoal.errors import printable
from shoal.events.schema import EventSource
from shoal.events.trips import TripPoints
from shoal.kinds.describe import Prepared, near, priced, unit_sentence
from shoal.kinds.keys import key_of
from shoal.kinds.plan import TRIP
from shoal.kinds.run import Build, Locate, RunResult, Test, any_row, checked_rows, some
from shoal.kinds.verdict import Change, Limits, Verdict, from_size, judged, unit_noise, with_epsilons
from shoal.mechanisms.method import Method
from shoal.privacy.guarantee import Guarantee
from shoal.release.page.page import colour_end, float32_base64, time_of
from shoal.space.cells import CellGrid
from shoal.space.checks import check_clock
from shoal.space.clock import Clock

if TYPE_CHECKING:
    from shoal.events.schema import TripRule

TRIP_SENTENCE = (
    "One trip of one user: all points of that trip in the window, {found}. "
    "As declared by the owner, this is not a person: who made many trips is not protected as a person."
)
PER_TRIP = "the guarantee is per trip: a person who made many trips is not protected as a person."
ALL_TRIPS = 2**40  # no bound: for the owner's figures
OFF_BY = 1.6  # other data lay within this factor of the measured tables


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTrips(Prepared):
    """A plan about trips with its public parts opened. Nothing here depends on a row of the source."""

    plan: Any
    source: EventSource
    setting: Any = field(repr=False)
    window_us: tuple[int, int]
    method: Method
    mechanism: Any
    guarantee: Guarantee

    @classmethod
    def of(cls, plan: Any, source: EventSource, setting: Any, method: Method, **opened: Any) -> Self:
        """Build the mechanism within the plan's budget; `opened` are the fields of one kind."""
        clock, grid = plan.clock(), getattr(setting, "grid", None)
        if grid is not None and not grid.planar:
            check_clock((grid.box[0] + grid.box[2]) / 2, clock.time_zone, clock.offset_hours)
        window = window_us(clock)
        return cls(**priced(plan, source, setting, method), window_us=window, **opened)

    @property
    def grid(self) -> CellGrid:
        return self.setting.grid

    def places(self) -> dict[str, Any]:
        """The public map, as it enters the key."""
        return self.grid.describe()

    def key_parts_of(self, kind: str, unread: str = "") -> list[Any]:
        """Public values that identify a run, for every kind about trips."""
        return [kind, key_of(self.plan, unread), rule_of(self.plan.trip_rule), self.window_us, self.places()]

    def line(self, kind: str, places: str) -> str:
        """Kind, method, map, window and unit, for the ledger."""
        plan = self.plan
        return f"{kind}, {plan.method}, {places}, {plan.window.start} to {plan.window.end}, per {plan.unit}"

    def first_rows(self) -> list[tuple[str, str]]:
        """Lines of the dry run: population and method."""
        return [
            ("population", self.plan.population),
            ("method", f"{self.plan.method}: {self.method.summary}"),
        ]

    def map_rows(self) -> list[tuple[str, str]]:
        """Lines of the dry run: map, window and trip rule."""
        grid, plan = self.grid, self.plan
        west, south, east, north = grid.box
        width, height = grid.cell_m
        return [
            *self.first_rows(),
            ("map", f"{west:g} to {east:g}, {south:g} to {north:g}"),
            ("cells", f"{grid.columns} x {grid.rows}, each {width:,.0f} x {height:,.0f} m"),
            self.window_row(),
            ("trips", "named by the source" if plan.trip_rule is None else "found by the trip rule"),
        ]

    def window_row(self) -> tuple[str, str]:
        window = self.plan.window
        return "window", f"{window.start} to {window.end}, {window.time_zone}"

    def source_row(self) -> tuple[str, str]:
        return "source", ", ".join(sorted(self.source.columns))

    def expected(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        error = summary.get("expected_share")
        if error is None:
            return []
        return [("error", f"about {error['share']:.1%} {error['of']}; measured on cabs, per trip")]

    @property
    def each_trip(self) -> bool:
        return self.plan.unit == TRIP

    @property
    def unit_sentence(self) -> str:
        if not self.each_trip:
            return unit_sentence(self.guarantee.unit)
        named = "as the trip rule finds it"
        if self.plan.trip_rule is None:
            named = f'as the column "{printable(self.source.columns["trip"])}" of the source names it'
        return TRIP_SENTENCE.format(found=named)


def read_it(result: RunResult) -> str:
    return f"See {near(result.release / 'README.md')} for how to read the files."


def window_us(clock: Clock) -> tuple[int, int]:
    return int(clock.edges_us[0]), int(clock.edges_us[-1])


def rule_of(rule: TripRule | None) -> dict[str, Any] | None:
    return None if rule is None else asdict(rule)


def cut_words(each_trip: bool) -> str:
    """Treatment of points outside the map, for the manifest."""
    pieces = "its pieces are trips"
    if each_trip:
        pieces = "the piece with most points is kept"
    return f"dropped; the trip is cut there, as at a jump, and {pieces}"


def measured_share(table: dict[int, float], signal: float, of: str) -> dict[str, Any] | None:
    """Expected error, interpolated in a table of measured errors; uses public parameters alone.

    The error of the default methods depends on the signal s = epsilon * trips. The tables are of San
    Francisco cabs (docs/results/histogram.md, synthetic.md), promise per trip, pure epsilon; between their
    points the logarithms are joined by lines, beyond them nothing is said. Where other settings were not
    measured, there is no figure rather than a wrong one: per user it depends on how many trips people make,
    which is private.

    >>> measured_share({10: 0.1, 1000: 0.001}, 100, "of all")["share"]
    0.01
    >>> measured_share({10: 0.1, 1000: 0.001}, 5, "of all") is None
    True
    """
    points = list(table)
    if not points[0] <= signal <= points[-1]:
        return None
    share = np.exp(np.interp(np.log(signal), np.log(points), np.log(list(table.values()))))
    return {"share": round(float(share), 6), "of": of, "off_by": OFF_BY}


def verdict_of_trips(
    trips: float | None,
    bound: float,
    guarantee: Mapping[str, Any],
    table: Mapping[int, float],
    limits: Limits,
    summary: str,
) -> Verdict:
    """The grade of a release of so many trips, from a table of errors measured per trip.

    Args:
        trips: in the window, declared or published; None: not declared.
        bound: trips with which a unit enters at most.
        guarantee: with epsilon and delta.
        table: signal -> error, continued beyond its ends as power laws.
        summary: with {error}.
    """
    noise = unit_noise(guarantee)

    def error(trips: float, noise: float = noise) -> float:
        """The signal of the tables is epsilon trips, where the noise of a count is sqrt(2) / epsilon."""
        return power_law(table, math.sqrt(2) / noise * max(trips, 1.0) / bound)

    if trips is None:
        return from_size("trips", "--trips", error, limits)
    changes = with_epsilons(guarantee, partial(error, trips))
    changes += [
        Change(lever="window", what=f"a window {times} times as long", error=error(times * trips))
        for times in (2, 4)
    ]
    return judged(error(trips), limits, summary, changes)


def power_law(table: Mapping[int, float], at: float) -> float:
    """Interpolates logarithms; beyond the ends of the table the last line goes on.

    >>> round(power_law({10: 0.1, 1000: 0.001}, 10_000), 6)
    0.0001
    """
    x, y = (np.log(np.array(list(values), float)) for values in (table, table.values()))
    first = min(max(int(np.searchsorted(x, math.log(at))) - 1, 0), len(x) - 2)
    slope = (y[first + 1] - y[first]) / (x[first + 1] - x[first])
    return float(np.exp(y[first] + slope * (math.log(at) - x[first])))


class TripBuild(Build):
    """Builds the files of a release of trips from raw points."""

    nobody = (
        "no point lies in the window and the box",
        "Check --box (west,south,east,north), the order of coordinates, --start, --end, --time-zone.",
    )

    @property
    def sites(self) -> Sequence[str] | None:
        """Ids of the sites, where records name them."""
        return None

    def check_rows(self) -> None:
        """Stop on bad rows before anything is spent."""
        rule = self.prepared.plan.trip_rule
        flagged = rule is not None and rule.flag
        report = checked_rows(self.prepared.source, self.tell, sites=self.sites, with_flag=flagged)
        self.rows, self.bad_rows = report.rows, report.bad

    def any_event(self, test: Test = some) -> bool:
        return any_row(self.prepared.source, test, window_us=self.prepared.window_us)

    @property
    def locate(self) -> Locate | None:
        return partial(_in_grid, self.prepared.grid)

    def hold(self, encoder: Encoder, stage: str, step_s: float | None = None) -> Held:
        """The source's trips, encoded where the engine keeps them."""
        from shoal.engine.trip_pieces import PointWatch

        prepared = self.prepared
        points = TripPoints(
            source=prepared.source, rule=prepared.plan.trip_rule, window_us=prepared.window_us
        )
        self.tell.stage(stage, self.rows)
        watch = PointWatch(grid=prepared.grid, step_s=step_s)
        return self.engine.hold(points, encoder, watch, lambda _, rows: self.tell.advance(rows))


def _in_grid(grid: CellGrid, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return grid.place(x, y)[2]


MOST_DRAWN = 256  # cells along a side of a map; finer ones are drawn in blocks


def grid_subtitle(grid: CellGrid | None, manifest: Mapping[str, Any], *more: str) -> list[str]:
    """The grid of a release of trips, its method and its window."""
    public, parts = manifest.get("public") or {}, [*more]
    if grid is not None:
        width, height = grid.cell_m
        parts.insert(0, f"{grid.columns} x {grid.rows} cells of {width:,.0f} x {height:,.0f} m")
    parts += [f"method {public['method']}"] if "method" in public else []
    window = public.get("window") or {}
    return parts + (
        [f"{time_of(window['start'])} to {time_of(window['end'])}"] if {"start", "end"} <= set(window) else []
    )


def cell_maps(grid: CellGrid, sides: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Maps of the cells of a grid on one scale of colours; where there are many cells, means of blocks."""
    drawn = {name: drawn_blocks(values) for name, values in sides.items()}
    shown, block = [values for values, _ in drawn.values()], max(block for _, block in drawn.values())
    rows, columns = shown[0].shape
    width, height = grid.cell_m
    return {
        **{name: float32_base64(values) for name, (values, _) in drawn.items()},
        "columns": columns,
        "rows": rows,
        "widthKm": width * block / 1000,
        "heightKm": height * block / 1000,
        "end": colour_end(np.concatenate([values.ravel() for values in shown])),
        "differenceEnd": colour_end(np.abs(shown[0] - shown[-1])),
    }


def drawn_blocks(faces: np.ndarray) -> tuple[np.ndarray, int]:
    """Means of square blocks of cells, where a side has more than MOST_DRAWN."""
    block = -(-max(faces.shape) // MOST_DRAWN)
    if block == 1:
        return faces, 1
    rows, columns = (-(-side // block) for side in faces.shape)
    padded = np.full((rows * block, columns * block), np.nan)
    padded[: faces.shape[0], : faces.shape[1]] = faces
    return np.nanmean(padded.reshape(rows, block, columns, block), axis=(1, 3)), block
