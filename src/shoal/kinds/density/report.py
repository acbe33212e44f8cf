"""The owner's report of a density release, as one HTML file that needs nothing else to open.

Everything shown comes from the objects that ran: the manifest, the zones, the raw and released arrays.
The page carries a policy that forbids every request, so raw figures cannot leave through it. The raw counts
and the utility figures lie beside it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import PlanError
from shoal.kinds.density.published import read_density
from shoal.kinds.describe import release_name
from shoal.kinds.owner import budget_of, exact_file, keep_report
from shoal.metrics.density import DensityUtility, HourProfile, density_utility
from shoal.privacy.ledger import Ledger
from shoal.release.folder import Committed
from shoal.release.page.page import (
    RAW_BANNER,
    date_of,
    drawn_zones,
    float32_base64,
    local_times,
    moment,
    render,
    short,
)
from shoal.release.staging import private_file
from shoal.space.clock import day_ticks, slot_label, slot_word

if TYPE_CHECKING:
    from shoal.kinds.density.prepare import PreparedDensity
    from shoal.space.places import Zones

# Above this many numbers the page would grow past what a browser opens at ease (16 bytes each, as text more).
MAX_DRAWN_VALUES = 2_000_000
SCRIPTS = ("format.js", "plot.js", "map.js", "charts.js", "zones.js", "main.js")
# The few largest values share the last colour, so that one crowded zone does not darken the whole map.
COLOUR_QUANTILE = 0.999
# A larger share of the zones' relative errors may pass the end: a few zones of few people err by far more.
ERROR_COLOUR_QUANTILE = 0.98


@dataclass(frozen=True, kw_only=True)
class DensityReportInputs:
    """What a density run leaves for its owner. `exact` is raw: the report is for the owner's eyes only."""

    manifest: dict[str, Any] = field(repr=False)
    zones: Zones = field(repr=False)
    slot_starts: list[str] = field(repr=False)  # local ISO time with offset, one per slot
    exact: np.ndarray = field(repr=False)  # float [zones, slots], raw people
    released: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)  # ends of the 95 % interval
    high: np.ndarray = field(repr=False)
    budget: dict[str, Any]  # population, currency, limit, spent_before, this_release, left; may be empty
    title: str
    utility: DensityUtility = field(repr=False)


def density_report_html(inputs: DensityReportInputs) -> str:
    """The whole page as text."""
    local_starts = _checked_starts(inputs)
    utility = inputs.utility
    slots_drawn = min(utility.slots, max(1, MAX_DRAWN_VALUES // utility.zones))
    payload = _payload(inputs, utility, local_starts, slots_drawn)
    return render(
        "density.html",
        *SCRIPTS,
        payload=payload,
        title=inputs.title,
        banner=RAW_BANNER,
        subtitle=_subtitle(inputs.manifest, local_starts, utility),
        manifest=inputs.manifest,
        utility=utility,
        slots_drawn=slots_drawn,
        slot_word=slot_word(local_starts),
        budget=inputs.budget,
    )


def _payload(
    inputs: DensityReportInputs, utility: DensityUtility, starts: list[datetime], slots_drawn: int
) -> dict[str, Any]:
    """All data that the page draws. Map and series cover the first `slots_drawn` slots, error figures all."""
    arrays = {"exact": inputs.exact, "released": inputs.released, "low": inputs.low, "high": inputs.high}
    return {
        "zones": drawn_zones(inputs.zones),
        "slots": slots_drawn,
        "slotLabels": [slot_label(start) for start in starts],
        "slotWord": slot_word(starts),
        "dayTicks": day_ticks(starts),
        "values": {name: float32_base64(array[:, :slots_drawn]) for name, array in arrays.items()},
        "scales": _scales(inputs, utility),
        "city": {"exact": inputs.exact.sum(axis=0), "released": inputs.released.sum(axis=0)},
        "bySlot": _profile(utility.by_slot),
        "byHourOfDay": None if utility.by_hour_of_day is None else _profile(utility.by_hour_of_day),
        "boxes": {name: asdict(box) for name, box in utility.boxes.items()},
        "byZone": {
            "mre": utility.mre_by_zone,
            "pearson": utility.pearson_by_zone,
            "mae": utility.mae_by_zone,
            "coverage": utility.coverage_by_zone,
            "exactMean": inputs.exact.mean(axis=1),
            "exactTotal": utility.exact_total_by_zone,
            "releasedTotal": utility.released_total_by_zone,
        },
    }


def _profile(profile: HourProfile) -> dict[str, np.ndarray | None]:
    return {
        "hours": profile.hours,
        "mae": profile.mean_absolute_error,
        "mre": profile.mean_relative_error,
        "bias": profile.total_bias_share,
        "emd": profile.mean_emd_m,
    }


def _scales(inputs: DensityReportInputs, utility: DensityUtility) -> dict[str, dict[str, float]]:
    """The value at the end of each colour scale, and the largest there is.

    One end for raw and released, over all slots: the same colour means the same number everywhere.
    """
    people = np.concatenate([inputs.exact.ravel(), inputs.released.ravel()])
    difference = np.abs(inputs.released - inputs.exact)
    mre = utility.mre_by_zone[~np.isnan(utility.mre_by_zone)]
    mre = mre if mre.size else np.zeros(1)
    return {
        "people": {"end": _scale_end(people), "most": people.max()},
        "difference": {"end": _scale_end(difference), "most": difference.max()},
        "mre": {"end": _scale_end(mre, ERROR_COLOUR_QUANTILE), "most": mre.max()},
    }


def _scale_end(values: np.ndarray, quantile: float = COLOUR_QUANTILE) -> float:
    end = float(np.quantile(values, quantile))
    return end if end > 0 else float(values.max()) or 1.0


def _subtitle(manifest: dict[str, Any], starts: list[datetime], utility: DensityUtility) -> list[str]:
    """Place, time and size of the release."""
    window = moment(starts[0]) if len(starts) == 1 else f"{moment(starts[0])} to {moment(starts[-1])}"
    parts = [f"population {short(manifest['population'])}"] if manifest.get("population") else []
    parts += [
        f"{utility.zones:,} zone{'s' if utility.zones != 1 else ''}",
        f"{utility.slots:,} time slot{'s' if utility.slots != 1 else ''}",
        f"slot{'s' if utility.slots > 1 else ''} starting {window}",
    ]
    return parts + ([f"released {date_of(manifest['created'])}"] if manifest.get("created") else [])


def _checked_starts(inputs: DensityReportInputs) -> list[datetime]:
    zones, slots = len(inputs.zones.ids), len(inputs.slot_starts)
    if np.shape(inputs.exact) != (zones, slots):
        raise PlanError(
            "report-shape",
            f"there must be one row per zone and one column per slot; got {list(np.shape(inputs.exact))} "
            f"for {zones} zones and {slots} slots.",
            "Pass the zones and slots the arrays were computed on.",
        )
    return local_times(inputs.slot_starts)


def write_owner_report(
    path: Path, prepared: PreparedDensity, committed: Committed, exact: np.ndarray, ledger: Ledger
) -> Path:
    """report.html, utility.json and the raw counts beside it; the ledger lists that the owner saw them."""
    zones, clock = prepared.geography.zones, prepared.clock
    estimate = read_density(committed.path, zones.count, clock.slots)
    utility = density_utility(
        exact,
        estimate.people,
        estimate.low,
        estimate.high,
        hour_of_day=np.floor(clock.hours_local).astype(int),
        zone_xy_m=prepared.setting.zone_xy_m,
    )
    inputs = DensityReportInputs(
        manifest=json.loads((committed.path / "manifest.json").read_text("utf-8")),
        zones=zones,
        slot_starts=clock.starts_local(),
        exact=exact,
        released=estimate.people,
        low=estimate.low,
        high=estimate.high,
        budget=budget_of(ledger, prepared),
        title=f"Density of {prepared.plan.population}: {release_name(committed)}",
        utility=utility,
    )
    figures = {name: value for name, value in asdict(utility).items() if isinstance(value, float | int)}
    return keep_report(
        path,
        prepared,
        committed,
        ledger,
        page=density_report_html(inputs),
        figures=figures,
        beside=lambda report: write_exact(exact_file(report), exact),
    )


def write_exact(path: Path, exact: np.ndarray) -> None:
    """Raw people of every zone and slot, zone by zone; readable by the owner alone."""
    with private_file(path) as file:
        table = pa.table({"exact_people": np.asarray(exact, dtype=np.float64).ravel()})
        pq.write_table(table, file, compression="zstd")


def read_exact(report: Path, zones: int, slots: int) -> np.ndarray | None:
    """The raw counts that a report was drawn of, [zones, slots]; None where they were not kept."""
    path = exact_file(report)
    if not path.is_file():
        return None
    values = pq.read_table(path)["exact_people"].to_numpy()
    return values.reshape(zones, slots) if values.size == zones * slots else None
