"""Error of released zone x slot counts against the raw ones: relative error, correlation, bias, coverage.

Definitions (Acs and Castelluccia 2014, section 3.3), X the raw series of a zone, Y the released one:

    relative error at a slot   |Y - X| / max(gamma, X),  gamma = 0.1 % of the zone's total
    MRE of a zone              its mean over the slots; of the release: the mean over zones
    Pearson of a zone          the linear correlation of X and Y

Where a definition divides by zero we say so instead of inventing a number:

    a zone nobody visited      no relative error (gamma is 0): left out of the mean, counted in
                               `zones_without_people`, and what was released there is shown apart
    a flat raw series          no correlation: left out of the mean, counted in `zones_flat`
    a flat released series     correlation 0, if the raw one is not flat: the release lost the shape

The earth mover's distance (EMD) between raw and released maps, slot by slot, in metres, is solved exactly:

    EMD of a slot    min over flows f of sum f_ij d_ij, where f carries the raw map to the released one,
                     both divided by their totals; d_ij is the distance between zone centres in metres

(section 6.4). Read it as: how far the average person was moved. A slot with nobody, or with nothing released,
has no distance: NaN. Mass that both maps have in a zone stays there: by the triangle inequality some best
flow leaves it alone, so only the differences are carried, from zones with too much to zones with too little.
Each slot is solved by network simplex and then proved: the dual prices must be feasible and worth as much as
the flow.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from shoal.errors import PlanError

GAMMA_SHARE = 0.001
LEAST_COVERAGE, MOST_BIAS = 0.9, 0.1  # beyond these the owner's report warns in red


@dataclass(frozen=True, kw_only=True)
class BoxFigures:
    """The figures of a box plot; whiskers end at the last value within 1.5 times the box's height."""

    count: int
    mean: float
    whisker_low: float
    q1: float
    median: float
    q3: float
    whisker_high: float
    outliers: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class HourProfile:
    """Error by hour: mean over zones (and over the days of the window, by hour of day)."""

    hours: np.ndarray  # slot numbers, or hours of the day
    mean_absolute_error: np.ndarray  # people
    mean_relative_error: np.ndarray  # share; NaN where no zone has people
    total_bias_share: np.ndarray  # released minus exact city total, as a share of the exact one
    mean_emd_m: np.ndarray | None  # metres between the maps; None unless zone centres were given


@dataclass(frozen=True, kw_only=True)
class DensityUtility:
    """How far released counts are from raw ones. Every figure is computed on raw numbers: owner only."""

    zones: int
    slots: int
    mean_relative_error: float  # mean over zones with people
    pearson: float  # mean over zones whose raw series is not flat
    mean_absolute_error: float  # people per zone and slot
    zones_without_people: int
    zones_flat: int
    released_in_empty_zones: float  # mean people per slot in zones nobody visited; NaN if there are none
    exact_total: float
    released_total: float
    total_bias: float  # released minus exact, people summed over slots
    total_bias_share: float  # the same as a share of the exact total
    slot_total_bias_share_mean: float  # mean over slots with people of |bias| / city total
    emd_m: float | None  # metres, mean over the slots looked at; None unless zone centres were given
    emd_slots: int | None  # how many slots that were
    exact_total_by_zone: np.ndarray = field(repr=False)  # [zones] people summed over slots
    released_total_by_zone: np.ndarray = field(repr=False)
    mre_by_zone: np.ndarray = field(repr=False)  # [zones], NaN where undefined
    pearson_by_zone: np.ndarray = field(repr=False)
    mae_by_zone: np.ndarray = field(repr=False)
    by_slot: HourProfile = field(repr=False)
    by_hour_of_day: HourProfile | None = field(repr=False)  # None unless the hours were given
    coverage: float | None  # share of raw values inside their interval; None without intervals
    coverage_by_zone: np.ndarray | None = field(repr=False)
    interval_width_mean: float | None
    clear_share: float | None  # share of released counts whose interval leaves zero out
    boxes: dict[str, BoxFigures] = field(repr=False)  # over zones: mre, pearson, mae, bias, coverage

    @property
    def against_raw(self) -> list[str]:
        """What is wrong with the release as its owner alone can see it, in a few words each."""
        faults = []
        if self.coverage is not None and self.coverage < LEAST_COVERAGE:
            faults.append(f"the 95 % intervals hold {self.coverage:.0%} of the raw values".replace("%", " %"))
        if abs(self.total_bias_share) > MOST_BIAS:
            faults.append(f"the total is off by {self.total_bias_share:+.0%}".replace("%", " %"))
        return faults


def density_utility(
    exact: np.ndarray,
    released: np.ndarray,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    *,
    hour_of_day: np.ndarray | None = None,
    zone_xy_m: np.ndarray | None = None,
    emd_slots: np.ndarray | None = None,
) -> DensityUtility:
    """Utility figures of `released` against `exact`, both people per [zone, slot].

    `low` and `high` give interval coverage; `hour_of_day` (0 to 23 per slot, local clock) gives
    the profile by hour of the day; `zone_xy_m` (zone centres in metres) gives the EMD, over `emd_slots`
    or as many slots as take about 20 s (`affordable_slots`).
    """
    exact, released = _checked(exact, released, "released")
    has_people = exact.sum(axis=1) > 0
    absolute = np.abs(released - exact)
    relative = relative_errors(exact, released)
    pearson = pearson_by_zone(exact, released)
    mre = np.where(has_people, relative.mean(axis=1), np.nan)
    slot_bias = (released - exact).sum(axis=0)
    inside, width = _coverage(exact, low, high)
    emd_by_slot = _emd_by_slot(exact, released, zone_xy_m, emd_slots)
    by_zone = {
        "mre": mre,
        "pearson": pearson,
        "mae": absolute.mean(axis=1),
        "bias": _share((released - exact).sum(axis=1), exact.sum(axis=1)),
    }
    if inside is not None:
        by_zone["coverage"] = inside.mean(axis=1)
    slots = exact.shape[1]
    return DensityUtility(
        zones=exact.shape[0],
        slots=slots,
        mean_relative_error=_mean(mre),
        pearson=_mean(pearson),
        mean_absolute_error=float(absolute.mean()),
        zones_without_people=int((~has_people).sum()),
        zones_flat=int(_is_flat(exact).sum()),
        released_in_empty_zones=_mean(released[~has_people]),
        exact_total=float(exact.sum()),
        released_total=float(released.sum()),
        total_bias=float(slot_bias.sum()),
        total_bias_share=float(_share(slot_bias.sum(), exact.sum())),
        slot_total_bias_share_mean=_mean(_share(np.abs(slot_bias), exact.sum(axis=0))),
        emd_m=None if emd_by_slot is None else _mean(emd_by_slot),
        emd_slots=None if emd_by_slot is None else int((~np.isnan(emd_by_slot)).sum()),
        exact_total_by_zone=exact.sum(axis=1),
        released_total_by_zone=released.sum(axis=1),
        mre_by_zone=mre,
        pearson_by_zone=pearson,
        mae_by_zone=by_zone["mae"],
        by_slot=_profile(exact, released, relative, emd_by_slot, np.arange(slots)),
        by_hour_of_day=None
        if hour_of_day is None
        else _profile(exact, released, relative, emd_by_slot, np.asarray(hour_of_day)),
        coverage=None if inside is None else float(inside.mean()),
        coverage_by_zone=by_zone.get("coverage"),
        interval_width_mean=width,
        clear_share=None if low is None else float((np.asarray(low) > 0).mean()),
        boxes={name: box_figures(figures) for name, figures in by_zone.items()},
    )


def relative_errors(exact: np.ndarray, released: np.ndarray) -> np.ndarray:
    """|released - exact| / max(gamma, exact) per [zone, slot]; NaN in zones nobody visited.

    >>> relative_errors(np.array([[1000.0, 0.0]]), np.array([[900.0, 2.0]]))
    array([[0.1, 2. ]])
    """
    total = exact.sum(axis=1, keepdims=True)
    bound = np.maximum(GAMMA_SHARE * total, exact)
    return np.divide(np.abs(released - exact), bound, out=np.full(exact.shape, np.nan), where=total > 0)


def pearson_by_zone(exact: np.ndarray, released: np.ndarray) -> np.ndarray:
    """Linear correlation per zone; NaN where the raw series is flat, 0 where only the release is."""
    x = exact - exact.mean(axis=1, keepdims=True)
    y = released - released.mean(axis=1, keepdims=True)
    scale = np.sqrt((x * x).sum(axis=1)) * np.sqrt((y * y).sum(axis=1))
    defined = ~_is_flat(exact) & ~_is_flat(released) & (scale > 0)
    correlation = np.divide((x * y).sum(axis=1), scale, out=np.zeros(len(x)), where=defined)
    return np.where(_is_flat(exact), np.nan, np.clip(correlation, -1.0, 1.0))


def box_figures(values: np.ndarray) -> BoxFigures:
    """Quartiles, Tukey whiskers and outliers of the defined values; all NaN when there is none."""
    values = np.asarray(values, dtype=float).ravel()
    values = np.sort(values[~np.isnan(values)])
    if values.size == 0:
        nan = float("nan")
        return BoxFigures(
            count=0, mean=nan, whisker_low=nan, q1=nan, median=nan, q3=nan, whisker_high=nan, outliers=()
        )
    q1, median, q3 = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
    reach = 1.5 * (q3 - q1)
    inside = (values >= q1 - reach) & (values <= q3 + reach)
    return BoxFigures(
        count=int(values.size),
        mean=float(values.mean()),
        # A whisker never ends inside its box, also when interpolated quartiles leave no value near.
        whisker_low=min(float(values[inside][0]), q1),
        q1=q1,
        median=median,
        q3=q3,
        whisker_high=max(float(values[inside][-1]), q3),
        outliers=tuple(float(v) for v in values[~inside]),
    )


def _checked(exact: np.ndarray, other: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    exact, other = np.asarray(exact, dtype=float), np.asarray(other, dtype=float)
    if exact.ndim != 2 or exact.size == 0 or exact.shape != other.shape:
        raise PlanError(
            "utility-shape",
            f"exact and {name} must have the same [zones, slots] shape, neither empty; "
            f"got {list(exact.shape)} and {list(other.shape)}.",
            "Pass both arrays over the same zones and slots.",
        )
    if not (np.isfinite(exact).all() and np.isfinite(other).all()) or (exact < 0).any():
        raise PlanError(
            "utility-values",
            f"exact must be finite and not negative, {name} finite; got other values.",
            "Check where the arrays were made.",
        )
    return exact, other


def _coverage(
    exact: np.ndarray, low: np.ndarray | None, high: np.ndarray | None
) -> tuple[np.ndarray | None, float | None]:
    """Which raw values lie in their interval, and the mean width of the intervals."""
    if low is None and high is None:
        return None, None
    if low is None or high is None:
        raise PlanError("utility-interval", "an interval needs both ends; got one.", "Pass low and high.")
    _, low = _checked(exact, low, "low")
    _, high = _checked(exact, high, "high")
    return (low <= exact) & (exact <= high), float((high - low).mean())


def _emd_by_slot(
    exact: np.ndarray, released: np.ndarray, zone_xy_m: np.ndarray | None, slots: np.ndarray | None
) -> np.ndarray | None:
    """[slots] metres, NaN where not looked at or not defined; None where there is nothing to look at."""
    if zone_xy_m is None:
        return None
    chosen = affordable_slots(*exact.shape) if slots is None else np.asarray(slots, dtype=np.int64)
    if not len(chosen):
        return None
    by_slot = np.full(exact.shape[1], np.nan)
    by_slot[chosen] = emd_m(exact, released, zone_xy_m, slots=chosen)
    return by_slot


def _profile(
    exact: np.ndarray,
    released: np.ndarray,
    relative: np.ndarray,
    emd_by_slot: np.ndarray | None,
    hour_of_slot: np.ndarray,
) -> HourProfile:
    if hour_of_slot.shape != (exact.shape[1],):
        raise PlanError(
            "utility-hours",
            f"there must be one hour per slot; got {hour_of_slot.size} for {exact.shape[1]} slots.",
            "Pass one number from 0 to 23 per slot.",
        )
    hours = np.unique(hour_of_slot)
    columns = [hour_of_slot == hour for hour in hours]
    difference = released - exact
    city, bias = exact.sum(axis=0), difference.sum(axis=0)
    return HourProfile(
        hours=hours,
        mean_absolute_error=np.array([np.abs(difference[:, chosen]).mean() for chosen in columns]),
        mean_relative_error=np.array([_mean(relative[:, chosen]) for chosen in columns]),
        total_bias_share=np.array([_share(bias[chosen].sum(), city[chosen].sum()) for chosen in columns]),
        mean_emd_m=None
        if emd_by_slot is None
        else np.array([_mean(emd_by_slot[chosen]) for chosen in columns]),
    )


def _is_flat(series: np.ndarray) -> np.ndarray:
    return series.max(axis=1) == series.min(axis=1)


def _share(part: np.ndarray | float, whole: np.ndarray | float) -> np.ndarray:
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _mean(values: np.ndarray) -> float:
    """Mean of the defined values; NaN, without a warning, when there is none."""
    values = np.asarray(values, dtype=float)
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


MAX_ITERATIONS = 100_000_000  # a thousand zones need about ten thousand
PROOF_TOLERANCE = 1e-7  # share of the largest distance; doubles over a thousand zones stay below 1e-11
MAX_ZONES = 8_000  # above, one slot needs a gigabyte and more than four seconds
MANY_ZONES = 4_000  # above, one slot at a time: memory
AFFORDABLE_SLOTS = 1_500  # of a thousand zones, about 20 s on two cores
GROWTH = 2.3  # time of one slot grows as zones ** 2.3 (measured from 1,000 to 8,000)


def emd_m(
    exact: np.ndarray,
    released: np.ndarray,
    zone_xy_m: np.ndarray,
    slots: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Metres per slot between the normalised maps `exact` and `released`, both people per [zone, slot].

    `slots` picks columns (`every_seventh` for benchmarks); the answer has one distance per picked slot.
    `progress` is called with 1 after each slot. The answer does not depend on `threads`.

    >>> emd_m(np.array([[3.0], [1.0]]), np.array([[1.0], [1.0]]), np.array([[0.0, 0.0], [100.0, 0.0]]))
    array([25.])
    """
    exact, released, zone_xy_m = _checked_maps(exact, released, zone_xy_m)
    chosen = np.arange(exact.shape[1]) if slots is None else np.asarray(slots, dtype=np.int64)
    import_ot()  # once, before the threads

    def one(slot: int) -> float:
        return _slot_emd_m(exact[:, slot], released[:, slot], zone_xy_m)

    distances = np.full(len(chosen), np.nan)
    with ThreadPoolExecutor(_workers(threads, len(zone_xy_m))) as pool:  # the solver runs without the GIL
        for i, distance in enumerate(pool.map(one, chosen.tolist())):
            distances[i] = distance
            if progress is not None:
                progress(1)
    return distances


def every_seventh(slots: int) -> np.ndarray:
    """A documented subset for benchmarks: slots 0, 7, 14, ...

    7 and 24 share no factor: in a week of hours each hour of the day is met once, each day 3 or 4 times.

    >>> sorted(every_seventh(168) % 24) == list(range(24))
    True
    """
    return np.arange(0, slots, 7)


def affordable_slots(zones: int, slots: int) -> np.ndarray:
    """Slots whose EMD takes about 20 s on two cores: all of a week for up to 2,500 zones, else every n-th.

    n shares no factor with 24, so that no hour of the day is favoured. Empty above `MAX_ZONES`.

    >>> len(affordable_slots(1000, 168)), len(affordable_slots(1000, 8760)), len(affordable_slots(9000, 24))
    (168, 1252, 0)
    """
    if zones > MAX_ZONES:
        return np.arange(0)
    most = max(1, int(AFFORDABLE_SLOTS / max(zones / 1000, 0.1) ** GROWTH))
    step = -(-slots // most)
    while math.gcd(step, 24) > 1:
        step += 1
    return np.arange(0, slots, step)


def _slot_emd_m(exact: np.ndarray, released: np.ndarray, zone_xy_m: np.ndarray) -> float:
    if exact.sum() <= 0 or released.sum() <= 0:
        return math.nan
    difference = exact / exact.sum() - released / released.sum()
    supply, demand = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
    if not len(supply) or not len(demand):
        return 0.0
    moved = (difference[supply].sum() - difference[demand].sum()) / 2
    give = difference[supply] / difference[supply].sum()
    take = difference[demand] / difference[demand].sum()
    x, y = zone_xy_m[:, 0], zone_xy_m[:, 1]
    metres = np.hypot(np.subtract.outer(x[supply], x[demand]), np.subtract.outer(y[supply], y[demand]))
    return float(moved * _transport_cost(give, take, metres))


def _transport_cost(give: np.ndarray, take: np.ndarray, metres: np.ndarray) -> float:
    """The least cost of carrying `give` to `take`, both summing to 1, proved by its dual."""
    cost, log = import_ot().emd2(give, take, metres, numItermax=MAX_ITERATIONS, log=True)
    # Weak duality: prices with u_i + v_j <= d_ij can earn no more than any flow costs, the best included.
    allowed = PROOF_TOLERANCE * max(float(metres.max()), 1e-300)
    gap = abs(cost - (give @ log["u"] + take @ log["v"]))
    worst = float((np.add.outer(log["u"], log["v"]) - metres).max())
    if log["warning"] is not None or not gap <= allowed or not worst <= allowed:
        raise PlanError(
            "emd-not-solved",
            f"an earth mover's distance must be solved to the optimum; the solver stopped before "
            f"({log['warning'] or 'its dual prices do not prove the flow'}).",
            "Check the zone centres for values that are not metres; report it if they are.",
        )
    return float(cost)


def import_ot():
    """POT without its optional back ends, which it would import only because they are installed."""
    for name in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{name}", "1")
    import ot

    return ot


def _workers(threads: int | None, zones: int) -> int:
    if zones > MANY_ZONES:
        return 1
    return max(1, threads if threads is not None else min(os.cpu_count() or 1, 8))


def _checked_maps(
    exact: np.ndarray, released: np.ndarray, zone_xy_m: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    exact, released, zone_xy_m = (np.asarray(a, dtype=float) for a in (exact, released, zone_xy_m))
    if exact.ndim != 2 or exact.shape != released.shape or zone_xy_m.shape != (exact.shape[0], 2):
        raise PlanError(
            "emd-shape",
            f"exact and released must be [zones, slots], zone_xy_m [zones, 2]; got {list(exact.shape)}, "
            f"{list(released.shape)} and {list(zone_xy_m.shape)}.",
            "Pass arrays over the same zones and slots.",
        )
    if (
        not all(np.isfinite(a).all() for a in (exact, released, zone_xy_m))
        or min(exact.min(initial=0), released.min(initial=0)) < 0
    ):
        raise PlanError(
            "emd-values",
            "a map has finite counts, none below zero, and finite zone centres; got other values.",
            "Set negative counts to zero first, as a release does.",
        )
    return exact, released, zone_xy_m
