"""Composition without data: everything a mechanism asks about one unit, at sizes that replay does not reach.

A query interface that holds no data answers with zeros, or with one unit at its bound: `ell` visits,
`per_unit` trips, a table entry of norm 1, a clipped vector of norm `clip`. What a mechanism asks for, and at
which scales, follows from public sizes and noisy answers alone, so the sum of sensitivity over scale needs no
events and no engine. It must not exceed loss(), nor the calls of a name what spends() claims, for maps
from 1 to 4,096 cells wide, many zones, slots and queries, bounds as small as those of an audit and as large
as those of releases, arrays of more than 200,000 values, and any schedule that noisy answers pick. It must
reach LEAST of loss() as well, so that a budget share with which nothing is measured is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from shoal.auditing.lower_bounds import KEY
from shoal.auditing.replay import KeepsEverything, Verdict, replay
from shoal.baselines import needed, part
from shoal.engine.visits import exact_counts, scalable_counts
from shoal.mechanisms.audit_size import PATHS, START, AuditSize
from shoal.mechanisms.registry import entry_of
from shoal.privacy.accounting import NANO, Loss
from shoal.privacy.noise import Noise
from shoal.space.cell_paths import PathTable
from shoal.space.cells import CellGrid, Rectangles, random_rectangles
from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights, Setting
from shoal.space.setting import SIZE_BINS, CommuteSetting, Question
from shoal.space.trip_setting import PathSetting, TripSetting
from shoal.stages.bounded import BoundedVisits
from shoal.stages.commutes import ExactCommutes
from shoal.stages.exact import STEP, ClippedSum, UserSums, View
from shoal.stages.trips import BinsLike

LEAST = 0.8  # of loss()
WIDEST = 4096
MANY_QUESTIONS, MOST_SLOTS = 200, 512
# Beyond these, both sides of every size at which a bound or a schedule is another one; the last if not quick.
LONG_WINDOWS = (2000, 2001, 8760)  # slots, up to a year of hours; `SLOTS_PAIRED` of fpa is 2000
LONG_LISTS = (1001, 10_001, 100_000)  # queries, up to the most that a plan may hold
# Visits or trips kept of a unit, those in its total, and a number of units: the bounds of plans, and larger
# ones. At 5,000 units boxes are measured by a row of their schedule that powers of ten pass over.
BOUNDS = ((10, 20, 5_000), (10, 40, 3), (11, 40, 10**6), (30, 250, 10**3), (100, 250, 10**5))
MANY_SLOTS, MANY_ROWS = 50, 450  # of the widest map, and of one as high as wide: more than 200,000 values
SIZES = (*range(1, 65), 80, 81, 82, 127, 163, 256, 486, 487, 1000, 1459, 2048, WIDEST)
QUICK = (*range(1, 10), 18, 19, 54, 55, 64, 163, 487, 1459, WIDEST)
# Less where one unit at one place cannot reach the bound of a step: a choice pays for twice the sensitivity.
REACHED = {"query-weights": 0.7}


@dataclass(frozen=True, kw_only=True)
class WideSize(AuditSize):
    """Public numbers of a run of any size: `width` cells, zones or slots, and `long` of the other."""

    width: int
    long: int = 4
    declared: int | None = None
    queries: int | None = None  # queries; None: as many as the map is wide

    @property
    def zones(self) -> int:
        return self.width

    @property
    def places(self) -> int:
        return self.width

    @property
    def grid(self) -> CellGrid:
        return CellGrid(box=(0.0, 0.0, 1.0, 1.0), columns=self.width, rows=self.long, planar=True)

    @property
    def setting(self) -> Setting:
        return _setting(self.width, self.slots)

    def trips(self, declared: int | None = None) -> TripSetting:
        grid, given = self.grid, random_rectangles(self.grid, 12, self.width)
        return TripSetting(
            grid=grid, given=given, per_unit=self.ell, cap=self.cap, trips=declared or self.declared
        )

    def paths(self, declared: int | None = None) -> PathSetting:
        cap = 1 if self.each_trip else self.cap
        clock, trips = self.setting.clock, declared or self.declared
        return PathSetting(
            grid=self.grid, step_s=60.0, clock=clock, each_trip=self.each_trip, cap=cap, trips=trips
        )

    @property
    def commutes(self) -> CommuteSetting:
        setting = self.setting
        return CommuteSetting(site_xy_m=setting.place_xy_m, clock=setting.clock)

    @property
    def questions(self) -> list[Question]:
        """Growing sets, all with the first site in the first slots."""
        return [
            Question(
                zones=(0, 1 % self.zones, *range(i % self.zones)),
                slots=tuple(range(min(self.ell + i % 3, self.slots))),
            )
            for i in range(self.queries or min(self.width, MANY_QUESTIONS))
        ]


@cache
def _setting(zones: int, slots: int) -> Setting:
    """As many sites as zones, each half in one zone and half in the next."""
    matrix = scipy.sparse.csr_array(np.int64(LATTICE // 2) * scipy.sparse.eye_array(zones, dtype=int))
    matrix = scipy.sparse.csr_array(matrix + matrix[np.roll(np.arange(zones), 1)])
    weights = AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(zones))
    site = np.arange(zones)
    xy_m = np.column_stack([site % 64 * 500.0, site // 64 * 300.0 + site % 7])
    clock = Clock(start=START, end=START + timedelta(hours=slots), time_zone="UTC")
    return Setting(weights=weights, zone_xy_m=xy_m, place_xy_m=xy_m, clock=clock)


@dataclass(frozen=True, eq=False)
class OneUnit:
    """Every query interface of the package without data: `units` 0, or 1 at every bound, at one place."""

    size: WideSize
    units: int
    place: int  # any; which of the places of an answer the unit is at

    grid = property(lambda self: self.size.grid)
    per_unit = property(lambda self: self.size.ell)
    cap = property(lambda self: 1 if self.size.each_trip else self.size.cap)
    each_trip = property(lambda self: self.size.each_trip)
    step_s = 60.0
    users = property(lambda self: self.units)

    def count(self) -> int:
        return self.units * self.size.ell

    def all_trips(self) -> int:
        return self.units * self.cap

    def distinct(self, rectangles: Rectangles) -> np.ndarray:
        return np.full(rectangles.count, self.count(), np.int64)

    def shared_faces(self, lattice: int) -> np.ndarray:
        return self._at(self.grid.count, self.count() * lattice).reshape(self.grid.rows, self.grid.columns)

    def binned(self, bins: BinsLike) -> np.ndarray:
        return self._at(bins.count, self.count())

    def table(self, table: PathTable, norm: int) -> np.ndarray:
        return self._at(table.size, self.units * LATTICE)

    def clipped(self, *views: View) -> list[ClippedSum]:
        sums = [self._in(view.shape, int(view.clip * STEP)) for view in views]
        return [ClippedSum(values=each, clip=view.clip) for view, each in zip(views, sums, strict=True)]

    def sizes(self, per_visit: np.ndarray, lattice: int) -> np.ndarray:
        return self._at(SIZE_BINS, self.units)

    def _in(self, shape: tuple[int, ...], value: int) -> np.ndarray:
        return self._at(math.prod(shape), self.units * value).reshape(shape)

    def _at(self, size: int, value: int) -> np.ndarray:
        answer = np.zeros(size, np.int64)
        answer[self.place % max(size, 1) : self.place % max(size, 1) + 1] = value  # empty, or one place
        return answer

    def visits(self) -> BoundedVisits:
        """One user who spends `ell` slots at one place, and `cap` visits in all."""
        counts = np.zeros((self.size.places, self.size.slots), np.int64)
        counts[self.place % self.size.zones, : self.size.ell] = self.units
        return BoundedVisits(
            counts=counts,
            one_visit=self._at(self.size.places, self.units),
            users=self.units,
            visits_capped=self.units * self.size.cap,
            ell=self.size.ell,
            cap=self.size.cap,
        )

    def stage(self, mechanism: Any) -> Any:
        """The stage that the mechanism takes."""
        setting = self.size.setting
        if mechanism.takes == "counts":
            return exact_counts(self.visits(), setting.weights)
        if mechanism.takes == "scalable":
            return scalable_counts(self.visits(), setting.weights)
        if mechanism.takes == "cover":
            return needed("counting:cover_counts", mechanism.name)(self.visits(), mechanism.cover)
        if mechanism.takes == "user sums":
            clips = mechanism.questions.clips  # a part of the largest clip
            sizes = np.zeros((len(clips), clips.shape[1] + 1), np.int64)
            sizes[:, -2] = self.units
            return UserSums(sizes=sizes, sums=self.units * clips, clips=clips)
        if mechanism.takes == "commutes":
            shapes = self.size.commutes.shapes
            tables = {name: self._in(shape, LATTICE) for name, shape in shapes.items()}
            return ExactCommutes(tables=tables, norm=mechanism.norm)
        return self


class Grows(KeepsEverything):
    """Answers `factor` times the unit's own: declared and noisy sizes of every order pick every schedule."""

    def __init__(self, factor: int, pick: int) -> None:
        self.factor, self.pick = factor, pick

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        return self.pick % exact.size if kind == "choose" else super().answer(kind, name, exact, scale)

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        return exact * self.factor


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Queries of one mechanism about one unit, over all sizes."""

    sizes: int
    least: float  # share of loss() that was asked for, over all sizes
    most: float
    problems: tuple[str, ...]


def composed(name: str, epsilon: float, delta: float | None, widths: tuple[int, ...] = SIZES) -> Composed:
    """Asks a registered mechanism at every width and compares what it asks for with its loss()."""
    if not hasattr(entry_of(name).mechanism, "takes"):  # one measurement: there is nothing to compose
        return Composed(sizes=0, least=1.0, most=1.0, problems=())
    problems, shares = [], []
    least = {**REACHED, **part("auditing:REACHED", {})}.get(name.removesuffix("-zcdp"), LEAST)
    for size, factor in _sizes(name, widths):
        mechanism: Any = entry_of(name).build(epsilon, delta, size)
        if hasattr(mechanism, "parts"):  # shrinkage after the noise takes long and asks for nothing
            mechanism = replace(mechanism, parts=replace(mechanism.parts, shrink=False))
        verdict, share = _replayed(mechanism, size, factor)
        shares.append(share)
        faults = [*verdict.problems, *(f"{kind} was raised" for kind in verdict.raised)]
        if not faults and share < least:
            faults = [f"only {share:.2f} of the claimed loss is asked for"]
        of_queries = f", {size.queries} queries" if size.queries else ""
        problems += [
            f"{size.width} x {size.long} cells, {size.slots} slots{of_queries}: {each}" for each in faults
        ]
    return Composed(sizes=len(shares), least=min(shares), most=max(shares), problems=tuple(problems))


def _sizes(name: str, widths: tuple[int, ...]) -> Iterator[tuple[WideSize, int]]:
    of = entry_of(name).size
    if of.layout != PATHS:  # zones and slots: many slots as well as many zones
        slotted = [width for width in widths if 6 < width <= MOST_SLOTS]
        yield from ((WideSize(width=5, slots=slots, ell=1 + slots % 7, cap=8), 10**5) for slots in slotted)
        quick = slice(None, None if len(widths) > len(QUICK) else -1)
        for slots in LONG_WINDOWS[quick]:  # a quarter of the slots: the lowest frequencies are reached
            yield WideSize(width=2, slots=slots, ell=slots // 4, cap=slots), 10**5
        # the clip of a query with noise of its own takes milliseconds: one long list is enough of them
        lists = {"query-weights": LONG_LISTS[quick], "query-gaussian": LONG_LISTS[:1]}
        for queries in lists.get(name.replace("laplace", "gaussian"), ()):
            yield WideSize(width=5, slots=8, ell=3, cap=8, queries=queries), 10**5
        yield WideSize(width=WIDEST, slots=MANY_SLOTS, ell=3, cap=8, queries=2), 10**5
    else:
        many = WideSize(width=MANY_ROWS, long=MANY_ROWS, each_trip=of.each_trip, slots=6, ell=1, cap=1)
        yield many, 10**5
    for ell, cap, factor in () if of.each_trip else BOUNDS:
        yield WideSize(width=40, long=40, slots=300, ell=ell, cap=cap), factor
    for width in widths:
        ell = 1 if of.each_trip else 1 + width % 3
        cap = 1 if of.each_trip else ell + 1 + width % 2
        size = WideSize(width=width, slots=4 + width % 9, ell=ell, cap=cap, each_trip=of.each_trip)
        long = width if width <= 32 else 4
        yield replace(size, long=long, declared=None if width % 4 else 10 ** (width % 11)), 10 ** (width % 8)


def _replayed(mechanism: Any, size: WideSize, factor: int) -> tuple[Verdict, float]:
    """The replay of one unit against nobody, and which share of the claim it costs."""

    def run(units: int):
        stage = OneUnit(size, units, place=7 * size.width).stage(mechanism)
        ask = getattr(mechanism, "measure", mechanism)  # without the fit, where it is a call of its own

        def called(noise: Noise) -> bytes:
            ask(stage, noise)
            return b""

        return called

    claim: Loss = mechanism.loss()
    verdict = replay(run(1), run(0), claim, Grows(factor, size.width), KEY, dict(mechanism.spends()))
    if claim.pure_epsilon_nano is not None and verdict.pure_epsilon is not None:
        return verdict, float(verdict.pure_epsilon * NANO / claim.pure_epsilon_nano)
    return verdict, float(verdict.rho * NANO / claim.rho_nano)
