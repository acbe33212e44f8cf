"""One record next to its original, and which record to show; kilometres from the lattice's origin.

The original is raw: it is drawn in the owner's report and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from shoal.errors import PlanError
from shoal.metrics.trajectories import LocalClock, box_spans, covering_boxes
from shoal.metrics.trajectory_density import HourlyMaps, hourly_maps
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples

MOST_DRAWN = 3_000  # samples or boxes of the picture
MAP_CELLS = 3_000  # of a map of one hour
MAP_SIDES = (1, 2, 5, 10, 20, 30, 50, 100, 200, 500, 1000)  # lattice cells, then doubled


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordPicture:
    """Samples and boxes of one record in a stretch of steps, in lattice units."""

    user: str  # as in the raw data
    record: int | None  # as in the released file
    first_step: int
    steps: int
    samples: np.ndarray = field(repr=False)  # [samples, 3] t, x, y
    retained: np.ndarray = field(repr=False)  # bool [samples]
    boxes: np.ndarray = field(repr=False)  # [boxes, 6] t0, t1, x0, x1, y0, y1

    @property
    def suppressed(self) -> int:
        return int((~self.retained).sum())


def raw_views(
    samples: LatticeSamples,
    boxes: Boxes,
    lattice: Lattice,
    clock: LocalClock,
    *,
    name_of: Callable[[int], str],
    record_of: Callable[[int], int | None] = lambda user: None,
) -> tuple[HourlyMaps, RecordPicture]:
    """Maps by hour of day, and a typical user over two days from the first local midnight on.

    `name_of` gives the name of user number j in the raw data, `record_of` the record's in the released file.
    """
    slot_steps = max(1, 60 // lattice.minutes)
    maps = hourly_maps(samples, boxes, clock.hour, cell_cells=map_side(samples), slot_steps=slot_steps)
    day = -(-24 * 60 // lattice.minutes)
    midnight = int(np.searchsorted(clock.day, 1)) if lattice.steps >= 3 * day and clock.hour[0] else 0
    stretch = {"first_step": midnight, "steps": min(2 * day, lattice.steps)}
    user = typical_user(samples, boxes, **stretch)
    name, record = name_of(user), record_of(user)
    return maps, record_picture(samples, boxes, user, name=name, record=record, **stretch)


def record_picture(
    samples: LatticeSamples,
    boxes: Boxes,
    user: int,
    *,
    name: str,
    record: int | None = None,
    first_step: int,
    steps: int,
) -> RecordPicture:
    """User number `user` and the record of the same number, from `first_step` for `steps` steps."""
    if not 0 <= user < samples.users or samples.users != boxes.records:
        raise PlanError("picture-user", f"there is no user number {user} with a record of that number.")
    own = slice(*np.searchsorted(samples.user, (user, user + 1)))
    theirs = slice(*np.searchsorted(boxes.record, (user, user + 1)))
    end = first_step + steps
    rows = np.column_stack([samples.t[own], samples.x[own], samples.y[own]])
    rows = rows[(rows[:, 0] >= first_step) & (rows[:, 0] < end)][:MOST_DRAWN]
    columns = (boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1)
    parts = np.column_stack([column[theirs] for column in columns])
    parts = parts[(parts[:, 1] >= first_step) & (parts[:, 0] < end)][:MOST_DRAWN]
    inside = (parts[None, :, [0, 2, 4]] <= rows[:, None]) & (rows[:, None] <= parts[None, :, [1, 3, 5]])
    return RecordPicture(
        user=name,
        record=record,
        first_step=first_step,
        steps=steps,
        samples=rows,
        retained=np.any(np.all(inside, axis=2), axis=1),
        boxes=parts,
    )


def typical_user(samples: LatticeSamples, boxes: Boxes, *, first_step: int, steps: int) -> int:
    """A user to show: of those with more samples in the stretch than three quarters of the users but not than
    19 of 20, the one whose samples lie in boxes of about the median size of all."""
    here = (samples.t >= first_step) & (samples.t < first_step + steps)
    count = np.bincount(samples.user[here], minlength=samples.users)
    seen = count[count > 0]
    if not len(seen):
        return 0
    low, high = np.quantile(seen, (0.75, 0.95))
    space, time = box_spans(boxes, minutes=1, metres=1)
    covering = covering_boxes(samples, boxes)
    retained = here & (covering >= 0)
    size = np.log(space[covering[retained]] * time[covering[retained]])
    total = np.bincount(samples.user[retained], weights=size, minlength=samples.users)
    retained_count = np.bincount(samples.user[retained], minlength=samples.users)
    mean = np.divide(total, retained_count, out=np.full(samples.users, np.inf), where=retained_count > 0)
    away = np.abs(mean - (np.median(size) if len(size) else 0.0))
    away[(count < low) | (count > high)] = np.inf
    return int(np.argmin(away)) if np.isfinite(away).any() else int(np.argmax(count))


def map_side(samples: LatticeSamples) -> int:
    """Lattice cells along a side of the map's cells, so that a page can hold 24 maps."""
    spans = [
        int(column.max()) - int(column.min()) + 1 if samples.count else 1 for column in (samples.x, samples.y)
    ]
    sides = [*MAP_SIDES, *(1000 * 2**power for power in range(1, 20))]
    return next(side for side in sides if (spans[0] / side + 1) * (spans[1] / side + 1) <= MAP_CELLS)


def local_zone(name: str) -> ZoneInfo:
    """The zone of that name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise PlanError("report-zone", f"{name!r} is no time zone.", "Write it like Europe/Paris.") from error


def picture_payload(picture: RecordPicture | None, lattice: Lattice, zone: ZoneInfo) -> dict[str, Any] | None:
    """Samples in the middle of their cell and step, boxes from edge to edge, times on the local clock."""
    if picture is None:
        return None
    # One offset for the stretch: where clocks change within it, later hours are drawn as before the change.
    start = lattice.start + timedelta(minutes=lattice.minutes * picture.first_step)
    wall = start.astimezone(zone).replace(tzinfo=None)
    km = lattice.metres / 1000
    t, x, y = picture.samples.T
    t0, t1, x0, x1, y0, y1 = picture.boxes.T
    return {
        "start": wall.isoformat(timespec="minutes"),
        "minutes": lattice.minutes * picture.steps,
        "t": _minutes(t + 0.5, picture, lattice),
        "x": np.round((x + 0.5) * km, 4),
        "y": np.round((y + 0.5) * km, 4),
        "retained": picture.retained,
        "boxes": np.column_stack(
            [
                _minutes(t0, picture, lattice),
                _minutes(t1 + 1, picture, lattice),
                *(np.round(edge * km, 4) for edge in (x0, x1 + 1, y0, y1 + 1)),
            ]
        ),
    }


def _minutes(step: np.ndarray, picture: RecordPicture, lattice: Lattice) -> np.ndarray:
    """Minutes from the start of the picture; what reaches beyond is cut at its edge."""
    return np.clip((step - picture.first_step) * lattice.minutes, 0, picture.steps * lattice.minutes)
