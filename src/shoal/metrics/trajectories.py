"""What a trajectory release cost: how large the boxes are, how much is missing.

A sample is retained if a box of its own record contains it in time and space. Spans count both ends:
space is Dx + Dy in metres (500 m by 500 m is 1 km), time is Dt in minutes.

Two weightings, both given, never mixed:

    per_sample   each retained raw sample counts once, with the span of its box: how precisely an observation
                 can still be placed. The figure of tables and of the report.
    per_box      each published box counts once, however many samples it holds: what a recipient reads off the
                 file. Large boxes tend to hold more samples, so this one is mostly smaller.

Suppressed samples have no span. They are counted apart; read both, since dropping hard samples makes spans
small.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Any

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.metrics.trajectory_density import HOURS, DensityError, density_or_nan
from shoal.stages.trajectories import Boxes, LatticeSamples

OFFSET_EVERY_MIN = 15  # clocks change on a quarter of an hour everywhere


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and quartiles of one span; NaN where there is nothing to measure."""

    mean: float
    q1: float
    median: float
    q3: float


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Spans of `count` samples or boxes."""

    count: int
    space_m: Spread
    time_min: Spread


@dataclass(frozen=True, kw_only=True)
class Granularity:
    """Spans weighted by retained samples, and by boxes."""

    per_sample: Spans
    per_box: Spans


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedFigures:
    """Per sample, by hour of day or by day: arrays over the groups; NaN where a group has no sample."""

    samples: np.ndarray = field(repr=False)  # raw ones
    suppressed_share: np.ndarray = field(repr=False)
    mean_space_m: np.ndarray = field(repr=False)
    median_space_m: np.ndarray = field(repr=False)
    mean_time_min: np.ndarray = field(repr=False)
    median_time_min: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalClock:
    """Hour of day (0 to 23) and day (0, 1, ..) of each step, by the local clock."""

    first_day: str  # ISO date of day 0
    hour: np.ndarray = field(repr=False)
    day: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, start: datetime, *, steps: int, minutes: int, zone: tzinfo) -> LocalClock:
        """Clock of steps of `minutes` from `start`, as read in `zone`."""
        quarters = (steps * minutes) // OFFSET_EVERY_MIN + 2
        first = start.replace(minute=start.minute // OFFSET_EVERY_MIN * OFFSET_EVERY_MIN, second=0)
        wall = (
            [
                (first + timedelta(minutes=OFFSET_EVERY_MIN * quarter)).astimezone(zone).replace(tzinfo=None)
                for quarter in range(quarters)
            ]
            if steps
            else []
        )
        midnight = datetime.combine((wall[0] if wall else start).date(), datetime.min.time())
        minute_of = np.array([(each - midnight) // timedelta(minutes=1) for each in wall], np.int64)
        since = np.arange(steps, dtype=np.int64) * minutes + (start.minute - first.minute)
        minute = minute_of[since // OFFSET_EVERY_MIN] + since % OFFSET_EVERY_MIN
        return cls(first_day=midnight.date().isoformat(), hour=minute // 60 % HOURS, day=minute // 1440)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryUtility:
    """All figures of a release. Computed on raw samples: for the owner alone."""

    samples: int
    boxes: int
    granularity: Granularity
    suppressed_share: float
    by_hour: GroupedFigures = field(repr=False)
    by_day: GroupedFigures = field(repr=False)
    first_day: str
    density: DensityError

    def to_plain(self) -> dict[str, Any]:
        """Plain numbers, as for a row of a table."""
        return {
            "samples": self.samples,
            "boxes": self.boxes,
            "suppressed_share": self.suppressed_share,
            "granularity": asdict(self.granularity),
            "density": asdict(self.density),
        }


def trajectory_utility(
    samples: LatticeSamples, boxes: Boxes, *, minutes: float, metres: float, clock: LocalClock
) -> TrajectoryUtility:
    """Every figure of the release `boxes` of `samples`, on a lattice of `minutes` and `metres`."""
    covering = covering_boxes(samples, boxes)
    unit = {"minutes": minutes, "metres": metres}
    by_hour, by_day = (
        grouped_figures(samples, boxes, covering, group, groups=groups, **unit)
        for group, groups in ((clock.hour, HOURS), (clock.day, int(clock.day.max(initial=-1)) + 1))
    )
    return TrajectoryUtility(
        samples=samples.count,
        boxes=boxes.count,
        granularity=granularity(boxes, covering, **unit),
        suppressed_share=suppressed_share(covering),
        by_hour=by_hour,
        by_day=by_day,
        first_day=clock.first_day,
        density=density_or_nan(samples, boxes),
    )


def granularity(boxes: Boxes, covering: np.ndarray, *, minutes: float, metres: float) -> Granularity:
    """Mean and quartiles of the spans, per retained sample and per box."""
    space, time = box_spans(boxes, minutes=minutes, metres=metres)
    own = covering[covering >= 0]
    return Granularity(per_sample=_spans(space[own], time[own]), per_box=_spans(space, time))


def suppressed_share(covering: np.ndarray) -> float:
    """Share of samples that no box of their own record contains; NaN without samples."""
    return float(np.mean(covering < 0)) if len(covering) else float("nan")


def grouped_figures(
    samples: LatticeSamples,
    boxes: Boxes,
    covering: np.ndarray,
    group_of_step: np.ndarray,
    *,
    groups: int,
    minutes: float,
    metres: float,
) -> GroupedFigures:
    """Figures per sample within each group of steps, a group given per step as 0 .. groups - 1."""
    if np.shape(group_of_step) != (samples.steps,):
        raise PlanError(
            "metric-steps",
            f"there must be one group per step; got {list(np.shape(group_of_step))} for {samples.steps}.",
        )
    group = np.asarray(group_of_step, np.int64)[samples.t]
    every = np.bincount(group, minlength=groups).astype(np.float64)
    retained = covering >= 0
    group_kept = group[retained].astype(np.int16 if groups < 2**15 else np.int64)
    kept_count = np.bincount(group_kept, minlength=groups)
    order = np.argsort(group_kept, kind="stable")
    ends = np.cumsum(kept_count)
    columns = {}
    for name, span in zip(
        ("space_m", "time_min"), box_spans(boxes, minutes=minutes, metres=metres), strict=True
    ):
        parts = np.split(span[covering[retained][order]], ends[:-1]) if groups else []
        for word, figure in (("mean", np.mean), ("median", np.median)):
            columns[f"{word}_{name}"] = np.array([figure(part) if len(part) else np.nan for part in parts])
    share = np.divide(every - kept_count, every, out=np.full(groups, np.nan), where=every > 0)
    return GroupedFigures(samples=every.astype(np.int64), suppressed_share=share, **columns)


def box_spans(boxes: Boxes, *, minutes: float, metres: float) -> tuple[np.ndarray, np.ndarray]:
    """Dx + Dy in metres and Dt in minutes of each box, both ends counted."""
    x, y, t = (
        high.astype(np.int64) - low + 1
        for low, high in ((boxes.x0, boxes.x1), (boxes.y0, boxes.y1), (boxes.t0, boxes.t1))
    )
    return (x + y) * float(metres), t * float(minutes)


def covering_boxes(samples: LatticeSamples, boxes: Boxes) -> np.ndarray:
    """int64 [samples]: the box of the own record that contains the sample, -1 where it is suppressed.

    Boxes of a release are disjoint in time. Where those of another method overlap, the one of least
    Dt * (Dx + Dy) counts.
    """
    if samples.users != boxes.records:
        raise PlanError(
            "metric-records",
            f"record j must be user j's: there are {samples.users} users and {boxes.records} records.",
            "Bring the records into the order of users by the record key first.",
        )
    out = np.empty(samples.count, np.int64)
    _cover(samples.start, *samples.columns[1:], boxes.start, *boxes.columns[1:], out)
    return out


def _spans(space: np.ndarray, time: np.ndarray) -> Spans:
    return Spans(count=len(space), space_m=_spread(space), time_min=_spread(time))


def _spread(values: np.ndarray) -> Spread:
    if not len(values):
        return Spread(mean=np.nan, q1=np.nan, median=np.nan, q3=np.nan)
    q1, median, q3 = (float(value) for value in np.quantile(values, (0.25, 0.5, 0.75)))
    return Spread(mean=float(values.mean()), q1=q1, median=median, q3=q3)


@njit(cache=True, nogil=True)
def _cover(start, t, x, y, box_start, t0, t1, x0, x1, y0, y1, out):
    """Walks samples and boxes of a user together; both are in order of time."""
    for user in range(len(start) - 1):
        first, stop = box_start[user], box_start[user + 1]
        for row in range(start[user], start[user + 1]):
            while first < stop and t1[first] < t[row]:
                first += 1
            best, least = -1, 0
            box = first
            while box < stop and t0[box] <= t[row]:
                inside = t[row] <= t1[box] and x0[box] <= x[row] <= x1[box] and y0[box] <= y[row] <= y1[box]
                if inside:
                    across = np.int64(x1[box]) - x0[box] + np.int64(y1[box]) - y0[box] + 2
                    cost = (np.int64(t1[box]) - t0[box] + 1) * across
                    if best < 0 or cost < least:
                        best, least = box, cost
                box += 1
            out[row] = best
