"""The small public worlds in which the audit runs mechanisms: a few sites, zones and slots.

Geometry is loaded when a world is made, so that a table of methods can be read without it.

A layout is the area weights in twelfths of a visit, one row per zone, one entry per site.

>>> AuditSize(layout=SHARED).setting.zones
3
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.space.geography import Setting
    from shoal.space.setting import CommuteSetting, Question
    from shoal.space.trip_setting import PathSetting, TripSetting

START = datetime(2023, 11, 14, 22)  # UTC; six hours from here are of two days
Layout = tuple[tuple[int, ...], ...]

# Two sites within a zone, one shared by two, one that loses a part outside.
SHARED: Layout = ((12, 6, 0, 0), (0, 6, 4, 0), (0, 0, 4, 12))
# The smallest cover has six zones, each with a site of its own, and site 1, which overlaps all zones and
# loses a part outside.
COVERED: Layout = (
    (12, 1, 0, 0, 0, 0, 0),
    (0, 1, 12, 0, 0, 0, 0),
    (0, 1, 0, 12, 0, 0, 0),
    (0, 1, 0, 0, 12, 0, 0),
    (0, 1, 0, 0, 0, 12, 0),
    (0, 1, 0, 0, 0, 0, 12),
    (0, 2, 0, 0, 0, 0, 0),
    (0, 3, 0, 0, 0, 0, 0),
)
# No site lies wholly in one zone: a visit is always parts of zones, so sums over zones exceed single weights.
SPLIT: Layout = ((6, 6, 0, 3), (0, 6, 4, 3), (6, 0, 4, 6))
ONE_ZONE: Layout = ((12, 6, 4, 0),)  # one of the sites lies outside
ONE_PLACE: Layout = ((12,),)
MANY_PLACES: Layout = ((12,) * 1000,)  # one user in all of them reaches every clip
PATHS: Layout = ((12,) * 8,)  # for trips, where a place is a cell of the grid and zones do not matter


@dataclass(frozen=True, kw_only=True)
class AuditSize:
    """Public numbers of a run that is small enough to be repeated many times."""

    layout: Layout = SHARED
    slots: int = 6
    ell: int = 2
    cap: int = 4
    cells: int = 8  # per side of the grid, for trips
    each_trip: bool = False  # the unit is a trip; then all that a user does is one trip

    users = None  # not declared

    @property
    def split(self) -> AuditSize:
        """The same size where no site lies wholly in one zone; trips do not see zones."""
        return replace(self, layout=SPLIT) if self.layout in (SHARED, COVERED) else self

    @property
    def zones(self) -> int:
        return len(self.layout)

    @property
    def places(self) -> int:
        return len(self.layout[0])

    @property
    def lattice(self) -> int:
        return self.setting.weights.lattice

    @property
    def setting(self) -> Setting:
        return _setting(self.layout, self.slots)

    def setting_for(
        self, stage: str, trips: int | None = None
    ) -> Setting | TripSetting | PathSetting | CommuteSetting:
        """The public things of a mechanism that is called with `stage`; `trips` are declared."""
        if stage == "trips":
            return self.trips(trips)
        if stage == "paths":
            return self.paths(trips)
        return self.commutes if stage == "commutes" else self.setting

    def trips(self, declared: int | None = None) -> TripSetting:
        """The setting of trips: at most `ell` per user are sampled, at most `cap` are counted."""
        return trip_setting(per_unit=self.ell, cap=self.cap, trips=declared, cells=self.cells)

    def paths(self, declared: int | None = None) -> PathSetting:
        """The setting of generators of trips: at most `ell` per user are sampled, at most `cap` counted."""
        return path_setting(
            each_trip=self.each_trip, cap=self.cap, trips=declared, cells=self.cells, slots=self.slots
        )

    @property
    def questions(self) -> list[Question]:
        """All, a part of the first zone, one cell, the last zone: they overlap, and share the first slot."""
        from shoal.space.setting import Question

        slots = tuple(range(self.slots))
        return [
            Question(zones=tuple(range(self.zones)), slots=slots),
            Question(zones=(0,), slots=slots[: (self.slots + 1) // 2]),
            Question(zones=(0,), slots=(0,)),
            Question(zones=(self.zones - 1,), slots=slots),
        ]

    @property
    def commutes(self) -> CommuteSetting:
        """The sites on a plane, two regions of them, few classes of distance."""
        from shoal.space.setting import CommuteSetting

        setting = self.setting
        return CommuteSetting(site_xy_m=setting.place_xy_m, clock=setting.clock, regions=2, distances=4)


@cache
def _setting(layout: Layout, slots: int) -> Setting:
    import numpy as np
    import scipy.sparse

    from shoal.space.clock import Clock
    from shoal.space.geography import LATTICE, AreaWeights, Setting

    matrix = scipy.sparse.csr_array(np.array(layout, np.int64) * LATTICE // 12)
    lost = 1.0 - np.asarray(matrix.sum(axis=0), np.float64) / LATTICE
    zones, places = len(layout), len(layout[0])
    return Setting(
        weights=AreaWeights(matrix=matrix, lattice=LATTICE, lost=lost),
        zone_xy_m=np.column_stack([np.arange(zones) * 500.0, np.arange(zones) % 2 * 300.0]),
        place_xy_m=np.column_stack([np.arange(places) * 400.0, np.arange(places) % 3 * 200.0]),
        clock=Clock(start=START, end=START + timedelta(hours=slots), time_zone="UTC"),
    )


@cache
def trip_setting(
    *, per_unit: int = 1, cap: int | None = None, trips: int | None = None, cells: int = 8
) -> TripSetting:
    """A small grid in planar units of one cell, with a few rectangles of every kind to serve."""
    from shoal.space.cells import CellGrid, Rectangles
    from shoal.space.trip_setting import TripSetting

    grid = CellGrid(box=(0.0, 0.0, float(cells), float(cells)), columns=cells, rows=cells, planar=True)
    half, most = cells // 2, cells
    given = Rectangles.of(
        [
            (0, most, 0, most),
            (0, half, 0, half),
            (half, most, half, most),
            (0, 1, 0, most),
            (1, most - 1, 1, 3),
            (half, half + 1, half, half + 1),
        ]
    )
    return TripSetting(grid=grid, given=given, per_unit=per_unit, cap=cap, trips=trips)


@cache
def path_setting(
    *, each_trip: bool = False, cap: int = 1, trips: int | None = None, cells: int = 4, slots: int = 6
) -> PathSetting:
    """A small grid in planar units of one cell, steps of a minute, a few hours of two days."""
    from shoal.space.cells import CellGrid
    from shoal.space.clock import Clock
    from shoal.space.trip_setting import PathSetting

    grid = CellGrid(box=(0.0, 0.0, float(cells), float(cells)), columns=cells, rows=cells, planar=True)
    clock = Clock(start=START, end=START + timedelta(hours=slots), time_zone="UTC")
    return PathSetting(grid=grid, step_s=60.0, clock=clock, each_trip=each_trip, cap=cap, trips=trips)
