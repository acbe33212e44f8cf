"""Planted bugs of any histogram of trips: its noise, the door to sums over trips, the numbers of trips."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shoal.auditing.pairs import NEW, Pair, at
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.pipelines.trips import CountedTrips
from shoal.auditing.planted.calls import Between, Draw, call_bugs, scaled_bug, spend_bugs
from shoal.auditing.planted.patches import (
    Bug,
    OtherDoor,
    Shown,
    call_bug,
    crowd_of,
    drop,
    noise_bug,
    recast,
    round_to,
    spread_bug,
    step_bug,
    suppress,
)
from shoal.auditing.spend_runs import KeepsEverything
from shoal.auditing.tables import table_bytes
from shoal.engine.euler import exact_euler
from shoal.engine.trip_door import TripDoor
from shoal.privacy.noise import Noise
from shoal.space.rectangles import Rectangles
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import BinsLike

BIG = 50  # trips
ONE_BY_ONE = ("histogram-mwem", "histogram-prish")  # these ask for one value at a time
SEEN = {"trips": 10_000, "answers": 3_000}  # noisy answers that move a model
# Sites one after the other: this trip leaves rectangles and comes back.
BACK_AND_FORTH = (4, 6, 1, 7, 2, 3, 5, 0)


def trip_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism, and half the noise from a number of trips on."""
    left_out = {"half the noise above 50 visits"}
    if true.mechanism.name in ONE_BY_ONE:
        left_out.add("one draw for all values")  # is right there
    crowd = crowd_of(BIG // true.world.ell, true)
    numbers = ("trips", "all_trips")
    thin = noise_bug("half the noise above 50 trips", partial(Between, only=numbers, add=_thin_when_big))
    bugs = [bug for bug in call_bugs(true) if bug.name not in left_out]
    if true.mechanism.name == "histogram-dqam":  # what is wrong in a region shows where there are several
        bugs = [replace(bug, shown=back_and_forth(true, SplitsEverywhere)) for bug in bugs]
    return [*bugs, replace(thin, shown=crowd)]


def trip_spend_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of one spend among several.

    Exact costs show in large crowds only, see planted_histograms. The number of all trips is cut to what
    the number of kept ones allows: far below a declared one it is not seen at all.
    """
    hidden = {"costs: no noise"}
    if true.mechanism.setting.trips is not None:
        hidden.add("all_trips: no noise")
    return [bug for bug in spend_bugs(true) if bug.name not in hidden]


def _thin_when_big(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    return draw(exact, scale / 2 if exact.max() > BIG else scale)


class SplitsEverywhere(KeepsEverything):
    """Costs that fall from level to level, so that every block is divided; answers that move a model."""

    def __init__(self) -> None:
        self._cost = 2**50

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        if name == "costs":
            self._cost //= 4
            return np.full(exact.shape, self._cost, np.int64)
        return np.full(exact.shape, SEEN.get(name, 0), np.int64)


def per_unit_bugs(true: Pipeline) -> list[Bug]:
    """Charged for fewer trips than a unit may have."""
    m = true.world.ell
    if m == 1:
        return []
    return [
        scaled_bug("second trip of a user not counted in the sensitivity", 1 / m),
        scaled_bug("sqrt(m) where m is needed", math.sqrt(1 / m)),
    ]


# --- the door ---------------------------------------------------------------------------------------------


class _Changed(OtherDoor):
    """Every number of trips changed by a rule; shares of trips by the same rule on whole trips."""

    def count(self) -> int:
        return int(self.rule(np.array([self.inner.count()]))[0])

    def distinct(self, rectangles: Rectangles) -> np.ndarray:
        return self.rule(self.inner.distinct(rectangles))

    def shared_faces(self, lattice: int) -> np.ndarray:
        units = self.inner.shared_faces(lattice)
        return self.rule(units // lattice) * lattice + units % lattice

    def binned(self, bins: BinsLike) -> np.ndarray:
        return self.rule(self.inner.binned(bins))


class EulerAnswers(OtherDoor):
    """The Euler answer where distinct trips are meant: who comes back counts again."""

    def distinct(self, rectangles: Rectangles) -> np.ndarray:
        return exact_euler(self.inner.trips).answers(rectangles).astype(np.int64)


class WholeTripPerCell(OtherDoor):
    """Every cell of a trip counts in full."""

    def shared_faces(self, lattice: int) -> np.ndarray:
        return exact_euler(self.inner.trips).faces * lattice


class TwoBins(OtherDoor):
    """A trip counts in two bins."""

    def binned(self, bins: BinsLike) -> np.ndarray:
        once = self.inner.binned(bins)
        return once + np.roll(once, 1)


class AllTripsKept(OtherDoor):
    """The number of all trips where that of kept ones is meant."""

    def count(self) -> int:
        return self.inner.all_trips()


def trip_count_bugs(true: Pipeline) -> list[Bug]:
    """Rules on raw numbers of trips."""
    m = true.world.ell
    rules = [
        *((f"raw counts below {k} suppressed", suppress(k), k - 1) for k in (5, 10, 20)),
        *((f"counts above {k} dropped as outliers", drop(k), k) for k in (7, 12, 15)),
        ("raw counts rounded to 10", round_to(10), 5),
    ]
    bugs = [
        spread_bug(name, partial(_Changed, rule=rule), crowd_of(trips // m, true))
        for name, rule, trips in rules
    ]
    if "trips" in dict(true.spends()):
        bugs.append(spread_bug("all trips measured as kept ones", AllTripsKept))
    return bugs


def back_and_forth(true: Pipeline, source: Callable[[], Noise] = KeepsEverything) -> Shown:
    """One user, all of whose trips enter rectangles again and again."""
    rows = tuple(
        (NEW, at(slot, k), site) for slot in range(true.world.ell) for k, site in enumerate(BACK_AND_FORTH)
    )
    return Shown(Pair("nobody, and a user who comes back", (), rows), source)


# --- totals and output ------------------------------------------------------------------------------------


def _free_trips(true: Any, exact: TripDoor, noise: Noise) -> NoisyHistogram:
    """The exact number of trips in the release, for nothing."""
    return replace(true(exact, noise), trips=float(max(exact.count(), 1)))


def _with_exact_trips(true: Pipeline) -> Pipeline:
    """Normalised to the exact number of trips; the noisy number is published beside."""
    kind: Any = type(true.mechanism)

    def call(self: Any, exact: TripDoor, noise: Noise) -> NoisyHistogram:
        totals = _ExactInside(self.totals)
        made = kind.__call__(replace(self, totals=totals), exact, noise)
        return replace(made, trips=totals.noisy[0])

    return replace(true, mechanism=recast(true.mechanism, {"__call__": call}))


class _ExactInside:
    """Buys the totals as it should, and hands the exact number of trips on."""

    def __init__(self, true: Any) -> None:
        self.true, self.noisy = true, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.true, name)

    def __call__(self, trips: TripDoor, noise: Noise) -> tuple[float, float | None]:
        kept, every = self.true(trips, noise)
        self.noisy.append(kept)
        return float(max(trips.count(), 1)), every


def _exact_faces(true: Any, exact: TripDoor, noise: Noise) -> NoisyHistogram:
    """A rectangle's estimate mixed with that of the exact Euler histogram."""
    made = true(exact, noise)
    faces = 0.9 * made.euler.faces + 0.1 * exact_euler(exact.trips).faces
    return replace(made, euler=replace(made.euler, faces=faces))


def _write_pieces(estimate: Any, bounded: CountedTrips) -> bytes:
    longest = int(np.diff(bounded.trips.first).max(initial=0))
    return table_bytes(estimate) + f"# longest trip {longest} cells\n".encode()


def trip_total_bugs(true: Pipeline) -> list[Bug]:
    bugs = [
        call_bug("number of trips read off the data for free", _free_trips),
        call_bug("estimates mixed with the exact Euler histogram", _exact_faces),
        step_bug("cells of the longest trip written", write=_write_pieces),
    ]
    if true.mechanism.name not in ("histogram-laplace", "histogram-dawa"):  # these are not normalised
        bugs.append(Bug(name="normalised to the exact number of trips", plant=_with_exact_trips))
    return bugs
