"""Sums of a published density with intervals: the files that carry them, and any set of zones and slots.

    release = shoal.read_density("release")
    release.total(zones=["Z0001", "Z0002"], start="2026-03-02T07:00", end="2026-03-02T10:00")

Reading a release costs nothing. totals.parquet has the sums that are asked for most; covariance.parquet has
what the interval of any other sum follows from (postprocess/density/sums.py), and the ready sums too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array, eye_array, triu

from shoal.errors import PlanError, SourceError
from shoal.kinds.ask import Ask
from shoal.postprocess.density.sums import Covariance, Total, covariance_of, ready, total_of
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.verify import published_zones
from shoal.space.clock import Clock
from shoal.space.geography import Setting
from shoal.space.places import Zones
from shoal.stages.noisy import DensityEstimate

TOTALS, COVARIANCE = "totals.parquet", "covariance.parquet"
SUMS = {  # of methods that state an interval of sums
    TOTALS: {
        "sum": "zone-day, zone-week (seven days from the first), city-slot, city-day or city",
        "zone": "id of the zone; none: all zones",
        "first_slot": "number of the first slot",
        "last_slot": "number of the last slot, included",
        "slot_start": "start of the first slot on the local clock, with its offset from UTC (ISO 8601 text)",
        "people": "visits: people observed in a zone during a slot, added up",
        "people_low": "lower end of the 95 % interval of this sum, not below zero",
        "people_high": "upper end of the 95 % interval of this sum",
    },
    COVARIANCE: {
        "part": "part of the covariance of all counts, for intervals of other sums: `shoal density total`",
        "zone": "number of the zone in zones.geojson, from 0; none: not of a zone",
        "slot": "number of the slot; none: not of a slot",
        "column": "number of the coefficient, or of the other zone",
        "value": "a variance, factor or correlation; for centre, a count before negative ones were removed",
    },
}


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedDensity:
    """A release that was read back."""

    zones: Zones = field(repr=False)
    clock: Clock = field(repr=False)
    people: np.ndarray = field(repr=False)  # float64 [zones, slots]
    low: np.ndarray = field(repr=False)  # ends of the 95 % intervals
    high: np.ndarray = field(repr=False)
    covariance: Covariance | None = field(repr=False)  # None: sums have no interval
    decimals: int

    def total(
        self,
        zones: Sequence[str] | None = None,
        slots: Sequence[int] | None = None,
        *,
        bbox: tuple[float, float, float, float] | None = None,
        start: str | None = None,
        end: str | None = None,
    ) -> Total:
        """People in some zones during some slots, added up, with a 95 % interval; by default all of them.

        Args:
            zones: ids.
            slots: numbers, from 0; or `start` and `end`, local times at which slots begin, the end exclusive.
            bbox: west, south, east, north, instead of `zones`: zones whose centre lies in it.
        """
        ask = Ask(
            zones=None if zones is None else tuple(zones),
            slots=None if slots is None else tuple(slots),
            bbox=bbox,
            start=start,
            end=end,
        )
        chosen = ask.question(self.zones, self.clock)
        if self.covariance is None:
            raise PlanError(
                "no-sums",
                "the release has no intervals of sums: it is an earlier one, or its method knows none.",
                "Add up the column people; releases by best, gaussian and laplace have intervals.",
            )
        at = np.unique(chosen.zones), np.unique(chosen.slots)
        return rounded_total(total_of(self.people, self.covariance, *at), self.decimals)


def read_density(folder: str | Path) -> PublishedDensity:
    """A density from its release folder."""
    from shoal.kinds.density.published import read_density as read_counts  # which imports this module

    folder = Path(folder)
    try:
        public = Manifest.from_json((folder / MANIFEST).read_text("utf-8")).public
        clock = Clock(**public["window"], time_zone=public["time_zone"], slot_minutes=public["slot_minutes"])
        zones = published_zones(folder / "zones.parquet")
    except (OSError, ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise SourceError(
            "not-a-density", f"{folder} is not the release of a density.", "Pass the folder of a release."
        ) from None
    estimate = read_counts(folder, zones.count, clock.slots)
    return PublishedDensity(
        zones=zones,
        clock=clock,
        people=estimate.people,
        low=estimate.low,
        high=estimate.high,
        covariance=read_covariance(folder / COVARIANCE, zones.count, clock.slots),
        decimals=public["decimals"],
    )


def rounded_total(total: Total, decimals: int) -> Total:
    """The ends rounded outwards, as those of counts are."""
    unit = 10.0**decimals
    people = round(total.people, decimals)
    low, high = np.floor(total.low * unit) / unit, np.ceil(total.high * unit) / unit
    return Total(people=people, low=float(min(low, people)), high=float(max(high, people)))


def write_sums(
    folder: Path, estimate: DensityEstimate, zones: Zones, setting: Setting, decimals: int
) -> None:
    """totals.parquet and covariance.parquet into `folder`, of counts that are rounded already."""
    clock = setting.clock
    covariance = covariance_of(estimate, setting, decimals)
    if covariance is None:
        raise SourceError("no-sums", "the method states no covariance of its counts.")
    pq.write_table(covariance_table(covariance), folder / COVARIANCE, compression="zstd")
    table = totals_table(estimate.people, covariance, zones, clock, decimals)
    pq.write_table(table, folder / TOTALS, compression="zstd")


def totals_table(
    people: np.ndarray, covariance: Covariance, zones: Zones, clock: Clock, decimals: int
) -> pa.Table:
    """The ready sums: zone-day, zone-week, city-slot, city-day, city."""
    starts, rows = clock.starts_local(), []
    for kind, zone, first, last, total in ready(people, covariance, clock.day_of_slot):
        total = rounded_total(total, decimals)
        name = None if zone is None else zones.ids[zone]
        rows.append((kind, name, first, last, starts[first], total.people, total.low, total.high))
    return pa.table(dict(zip(SUMS[TOTALS], map(list, zip(*rows, strict=True)), strict=True)))


def totals_problems(
    folder: Path, people: np.ndarray, zones: Zones, clock: Clock, decimals: int
) -> Iterator[str]:
    """Whether totals.parquet follows from density.parquet and covariance.parquet."""
    covariance = read_covariance(folder / COVARIANCE, zones.count, clock.slots)
    if covariance is None:
        yield f"{COVARIANCE} is not a covariance of these zones and slots."
        return
    expected, published = (
        totals_table(people, covariance, zones, clock, decimals),
        pq.read_table(folder / TOTALS),
    )
    step = 1.5 * 10.0**-decimals  # sums of floating-point numbers may be rounded to the next one
    for name in SUMS[TOTALS]:
        ours, theirs = expected[name], published[name]
        if name.startswith("people"):
            ours, theirs = ours.to_numpy(), theirs.to_numpy()
            same = ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-9, atol=step)
        else:
            same = ours.to_pylist() == theirs.to_pylist()
        if not same:
            yield f"the column {name} of {TOTALS} does not follow from the counts and their covariance."


def covariance_table(covariance: Covariance) -> pa.Table:
    """One row per number: its part, and the zone, slot and column that it belongs to."""
    zones, slots = covariance.residual.shape
    zone, slot = (each.ravel() for each in np.indices((zones, slots)))
    columns = covariance.columns.shape[1]
    of_zone, zone_column = (each.ravel() for each in np.indices((zones, columns)))
    of_slot, slot_column = (each.ravel() for each in np.indices((slots, columns)))
    none, shared = np.full(1, -1), triu(covariance.together, 1).tocoo()
    parts = [
        ("total low", none, none, none, covariance.total[:1]),
        ("total high", none, none, none, covariance.total[1:]),
        ("uneven", none, none, none, [covariance.uneven]),
        ("slot", none, np.arange(slots), none, covariance.slots),
        ("coefficient", of_zone, none, zone_column, covariance.coefficients.ravel()),
        ("column", none, of_slot, slot_column, covariance.columns.ravel()),
        ("residual", zone, slot, none, covariance.residual.ravel()),
        ("together", shared.row, none, shared.col, shared.data),
    ]
    if covariance.centre is not None:
        parts.append(("centre", zone, slot, none, covariance.centre.ravel()))
    tables = []
    for part, *places, values in parts:
        count = len(values)
        keys = [np.broadcast_to(place, count).astype(np.int32) for place in places]
        arrays = [pa.array(each, mask=each < 0) for each in keys]
        arrays.append(pa.array(np.asarray(values, np.float32)))
        tables.append(pa.table([pa.array([part] * count, pa.string()), *arrays], list(SUMS[COVARIANCE])))
    return pa.concat_tables(tables)


def read_covariance(path: Path, zones: int, slots: int) -> Covariance | None:
    """The covariance back from its file; None where there is none, or it is of other zones and slots."""
    if not path.is_file():
        return None
    table = pq.read_table(path)
    part = np.asarray(table["part"].to_pylist())
    numbers = table["value"].to_numpy().astype(np.float64)
    values = {name: numbers[part == name] for name in np.unique(part)}
    if not all(np.isfinite(each).all() for each in values.values()):
        return None
    whole, columns = zones * slots, values.get("column", np.empty(0)).size // slots
    sizes = {"slot": slots, "residual": whole, "coefficient": zones * columns, "column": slots * columns}
    if any(values.get(name, np.empty(0)).size != size for name, size in sizes.items()):
        return None
    centre = values.get("centre")
    return Covariance(
        total=(float(values["total low"][0]), float(values["total high"][0])),
        slots=values["slot"],
        uneven=float(values["uneven"][0]),
        coefficients=values.get("coefficient", np.empty(0)).reshape(zones, columns),
        columns=values.get("column", np.empty(0)).reshape(slots, columns),
        residual=values["residual"].reshape(zones, slots),
        together=_together(table, part, zones),
        centre=None if centre is None else centre.reshape(zones, slots),
    )


def _together(table: pa.Table, part: np.ndarray, zones: int) -> csr_array:
    rows = table.filter(pa.array(part == "together"))
    one, other, value = (rows[name].to_numpy().astype(float) for name in ("zone", "column", "value"))
    pairs = csr_array((value, (one.astype(int), other.astype(int))), shape=(zones, zones))
    return csr_array(pairs + pairs.T + eye_array(zones))
